/* The largest weights of a row. */
#ifndef ATTND_CODEC_TOP_K_H
#define ATTND_CODEC_TOP_K_H

#include <stddef.h>
#include <stdint.h>

/* The k largest of row [n], largest first, ties to the smaller key, into keys [k] and weights [k]; 1 <= k <= n. O(n log
 * k), and O(n) comparisons where the large ones come first. Where NaN is among them their order is arbitrary. */
void top_k_select(const float *row, size_t n, size_t k, uint32_t *keys, float *weights);

#endif
