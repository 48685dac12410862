/* Decimal numbers to float32 and back, exact and independent of the locale. Thread-safe. */
#ifndef ATTND_JSON_NUMBER_H
#define ATTND_JSON_NUMBER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum number_status {
    NUMBER_OK,
    NUMBER_SYNTAX, /* not a JSON number */
    NUMBER_RANGE   /* rounds beyond the largest finite value */
};

/* Reads the JSON number that starts at *at (before `end`; nothing at or behind `end` is read) and rounds it once to the
 * nearest float32, ties to even, however many digits it has; -0 keeps its sign and what is too small becomes a zero of
 * its sign. On NUMBER_OK and NUMBER_RANGE *at is behind the number, on NUMBER_SYNTAX at the first byte that does not
 * fit. */
enum number_status number_read_f32(const char **at, const char *end, float *value);

/* digits * 10^power, rounded likewise. *value is not touched on NUMBER_RANGE. */
enum number_status number_round_f32(uint64_t digits, int64_t power, float *value);

/* number_read_f32 for double. For configuration and the envelope, not for tensors: it is not made for speed. */
enum number_status number_read_f64(const char **at, const char *end, double *value);

/* The same for whole numbers, exactly: 1e2 and 1.0 are whole. NUMBER_RANGE: not whole, or beyond int64_t. */
enum number_status number_read_i64(const char **at, const char *end, int64_t *value);

/* Passes a number, whatever its value. False where it is none; *at as above. */
bool number_skip(const char **at, const char *end);

/* The longest text of number_write_f32: "-1.17549435e-38". */
#define NUMBER_F32_BYTES 15
/* The longest text of number_write_fixed: a sign, 39 digits, a point and `decimals` digits. */
#define NUMBER_FIXED_BYTES(decimals) (41 + (decimals))

/* Writes the shortest decimal that reads back as the same float32, the nearest to it among the shortest; "-0.0" and
 * "0.0" for zeros, plain from 0.0001 to below 1e9 and with an exponent outside, always with a point or an exponent
 * (1.0, 1e10, 1.5e-7). The value must be finite. Returns the byte behind; no NUL. `to` needs NUMBER_F32_BYTES, of which
 * those behind the text may be overwritten too. */
char *number_write_f32(char *to, float value);

/* Writes the exact value rounded once to `decimals` (0..9) places, ties to even: 0.125 with 2 is 0.12; all the places
 * are written (1.50), and with 0 there is no point. What rounds to zero has no sign. The value must be finite. Returns
 * the byte behind; no NUL. `to` needs NUMBER_FIXED_BYTES, of which those up to 15 behind the text may be overwritten
 * too. */
char *number_write_fixed(char *to, float value, unsigned decimals);

/* As number_write_f32 for double; `to` needs 32 bytes. For documents, not for tensors. */
char *number_write_f64(char *to, double value);

#endif
