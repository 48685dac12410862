/* All statistics of the heads of maps. docs/MODEL.md has the formulas. */
#ifndef ATTND_ANALYSIS_HEAD_STATISTICS_H
#define ATTND_ANALYSIS_HEAD_STATISTICS_H

#include "analysis/head_maps.h"
#include "analysis/ratio_sums.h"
#include "analysis/row_statistics.h"
#include "engine/parallel.h"

/* What is no mean over rows. */
struct head_peaks {
    size_t n_rows;            /* scored in this head; 0: the others are undefined */
    size_t sink_key;          /* with the largest column mean, the first of equals */
    double sink_mass;         /* that mean */
    ptrdiff_t best_offset;    /* key - place of most rows' largest weight; the nearest of equals, then the one before */
    double best_offset_share; /* of the rows. Both only where maps->aligned */
};

/* Buffers of the caller. */
struct head_statistics {
    struct ratio_sums *means; /* [n_heads, HEAD_STATISTIC_COUNT]; those that are `placed` are empty where maps are not
                                 aligned */
    struct head_peaks *peaks; /* [n_heads] */
    /* [n_heads, B, Tq] by the request's positions (words, where there are words); NaN where no row is scored, and all
     * of distance where maps are not aligned. NULL: not wanted. */
    float *entropy_per_position, *distance_per_position;
};

/* Floating-point operations of n_heads of maps of that size, in the sense of forward_flop. */
double head_statistics_flop(const struct forward_input *rule, size_t n_heads);

/* The arena that head_statistics_run needs, head_maps_bytes included: of maps before they are prepared. False when it
 * overflows size_t. */
bool head_statistics_scratch_bytes(const struct head_maps *maps, size_t n_heads, unsigned lanes, size_t *bytes);

/* Prepares the maps (head_maps_prepare) and measures `heads` [n_heads] of them, or all (NULL). Sums have one order: the
 * same bits on any number of lanes. ERROR_INVALID as head_maps_prepare has it, ERROR_CLIENT_GONE when
 * parallel->cancelled said so (to be replaced by the caller's reason), ERROR_OUT_OF_MEMORY when the arena is too small;
 * the buffers are then unspecified. */
bool head_statistics_run(struct head_maps *maps, const uint32_t *heads, size_t n_heads, const struct parallel *parallel,
                         struct arena *arena, struct head_statistics *statistics, struct error *error);

#endif
