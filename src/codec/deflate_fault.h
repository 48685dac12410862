/* Where and why a deflate stream is wrong. libdeflate says only that it is; this says the rest, slowly, once that is
 * known. */
#ifndef ATTND_CODEC_DEFLATE_FAULT_H
#define ATTND_CODEC_DEFLATE_FAULT_H

#include <stddef.h>

/* Reads `data` [length] as RFC 1951 without writing what it stands for. NULL when it is whole (whatever follows it),
 * else what is wrong with it, to stand behind "the compressed data"; *at is then the index of the byte where it shows
 * (`length` where bytes are missing). Pure; about 20 ns a byte. */
const char *deflate_fault(const void *data, size_t length, size_t *at);

#endif
