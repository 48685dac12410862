/* Where the numbers of a model stand: its shape, and for every tensor of it the place in a file. Filled by the sources
 * that know many layers (blocks_source.c, huggingface_source.c), read by who loads. One thread. */
#ifndef ATTND_WEIGHTS_MODEL_SOURCE_H
#define ATTND_WEIGHTS_MODEL_SOURCE_H

#include "base/error.h"
#include "engine/model_shape.h"
#include "weights/model_files.h"
#include "weights/tensor_place.h"

/* No model is near it: a bound on the memory that a number in a text can ask for. */
#define MODEL_MOST_LAYERS 4096

struct model_source {
    struct model_shape shape; /* its layers are owned here */
    struct model_files files;
    struct tensor_place (*layers)[LAYER_SLOT_COUNT]; /* [shape.num_layers] */
    struct tensor_place model[MODEL_SLOT_COUNT];
    /* What the model's own configuration adds to its rules, as the source's defaults; a layer's own rule (layer_shape)
     * goes before them. Tables (t5's R, esm's frequencies) are small and owned here as float32; the rule points to
     * them. */
    bool causal;
    struct position_rule position;
    float *table, *frequencies;
};

/* Memory for the layers of an empty source, all zero; *layers is shape.layers. ERROR_OUT_OF_MEMORY. */
bool model_source_make_layers(struct model_source *source, size_t num_layers, struct layer_shape **layers,
                              struct error *error);

/* Closes the files too. An empty or half-built source is fine. */
void model_source_free(struct model_source *source);

#endif
