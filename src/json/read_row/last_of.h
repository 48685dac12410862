/* Masks for the last n of 32 characters, n from 0 to 32 (ALL: to 63, the same as 32): the 32 bytes from TABLE + n on.
 * Constant data: any thread. */
#ifndef ATTND_JSON_READ_ROW_LAST_OF_H
#define ATTND_JSON_READ_ROW_LAST_OF_H

#include <stdint.h>

#define REPEAT_32(x) REPEAT_16(x), REPEAT_16(x)
#define REPEAT_16(x) x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x

/* All bits; those of a digit's value; the bit that digits have and '-', '.' and '/' have not. */
static const uint8_t ALL[96] = {[32] = REPEAT_32(0xFF), REPEAT_32(0xFF)}, VALUE[64] = {[32] = REPEAT_32(0x0F)},
                     MARK[64] = {[32] = REPEAT_32(0x10)};

#endif
