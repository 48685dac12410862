/* The two formats around deflate, and the working memory of libdeflate and zlib: see gzip.h. Headers and trailers are
 * read here, since neither says which part of them is wrong, and zlib's checksums are slow. */
#include "codec/gzip.h"

#include "base/size.h"
#include "codec/deflate_fault.h"

#define ZLIB_CONST /* its input is const */
#include <libdeflate.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#define GZIP_HEADER  10
#define GZIP_TRAILER 8
#define ZLIB_HEADER  2
#define ZLIB_TRAILER 4

/* deflate's own bound: 258 bytes for two bits. */
#define MOST_RATIO 1032

/* What JSON of numbers is compressed to, and somewhat more, where nothing else is known. */
#define USUAL_RATIO 4

/* A fault in more than this is not looked for by deflate_fault, which cannot be interrupted: at worst, where all blocks
 * are empty, it takes 0.15 us a byte. */
#define FAULT_BYTES ((size_t)64 << 10)

struct gzip_state {
    struct libdeflate_compressor *compressor; /* NULL: it has not compressed yet */
    int level;                                /* of the compressor */
    struct libdeflate_decompressor *decompressor;
    bool inflates;   /* `stream` is zlib's: it has decompressed in steps before */
    z_stream stream; /* zlib holds its address */
    struct gzip_state *next;
};

void gzip_store_init(struct gzip_store *store, int level)
{
    pthread_mutex_init(&store->lock, NULL);
    atomic_init(&store->level, level);
    store->first = NULL;
}

void gzip_store_set_level(struct gzip_store *store, int level)
{
    atomic_store_explicit(&store->level, level, memory_order_relaxed);
}

void gzip_store_free(struct gzip_store *store)
{
    while (store->first) {
        struct gzip_state *state = store->first;
        store->first = state->next;
        libdeflate_free_compressor(state->compressor);
        libdeflate_free_decompressor(state->decompressor);
        if (state->inflates)
            inflateEnd(&state->stream);
        free(state);
    }
    pthread_mutex_destroy(&store->lock);
}

/* NULL when memory ran out. */
static struct gzip_state *take_state(struct gzip_store *store)
{
    pthread_mutex_lock(&store->lock);
    struct gzip_state *state = store->first;
    if (state)
        store->first = state->next;
    pthread_mutex_unlock(&store->lock);
    return state ? state : calloc(1, sizeof *state);
}

static void put_state(struct gzip_store *store, struct gzip_state *state)
{
    pthread_mutex_lock(&store->lock);
    state->next = store->first;
    store->first = state;
    pthread_mutex_unlock(&store->lock);
}

/* ---- compression */

size_t gzip_bound(size_t length)
{
    return libdeflate_gzip_compress_bound(NULL, length);
}

size_t gzip_compress(struct gzip_store *store, const void *data, size_t length, void *to, size_t capacity)
{
    struct gzip_state *state = take_state(store);
    size_t compressed = 0;
    if (!state)
        return 0;
    const int level = atomic_load_explicit(&store->level, memory_order_relaxed);
    if (state->compressor && state->level != level) {
        libdeflate_free_compressor(state->compressor);
        state->compressor = NULL;
    }
    if (!state->compressor)
        state->compressor = libdeflate_alloc_compressor(level);
    state->level = level;
    if (state->compressor)
        compressed = libdeflate_gzip_compress(state->compressor, data, length, to, capacity);
    put_state(store, state);
    return compressed;
}

/* ---- decompression */

static uint32_t little_endian(const unsigned char *bytes)
{
    return bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 | (uint32_t)bytes[3] << 24;
}

static uint32_t big_endian(const unsigned char *bytes)
{
    return bytes[3] | (uint32_t)bytes[2] << 8 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[0] << 24;
}

size_t gzip_expected(enum coding coding, const void *data, size_t length, size_t limit)
{
    size_t expected = 0;
    if (coding == CODING_GZIP && length >= GZIP_HEADER + GZIP_TRAILER) {
        expected = little_endian((const unsigned char *)data + length - 4);
        if (expected / MOST_RATIO > length || expected > limit)
            expected = 0;
    }
    if (!expected && !size_multiply(length, USUAL_RATIO, &expected))
        expected = limit;
    return size_max(1, size_min(expected, limit));
}

