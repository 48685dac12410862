#include "random_model.h"

#include "report.h"

#include <math.h>

struct named_shape encoder_shape(const char *name, size_t num_layers, size_t d_model, size_t num_heads)
{
    const struct norm_shape norm = {NORM_LAYER, true, 1e-12f};
    const size_t d_k = d_model / num_heads;
    return (struct named_shape){
        .name = name,
        .shape = {.attention = {d_model, num_heads, num_heads, d_k, d_k, 1 / sqrtf((float)d_k), true},
                  .num_layers = num_layers,
                  .embeddings = {.present = true,
                                 .vocabulary = 30522,
                                 .width = d_model,
                                 .positions = 512,
                                 .types = 2,
                                 .scale = 1,
                                 .norm = norm}},
        .layer = {true, true, true, true, .scale = 1 / sqrtf((float)d_k), .placement = PLACEMENT_POST, .residual = true,
                  .norm1 = norm, .norm2 = norm, .ffn = {FFN_GELU, 4 * d_model, true, false, true}},
    };
}

struct named_shape decoder_shape(enum precision precision)
{
    const struct norm_shape norm = {NORM_RMS, false, 1e-6f};
    return (struct named_shape){
        .name = precision == PRECISION_BF16 ? "Llama, bf16" : "Llama",
        .shape = {.attention = {1024, 16, 4, 64, 64, 0.125f, true},
                  .num_layers = 8,
                  .embeddings = {.present = true, .vocabulary = 32000, .width = 1024, .scale = 1},
                  .final_norm = norm,
                  .precision = precision},
        .layer = {.scale = 0.125f,
                  .own_causal = true,
                  .causal = true,
                  .residual = true,
                  .norm1 = norm,
                  .norm2 = norm,
                  .ffn = {FFN_SWIGLU, 2816, false, false, false}},
        .rules = {.position = {.kind = POSITION_ROPE, .base = 10000}},
    };
}

struct model *random_model(const struct named_shape *named)
{
    struct model_shape shape = named->shape;
    struct layer_shape layers[16];
    struct error error;
    for (size_t n = 0; n < shape.num_layers; n++)
        layers[n] = named->layer;
    shape.layers = layers;
    struct model *model = model_create(&shape, &error);
    if (!model)
        fail("out of memory");
    for (size_t n = 0; n <= shape.num_layers; n++) {
        const bool itself = n == shape.num_layers;
        for (unsigned slot = 0; slot < (itself ? (unsigned)MODEL_SLOT_COUNT : (unsigned)LAYER_SLOT_COUNT); slot++) {
            const struct tensor_slot place = {itself ? MODEL_ITSELF : n, slot};
            const struct slot_extent extent = model_slot_extent(&shape, place);
            struct arena memory;
            if (extent.rows == 0)
                continue;
            reserve(&memory, extent.rows * extent.columns);
            const float deviation = extent.matrix ? 1 / sqrtf((float)extent.rows) : 1;
            model_put_rows(model, place, 0, extent.rows,
                           random_floats(&memory, extent.rows * extent.columns, deviation), extent.columns);
            arena_free(&memory);
        }
    }
    return model;
}
