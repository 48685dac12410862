/* Linear centred kernel alignment (CKA; Kornblith et al., Similarity of Neural Network Representations Revisited, 2019)
 * of heads, whose rows are features: ||V^T U||_F^2 = <U U^T, V V^T>_F, so that with the kernels K = U U^T [n, n] of all
 * heads beside each other the H^2 numbers are products of vectors. Kernels are made a square of rows at a time, below
 * the diagonal only. Where rows are many beside features, all features of all heads are multiplied with each other
 * instead, and V^T U is there as it stands. Within analysis. Entered by the thread that runs the job; the steps bring
 * in other lanes. */
#ifndef ATTND_ANALYSIS_KERNEL_ALIGNMENT_H
#define ATTND_ANALYSIS_KERNEL_ALIGNMENT_H

#include "analysis/gram.h"
#include "analysis/head_similarity.h"
#include "analysis/similarity_rows.h"

struct kernel_alignment {
    enum similarity_subject subject;
    const struct similarity_rows *rows;
    const double *scale; /* [heads] of output, powers of two */
    size_t heads, features;
    bool by_features; /* rows are many */
    size_t stride;    /* floats of a row of features */
    size_t side;      /* rows of a square, or of a block by features */
    float *kernels;   /* [heads, side, side], heads kernel_stride apart; unused by features */
    size_t kernel_stride;
    double *means;    /* [heads, stride] */
    double *before;   /* [heads] sum of squares of the features */
    double *centred;  /* [heads] the same, of the centred features */
    struct gram gram; /* <K_a, K_b>; by features of [heads, features] with each other */
    char *lanes;      /* [lanes][lane_bytes] */
    size_t lane_bytes;
};

/* Fills the sizes; bytes: the memory of kernel_alignment_take. `most_rows`: that are compared at once. False when it
 * overflows. */
bool kernel_alignment_plan(struct kernel_alignment *alignment, const struct head_maps *maps, size_t d_v,
                           size_t most_rows, unsigned lanes, size_t *bytes);
/* False when the arena is too small. */
bool kernel_alignment_take(struct kernel_alignment *alignment, unsigned lanes, struct arena *arena);

/* Sums up rows first .. first + count - 1 of the list, beginning from 0. False when cancelled. */
bool kernel_alignment_run(struct kernel_alignment *alignment, size_t first, size_t count, struct work *work);

/* <K_a, K_b> for all pairs [heads, heads], the lower half, and `centred`. Once after a run. */
void kernel_alignment_total(struct kernel_alignment *alignment, double *products);

/* Floating-point operations for n rows of `columns` features. */
double kernel_alignment_flop(size_t heads, double n_rows, size_t columns);

#endif
