/* The table of a weight set's keys: read by weights_entry.c, the schema's test and the documentation's test. */
#include "config/weights_keys.h"

const char *const weights_source_names[] = {"numpy", "identity", "safetensors", "blocks", "huggingface", NULL};
const char *const weights_layout_names[] = {"in_out", "out_in", NULL};
const char *const weights_precision_names[] = {"f32", "bf16", NULL};

#define TENSOR_NAME(code, name) name,
const char *const weight_tensor_names[] = {WEIGHT_TENSORS(TENSOR_NAME) NULL};
#undef TENSOR_NAME

#define NUMPY       WEIGHTS_OF(WEIGHTS_NUMPY)
#define IDENTITY    WEIGHTS_OF(WEIGHTS_IDENTITY)
#define SAFETENSORS WEIGHTS_OF(WEIGHTS_SAFETENSORS)
#define BLOCKS      WEIGHTS_OF(WEIGHTS_BLOCKS)
#define HUGGINGFACE WEIGHTS_OF(WEIGHTS_HUGGINGFACE)
#define ALL         WEIGHTS_OF_ALL
#define WRITTEN_OUT (ALL & ~HUGGINGFACE) /* what a model's own config.json says is not said again */
#define AT(member)  offsetof(struct weights_config, member)

/* Extents: a matrix of the largest is 16 GiB in float32, beyond any layer there is and far from overflow. The seed is
 * NumPy's: 32 bits. The scales are bounded so that no finite float32 input times them is beyond double. */
static const struct weights_key keys[] = {
    {"name", WEIGHTS_NAME, ALL, ALL, AT(name), 1, WEIGHTS_NAME_BYTES, NULL},
    {"source", WEIGHTS_SOURCE, ALL, ALL, AT(source), 0, 0, NULL},
    {"required", WEIGHTS_BOOL, ALL, 0, AT(required), 0, 0, "true"},
    {"d_model", WEIGHTS_SIZE, WRITTEN_OUT, NUMPY | IDENTITY, AT(d_model), 1, 65536, NULL},
    {"num_heads", WEIGHTS_SIZE, WRITTEN_OUT, WRITTEN_OUT, AT(num_heads), 1, 1024, NULL},
    {"seed", WEIGHTS_SEED, NUMPY, 0, AT(seed), 0, 4294967295.0, "42"},
    {"scale", WEIGHTS_SCALE, WRITTEN_OUT, 0, AT(scale), -1e6, 1e6, NULL},
    {"path", WEIGHTS_PATH, SAFETENSORS | BLOCKS | HUGGINGFACE, SAFETENSORS | BLOCKS | HUGGINGFACE, AT(path), 0, 0,
     NULL},
    {"tensors", WEIGHTS_TENSORS, SAFETENSORS, SAFETENSORS, AT(tensors), 0, 0, NULL},
    {"layout", WEIGHTS_LAYOUT, SAFETENSORS | BLOCKS, 0, AT(layout), 0, 0, "\"in_out\""},
    {"precision", WEIGHTS_PRECISION, BLOCKS | HUGGINGFACE, 0, AT(precision), 0, 0, "\"f32\""},
    {"num_kv_heads", WEIGHTS_SIZE, SAFETENSORS | BLOCKS, 0, AT(num_kv_heads), 1, 1024, NULL},
    {"d_k", WEIGHTS_SIZE, SAFETENSORS | BLOCKS, 0, AT(d_k), 1, 65536, NULL},
    {"d_v", WEIGHTS_SIZE, SAFETENSORS | BLOCKS, 0, AT(d_v), 1, 65536, NULL},
    {"causal", WEIGHTS_BOOL, WRITTEN_OUT, 0, AT(causal), 0, 0, "false"},
    {"position", WEIGHTS_RULE, ALL, 0, AT(position), 0, 0, "null"},
    {"pattern", WEIGHTS_RULE, ALL, 0, AT(pattern), 0, 0, "null"},
    {"low_rank", WEIGHTS_RULE, ALL, 0, AT(low_rank), 0, 0, "null"},
    {"keep_heads", WEIGHTS_RULE, ALL, 0, AT(keep_heads), 0, 0, "null"},
    {"dropout", WEIGHTS_RULE, ALL, 0, AT(dropout), 0, 0, "null"},
    {"head_importance", WEIGHTS_LIST, ALL, 0, AT(head_importance), 0, 0, NULL},
    {"num_layers", WEIGHTS_SIZE, BLOCKS, BLOCKS, AT(num_layers), 1, 4096, NULL},
    {"layer", WEIGHTS_OBJECT, BLOCKS, BLOCKS, AT(layer), 0, 0, NULL},
    {"layers", WEIGHTS_OBJECTS, BLOCKS, 0, AT(layers), 0, 0, NULL},
    {"embeddings", WEIGHTS_OBJECT, BLOCKS, 0, AT(embeddings), 0, 0, "null"},
    {"final_norm", WEIGHTS_OBJECT, BLOCKS, 0, AT(final_norm), 0, 0, "null"},
};

const struct weights_key *weights_keys(size_t *count)
{
    *count = sizeof keys / sizeof *keys;
    return keys;
}
