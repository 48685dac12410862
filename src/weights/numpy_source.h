/* Weights drawn from NumPy's legacy generator. */
#ifndef ATTND_WEIGHTS_NUMPY_SOURCE_H
#define ATTND_WEIGHTS_NUMPY_SOURCE_H

#include "base/error.h"
#include "config/config.h"
#include "weights/layer_tensors.h"

#include <stdbool.h>

/* Fills the matrices of `tensors` (allocated) as RandomState(seed).randn(rows, columns) * scale would one after the
 * other. ERROR_NOT_FINITE with the pointer /scale when one is beyond float32. */
bool numpy_source_fill(const struct weights_config *config, const struct layer_tensors *tensors, struct error *error);

#endif
