/* Attention rollout (Abnar and Zuidema 2020, section 3): how much of each input token reaches each position of the last
 * layer, if attention and the residual connection mix tokens half and half.
 *
 *     R_0 = I,   R_l = N(fuse over heads of A_l + I) R_(l-1)
 *
 * where N divides each row by its sum. Of the last layer's heads apart: A_(L,h) R_(L-1), without I. */
#ifndef ATTND_ANALYSIS_ROLLOUT_H
#define ATTND_ANALYSIS_ROLLOUT_H

#include "base/arena.h"
#include "base/error.h"
#include "engine/forward.h"
#include "engine/parallel.h"

#include <stdbool.h>
#include <stddef.h>

/* X(code, name) */
#define ROLLOUT_FUSIONS(X)  \
    X(ROLLOUT_MEAN, "mean") \
    X(ROLLOUT_MAX, "max")   \
    X(ROLLOUT_MIN, "min")

#define ROLLOUT_ENUM(code, name) code,
enum rollout_fusion { ROLLOUT_FUSIONS(ROLLOUT_ENUM) ROLLOUT_FUSION_COUNT };
#undef ROLLOUT_ENUM

struct rollout {
    const float *attention; /* [batch, num_layers, num_heads, length, length]; a row of zeros stays with itself */
    size_t batch, num_layers, num_heads, length;
    enum rollout_fusion fusion;
    bool per_head;
    /* What posted maps were computed under, its batch and length as above: rows of padding count as rows of zeros, and
     * weight on keys that are not allowed as 0. NULL: rows are what they are. */
    const struct forward_input *rule;
    bool renormalize; /* with a rule: each row is divided by its sum first */
};

const char *rollout_fusion_name(enum rollout_fusion fusion);

/* Floating-point operations. */
double rollout_flop(const struct rollout *rollout);

/* The arena that rollout_run needs. False when it overflows size_t. */
bool rollout_scratch_bytes(const struct rollout *rollout, unsigned lanes, size_t *bytes);

/* result: [batch, length, length]; per head [batch, num_heads, length, length]. The same bits on any number of lanes.
 * ERROR_CLIENT_GONE when cancelled, ERROR_OUT_OF_MEMORY when the arena is too small. */
bool rollout_run(const struct rollout *rollout, const struct parallel *parallel, struct arena *arena, float *result,
                 struct error *error);

#endif
