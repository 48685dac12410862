/* Makes a chosen allocation fail: for tests that a function survives, at every n, the failure of its n-th allocation.
 *
 * Link fail_alloc.c and give the linker `--wrap=` for each function of ALLOCATION_FUNCTIONS; allocations of our own
 * objects are then counted, those inside shared libraries are not. */
#ifndef ATTND_TESTS_FAIL_ALLOC_H
#define ATTND_TESTS_FAIL_ALLOC_H

#include <stdbool.h>
#include <stddef.h>

/* The n-th allocation from now (from 1) fails, once; 0: none. */
void fail_alloc_at(size_t n);

/* What is left of n: fail_alloc_at(SIZE_MAX) counts. */
size_t fail_alloc_left(void);

/* Whether it came to that. */
bool fail_alloc_happened(void);

#endif
