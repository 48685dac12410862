/* The bulk of base64 in vectors, for what base64.c then finishes. One body of C, body.inc, compiled once for each
 * instruction set that has the instructions for it. Pure functions: any thread. */
#ifndef ATTND_CODEC_BASE64_BULK_BULK_H
#define ATTND_CODEC_BASE64_BULK_BULK_H

#include "base/isa.h"

#include <stddef.h>

struct base64_bulk {
    /* Decodes text [length], a multiple of 4 letters, into `to` [length / 4 * 3], as far as all are of the alphabet.
     * Returns how many: a multiple of 4. What is behind those in `to` may be overwritten. */
    size_t (*decode)(const char *text, size_t length, unsigned char *to);
    /* Encodes the first length / 3 * 3 bytes of data [length] into `to` [length / 3 * 4]. Returns how many. */
    size_t (*encode)(char *to, const unsigned char *data, size_t length);
};

/* The one for this instruction set, or NULL. */
const struct base64_bulk *base64_bulk_of(enum isa isa);

#if defined(__x86_64__)
extern const struct base64_bulk base64_bulk_x86_64_v3, base64_bulk_x86_64_v4;
#elif defined(__aarch64__)
extern const struct base64_bulk base64_bulk_neon;
#endif

#endif