static bool cut_short(struct error *error, const char *name, const char *part, size_t length)
{
    return error_set(error, ERROR_BAD_ENCODING,
                     "the %s body is cut short: %zu bytes came, and its %s is not whole; send all of it", name, length,
                     part);
}

static bool not_of_this_format(struct error *error, const char *name, const char *format, const unsigned char *data)
{
    const bool gzip = data[0] == 0x1F && data[1] == 0x8B;
    return error_set(error, ERROR_BAD_ENCODING,
                     "the body is not %s: it begins with the bytes %02x %02x; send %s, or %s", name, data[0], data[1],
                     format,
                     gzip ? "say Content-Encoding: gzip" : "leave Content-Encoding out if the body is not compressed");
}

/* RFC 1952, section 2.3. *at: where the compressed data begins. */
static bool pass_gzip_header(const unsigned char *data, size_t length, size_t *at, struct error *error)
{
    enum { FHCRC = 2, FEXTRA = 4, FNAME = 8, FCOMMENT = 16, RESERVED = 0xE0 };
    if (length >= 2 && (data[0] != 0x1F || data[1] != 0x8B))
        return not_of_this_format(error, "gzip", "one gzip member (RFC 1952)", data);
    if (length < GZIP_HEADER)
        return cut_short(error, "gzip", "header", length);
    const unsigned method = data[2], flags = data[3];
    if (method != 8 || flags & RESERVED)
        return error_set(error, ERROR_BAD_ENCODING,
                         "the gzip header has method %u and flags 0x%02x; the method must be 8, deflate, and the three "
                         "highest flags 0",
                         method, flags);
    size_t end = GZIP_HEADER;
    if (flags & FEXTRA) {
        if (length - end < 2)
            return cut_short(error, "gzip", "header", length);
        const size_t extra = 2 + (data[end] | (size_t)data[end + 1] << 8);
        if (length - end < extra)
            return cut_short(error, "gzip", "header", length);
        end += extra;
    }
    for (unsigned flag = FNAME; flag <= FCOMMENT; flag <<= 1) {
        if (!(flags & flag))
            continue;
        const unsigned char *zero = memchr(data + end, 0, length - end);
        if (!zero)
            return cut_short(error, "gzip", "header", length);
        end = (size_t)(zero - data) + 1;
    }
    if (flags & FHCRC) {
        if (length - end < 2)
            return cut_short(error, "gzip", "header", length);
        if ((libdeflate_crc32(0, data, end) & 0xFFFF) != (data[end] | (unsigned)data[end + 1] << 8))
            return error_set(error, ERROR_BAD_ENCODING,
                             "the checksum of the gzip header is wrong: the body was damaged on its way");
        end += 2;
    }
    *at = end;
    return true;
}

/* RFC 1950, section 2.2. */
static bool pass_zlib_header(const unsigned char *data, size_t length, size_t *at, struct error *error)
{
    if (length < ZLIB_HEADER)
        return cut_short(error, "deflate", "header", length);
    const unsigned method = data[0] & 15, window = data[0] >> 4;
    if (method != 8 || window > 7 || (data[0] << 8 | data[1]) % 31 != 0)
        return not_of_this_format(error, "deflate", "the zlib format (RFC 1950), not bare deflate", data);
    if (data[1] & 0x20)
        return error_set(error, ERROR_BAD_ENCODING,
                         "the deflate body asks for a preset dictionary, and there is none; compress it without");
    *at = ZLIB_HEADER;
    return true;
}

static const char *name_of(enum coding coding)
{
    return coding == CODING_GZIP ? "gzip" : "deflate";
}

static bool pass_header(enum coding coding, const unsigned char *data, size_t length, size_t *at, struct error *error)
{
    return (coding == CODING_GZIP ? pass_gzip_header : pass_zlib_header)(data, length, at, error);
}

