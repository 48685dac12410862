/* Models of well-known shapes with random weights, for benchmarks. Faults end the program. */
#ifndef ATTND_BENCH_RANDOM_MODEL_H
#define ATTND_BENCH_RANDOM_MODEL_H

#include "engine/model.h"
#include "engine/rules.h"

struct named_shape {
    const char *name;
    struct model_shape shape;
    struct layer_shape layer; /* of all layers */
    struct attention_rules rules;
};

/* As BERT: post norm, gelu, a feed-forward layer four times as wide. */
struct named_shape encoder_shape(const char *name, size_t num_layers, size_t d_model, size_t num_heads);

/* As Llama: 8 layers of 1024, 16 heads on 4 of keys and values, swiglu of 2816, rope, causal. */
struct named_shape decoder_shape(enum precision precision);

/* model_free */
struct model *random_model(const struct named_shape *named);

#endif
