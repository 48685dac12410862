/* Owns what a description of a model holds. One thread. */
#include "weights/model_source.h"

#include <stdlib.h>

bool model_source_make_layers(struct model_source *source, size_t num_layers, struct layer_shape **layers,
                              struct error *error)
{
    struct layer_shape *shapes = calloc(num_layers, sizeof *shapes);
    source->shape.layers = shapes;
    source->layers = calloc(num_layers, sizeof *source->layers);
    if (!shapes || !source->layers)
        return error_out_of_memory(error);
    source->shape.num_layers = num_layers;
    *layers = shapes;
    return true;
}

void model_source_free(struct model_source *source)
{
    if (!source)
        return;
    for (size_t n = 0; n < source->shape.num_layers; n++)
        for (size_t slot = 0; slot < LAYER_SLOT_COUNT; slot++)
            free(source->layers[n][slot].heads);
    free((void *)source->shape.layers);
    free(source->layers);
    free(source->table);
    free(source->frequencies);
    model_files_close(&source->files);
    *source = (struct model_source){0};
}
