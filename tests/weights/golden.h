/* Golden JSON files and the numbers in them. */
#ifndef ATTND_TESTS_WEIGHTS_GOLDEN_H
#define ATTND_TESTS_WEIGHTS_GOLDEN_H

#include <jansson.h>
#include <stddef.h>

/* The path of "forward/bias.json" under $ATTND_GOLDEN; fresh memory. */
char *golden_path(const char *name);

/* The document, to be decref'ed. Ends the program when it is not there. */
json_t *golden_load(const char *name);

/* A nest of arrays of numbers, flat, as float32 in fresh memory. shape [4] gets its extents, *rank their number. */
float *golden_numbers(const json_t *nest, size_t *count, size_t shape[4], unsigned *rank);

#endif
