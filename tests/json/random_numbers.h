/* Random numbers in binary and in text, with weight on what is hard to read and to write. The same sequence for the
 * same seed. */
#ifndef ATTND_TESTS_JSON_RANDOM_NUMBERS_H
#define ATTND_TESTS_JSON_RANDOM_NUMBERS_H

#include <stddef.h>
#include <stdint.h>

#define RANDOM_DECIMAL_BYTES 512

struct random {
    uint64_t state;
};

uint64_t random_u64(struct random *random);

/* From 0 to n - 1. */
unsigned random_below(struct random *random, unsigned n);

/* Any finite float32: all bit patterns alike. */
float random_f32(struct random *random);
double random_f64(struct random *random);

/* A valid JSON number of any size, NUL-terminated: short, long (to 200 digits), halfway between two float32 or next to
 * that, subnormal, with exponents from tame to absurd. Returns its length. */
size_t random_decimal(struct random *random, char to[RANDOM_DECIMAL_BYTES]);

#endif
