/* The content codings gzip (RFC 1952) and deflate (the zlib format, RFC 1950): of whole buffers by libdeflate, and
 * decompression in steps, which libdeflate does not know, by zlib.
 *
 * What decompression writes is bounded by the memory that it is given, so that a small text that stands for a large one
 * does no harm by its ratio. Any thread. */
#ifndef ATTND_CODEC_GZIP_H
#define ATTND_CODEC_GZIP_H

#include "base/error.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

enum coding { CODING_IDENTITY, CODING_GZIP, CODING_DEFLATE };

/* The libraries' working memory between calls: never more of it than threads were at work at once, and bodies between
 * two steps, so that a steady state allocates nothing. A piece takes 12 KB once it has decompressed, 40 KB more once it
 * has done so in steps, and once it has compressed 0.2 MB more with level 1, 0.7 MB up to level 9, 9 MB beyond. */
struct gzip_store {
    pthread_mutex_t lock;
    _Atomic int level;
    struct gzip_state *first;
};

/* `level`: of what will be compressed, libdeflate's own, from 1 (the fastest) to 12 (the smallest). */
void gzip_store_init(struct gzip_store *store, int level);
/* From now on, whatever compresses at the moment. */
void gzip_store_set_level(struct gzip_store *store, int level);
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
    GZIP_MORE,   /* of a step: it is over, the whole is not */
    GZIP_FAILED
};

/* Decompresses `data` [length], CODING_GZIP or CODING_DEFLATE, into `to` [capacity]; *decompressed is set on GZIP_DONE.
 * On GZIP_FAILED *error is ERROR_BAD_ENCODING, which says what is wrong and where (another format, cut short, damaged,
 * a checksum or length that is not right, a second gzip member or other bytes behind the first), or
 * ERROR_OUT_OF_MEMORY. */
enum gzip_end gzip_decompress(struct gzip_store *store, enum coding coding, const void *data, size_t length, void *to,
                              size_t capacity, size_t *decompressed, struct error *error);

/* Decompression that can be left between two steps: one thread at a time. */
struct gzip_steps {
    struct gzip_store *store;
    struct gzip_state *state;
    enum coding coding;
    const unsigned char *data; /* [length] */
    size_t length, begin;      /* begin: of the compressed data, behind the header */
    size_t taken, written;     /* bytes of `data` and of what it stands for, so far */
    uint32_t checksum;         /* of what is written */
};

/* What a step reads and writes at most; each at least 1 and at most UINT_MAX. Reading takes up to 0.2 us a byte, where
 * all blocks are empty; writing about 2.5 ns. */
struct gzip_step_most {
    size_t packed, text;
};

/* `data` [length] must stay until the end. False: *error is as of gzip_decompress, and there is nothing to end. */
bool gzip_steps_begin(struct gzip_steps *steps, struct gzip_store *store, enum coding coding, const void *data,
                      size_t length, struct error *error);
/* One step. `to` [capacity] holds the `written` bytes so far, or a copy of them: on GZIP_LONGER it is full, and the
 * next step may be given more memory. On GZIP_DONE `written` is the length; errors are those of gzip_decompress, but
 * that of a fault in more than 64 KiB only the place is told. After these two there is no further step. */
enum gzip_end gzip_step(struct gzip_steps *steps, void *to, size_t capacity, const struct gzip_step_most *most,
                        struct error *error);
/* Gives the working memory back. */
void gzip_steps_end(struct gzip_steps *steps);

#endif