/* Of nothing. */
static uint32_t first_checksum(enum coding coding)
{
    return coding == CODING_GZIP ? 0 : 1;
}

/* Of what had `before` and, behind it, `text` [length]. */
static uint32_t checksum(enum coding coding, uint32_t before, const void *text, size_t length)
{
    return (coding == CODING_GZIP ? libdeflate_crc32 : libdeflate_adler32)(before, text, length);
}

static bool broken(struct error *error, const char *name, const char *fault, size_t at, size_t length)
{
    return error_set(error, ERROR_BAD_ENCODING,
                     "the %s body is broken: the compressed data %s, at byte %zu of %zu; send all of it, undamaged",
                     name, fault, at, length);
}

/* `begin`: where the compressed data begins. */
static bool damaged(struct error *error, const char *name, const unsigned char *data, size_t length, size_t begin)
{
    size_t at;
    const char *fault = length - begin <= FAULT_BYTES ? deflate_fault(data + begin, length - begin, &at) : NULL;
    if (!fault)
        return error_set(error, ERROR_BAD_ENCODING, "the %s body of %zu bytes is damaged or cut short; send it again",
                         name, length);
    return broken(error, name, fault, begin + at, length);
}

/* The trailer begins at `at`; `found` is the checksum of the text. */
static bool check_trailer(enum coding coding, const unsigned char *data, size_t length, size_t at, uint32_t found,
                          size_t text_length, struct error *error)
{
    const bool gzip = coding == CODING_GZIP;
    const char *name = name_of(coding);
    const size_t trailer = gzip ? GZIP_TRAILER : ZLIB_TRAILER, end = at + trailer;
    if (length - at < trailer)
        return cut_short(error, name, "trailer", length);
    const uint32_t told = gzip ? little_endian(data + at) : big_endian(data + at);
    if (told != found)
        return error_set(error, ERROR_BAD_ENCODING,
                         "the checksum of the %s body is wrong: it says %08x, its %zu bytes have %08x; the body was "
                         "damaged on its way",
                         name, (unsigned)told, text_length, (unsigned)found);
    if (gzip && little_endian(data + at + 4) != (uint32_t)text_length)
        return error_set(
            error, ERROR_BAD_ENCODING,
            "the gzip body says that it stands for %u bytes, and it is %zu; the body was damaged on its way",
            (unsigned)little_endian(data + at + 4), text_length);
    if (gzip && length - end >= 2 && data[end] == 0x1F && data[end + 1] == 0x8B)
        return error_set(error, ERROR_BAD_ENCODING,
                         "a second gzip member begins at byte %zu of the body; compress all of it as one", end);
    if (length > end)
        return error_set(error, ERROR_BAD_ENCODING, "%zu bytes follow behind the end of the %s body, at byte %zu",
                         length - end, name, end);
    return true;
}

static enum gzip_end decompress(struct libdeflate_decompressor *decompressor, enum coding coding,
                                const unsigned char *data, size_t length, void *to, size_t capacity,
                                size_t *decompressed, struct error *error)
{
    size_t begin, taken, written;
    if (!pass_header(coding, data, length, &begin, error))
        return GZIP_FAILED;
    switch (
        libdeflate_deflate_decompress_ex(decompressor, data + begin, length - begin, to, capacity, &taken, &written)) {
    case LIBDEFLATE_SUCCESS:
        break;
    case LIBDEFLATE_INSUFFICIENT_SPACE:
        return GZIP_LONGER;
    default:
        damaged(error, name_of(coding), data, length, begin);
        return GZIP_FAILED;
    }
    if (!check_trailer(coding, data, length, begin + taken, checksum(coding, first_checksum(coding), to, written),
                       written, error))
        return GZIP_FAILED;
    *decompressed = written;
    return GZIP_DONE;
}

enum gzip_end gzip_decompress(struct gzip_store *store, enum coding coding, const void *data, size_t length, void *to,
                              size_t capacity, size_t *decompressed, struct error *error)
{
    struct gzip_state *state = take_state(store);
    enum gzip_end end = GZIP_FAILED;
    if (state && !state->decompressor)
        state->decompressor = libdeflate_alloc_decompressor();
    if (state && state->decompressor)
        end = decompress(state->decompressor, coding, data, length, to, capacity, decompressed, error);
    else
        error_out_of_memory(error);
    if (state)
        put_state(store, state);
    return end;
}

