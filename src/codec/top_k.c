/* The largest weights of a row, by a heap of the k best so far whose root is the worst of them. Pure: any thread. */
#include "codec/top_k.h"

#include <stdbool.h>

static bool worse(float weight, uint32_t key, float other_weight, uint32_t other_key)
{
    return weight < other_weight || (weight == other_weight && key > other_key);
}

/* Puts (key, weight) in place of the element `at` of the heap [n], whose children are in order. */
static void sift_down(uint32_t *keys, float *weights, size_t at, size_t n, uint32_t key, float weight)
{
    for (size_t child; (child = 2 * at + 1) < n; at = child) {
        if (child + 1 < n && worse(weights[child + 1], keys[child + 1], weights[child], keys[child]))
            child++;
        if (!worse(weights[child], keys[child], weight, key))
            break;
        keys[at] = keys[child];
        weights[at] = weights[child];
    }
    keys[at] = key;
    weights[at] = weight;
}

void top_k_select(const float *row, size_t n, size_t k, uint32_t *keys, float *weights)
{
    for (size_t i = 0; i < k; i++) {
        keys[i] = (uint32_t)i;
        weights[i] = row[i];
    }
    for (size_t i = k / 2; i-- > 0;)
        sift_down(keys, weights, i, k, keys[i], weights[i]);
    for (size_t j = k; j < n; j++) /* a later key of the same weight never replaces one */
        if (row[j] > weights[0])
            sift_down(keys, weights, 0, k, (uint32_t)j, row[j]);
    for (size_t last = k - 1; last > 0; last--) { /* the worst goes to the end */
        uint32_t key = keys[last];
        float weight = weights[last];
        keys[last] = keys[0];
        weights[last] = weights[0];
        sift_down(keys, weights, 0, last, key, weight);
    }
}
