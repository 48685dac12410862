/* What a model holds, for the engine's own files. */
#ifndef ATTND_ENGINE_MODEL_PARTS_H
#define ATTND_ENGINE_MODEL_PARTS_H

#include "engine/layer.h"
#include "engine/model.h"

struct norm {
    enum norm_kind kind;
    float eps;
    float *gain, *bias; /* [d]; bias NULL: none */
};

struct ffn {
    enum ffn_kind kind;
    struct packed_matrix w_1, w_gate; /* [d_model, d_ff]; w_gate empty unless the kind is gated */
    struct packed_matrix w_2;         /* [d_ff, d_model] */
};

struct model_layer {
    const struct layer_shape *shape;
    struct attention_layer attention; /* its memory is the model's */
    struct norm norm1, norm2;
    struct ffn ffn;
};

/* [rows, width]: one of the two, or none. */
struct table {
    float *numbers;
    uint16_t *bf16;
};

struct embeddings {
    struct table token;    /* [vocabulary, width] */
    struct table position; /* [positions, width] */
    struct table type;     /* [types, width] */
    float *class_token;    /* [width] */
    struct norm norm;
    struct packed_matrix projection; /* [width, d_model] */
    struct packed_matrix patch;      /* [channels * patch_size^2, width] */
};

struct model {
    struct model_shape shape; /* its layers are the model's own */
    const struct kernels *kernels;
    struct model_layer *layers; /* [num_layers] */
    struct embeddings embeddings;
    struct norm final_norm;
    struct arena memory;
};

/* The bytes of its structures, beside its tensors. False on overflow. */
bool model_parts_bytes(const struct model_shape *shape, size_t *bytes);

enum activation ffn_activation(enum ffn_kind kind);

#endif
