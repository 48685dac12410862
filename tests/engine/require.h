/* For helpers of the tests that must not need libcheck: says why and ends the program, which libcheck counts as the
 * failure of the test that runs. */
#ifndef ATTND_TESTS_ENGINE_REQUIRE_H
#define ATTND_TESTS_ENGINE_REQUIRE_H

#include <stdio.h>
#include <stdlib.h>

/* require(condition, format, ...) */
#define require(condition, ...)                             \
    do {                                                    \
        if (!(condition)) {                                 \
            fprintf(stderr, "%s:%d: ", __FILE__, __LINE__); \
            fprintf(stderr, __VA_ARGS__);                   \
            fputc('\n', stderr);                            \
            abort();                                        \
        }                                                   \
    } while (0)

#endif
