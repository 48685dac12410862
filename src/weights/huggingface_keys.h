/* The keys of config.json that are read, and how. Only for huggingface_config.c and huggingface_keys.c. */
#ifndef ATTND_WEIGHTS_HUGGINGFACE_KEYS_H
#define ATTND_WEIGHTS_HUGGINGFACE_KEYS_H

#include "weights/huggingface_config.h"
#include "weights/huggingface_rope.h"

/* What is read before it is put together. */
struct huggingface_reading {
    struct huggingface_config config;
    struct json_reader reader;
    uint64_t seen; /* bit i: the key in row i of the table has a value */
    enum activation activation;
    bool gated;                /* t5, by feed_forward_proj */
    bool has_dense, has_gated; /* t5, what newer files say besides */
    enum activation dense_activation;
    bool dense_gated;
    struct rope_members rope_parameters, rope_scaling;
    double rope_theta, partial_rotary_factor;
    bool has_window; /* null counts */
    bool use_window;
    size_t full_layers; /* qwen2: as many layers, the first, do not slide */
    size_t layer_types; /* entries of the list; 0: it is not there */
};

/* Reads the value of the key, if it is one of those of the config's type; else passes it. */
bool huggingface_key_read(struct huggingface_reading *reading, const struct json_key *key, struct error *error);

/* False, with ERROR_INVALID, where a key is missing that the type must have. */
bool huggingface_keys_all_there(const struct huggingface_reading *reading, struct error *error);

#endif
