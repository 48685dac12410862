/* Owns the order of the draws of source numpy: W_Q, W_K, W_V, W_O, each row by row. One thread. */
#include "weights/numpy_source.h"

#include "weights/numpy_random.h"

#include <math.h>

bool numpy_source_fill(const struct weights_config *config, const struct layer_tensors *tensors, struct error *error)
{
    struct numpy_random random;
    numpy_random_seed(&random, config->seed);
    for (unsigned kind = LAYER_W_Q; kind <= LAYER_W_O; kind++) {
        const struct layer_tensor *matrix = &tensors->items[kind];
        for (size_t i = 0; i < matrix->rows * matrix->columns; i++) {
            double drawn = numpy_random_normal(&random);
            matrix->data[i] = (float)(drawn * config->scale);
            if (!isfinite(matrix->data[i]))
                return error_set_at(error, ERROR_NOT_FINITE, "/scale",
                                    "scale %g times the draw %g is not a finite float32", config->scale, drawn);
        }
    }
    return true;
}
