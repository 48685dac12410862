/* What the checks of the kernels share. A check is a function that runs many cases against one variant and calls
 * check_fail at the first that is wrong. */
#ifndef ATTND_TESTS_ENGINE_KERNELS_CHECK_H
#define ATTND_TESTS_ENGINE_KERNELS_CHECK_H

#include "../random.h"
#include "engine/kernels/kernels.h"

/* Begins a case: what the failure of it will be called. */
void check_case(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Says what is wrong in the case, and how to repeat it; leaves the check. */
_Noreturn void check_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

typedef void check_function(const struct kernels *k, struct random *random);

/* Runs one check. False when it failed. */
bool check_run(const struct kernels *k, const char *function, check_function *check, uint64_t seed);

/* The checks; each has a line in main.c. */
check_function check_pack, check_multiply, check_softmax, check_softmax_rows, check_largest, check_scale, check_drop,
    check_multiply_double, check_rotate, check_normalize, check_activate, check_bfloat, check_forward;

/* Times every function of every variant that runs here, beside the generic one. */
void bench(const char *variant, const char *function);

#endif
