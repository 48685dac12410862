/* Attention as a model's weights of deviation 0.1 make it: peaked, so that most numbers are tiny. */
#ifndef ATTND_BENCH_CODEC_PEAKED_MAPS_H
#define ATTND_BENCH_CODEC_PEAKED_MAPS_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>

struct peaked_maps {
    size_t heads, length, d_model;
    float *maps;   /* [1, heads, length, length] */
    float *output; /* [1, length, d_model] */
};

/* Of RandomState(42).randn(d_model, d_model) * 0.1 four times, for query, key, value and output, and an input
 * RandomState(7).randn(1, length, d_model). */
bool peaked_maps_make(struct peaked_maps *made, size_t length, size_t d_model, size_t heads, struct error *error);
void peaked_maps_free(struct peaked_maps *made);

#endif
