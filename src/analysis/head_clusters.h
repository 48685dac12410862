/* What a matrix of similarities says: which heads belong together, which pairs are the most alike, and how redundant
 * each head is. Undefined similarities (NaN) are none. Pure: any thread. */
#ifndef ATTND_ANALYSIS_HEAD_CLUSTERS_H
#define ATTND_ANALYSIS_HEAD_CLUSTERS_H

#include <stddef.h>
#include <stdint.h>

/* a < b; of many layers layer * n_heads + head. */
struct head_pair {
    uint32_t head_a, head_b;
    double similarity;
};

/* Single linkage: heads are of one cluster where a chain of similarities of at least `threshold` joins them. Gives each
 * head its cluster; clusters are numbered by their first heads, in order. Returns how many there are. */
size_t head_clusters(const double *similarity /* [n_heads, n_heads] */, size_t n_heads, double threshold,
                     uint32_t *clusters /* [n_heads] */);

/* Of each head its largest similarity to another; NaN: it has none. */
void head_redundancy(const double *similarity /* [n_heads, n_heads] */, size_t n_heads, double *redundancy);

/* The most similar pairs within a layer, of all layers together, at most `most`, the most similar first, ties by
 * head_a, then head_b. Returns how many there are in pairs [most]. */
size_t head_pairs(const double *similarity /* [n_layers, n_heads, n_heads] */, size_t n_layers, size_t n_heads,
                  struct head_pair *pairs, size_t most);

#endif
