/* What huggingface_TYPE.c fill a model_source with: one function for each family of models, and what they share. One
 * thread. */
#ifndef ATTND_WEIGHTS_HUGGINGFACE_BUILD_H
#define ATTND_WEIGHTS_HUGGINGFACE_BUILD_H

#include "weights/huggingface_config.h"
#include "weights/model_source.h"
#include "weights/tensor_search.h"

struct huggingface_build {
    const struct huggingface_config *config;
    struct model_source *source;
    struct tensor_search search;
    /* The layer that is being filled; names within it begin with `layer`. */
    char layer[64];
    struct layer_shape *shape;
    struct tensor_place *places; /* [LAYER_SLOT_COUNT] */
    struct layer_shape *shapes;  /* [num_layers] */
    struct error *error;
};

/* Whether a linear map has a bias. */
enum huggingface_bias { BIAS_NEVER, BIAS_ALWAYS, BIAS_IF_THERE };

/* The model's families. Each fills shapes and places; false with the error. What is missing is put down in the search.
 */
bool huggingface_bert(struct huggingface_build *build); /* bert, roberta and kin, electra, distilbert */
bool huggingface_esm(struct huggingface_build *build);
bool huggingface_gpt2(struct huggingface_build *build);
bool huggingface_llama(struct huggingface_build *build); /* llama, mistral, qwen2 */
bool huggingface_t5(struct huggingface_build *build);
bool huggingface_vit(struct huggingface_build *build);

/* Goes to layer n, whose names begin with `stem`, its number and a dot: for "encoder.layer." with "encoder.layer.0.".
 * It has the model's scale, `placement`, and a residual. */
void huggingface_layer(struct huggingface_build *build, size_t n, const char *stem, enum placement placement);

/* Sizes with their words. */
struct extent huggingface_d_model(const struct huggingface_build *build);
struct extent huggingface_d_ff(const struct huggingface_build *build);
struct extent huggingface_queries(const struct huggingface_build *build); /* all heads' side by side */
struct extent huggingface_keys(const struct huggingface_build *build);    /* all key and value heads' */

/* NAME.weight and NAME.bias of the layer, a Linear of PyTorch: [out, in]. `slot` is the matrix's, the bias has `bias`;
 * *has_bias (NULL for BIAS_NEVER) says whether it has one. */
bool huggingface_linear(struct huggingface_build *build, const char *name, struct extent in, struct extent out,
                        enum layer_slot slot, enum layer_slot bias_slot, enum huggingface_bias bias, bool *has_bias);

struct huggingface_attention_names {
    const char *q, *k, *v, *o;
};
bool huggingface_attention(struct huggingface_build *build, const struct huggingface_attention_names *names,
                           enum huggingface_bias bias_qkv, enum huggingface_bias bias_o);

/* An ungated feed-forward, whose kind is the config's. */
bool huggingface_ffn(struct huggingface_build *build, const char *up, const char *down, enum huggingface_bias bias);

/* NAME.weight and, for NORM_LAYER, NAME.bias; of a layer's norms `name` is what follows the layer's own. */
bool huggingface_norm(struct huggingface_build *build, const char *name, struct extent width, enum norm_kind kind,
                      struct norm_shape *shape, struct tensor_place *gain, struct tensor_place *bias);
bool huggingface_norm1(struct huggingface_build *build, const char *name, enum norm_kind kind);
bool huggingface_norm2(struct huggingface_build *build, const char *name, enum norm_kind kind);
bool huggingface_final_norm(struct huggingface_build *build, const char *name, enum norm_kind kind);

/* A table of embeddings [rows, width], `name` whole. */
bool huggingface_table(struct huggingface_build *build, const char *name, struct extent rows, struct extent width,
                       enum model_slot slot);

/* A matrix of the model that is small, as float32 in fresh memory; *to is NULL where the tensor is missing. */
bool huggingface_read_small(struct huggingface_build *build, const struct tensor_place *place, float **to);

#endif
