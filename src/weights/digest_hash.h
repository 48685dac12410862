/* What digests are written with: numbers of 8 bytes, little-endian, and at the end SHA-256 as text. For digest.c and
 * model_digest.c. */
#ifndef ATTND_WEIGHTS_DIGEST_HASH_H
#define ATTND_WEIGHTS_DIGEST_HASH_H

#include "weights/digest.h"

#include <nettle/sha2.h>
#include <stdint.h>
#include <stdio.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the numbers are hashed as they lie in memory");

static inline void digest_add_number(struct sha256_ctx *hash, uint64_t number)
{
    sha256_update(hash, sizeof number, (const uint8_t *)&number);
}

static inline void digest_finish(struct sha256_ctx *hash, char text[DIGEST_TEXT_BYTES])
{
    uint8_t bytes[SHA256_DIGEST_SIZE];
    sha256_digest(hash, sizeof bytes, bytes);
    for (size_t i = 0; i < sizeof bytes; i++)
        snprintf(text + 2 * i, 3, "%02x", bytes[i]);
}

#endif
