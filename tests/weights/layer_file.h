/* A layer of made-up weights, and files that hold it in every form. */
#ifndef ATTND_TESTS_WEIGHTS_LAYER_FILE_H
#define ATTND_TESTS_WEIGHTS_LAYER_FILE_H

#include "config/config.h"
#include "weights/layer_tensors.h"

#include <stdbool.h>
#include <stddef.h>

#define LAYER_MAX_NUMBERS ((size_t)400 * 1000)

/* Numbers that all four dtypes hold exactly, as the layer has them: [rows, columns], `x @ W`. */
struct made_layer {
    struct attention_shape shape;
    unsigned biases; /* as layer_tensors_describe takes them */
    double *items[LAYER_TENSOR_COUNT];
    double *memory;
};

/* How a file holds them. */
struct layer_form {
    const char *dtype;
    enum weights_layout layout;
    bool fused, fused_bias, per_head;
};

struct made_layer layer_make(const struct attention_shape *shape, unsigned biases, unsigned seed);
void layer_free(struct made_layer *layer);

/* Writes the layer to `name` in the tests' folder and fills *config, which configures a set "made" from it. */
void layer_write(const struct made_layer *layer, const struct layer_form *form, const char *name,
                 struct weights_config *config);

/* Frees what layer_write put into *config. */
void layer_config_free(struct weights_config *config);

#endif
