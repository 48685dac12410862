/* Live sums as totals that never fall: what a counter shows. Of a mean over rows its two sums, that of the values and
 * that of the rows, so that the increases of many servers give the mean of all. Pure: any thread, with totals of its
 * own.
 *
 * Of what can be negative (signed_distance) the sum can fall: it has none. */
#ifndef ATTND_ANALYSIS_LIVE_TOTALS_H
#define ATTND_ANALYSIS_LIVE_TOTALS_H

#include "analysis/live_sums.h"

enum live_total_count { LIVE_TOTAL_SEQUENCES, LIVE_TOTAL_SKIPPED, LIVE_TOTAL_EXCLUDED, LIVE_TOTAL_COUNTS };

struct live_totals {
    size_t num_layers, num_heads;
    double *values; /* all that follow */
    double *counts; /* [LIVE_TOTAL_COUNTS] */
    double *rows;   /* [num_layers, ROW_SET_COUNT] */
    double *even;   /* [num_layers, LIVE_BASELINE_COUNT]: what even attention would give */
    double *heads;  /* [num_layers, num_heads, LIVE_STATISTIC_COUNT]: of live_statistics; signed_distance's are 0 */
};

/* The memory of live_totals_init. False on overflow. */
bool live_totals_bytes(size_t num_layers, size_t num_heads, size_t *bytes);
/* Zeros, in memory that stays the caller's. */
void live_totals_init(struct live_totals *totals, size_t num_layers, size_t num_heads, void *memory);

/* Both add what is of the layers and heads that both sides have. */
void live_totals_add_sums(struct live_totals *totals, const struct live_sums *sums);
void live_totals_add(struct live_totals *totals, const struct live_totals *other);
/* Each is at least what it is in `other`, where both have it. Sums that are merged in another order differ in their
 * last bits; a counter that falls by those would count as one that began anew. */
void live_totals_raise(struct live_totals *totals, const struct live_totals *other);

#endif
