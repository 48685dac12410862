/* Owns the arithmetic of NumPy's legacy generator, so that a seed gives the weights that a NumPy program had. No state
 * of its own.
 *
 * MT19937: Matsumoto and Nishimura, "Mersenne Twister", ACM TOMACS 8 (1998); the seeding is their revision of 2002
 * (Knuth, TAOCP 2, 3rd edition, section 3.3.4, line 15), which NumPy uses for a plain integer. Normals: Marsaglia and
 * Bray's polar method. */
#include "weights/numpy_random.h"

#include <math.h>

#define N          NUMPY_RANDOM_WORDS
#define M          397
#define UPPER_MASK UINT32_C(0x80000000)
#define LOWER_MASK UINT32_C(0x7fffffff)
#define MATRIX_A   UINT32_C(0x9908b0df)

void numpy_random_seed(struct numpy_random *random, uint32_t seed)
{
    random->words[0] = seed;
    for (uint32_t i = 1; i < N; i++) {
        uint32_t last = random->words[i - 1];
        random->words[i] = UINT32_C(1812433253) * (last ^ (last >> 30)) + i;
    }
    random->next = N;
    random->has_spare = false;
    random->spare = 0;
}

static void make_words(uint32_t words[N])
{
    for (size_t i = 0; i < N; i++) {
        uint32_t mixed = (words[i] & UPPER_MASK) | (words[(i + 1) % N] & LOWER_MASK);
        words[i] = words[(i + M) % N] ^ (mixed >> 1) ^ (mixed & 1 ? MATRIX_A : 0);
    }
}

static uint32_t draw_word(struct numpy_random *random)
{
    if (random->next == N) {
        make_words(random->words);
        random->next = 0;
    }
    uint32_t word = random->words[random->next++];
    word ^= word >> 11;
    word ^= (word << 7) & UINT32_C(0x9d2c5680);
    word ^= (word << 15) & UINT32_C(0xefc60000);
    return word ^ (word >> 18);
}

/* Uniform in [0, 1) with 53 bits: 27 of one word above 26 of the next. */
static double draw_uniform(struct numpy_random *random)
{
    uint32_t high = draw_word(random) >> 5, low = draw_word(random) >> 6;
    return (high * 67108864.0 + low) / 9007199254740992.0;
}

double numpy_random_normal(struct numpy_random *random)
{
    if (random->has_spare) {
        random->has_spare = false;
        return random->spare;
    }
    double x, y, square;
    do {
        x = 2.0 * draw_uniform(random) - 1.0;
        y = 2.0 * draw_uniform(random) - 1.0;
        square = x * x + y * y;
    } while (square >= 1.0 || square == 0.0);
    double factor = sqrt(-2.0 * log(square) / square);
    random->spare = factor * x;
    random->has_spare = true;
    return factor * y;
}
