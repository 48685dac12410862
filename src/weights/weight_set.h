/* A named set of weights in memory: immutable once loaded, shared by all who hold it. */
#ifndef ATTND_WEIGHTS_WEIGHT_SET_H
#define ATTND_WEIGHTS_WEIGHT_SET_H

#include "base/error.h"
#include "config/config.h"
#include "engine/attention.h"
#include "engine/model.h"
#include "weights/set_rules.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#define WEIGHT_SET_DIGEST_BYTES 65 /* 64 hexadecimal digits of SHA-256 and a NUL */

/* One bare attention layer, or a model of layers. */
struct weight_set {
    _Atomic unsigned holders; /* it is freed by the last */
    char *name;
    char *source;                    /* "numpy", "identity", "safetensors:model.safetensors", "huggingface:minilm" */
    bool ready;                      /* false: loading failed and the set is not required */
    char *failure;                   /* why, when !ready */
    struct attention_layer **layers; /* [1] when ready; NULL: it is a model */
    struct attention_layer **svd_layers; /* [1], the same of lower rank; NULL: its rules do not say so */
    struct model *model;                 /* NULL: it is a bare layer */
    struct model *svd_model;             /* the same of lower rank, over it; NULL: its rules do not say so */
    char *unused;                        /* names of the tensors of its files that it has no use for; NULL: none */
    size_t num_layers;
    struct attention_shape shape; /* of each layer */
    bool bias;                    /* any bias is there */
    struct set_rules rules;       /* when ready: what it does where a request says nothing */
    size_t parameters;            /* numbers in matrices and biases */
    char digest[WEIGHT_SET_DIGEST_BYTES];
    struct timespec loaded_at; /* CLOCK_REALTIME */
};

/* Loads what `config` describes, which config_load has checked; engine_init comes first. NULL on failure, with an error
 * (ERROR_INVALID, ERROR_BAD_ENCODING, ERROR_NOT_FINITE, ERROR_IO, ERROR_OUT_OF_MEMORY) whose message begins with the
 * file's name (never a path: answers show it), names the tensor, what was found and what was expected, and whose
 * pointer, where the fault is one member's, is relative to the entry ("/tensors/W_K"). */
struct weight_set *weight_set_load(const struct weights_config *config, struct error *error);

/* A set that is only its name and why it could not be loaded. NULL when memory ran out. */
struct weight_set *weight_set_failed(const struct weights_config *config, const char *failure);

/* What loading takes at most besides what the process holds: the tensors as float32, and beside them the layer that is
 * made of them, which alone stays. Of a file only the header is read. ERROR_* as weight_set_load. */
struct weight_set_need {
    size_t loading, loaded;
};
bool weight_set_need(const struct weights_config *config, struct weight_set_need *need, struct error *error);

/* The shape of its model, without rules; NULL: it is a bare layer. */
static inline const struct model_shape *weight_set_model(const struct weight_set *set)
{
    return set->rules.defaults.model;
}

/* What its numbers take in memory. */
static inline size_t weight_set_bytes(const struct weight_set *set)
{
    if (!set->model)
        return set->parameters * sizeof(float);
    return model_bytes(set->model) + (set->svd_model ? model_bytes(set->svd_model) : 0);
}

/* How they are held: "f32", "bf16". */
static inline const char *weight_set_dtype(const struct weight_set *set)
{
    return set->model && model_shape_of(set->model)->precision == PRECISION_BF16 ? "bf16" : "f32";
}

/* Of a set that is a bare layer: the one that computes under these rules (NULL: none); without any it is the one that
 * full attention has. NULL for a model. */
const struct attention_layer *weight_set_layer(const struct weight_set *set, const struct attention_rules *rules);

/* The same of a set that is a model; NULL for a bare layer. Both have one shape but for their attention. */
const struct model *weight_set_model_under(const struct weight_set *set, const struct attention_rules *rules);

/* Of each layer where a request says nothing: with low_rank svd not that of the weights, `shape`. */
const struct attention_shape *weight_set_default_shape(const struct weight_set *set);

/* One more holder; each ends with weight_set_free. */
struct weight_set *weight_set_hold(struct weight_set *set);
/* The caller holds it no more. weight_set_free(NULL) is fine. */
void weight_set_free(struct weight_set *set);

#endif
