/* splitmix64: the same numbers on every platform. */
#ifndef ATTND_TESTS_ENGINE_RANDOM_H
#define ATTND_TESTS_ENGINE_RANDOM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct random {
    uint64_t state;
};

uint64_t random_bits(struct random *random);
/* In [low, high]. */
size_t random_size(struct random *random, size_t low, size_t high);
bool random_chance(struct random *random, double probability);
double random_normal(struct random *random);
/* 0 .. count - 1 in random order. */
void random_order(struct random *random, size_t *order, size_t count);

#endif
