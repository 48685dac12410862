/* How alike heads are over the traffic that live sums hold, by the metrics that follow from sums. Pure: any thread. */
#ifndef ATTND_ANALYSIS_LIVE_SIMILARITY_H
#define ATTND_ANALYSIS_LIVE_SIMILARITY_H

#include "analysis/head_similarity.h"
#include "analysis/live_sums.h"

/* Whether the metric follows from live sums: cosine, pearson, centered. */
bool live_similarity_has(enum similarity_metric metric);

/* Of a layer, pooled over all sequences: similarity [num_heads, num_heads], symmetric; NaN where undefined: a head of
 * norm 0, or of no more than 1e-6 of its norm after what the metric subtracts, or no traffic yet. 1 on the diagonal of
 * the others. */
void live_similarity(const struct live_sums *sums, size_t layer, enum similarity_metric metric, double *similarity);

#endif
