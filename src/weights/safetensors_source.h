/* Weights from a safetensors file, in any of the forms that a configuration can name: apart, fused, or one tensor a
 * head. */
#ifndef ATTND_WEIGHTS_SAFETENSORS_SOURCE_H
#define ATTND_WEIGHTS_SAFETENSORS_SOURCE_H

#include "base/error.h"
#include "config/config.h"
#include "engine/attention.h"
#include "weights/layer_tensors.h"

#include <stdbool.h>

/* Fills *shape and *tensors (to be freed) from the file that config->path names. Every tensor is found and its shape
 * checked before memory is taken or any is read. Errors name the tensor or the numbers, not the file. */
bool safetensors_source_load(const struct weights_config *config, struct attention_shape *shape,
                             struct layer_tensors *tensors, struct error *error);

/* The shape alone: of the file no more than the header is read, and the tensors are not looked at. */
bool safetensors_source_shape(const struct weights_config *config, struct attention_shape *shape, struct error *error);

#endif
