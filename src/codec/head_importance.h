/* Numbers that say how much each head matters, for keep_heads by importance: [num_heads], or [num_layers, num_heads]. */
#ifndef ATTND_CODEC_HEAD_IMPORTANCE_H
#define ATTND_CODEC_HEAD_IMPORTANCE_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>

/* Reads a JSON text that is the array, or the value of the member `name` (NULL: of none; places begin with it), into
 * values [num_layers * num_heads]; one list for all heads is only for one layer. Each number is finite and at least 0.
 * ERROR_NOT_JSON, or ERROR_INVALID with its place. */
bool head_importance_read(const char *name, const char *text, size_t length, size_t num_layers, size_t num_heads,
                          double *values, struct error *error);

#endif
