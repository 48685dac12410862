#include "random.h"

#include <math.h>

uint64_t random_bits(struct random *random)
{
    uint64_t z = random->state += 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

size_t random_size(struct random *random, size_t low, size_t high)
{
    return low + random_bits(random) % (high - low + 1);
}

static double random_unit(struct random *random)
{
    return ((double)(random_bits(random) >> 11) + 0.5) * 0x1p-53;
}

bool random_chance(struct random *random, double probability)
{
    return random_unit(random) < probability;
}

double random_normal(struct random *random)
{
    const double radius = sqrt(-2 * log(random_unit(random)));
    return radius * cos(6.283185307179586 * random_unit(random));
}

void random_order(struct random *random, size_t *order, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const size_t j = random_size(random, 0, i);
        order[i] = order[j];
        order[j] = i;
    }
}
