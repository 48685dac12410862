/* The `tensors` of a weight set: which names it takes, and which of them go together. */
#ifndef ATTND_CONFIG_WEIGHTS_TENSORS_H
#define ATTND_CONFIG_WEIGHTS_TENSORS_H

#include "config/config.h"
#include "config/document.h"

/* Reads the object that comes next into `tensors`; `place` is its key's. False when the reading is over. */
bool weights_tensors_read(struct document *document, const char *place, char *tensors[WEIGHT_TENSOR_COUNT]);

#endif
