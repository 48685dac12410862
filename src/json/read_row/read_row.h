/* Rows of numbers at full speed: what number_read_f32 does for one number and any text, this does for the numbers of an
 * array, with all that usual texts hold; what is unusual it leaves to the caller. One body of C, body.inc, compiled
 * once for each instruction set. Pure functions: any thread. */
#ifndef ATTND_JSON_READ_ROW_READ_ROW_H
#define ATTND_JSON_READ_ROW_READ_ROW_H

#include "base/isa.h"

#include <stddef.h>

/* Reads numbers with commas between them from *at, where the first begins, to to [room]. Each is exactly what
 * number_read_f32 reads. It stops behind the last that is followed by no comma, or by one behind which something comes
 * that it does not read: no number, a number of unusual length, a number whose rounding is not plain, anything within
 * 132 bytes of `end` or 32 of `begin`. Nothing is read outside of begin .. end. Returns how many there were; *at is
 * behind the last of them, or where it was when there were none. */
typedef size_t read_row_function(const char **at, const char *begin, const char *end, float *to, size_t room);

/* The one for this instruction set; NULL where it has none, which number_read_f32 is then as fast as. */
read_row_function *read_row_of(enum isa isa);

#if defined(__x86_64__)
read_row_function read_row_x86_64_v3;
#elif defined(__aarch64__)
read_row_function read_row_neon;
#endif

#endif
