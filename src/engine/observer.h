/* A look at attention weights where they are made: for what is said of every head (statistics, similarity) and has no
 * use for the maps themselves. The engine calls, and does not know what is done with them. */
#ifndef ATTND_ENGINE_OBSERVER_H
#define ATTND_ENGINE_OBSERVER_H

#include "engine/forward.h"

/* Rows of one head of one sequence. Rows and keys are those that are computed, numbered from 0: padding is none. */
struct observed_rows {
    const struct forward_input *input;
    size_t sequence; /* of the input's batch */
    size_t layer;    /* of a model; 0 */
    size_t head, num_heads;
    size_t first_row, n_rows, n_queries, n_keys; /* first_row is a multiple of 12 */
    /* exp(score - maximum), 0 where not allowed; behind the n_computed keys 0 up to a whole vector. Aligned to 64
     * bytes. May be overwritten: the engine has done with them. */
    float *weights;    /* [n_rows, n_computed], rows `stride` floats apart */
    size_t n_computed; /* all keys that are allowed to these rows are below it; at most n_keys */
    size_t stride;
    size_t head_stride;   /* floats from one head's rows to the next one's */
    const float *inverse; /* [n_rows]: 1 / sum of the row; 0 for a row without an allowed key, NaN where all scores
                             are -infinity. Readable up to a multiple of KERNEL_PAD, as logs is */
    const float *logs;    /* [n_rows]: sum of weight * ln weight, where 0 ln 0 = 0 */
    /* Which keys are allowed: to row i those below key_limit + i * key_step (as far as there are so many), and of those
     * where allowed[i * n_keys + key] is 1. */
    ptrdiff_t key_limit;
    size_t key_step;
    const uint8_t *allowed; /* [n_rows, n_keys]; NULL: all of them */
};

struct forward_observer {
    /* The heads of the same rows come one after the other, in order and on one lane, each when its values are mixed;
     * until the last has come, the rows of those before it stay as they were left. `lane` is not used by two threads at
     * once. */
    void (*rows)(void *context, const struct observed_rows *rows, unsigned lane);
    /* NULL, or called by the thread that runs a model, each time a layer's tensors are written (but for output and
     * hidden_states). False, filling *error: the run ends. */
    bool (*layer)(void *context, size_t layer, struct error *error);
    void *context;
};

/* forward_run, with the weights of those inputs shown that have `observed` set. Results have the same bits. An
 * observed input has no bias; one under linformer or nystrom is not shown. */
bool forward_run_observed(const struct attention_layer *layer, const struct forward_input *const *inputs,
                          struct forward_result *const *results, size_t count, const struct forward_observer *observer,
                          const struct parallel *parallel, struct arena *arena, struct error *error);

#endif
