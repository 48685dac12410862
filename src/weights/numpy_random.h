/* NumPy's legacy generator, numpy.random.RandomState(seed).randn, bit for bit: MT19937 and the polar method. One thread
 * a generator. */
#ifndef ATTND_WEIGHTS_NUMPY_RANDOM_H
#define ATTND_WEIGHTS_NUMPY_RANDOM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NUMPY_RANDOM_WORDS 624 /* n of MT19937 */

struct numpy_random {
    uint32_t words[NUMPY_RANDOM_WORDS];
    size_t next;    /* the word that is drawn next; NUMPY_RANDOM_WORDS: none is left, make new ones */
    bool has_spare; /* the polar method makes normals in pairs */
    double spare;
};

/* RandomState(seed). */
void numpy_random_seed(struct numpy_random *random, uint32_t seed);

/* randn(): the next number of the standard normal distribution. */
double numpy_random_normal(struct numpy_random *random);

#endif
