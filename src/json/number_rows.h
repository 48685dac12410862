/* Rows of float32 as decimal text, a comma behind each number: the same texts as number.h's, many at a time in the
 * vectors of the instruction set that is used (base/isa.h). Pure functions: any thread. */
#ifndef ATTND_JSON_NUMBER_ROWS_H
#define ATTND_JSON_NUMBER_ROWS_H

#include "base/isa.h"

#include <stddef.h>
#include <stdint.h>

struct number_rows {
    /* Writes numbers [count], all finite, as number_write_f32 does. Returns the byte behind the last comma. `to` needs
     * 16 bytes a number, and any of those may be written, no others. */
    char *(*shortest)(char *to, const float *numbers /* [count] */, size_t count);
    /* The same as number_write_fixed; nothing behind the last comma is written. */
    char *(*fixed)(char *to, const float *numbers /* [count] */, size_t count, unsigned decimals);
    /* The greatest of the bits of numbers [count], as they are and without their signs. */
    struct number_extremes (*extremes)(const float *numbers, size_t count);
};

/* Above NUMBER_INFINITY_BITS less one in `magnitude` a number is not finite; all are in [0, 2) where `bits` is below
 * NUMBER_TWO_BITS. All are 0 for no numbers. */
struct number_extremes {
    uint32_t bits, magnitude;
};
#define NUMBER_INFINITY_BITS UINT32_C(0x7F800000)
#define NUMBER_TWO_BITS      UINT32_C(0x40000000)

/* Of an instruction set of this build; one that is not supported here must not be called. */
const struct number_rows *number_rows_of(enum isa isa);

/* Of the instruction set that was chosen. */
const struct number_rows *number_rows_chosen(void);

#endif
