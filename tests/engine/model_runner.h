/* Runs random models. Ends the program when the engine fails, or writes where it may not. Needs no libcheck. */
#ifndef ATTND_TESTS_ENGINE_MODEL_RUNNER_H
#define ATTND_TESTS_ENGINE_MODEL_RUNNER_H

#include "model_problem.h"

enum { CASES_MOST = 4 };

/* The kernels of enum isa `i`; false when this machine does not run them. */
bool choose_variant(int i);

/* Memory that holds NaN, with a guard behind the bytes that may be used. */
struct guarded {
    struct arena arena;
    size_t whole; /* what arena.capacity was */
};

void guarded_open(struct guarded *g, size_t bytes);
/* Looks at the guard. */
void guarded_close(struct guarded *g);

/* Several inputs in one run, in as much memory as model_scratch_bytes says. */
void model_run_cases(const struct model_problem *m, const struct model_case *cases, size_t count,
                     const struct forward_observer *observer, const struct parallel *parallel,
                     struct model_answer *answers);

/* The same with the caller's results. */
void model_run_results(const struct model_problem *m, const struct model_case *const *cases,
                       struct forward_result *results, size_t count, const struct forward_observer *observer,
                       const struct parallel *parallel);

/* The problem's attention as a model of one layer, with nothing around it: has the bits of forward_run. */
void check_bare_layer(const struct problem *p);

#endif
