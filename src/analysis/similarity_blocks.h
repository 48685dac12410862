/* Heads side by side, some rows at a time: a group of rows is read from all heads, made into what the metric compares,
 * measured for diversity and summed over all pairs of heads while it is in cache. Within analysis. Entered by the
 * thread that runs the job; the steps bring in other lanes.
 *
 * Which rows are a group, and which groups go to which part of the sums, depends on the sizes alone: results have the
 * same bits on any number of lanes. */
#ifndef ATTND_ANALYSIS_SIMILARITY_BLOCKS_H
#define ATTND_ANALYSIS_SIMILARITY_BLOCKS_H

#include "analysis/gram.h"
#include "analysis/head_similarity.h"
#include "analysis/similarity_rows.h"

/* What is summed up of each head, and of all together. */
struct head_sums {
    double before; /* squares, before anything was subtracted */
    double rest;   /* what was left after it */
};

struct similarity_blocks {
    enum similarity_metric metric;
    enum similarity_subject subject;
    bool diversity; /* is wanted */
    size_t layers;  /* that the heads are of, as many of each, and each with a diversity of its own */
    const struct similarity_rows *rows;
    size_t heads;
    size_t stride;       /* floats of a row of what is compared */
    size_t group_rows;   /* of a group, at most */
    size_t head_stride;  /* between the heads of a group */
    size_t block_groups; /* that are handed out to lanes at once, at most */
    size_t slices;       /* that the pairs of a group are cut into, each of which reads the group */
    struct gram gram;    /* of pairs */
    char *lanes;         /* [lanes][lane_bytes] */
    size_t lane_bytes;
    struct head_sums *part_sums; /* [parts, heads] */
    double *part_diversity;      /* [parts, layers] sum over all rows so far */

    /* What is subtracted from the rows that are compared: from each weight (attention; NAN: 1/n_i), or from each
     * element of a head's output, after it was multiplied by a power of two. */
    float shift;
    double *scale, *mean;   /* [heads] */
    struct head_sums *sums; /* [heads] out; of output the caller sets `before` */
};

/* Fills the sizes, given metric, subject, diversity and layers; bytes: the memory of similarity_blocks_take.
 * `most_rows`: that are compared at once. False when it overflows. */
bool similarity_blocks_plan(struct similarity_blocks *blocks, const struct head_maps *maps, size_t d_v,
                            size_t most_rows, unsigned lanes, size_t *bytes);
/* False when the arena is too small. */
bool similarity_blocks_take(struct similarity_blocks *blocks, unsigned lanes, struct arena *arena);

/* Sums up rows first .. first + count - 1 of the list, beginning from 0 but for diversity. For cka that alone. False
 * when cancelled. */
bool similarity_blocks_run(struct similarity_blocks *blocks, size_t first, size_t count, struct work *work);

/* Diversity of a layer's heads, summed over all rows that were ever run. */
double similarity_blocks_diversity(const struct similarity_blocks *blocks, size_t layer);

/* Does the metric compare by products of vectors (or by the rows, one by one)? */
static inline bool similarity_by_products(enum similarity_metric metric)
{
    return metric != SIMILARITY_JS && metric != SIMILARITY_HELLINGER;
}

/* Operations that an element costs when it is read, with its part of diversity; that a pair's element costs by rows. */
#define SIMILARITY_READ_FLOP      40.0
#define SIMILARITY_JS_FLOP        24.0
#define SIMILARITY_HELLINGER_FLOP 4.0

#endif
