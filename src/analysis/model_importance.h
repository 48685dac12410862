/* How much each head of a model of many layers contributes to the model's output: by how much the output y changes when
 * the head is taken out, ||y - y without it|| / ||y|| over the rows that the last layer scores. What comes behind its
 * layer is no linear function of a head, so each takes a forward of its own, from its layer on. */
#ifndef ATTND_ANALYSIS_MODEL_IMPORTANCE_H
#define ATTND_ANALYSIS_MODEL_IMPORTANCE_H

#include "engine/model_run.h"

struct model_importance {
    double *importance; /* [n_layers, num_heads]; NaN where undefined: ||y|| = 0, no row scored */
    size_t n_rows;      /* out: rows scored, of all sequences */
    size_t n_excluded;  /* out: padding and rows without an allowed key */
};

/* The layers whose heads are measured. */
struct measured_layers {
    const uint32_t *include_layers; /* [n_layers], each < num_layers; NULL: in order */
    size_t n_layers;
};

/* Floating-point operations beside model_flop, in the same sense. */
double model_importance_flop(const struct model_shape *shape, const struct forward_input *input,
                             const struct measured_layers *layers);

/* The arena that model_importance_run needs. False when it overflows size_t. */
bool model_importance_bytes(const struct model_shape *shape, const struct forward_input *input, unsigned lanes,
                            size_t *bytes);

/* `result`: output and hidden_states, as model_run has made them of `input`, which has no dropout. The same bits on any
 * number of lanes. ERROR_CLIENT_GONE when cancelled (to be replaced by the caller's reason), ERROR_NOT_FINITE when a
 * forward overflowed float32, ERROR_OUT_OF_MEMORY when the arena is too small; the buffer is then unspecified. */
bool model_importance_run(const struct model *model, const struct forward_input *input,
                          const struct forward_result *result, const struct measured_layers *layers,
                          const struct parallel *parallel, struct arena *arena, struct model_importance *importance,
                          struct error *error);

#endif
