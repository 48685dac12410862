/* A forward of one input over a loaded set, compared with what is expected of it. */
#ifndef ATTND_TESTS_WEIGHTS_RUN_FORWARD_H
#define ATTND_TESTS_WEIGHTS_RUN_FORWARD_H

#include "engine/forward.h"
#include "engine/kernels/kernels.h"

/* Chooses the kernels of an instruction set, index of kernel_variants. False when it cannot run here. */
bool use_kernels(size_t variant);

/* Runs it, into fresh memory: output [B, Tq, d_model], attention [B, H, Tq, Tk], heads [B, H, Tq, d_v]. Fails the running
 * test when it cannot. */
struct forward_result run_forward(const struct attention_layer *layer, const struct forward_input *input);
void run_forward_free(struct forward_result *result);

/* |got - expected| <= 1e-5 + 1e-5 |expected| for all `count`, and what is expected to be exactly 0 is where `zeros`. */
void expect_close(const char *what, const float *got, const float *expected, size_t count, bool zeros);

#endif
