/* Runs a check and leaves it at the first failure, wherever that is found: in the check, or by a fault on a guard page
 * in the middle of a kernel. One thread. */

#include "check.h"

#include "guard.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

static struct {
    const char *variant, *function;
    uint64_t seed;
    char title[256]; /* of the case */
    sigjmp_buf leave;
} running;

void check_case(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(running.title, sizeof running.title, format, arguments);
    va_end(arguments);
}

void check_fail(const char *format, ...)
{
    va_list arguments;
    printf("%s %s: %s: ", running.variant, running.function, running.title);
    va_start(arguments, format);
    vprintf(format, arguments);
    va_end(arguments);
    printf("\n    again: check_kernels --variant %s --function %s --seed %" PRIu64 "\n", running.variant,
           running.function, running.seed);
    siglongjmp(running.leave, 1);
}

bool check_run(const struct kernels *k, const char *function, check_function *check, uint64_t seed)
{
    struct random random = {seed};
    running.variant = k->name;
    running.function = function;
    running.seed = seed;
    running.title[0] = '\0';
    if (sigsetjmp(running.leave, 1) == 0) {
        check(k, &random);
        return true;
    }
    guard_reset();
    return false;
}
