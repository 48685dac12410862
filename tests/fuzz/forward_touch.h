/* A small weight set, and a look at all that its engine would read of a request. For the fuzz targets of requests. */
#ifndef ATTND_TESTS_FUZZ_FORWARD_TOUCH_H
#define ATTND_TESTS_FUZZ_FORWARD_TOUCH_H

#include "codec/forward_request.h"

#include <stdlib.h>

static inline void check(bool holds)
{
    if (!holds)
        abort();
}

static const struct attention_shape SHAPE = {
    .d_model = 4, .num_heads = 2, .num_kv_heads = 2, .d_k = 2, .d_v = 2, .scale = 1, .projected = true};

/* Reads the last number of everything that the engine will read. */
static inline void touch(const struct forward_request *request, const struct forward_input *problem)
{
    size_t queries = problem->batch * problem->query_length, keys = problem->batch * problem->key_length;
    size_t pairs = queries * problem->key_length;
    volatile float sum = 0;
    check(queries > 0 && keys > 0 && (!problem->rank2 || problem->batch == 1));
    sum += problem->query[queries * SHAPE.d_model - 1] + problem->key[keys * SHAPE.d_model - 1] +
           problem->value[keys * SHAPE.d_model - 1];
    if (problem->mask_kind)
        sum += problem->mask[(problem->mask_kind == FORWARD_MASK_KEYS ? keys : pairs) - 1];
    if (problem->bias)
        sum += problem->bias[SHAPE.num_heads * (problem->bias_per_sequence ? pairs : pairs / problem->batch) - 1];
    if (problem->head_mask)
        sum += problem->head_mask[SHAPE.num_heads - 1];
    (void)sum;
    check(!request->include_heads == !request->n_include_heads && request->n_include_heads <= SHAPE.num_heads);
    for (size_t i = 0; i < request->n_include_heads; i++)
        check(request->include_heads[i] < SHAPE.num_heads);
    check(request->returned && request->decimals >= -1 && request->decimals <= 9);
}

#endif
