/* How much each head contributes to the output of a forward pass, without labels or gradients.
 *
 * Let y be the output and c_h the change of it when head h is ablated. The output is linear in the heads before W_O, so
 * c_h needs no forward of its own: it is a head's Z (less what replaces it) times its rows of W_O. */
#ifndef ATTND_ANALYSIS_IMPORTANCE_H
#define ATTND_ANALYSIS_IMPORTANCE_H

#include "analysis/prune_plan.h"
#include "base/arena.h"
#include "engine/forward.h"

/* X(code, name) */
#define IMPORTANCE_METHODS(X)                                                                     \
    X(IMPORTANCE_ZERO, "zero")       /* ||c_h|| / ||y||, the head's output set to 0 */            \
    X(IMPORTANCE_UNIFORM, "uniform") /* the same, row i of its map becomes 1/n_i */               \
    X(IMPORTANCE_MEAN, "mean")       /* the same, its Z becomes its mean over the scored rows */  \
    X(IMPORTANCE_NORM, "norm")       /* mean over rows of ||c_h,i|| / ||y_i - b_O||, c_h of zero; \
                                        rows with y_i = b_O left out */

#define IMPORTANCE_ENUM(code, name) code,
enum importance_method { IMPORTANCE_METHODS(IMPORTANCE_ENUM) IMPORTANCE_METHOD_COUNT };
#undef IMPORTANCE_ENUM

/* "zero" for IMPORTANCE_ZERO. */
const char *importance_method_name(enum importance_method method);

struct importance {
    double *importance;      /* [num_heads]; NaN where undefined: ||y|| = 0, no row scored */
    struct prune_step *plan; /* [num_heads]; NULL: not wanted. With IMPORTANCE_ZERO only */
    size_t n_rows;           /* out: rows scored, of all sequences */
    size_t n_excluded;       /* out: padding and rows without an allowed key */
};

/* Which results of the forward importance_run reads, all heads of them; `heads` always. The output is the sum of what
 * the heads add to it, unless something else takes the place of their Z: then it is read, or, where there is none (a
 * layer of a model has none of its own), summed up before. */
static inline bool importance_needs_output(enum importance_method method)
{
    return method == IMPORTANCE_UNIFORM || method == IMPORTANCE_MEAN;
}

static inline bool importance_needs_value(enum importance_method method)
{
    return method == IMPORTANCE_UNIFORM;
}

/* Floating-point operations beside forward_flop, in the same sense. */
double importance_flop(const struct attention_shape *shape, const struct forward_input *input,
                       enum importance_method method, bool plan);

/* The arena that importance_run needs. False when it overflows size_t. */
bool importance_scratch_bytes(const struct attention_shape *shape, const struct forward_input *input,
                              enum importance_method method, bool plan, unsigned lanes, size_t *bytes);

/* `result` is what forward_run made of `input`; its `heads` are overwritten. Sums are float64 and in one order: the
 * same bits on any number of lanes. ERROR_CLIENT_GONE when parallel->cancelled said so (to be replaced by the caller's
 * reason), ERROR_NOT_FINITE when the forward overflowed float32, ERROR_OUT_OF_MEMORY when the arena is too small; the
 * buffers of *importance are then unspecified. */
bool importance_run(const struct attention_layer *layer, const struct forward_input *input,
                    enum importance_method method, const struct forward_result *result, const struct parallel *parallel,
                    struct arena *arena, struct importance *importance, struct error *error);

#endif
