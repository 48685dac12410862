/* Base64 (RFC 4648, section 4): the standard alphabet, with its padding, nothing else. */
#ifndef ATTND_CODEC_BASE64_H
#define ATTND_CODEC_BASE64_H

#include <stdbool.h>
#include <stddef.h>

/* Bytes that `length` bytes become. */
static inline size_t base64_encoded_length(size_t length)
{
    return length / 3 * 4 + (length % 3 ? 4 : 0);
}

/* Bytes that a text of `length` characters with this ending becomes; false when no base64 text has that length or
 * ending. */
bool base64_decoded_length(const char *text, size_t length, size_t *decoded);

/* Decodes all of `text` into `to` [base64_decoded_length]. SIZE_MAX when it is right, else the index of the first
 * character that is not (one outside the alphabet, misplaced padding, or non-zero bits behind the last byte; `length`
 * where characters are missing). */
size_t base64_decode(const char *text, size_t length, unsigned char *to);

/* Encodes into `to` [base64_encoded_length(length)]; returns the byte behind. */
char *base64_encode(char *to, const void *data, size_t length);

#endif