/* ---- decompression in steps */

static void *take_memory(void *opaque, unsigned count, unsigned bytes)
{
    (void)opaque;
    return calloc(count, bytes);
}

static void give_memory(void *opaque, void *memory)
{
    (void)opaque;
    free(memory);
}

/* Bare deflate: zlib is to see neither header nor trailer. */
static bool begin_stream(struct gzip_state *state)
{
    if (!state->inflates) {
        state->stream = (z_stream){.zalloc = take_memory, .zfree = give_memory};
        state->inflates = inflateInit2(&state->stream, -MAX_WBITS) == Z_OK;
        return state->inflates;
    }
    return inflateReset(&state->stream) == Z_OK;
}

bool gzip_steps_begin(struct gzip_steps *steps, struct gzip_store *store, enum coding coding, const void *data,
                      size_t length, struct error *error)
{
    size_t begin;
    if (!pass_header(coding, data, length, &begin, error))
        return false;
    struct gzip_state *state = take_state(store);
    if (!state || !begin_stream(state)) {
        if (state)
            put_state(store, state);
        return error_out_of_memory(error);
    }
    *steps = (struct gzip_steps){.store = store,
                                 .state = state,
                                 .coding = coding,
                                 .data = data,
                                 .length = length,
                                 .begin = begin,
                                 .taken = begin,
                                 .checksum = first_checksum(coding)};
    return true;
}

/* Where zlib says that the data is no deflate, and where it ends too early. */
static enum gzip_end stream_is_broken(const struct gzip_steps *steps, bool ended, struct error *error)
{
    const char *name = name_of(steps->coding);
    if (steps->length - steps->begin <= FAULT_BYTES)
        damaged(error, name, steps->data, steps->length, steps->begin);
    else if (ended)
        broken(error, name, "is cut short", steps->length, steps->length);
    else
        broken(error, name, "is damaged", steps->taken, steps->length);
    return GZIP_FAILED;
}

enum gzip_end gzip_step(struct gzip_steps *steps, void *to, size_t capacity, const struct gzip_step_most *most,
                        struct error *error)
{
    z_stream *stream = &steps->state->stream;
    unsigned char *text = (unsigned char *)to + steps->written;
    const unsigned in = (unsigned)size_min(most->packed, steps->length - steps->taken),
                   out = (unsigned)size_min(most->text, capacity - steps->written);
    stream->next_in = steps->data + steps->taken;
    stream->avail_in = in;
    stream->next_out = text;
    stream->avail_out = out;
    const int end = inflate(stream, Z_NO_FLUSH);
    const size_t written = out - stream->avail_out;
    steps->taken += in - stream->avail_in;
    steps->checksum = checksum(steps->coding, steps->checksum, text, written);
    steps->written += written;
    switch (end) {
    case Z_STREAM_END:
        return check_trailer(steps->coding, steps->data, steps->length, steps->taken, steps->checksum, steps->written,
                             error)
                   ? GZIP_DONE
                   : GZIP_FAILED;
    case Z_OK:
    case Z_BUF_ERROR: /* it could do nothing: there is no room, or nothing more came */
        break;
    case Z_MEM_ERROR:
        error_out_of_memory(error);
        return GZIP_FAILED;
    default:
        return stream_is_broken(steps, false, error);
    }
    /* The last literals may need no more input, and the end of the last block no more room. */
    if (stream->avail_out > 0)
        return steps->taken < steps->length ? GZIP_MORE : stream_is_broken(steps, true, error);
    if (steps->written < capacity)
        return GZIP_MORE;
    return stream->avail_in == 0 && steps->taken < steps->length ? GZIP_MORE : GZIP_LONGER;
}

void gzip_steps_end(struct gzip_steps *steps)
{
    if (steps->state)
        put_state(steps->store, steps->state);
    steps->state = NULL;
}
