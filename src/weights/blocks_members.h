/* The members of a weight set of source `blocks`, as they are written in its entry: `layer`, `layers`, `embeddings`,
 * `final_norm`. Names of tensors stay where they stand in the text. Any thread. */
#ifndef ATTND_WEIGHTS_BLOCKS_MEMBERS_H
#define ATTND_WEIGHTS_BLOCKS_MEMBERS_H

#include "config/config.h"
#include "engine/model_shape.h"
#include "json/reader.h"

#include <stdbool.h>
#include <stddef.h>

#define BLOCK_POINTER_BYTES 64 /* "/layers/4095/tensors/W_QKV" */

/* The name of a tensor, which may hold {layer}, with the place of the member. */
struct block_name {
    struct json_key name; /* raw NULL: not given */
    char pointer[BLOCK_POINTER_BYTES];
};

struct block_norm {
    enum norm_kind kind;
    struct block_name gain, bias;
    double eps;
};

struct block_ffn {
    enum ffn_kind kind;
    struct block_name w_1, b_1, w_gate, b_gate, w_2, b_2;
};

/* A member whose value other code reads. */
struct block_rule {
    struct json_reader at; /* before the value */
    bool given;
};

struct block_layer {
    struct block_name tensors[WEIGHT_TENSOR_COUNT];
    enum placement placement;
    bool residual;
    struct block_norm norm1, norm2;
    struct block_ffn ffn;
    struct block_rule position, pattern;
    bool has_causal, causal, has_scale;
    double scale;
};

struct block_embeddings {
    struct block_name token, position, type, projection_w, projection_b;
    double scale;
    size_t position_offset;
    struct block_norm norm;
};

/* What a layer is where nothing is said. */
struct block_layer block_layer_default(void);

/* The object at the reader, laid over *layer member by member: what it gives stands in the other's place, whole; null
 * is none. ERROR_INVALID and others of the reader, with the place. */
bool block_layer_read(struct json_reader *r, struct block_layer *layer, struct error *error);

/* Whether it has what a layer must have; `r` is at the object that it was read from. */
bool block_layer_check(const struct json_reader *r, const struct block_layer *layer, struct error *error);

bool block_embeddings_read(struct json_reader *r, struct block_embeddings *embeddings, struct error *error);
bool block_norm_read(struct json_reader *r, struct block_norm *norm, struct error *error);

#endif
