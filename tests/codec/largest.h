/* The keys that a row of weights is cut to. */
#ifndef ATTND_TESTS_CODEC_LARGEST_H
#define ATTND_TESTS_CODEC_LARGEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LARGEST_ROW 97

/* Keys [k] of the k largest numbers of a row [width], at most LARGEST_ROW, the first of equal ones first: by taking the
 * best of the rest k times. */
static inline void largest(const float *row, size_t width, size_t k, uint32_t *keys)
{
    bool taken[LARGEST_ROW] = {false};
    for (size_t i = 0; i < k; i++) {
        size_t best = width;
        for (size_t j = 0; j < width; j++)
            if (!taken[j] && (best == width || row[j] > row[best]))
                best = j;
        taken[best] = true;
        keys[i] = (uint32_t)best;
    }
}

#endif
