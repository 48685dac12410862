/* Overflow-checked arithmetic on sizes. Every product of numbers that a client or a file chose goes through here. */
#ifndef ATTND_BASE_SIZE_H
#define ATTND_BASE_SIZE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* *result = a * b; false (and *result untouched) when that does not fit. */
static inline bool size_multiply(size_t a, size_t b, size_t *result)
{
    size_t product;
    if (__builtin_mul_overflow(a, b, &product))
        return false;
    *result = product;
    return true;
}

static inline bool size_add(size_t a, size_t b, size_t *result)
{
    size_t sum;
    if (__builtin_add_overflow(a, b, &sum))
        return false;
    *result = sum;
    return true;
}

/* *bytes = element_bytes * shape[0] * ... * shape[rank - 1]; false when that does not fit in PTRDIFF_MAX, the largest
 * object C allows. A shape with a zero is 0 bytes, whatever its other extents. */
static inline bool tensor_bytes(const size_t *shape, unsigned rank, size_t element_bytes, size_t *bytes)
{
    size_t product = element_bytes;
    for (unsigned i = 0; i < rank; i++)
        if (shape[i] == 0)
            product = 0;
    for (unsigned i = 0; i < rank && product; i++)
        if (!size_multiply(product, shape[i], &product))
            return false;
    if (product > PTRDIFF_MAX)
        return false;
    *bytes = product;
    return true;
}

static inline size_t size_min(size_t a, size_t b)
{
    return a < b ? a : b;
}

static inline size_t size_max(size_t a, size_t b)
{
    return a > b ? a : b;
}

#endif
