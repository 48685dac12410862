/* What ablation by a replacement changes: Z becomes, in place, Z less what is put in its place. Since the output is
 * linear in Z, the change of the output is that difference times W_O. Entered by the thread that runs the job; the
 * steps bring in other lanes. */
#ifndef ATTND_ANALYSIS_ABLATION_H
#define ATTND_ANALYSIS_ABLATION_H

#include "engine/forward.h"
#include "engine/split.h"

struct ablation {
    const struct forward_input *input;
    const struct attention_shape *shape;
    const uint8_t *scored; /* [B, Tq]; rows that are not are left alone */
    size_t n_scored;
    float *heads;       /* [B, num_heads, Tq, d_v]: Z */
    const float *value; /* [B, num_heads, Tk, d_v]; of use to uniform ablation only */
    double *sums;       /* [lanes, d_v] */
    char *readers; /* [lanes, reader_bytes] of allowed_reader_init; of use to uniform ablation under a pattern only */
    size_t reader_bytes;
};

/* The mean over the scored rows of the call. False when cancelled. */
bool ablation_subtract_mean(const struct ablation *ablation, struct work *work);

/* For each row the mean of V over its allowed keys. False when cancelled. */
bool ablation_subtract_uniform(const struct ablation *ablation, struct work *work);

/* Floating-point operations of ablation_subtract_uniform where each row has keys of its own; else as good as none. */
double ablation_uniform_flop(const struct attention_shape *shape, const struct forward_input *input);

#endif
