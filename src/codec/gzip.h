/* The content codings gzip (RFC 1952) and deflate (the zlib format, RFC 1950) of whole buffers, by libdeflate.
 *
 * What decompression writes is bounded by the memory that it is given, so that a small text that stands for a large one
 * does no harm by its ratio. Any thread. */
#ifndef ATTND_CODEC_GZIP_H
#define ATTND_CODEC_GZIP_H

#include "base/error.h"

#include <pthread.h>
#include <stddef.h>

enum coding { CODING_IDENTITY, CODING_GZIP, CODING_DEFLATE };

/* libdeflate's working memory between calls: never more of it than threads were at work at once, so that a steady state
 * allocates nothing. A piece takes 12 KB once it has decompressed, and once it has compressed 0.2 MB more with level 1,
 * 0.7 MB up to level 9, 9 MB beyond. */
struct gzip_store {
    pthread_mutex_t lock;
    int level;
    struct gzip_state *first;
};

/* `level`: of what will be compressed, libdeflate's own, from 1 (the fastest) to 12 (the smallest). */
void gzip_store_init(struct gzip_store *store, int level);
void gzip_store_free(struct gzip_store *store);

/* Bytes that `length` bytes become at most. */
size_t gzip_bound(size_t length);

/* Compresses `data` [length] into `to` [capacity] as one gzip member. Its length; 0 when it is longer than the capacity
 * or memory ran out. */
size_t gzip_compress(struct gzip_store *store, const void *data, size_t length, void *to, size_t capacity);

/* How long what `data` [length] stands for may be, for the first try: at least 1, at most `limit`. gzip says it in its
 * last bytes, but anyone can write them. */
size_t gzip_expected(enum coding coding, const void *data, size_t length, size_t limit);

enum gzip_end {
    GZIP_DONE,
    GZIP_LONGER, /* it does not fit; how much longer it is cannot be known */
    GZIP_FAILED
};

/* Decompresses `data` [length], CODING_GZIP or CODING_DEFLATE, into `to` [capacity]; *decompressed is set on GZIP_DONE.
 * On GZIP_FAILED *error is ERROR_BAD_ENCODING, which says what is wrong and where (another format, cut short, damaged,
 * a checksum or length that is not right, a second gzip member or other bytes behind the first), or
 * ERROR_OUT_OF_MEMORY. */
enum gzip_end gzip_decompress(struct gzip_store *store, enum coding coding, const void *data, size_t length, void *to,
                              size_t capacity, size_t *decompressed, struct error *error);

#endif
