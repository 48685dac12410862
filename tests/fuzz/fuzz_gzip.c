/* Fuzzes decompression and, as its first byte says, compression. Decompression: zlib's opinion and ours agree, in one
 * go and in steps, nothing is written behind the memory that is given, and a body that does not fit in some memory fits
 * in more. The rest is taken for the compressed data between a right header and a right trailer too, so that checksums
 * do not stand in the way. */
#include "codec/deflate_fault.h"
#include "codec/gzip.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Of what is decompressed; more is cut off, for speed. */
#define MOST ((size_t)1 << 18)

static void check(bool holds)
{
    if (!holds)
        abort();
}

enum opinion { WHOLE, LONGER, BROKEN };

/* `window`: zlib's windowBits. *taken: of `data`. */
static enum opinion ask_zlib(int window, const uint8_t *data, size_t size, uint8_t *to, size_t *length, size_t *taken)
{
    z_stream z = {.next_in = (Bytef *)(uintptr_t)data, .avail_in = (uInt)size, .next_out = to, .avail_out = (uInt)MOST};
    check(inflateInit2(&z, window) == Z_OK);
    int end = inflate(&z, Z_FINISH);
    *length = z.total_out;
    *taken = z.total_in;
    inflateEnd(&z);
    return end == Z_STREAM_END ? WHOLE : end == Z_BUF_ERROR && *length == MOST ? LONGER : BROKEN;
}

/* In steps whose lengths the data chooses, with memory that grows: zlib's opinion of the same in one go. */
static void decompress_in_steps(struct gzip_store *store, enum coding coding, const uint8_t *data, size_t size,
                                enum opinion opinion, const uint8_t *wanted, size_t wanted_length, bool all_taken)
{
    struct gzip_steps steps;
    struct error error = {0};
    enum gzip_end end = GZIP_FAILED;
    const struct gzip_step_most most = {1 + (size ? data[size / 2] : 0), 1 + (size ? 16 * data[size / 3] : 0)};
    size_t capacity = 1 + (size ? data[size - 1] : 0);
    uint8_t *to = malloc(capacity);
    if (gzip_steps_begin(&steps, store, coding, data, size, &error)) {
        for (;;) {
            end = gzip_step(&steps, to, capacity, &most, &error);
            check(steps.written <= capacity && steps.taken <= size);
            if (end == GZIP_LONGER && capacity < MOST) {
                capacity = capacity > MOST / 4 ? MOST : capacity * 4;
                uint8_t *larger = malloc(capacity);
                memcpy(larger, to, steps.written);
                free(to);
                to = larger;
            } else if (end != GZIP_MORE) {
                break;
            }
        }
        gzip_steps_end(&steps);
    }
    check(end != GZIP_FAILED || error.code == ERROR_BAD_ENCODING);
    check((end == GZIP_DONE) == (opinion == WHOLE && all_taken));
    check(end != GZIP_DONE || (steps.written == wanted_length && memcmp(to, wanted, wanted_length) == 0));
    check(end != GZIP_LONGER || opinion != WHOLE);
    free(to);
}

/* Incomplete codes are taken by libdeflate and refused by zlib: where zlib refuses, ours may differ. */
static void decompress(struct gzip_store *store, enum coding coding, const uint8_t *data, size_t size)
{
    uint8_t *to = malloc(MOST), *back = malloc(MOST);
    size_t length = 0, wanted, taken, again;
    struct error error = {0};
    const size_t first = gzip_expected(coding, data, size, MOST);
    check(first >= 1 && first <= MOST);
    enum gzip_end end = gzip_decompress(store, coding, data, size, to, MOST, &length, &error);
    check(end != GZIP_FAILED || error.code == ERROR_BAD_ENCODING);
    enum opinion opinion = ask_zlib(coding == CODING_GZIP ? 31 : 15, data, size, back, &wanted, &taken);
    check(opinion != WHOLE || (end == GZIP_DONE) == (taken == size));
    check(opinion != LONGER || end != GZIP_DONE);
    decompress_in_steps(store, coding, data, size, opinion, back, wanted, taken == size);
    if (end == GZIP_DONE) {
        check(length <= MOST && (opinion != WHOLE || (length == wanted && memcmp(to, back, length) == 0)));
        uint8_t *exact = malloc(length + !length);
        check(gzip_decompress(store, coding, data, size, exact, length, &again, &error) == GZIP_DONE &&
              again == length);
        check(memcmp(exact, to, length) == 0);
        check(length == 0 ||
              gzip_decompress(store, coding, data, size, exact, length - 1, &again, &error) == GZIP_LONGER);
        free(exact);
    }
    free(to);
    free(back);
}

/* `data` as bare deflate, with a right header and trailer around it where zlib takes it. */
static void wrap(struct gzip_store *store, const uint8_t *data, size_t size)
{
    static const uint8_t header[] = {0x1F, 0x8B, 8, 0, 0, 0, 0, 0, 0, 3};
    uint8_t *back = malloc(MOST), *member = malloc(sizeof header + size + 8);
    size_t length, taken, at = SIZE_MAX;
    enum opinion opinion = ask_zlib(-15, data, size, back, &length, &taken);
    const char *fault = deflate_fault(data, size, &at);
    check(fault ? at <= size : at == SIZE_MAX);
    check(opinion != WHOLE || !fault);
    if (opinion == WHOLE) {
        const uLong crc = crc32(0, back, (uInt)length);
        uint8_t *to = member + sizeof header;
        memcpy(member, header, sizeof header);
        memcpy(to, data, taken);
        for (unsigned i = 0; i < 4; i++) {
            to[taken + i] = (uint8_t)(crc >> 8 * i);
            to[taken + 4 + i] = (uint8_t)(length >> 8 * i);
        }
        decompress(store, CODING_GZIP, member, sizeof header + taken + 8);
    }
    free(member);
    free(back);
}

static void compress_it(struct gzip_store *store, const uint8_t *data, size_t size)
{
    const size_t bound = gzip_bound(size);
    uint8_t *packed = malloc(bound), *back = malloc(size + !size);
    size_t length, n = gzip_compress(store, data, size, packed, bound);
    struct error error;
    check(n > 0 && n <= bound);
    check(gzip_decompress(store, CODING_GZIP, packed, n, back, size, &length, &error) == GZIP_DONE);
    check(length == size && memcmp(back, data, size) == 0);
    uint8_t *less = malloc(n - 1);
    check(gzip_compress(store, data, size, less, n - 1) == 0);
    free(less);
    free(packed);
    free(back);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct gzip_store store;
    if (size == 0)
        return 0;
    gzip_store_init(&store, 1 + data[0] / 4 % 9);
    switch (data[0] % 4) {
    case 0:
        decompress(&store, CODING_GZIP, data + 1, size - 1);
        break;
    case 1:
        decompress(&store, CODING_DEFLATE, data + 1, size - 1);
        break;
    case 2:
        wrap(&store, data + 1, size - 1);
        break;
    default:
        if (size > 1)
            compress_it(&store, data + 1, size - 1);
    }
    gzip_store_free(&store);
    return 0;
}
