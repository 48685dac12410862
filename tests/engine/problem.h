/* Random attention problems, and their answers by plain loops in float64 that share nothing with the engine. Needs
 * no libcheck. */
#ifndef ATTND_TESTS_ENGINE_PROBLEM_H
#define ATTND_TESTS_ENGINE_PROBLEM_H

#include "engine/forward.h"
#include "random.h"

struct problem {
    struct attention_shape shape;
    struct attention_matrices matrices;
    struct forward_input input;
    uint32_t *include_heads; /* [n_maps] or NULL */
    size_t n_maps;
    /* What the reference has in place of input.rules' pattern. */
    const uint8_t *pattern; /* [Tq, Tk] 1: seen; NULL: all */
    size_t top_k;           /* 0: all */
    /* For the reference alone: turns row `row` of a sequence's projected queries or keys, [heads, d_k]; NULL: nothing.
     */
    void (*turn)(const struct problem *problem, size_t sequence, bool keys, size_t row, size_t heads, double *x);
    void *memory[64]; /* all that the above points to */
    size_t n_memory;
};

/* What a problem may have; the rest is drawn. */
struct problem_limits {
    size_t d_model, heads, d_k, d_v, batch, length; /* largest */
};

struct attention_shape random_shape(struct random *random, const struct problem_limits *limits);
struct problem problem_create(struct random *random, const struct attention_shape *shape,
                              const struct attention_matrices *matrices, const struct problem_limits *limits);
/* Weights of about unit gain; belong to *owner. NULL members where the shape is not projected. */
struct attention_matrices random_matrices(struct random *random, const struct attention_shape *shape,
                                          struct problem *owner);
void problem_free(struct problem *problem);
/* Zeroed memory that is freed with the problem. */
void *problem_take(struct problem *problem, size_t bytes);

/* All results of a problem. */
struct answer {
    float *output, *attention, *heads, *query, *key, *value;
    size_t fully_masked_rows;
};

/* Sizes of the results, in the order of struct answer. */
struct answer_sizes {
    size_t n[6];
};
struct answer_sizes answer_sizes(const struct problem *problem);

/* Filled with a value that no result has, so that what is not written shows; one more number than the sizes stays so.
 */
#define ANSWER_UNWRITTEN (-1.2345e33f)
struct answer answer_create(const struct problem *problem);
void answer_free(struct answer *answer);
struct forward_result answer_result(const struct problem *problem, const struct answer *answer);

/* By the definition, in float64, rounded at the end. */
void reference_forward(const struct problem *problem, struct answer *answer);

/* Runs one problem; ends the program when the engine fails. */
void run_problem(const struct attention_layer *layer, const struct problem *problem, const struct parallel *parallel,
                 struct answer *answer);

/* Several inputs in one run, in memory that holds NaN before: what is read, and was not written, shows. */
void run_inputs(const struct attention_layer *layer, const struct forward_input *const *inputs,
                struct forward_result *const *results, size_t count, const struct parallel *parallel);

/* The largest of |a - b| / (tolerance + tolerance |b|); infinity when exactly one is NaN. */
double worst_error(const float *a, const float *b, size_t count, double tolerance);

#endif
