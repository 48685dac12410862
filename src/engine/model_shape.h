/* What a model is made of, but for its numbers: an ordered list of layers, each an attention, with or without the rest
 * of a transformer block around it; what stands before the first layer and behind the last. Plain data: who fills it
 * (weights/) has checked that it fits together.
 *
 *     post: h = norm1(x + attention(x));    out = norm2(h + ffn(h))
 *     pre:  h = x + attention(norm1(x));    out = h + ffn(norm2(h))
 *
 * Without `residual` the `x +` and `h +` fall away; what is absent is passed over. docs/MODEL.md has the formulas. */
#ifndef ATTND_ENGINE_MODEL_SHAPE_H
#define ATTND_ENGINE_MODEL_SHAPE_H

#include "engine/activation.h"
#include "engine/attention.h"
#include "engine/precision.h"
#include "engine/rules.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum norm_kind { NORM_NONE, NORM_LAYER, NORM_RMS };

struct norm_shape {
    enum norm_kind kind;
    bool bias;
    float eps;
};

/* X(code, name, activation, gated) */
#define FFN_KINDS(X)                                            \
    X(FFN_NONE, "none", ACTIVATION_NONE, false)                 \
    X(FFN_GELU, "gelu", ACTIVATION_GELU, false)                 \
    X(FFN_GELU_TANH, "gelu_tanh", ACTIVATION_GELU_TANH, false)  \
    X(FFN_RELU, "relu", ACTIVATION_RELU, false)                 \
    X(FFN_SILU, "silu", ACTIVATION_SILU, false)                 \
    X(FFN_GEGLU, "geglu", ACTIVATION_GELU, true)                \
    X(FFN_GEGLU_TANH, "geglu_tanh", ACTIVATION_GELU_TANH, true) \
    X(FFN_SWIGLU, "swiglu", ACTIVATION_SILU, true)

#define FFN_ENUM(code, name, activation, gated) code,
enum ffn_kind { FFN_KINDS(FFN_ENUM) FFN_KIND_COUNT };
#undef FFN_ENUM

/* Whether it has W_gate. */
bool ffn_is_gated(enum ffn_kind kind);

struct ffn_shape {
    enum ffn_kind kind;
    size_t d_ff; /* columns of W_1 (and W_gate), rows of W_2 */
    bool bias_1, bias_gate, bias_2;
};

enum placement { PLACEMENT_PRE, PLACEMENT_POST };

struct layer_shape {
    bool bias_q, bias_k, bias_v, bias_o;
    float scale;
    /* The layer's own default rule, where it has one; a request's member replaces it in all layers. */
    bool own_causal, causal, own_position, own_pattern;
    struct position_rule position;
    struct pattern_rule pattern;
    enum placement placement;
    bool residual;
    struct norm_shape norm1, norm2;
    struct ffn_shape ffn;
};

struct embeddings_shape {
    bool present;
    size_t vocabulary, width; /* token [vocabulary, width]; 0: no ids (pixel_values) */
    size_t positions;         /* position [positions, width]; 0: none */
    size_t types;             /* type [types, width]; 0: none */
    float scale;              /* of the token rows */
    size_t position_offset;   /* position t has row t + position_offset */
    bool count_padding_id;    /* positions are counted over ids that are not padding_id, from padding_id + 1 */
    uint32_t padding_id;
    bool token_dropout; /* esm: rows of mask_token are 0, all are scaled */
    uint32_t mask_token;
    bool zero_padding; /* esm: padded rows are 0 */
    struct norm_shape norm;
    bool projection, projection_bias; /* [width, d_model] behind the norm */
    /* pixel_values [B, channels, image_size, image_size], cut into patches of patch_size; a class token first */
    size_t channels, image_size, patch_size;
};

struct model_shape {
    struct attention_shape attention; /* of every layer, but for its scale */
    size_t num_layers;
    const struct layer_shape *layers; /* [num_layers] */
    struct embeddings_shape embeddings;
    struct norm_shape final_norm;
    enum precision precision; /* of matrices and of the tables of embeddings; vectors are float32 */
};

/* X(code, name): the tensors of a layer. Matrices are [in, out], `x @ W`. */
#define LAYER_SLOTS(X)               \
    X(SLOT_W_Q, "W_Q")               \
    X(SLOT_W_K, "W_K")               \
    X(SLOT_W_V, "W_V")               \
    X(SLOT_W_O, "W_O")               \
    X(SLOT_B_Q, "b_Q")               \
    X(SLOT_B_K, "b_K")               \
    X(SLOT_B_V, "b_V")               \
    X(SLOT_B_O, "b_O")               \
    X(SLOT_W_1, "W_1")               \
    X(SLOT_B_1, "b_1")               \
    X(SLOT_W_GATE, "W_gate")         \
    X(SLOT_B_GATE, "b_gate")         \
    X(SLOT_W_2, "W_2")               \
    X(SLOT_B_2, "b_2")               \
    X(SLOT_NORM1_GAIN, "norm1.gain") \
    X(SLOT_NORM1_BIAS, "norm1.bias") \
    X(SLOT_NORM2_GAIN, "norm2.gain") \
    X(SLOT_NORM2_BIAS, "norm2.bias")

/* The tensors that a model has once. */
#define MODEL_SLOTS(X)                             \
    X(SLOT_TOKEN, "token")                         \
    X(SLOT_POSITION, "position")                   \
    X(SLOT_TYPE, "type")                           \
    X(SLOT_EMBEDDING_GAIN, "embeddings.norm.gain") \
    X(SLOT_EMBEDDING_BIAS, "embeddings.norm.bias") \
    X(SLOT_PROJECTION_W, "projection.W")           \
    X(SLOT_PROJECTION_B, "projection.b")           \
    X(SLOT_PATCH_W, "patch.W")                     \
    X(SLOT_PATCH_B, "patch.b")                     \
    X(SLOT_CLASS, "class")                         \
    X(SLOT_FINAL_GAIN, "final_norm.gain")          \
    X(SLOT_FINAL_BIAS, "final_norm.bias")

#define SLOT_ENUM(code, name) code,
enum layer_slot { LAYER_SLOTS(SLOT_ENUM) LAYER_SLOT_COUNT };
enum model_slot { MODEL_SLOTS(SLOT_ENUM) MODEL_SLOT_COUNT };
#undef SLOT_ENUM

#endif
