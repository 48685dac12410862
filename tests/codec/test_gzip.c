/* gzip and deflate against zlib, both ways, and decompression in one go against that in steps; what is broken is
 * refused, at every byte and every bit, and named. */
#include "codec/gzip.h"
#include "suite.h"

#include <libdeflate.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

static struct gzip_store store;

static void set_up(void)
{
    gzip_store_init(&store, 1);
}

static void tear_down(void)
{
    gzip_store_free(&store);
}

/* Memory of just the size, so that a sanitizer sees what is beside. */
struct bytes {
    unsigned char *data;
    size_t length;
};

static struct bytes bytes_of(size_t length)
{
    return (struct bytes){malloc(length + !length), length};
}

enum kind { ZEROS, NUMBERS, NOISE, KINDS };

static struct bytes text_of(enum kind kind, size_t length)
{
    struct bytes text = bytes_of(length);
    uint32_t random = 7;
    for (size_t i = 0; i < length; i++) {
        random = random * 1664525 + 1013904223;
        text.data[i] = kind == ZEROS   ? 0
                       : kind == NOISE ? (unsigned char)(random >> 24)
                                       : "0123456789.,[] -"[random >> 28];
    }
    return text;
}

struct zlib_options {
    enum coding coding;
    int level, strategy;
    bool flushes;      /* an empty stored block in the middle, and one whose dictionary is forgotten */
    gz_header *header; /* NULL: a plain one */
};

static struct bytes zlib_pack(struct bytes text, const struct zlib_options *options)
{
    z_stream z = {0};
    struct bytes packed = bytes_of(text.length + text.length / 8 + 4096);
    ck_assert_int_eq(
        deflateInit2(&z, options->level, Z_DEFLATED, options->coding == CODING_GZIP ? 31 : 15, 9, options->strategy),
        Z_OK);
    if (options->header)
        ck_assert_int_eq(deflateSetHeader(&z, options->header), Z_OK);
    z.next_in = text.data;
    z.next_out = packed.data;
    z.avail_out = (uInt)packed.length;
    if (options->flushes) {
        z.avail_in = (uInt)(text.length / 3);
        ck_assert_int_eq(deflate(&z, Z_SYNC_FLUSH), Z_OK);
        z.avail_in = (uInt)(text.length / 3);
        ck_assert_int_eq(deflate(&z, Z_FULL_FLUSH), Z_OK);
    }
    z.avail_in = (uInt)(text.length - z.total_in);
    ck_assert_int_eq(deflate(&z, Z_FINISH), Z_STREAM_END);
    struct bytes exact = bytes_of(z.total_out);
    memcpy(exact.data, packed.data, exact.length);
    deflateEnd(&z);
    free(packed.data);
    return exact;
}

/* Whether zlib takes all of `packed` and nothing follows; *length: of what it writes to `to` [capacity]. */
static bool zlib_unpack(enum coding coding, struct bytes packed, unsigned char *to, size_t capacity, size_t *length)
{
    z_stream z = {.next_in = packed.data, .avail_in = (uInt)packed.length, .next_out = to, .avail_out = (uInt)capacity};
    ck_assert_int_eq(inflateInit2(&z, coding == CODING_GZIP ? 31 : 15), Z_OK);
    bool whole = inflate(&z, Z_FINISH) == Z_STREAM_END && z.avail_in == 0;
    *length = z.total_out;
    inflateEnd(&z);
    return whole;
}

/* In steps of `most`, beginning with `capacity` bytes of memory, which move and grow up to to.length. Asserts once
 * only: each time check writes to a file. */
static enum gzip_end unpack_in_steps(enum coding coding, struct bytes packed, struct bytes to, size_t capacity,
                                     const struct gzip_step_most *most, size_t *length, struct error *error)
{
    struct gzip_steps steps;
    enum gzip_end end;
    bool bounded = true;
    if (!gzip_steps_begin(&steps, &store, coding, packed.data, packed.length, error))
        return GZIP_FAILED;
    struct bytes text = bytes_of(capacity);
    for (size_t taken = steps.taken, written = 0;; taken = steps.taken, written = steps.written) {
        end = gzip_step(&steps, text.data, text.length, most, error);
        bounded &= steps.written <= text.length && steps.written - written <= most->text &&
                   steps.taken - taken <= most->packed;
        if (end == GZIP_LONGER && text.length < to.length) {
            struct bytes larger = bytes_of(text.length + 1 + text.length / 2);
            larger.length = larger.length < to.length ? larger.length : to.length;
            memcpy(larger.data, text.data, steps.written);
            free(text.data);
            text = larger;
        } else if (end != GZIP_MORE) {
            break;
        }
    }
    ck_assert(bounded);
    if (end == GZIP_DONE) {
        memcpy(to.data, text.data, steps.written);
        *length = steps.written;
    }
    gzip_steps_end(&steps);
    free(text.data);
    return end;
}

/* What came of it in one go comes of it in steps, however long they are. `same_words`: also of what is wrong. */
static void expect_same_in_steps(enum coding coding, struct bytes packed, struct bytes to, enum gzip_end wanted,
                                 size_t length, const struct error *error, bool same_words)
{
    static const struct {
        struct gzip_step_most most;
        size_t capacity, longest;
    } ways[] = {{{1, 1}, SIZE_MAX, 5000},
                {{1, UINT32_MAX}, 1, 5000},
                {{UINT32_MAX, 1}, SIZE_MAX, 5000},
                {{977, 4099}, 1000, SIZE_MAX},
                {{8192, 1 << 18}, SIZE_MAX, SIZE_MAX}};
    struct bytes text = bytes_of(to.length);
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        struct error found = {0};
        size_t n = 77;
        if (packed.length > ways[i].longest || (to.length > 1 << 16 && ways[i].longest < SIZE_MAX))
            continue;
        enum gzip_end end =
            unpack_in_steps(coding, packed, text, ways[i].capacity < to.length ? ways[i].capacity : to.length,
                            &ways[i].most, &n, &found);
        const bool right = end == wanted &&
                           (end == GZIP_DONE ? n == length && memcmp(text.data, to.data, n) == 0 : n == 77) &&
                           (end != GZIP_FAILED ||
                            (found.code == error->code && (!same_words || strcmp(found.message, error->message) == 0)));
        ck_assert_msg(right, "steps %zu: %d, %s; in one go %d, %s", i, end, found.message, wanted,
                      wanted == GZIP_FAILED ? error->message : "");
    }
    free(text.data);
}

static enum gzip_end unpack(enum coding coding, struct bytes packed, struct bytes to, size_t *length,
                            struct error *error)
{
    const enum gzip_end end =
        gzip_decompress(&store, coding, packed.data, packed.length, to.data, to.length, length, error);
    expect_same_in_steps(coding, packed, to, end, *length, error, true);
    return end;
}

static void expect_failure(enum coding coding, struct bytes packed, const char *words, const char *name)
{
    struct bytes to = bytes_of(1 << 16);
    struct error error = {0};
    size_t length = 77;
    enum gzip_end end = unpack(coding, packed, to, &length, &error);
    ck_assert_msg(end == GZIP_FAILED, "%s: %d", name, end);
    ck_assert_msg(error.code == ERROR_BAD_ENCODING && strstr(error.message, words), "%s: %s", name, error.message);
    ck_assert_uint_eq(length, 77);
    free(to.data);
}

/* ---- what is right */

static void expect_text(enum coding coding, struct bytes packed, struct bytes text)
{
    struct bytes to = bytes_of(text.length);
    struct error error;
    size_t length = SIZE_MAX;
    ck_assert_msg(unpack(coding, packed, to, &length, &error) == GZIP_DONE, "%s", error.message);
    ck_assert_uint_eq(length, text.length);
    ck_assert(memcmp(to.data, text.data, length) == 0);
    free(to.data);
    if (text.length) {
        to = bytes_of(text.length - 1);
        length = 77;
        ck_assert_int_eq(unpack(coding, packed, to, &length, &error), GZIP_LONGER);
        ck_assert_uint_eq(length, 77);
        free(to.data);
    }
}

START_TEST(what_zlib_has_compressed)
{
    static const size_t lengths[] = {0, 1, 2, 3, 100, 4096, 65535, 65536, 300000};
    static const int strategies[] = {Z_DEFAULT_STRATEGY, Z_FIXED, Z_HUFFMAN_ONLY, Z_RLE};
    const enum coding coding = _i % 2 ? CODING_GZIP : CODING_DEFLATE;
    const enum kind kind = (enum kind)(_i / 2);
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        struct bytes text = text_of(kind, lengths[i]);
        for (int level = 0; level <= 9; level += 3)
            for (int strategy = 0; strategy < 4; strategy++) {
                struct bytes packed =
                    zlib_pack(text, &(struct zlib_options){coding, level, strategies[strategy], strategy % 2, NULL});
                expect_text(coding, packed, text);
                if (coding == CODING_GZIP)
                    ck_assert_uint_eq(gzip_expected(coding, packed.data, packed.length, SIZE_MAX),
                                      text.length ? text.length : 4 * packed.length);
                free(packed.data);
            }
        free(text.data);
    }
}
END_TEST

START_TEST(headers_with_everything)
{
    struct bytes text = text_of(NUMBERS, 1000);
    for (int parts = 0; parts < 16; parts++) {
        gz_header header = {.text = parts & 1, .time = 99, .os = 3, .hcrc = parts >> 1 & 1};
        if (parts & 4) {
            header.extra = (Bytef *)"extra";
            header.extra_len = 5;
            header.comment = (Bytef *)"a comment";
        }
        if (parts & 8)
            header.name = (Bytef *)"request.json";
        struct bytes packed =
            zlib_pack(text, &(struct zlib_options){CODING_GZIP, 6, Z_DEFAULT_STRATEGY, false, &header});
        expect_text(CODING_GZIP, packed, text);
        for (size_t cut = 0; cut < packed.length; cut++) {
            struct bytes part = bytes_of(cut);
            memcpy(part.data, packed.data, cut);
            expect_failure(CODING_GZIP, part, "cut short", "a part of a member with a long header");
            free(part.data);
        }
        if (parts & 2) { /* the header's last byte is its checksum's */
            packed.data[4] ^= 1;
            expect_failure(CODING_GZIP, packed, "checksum of the gzip header", "a header whose time was changed");
        }
        free(packed.data);
    }
    free(text.data);
}
END_TEST

START_TEST(zlib_reads_what_is_compressed)
{
    static const size_t lengths[] = {1, 2, 100, 65536, 300000};
    struct gzip_store own;
    gzip_store_init(&own, _i);
    for (int kind = 0; kind < KINDS; kind++)
        for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
            struct bytes text = text_of((enum kind)kind, lengths[i]), bound = bytes_of(gzip_bound(lengths[i])),
                         back = bytes_of(lengths[i]);
            size_t length, packed = gzip_compress(&own, text.data, text.length, bound.data, bound.length);
            ck_assert_uint_gt(packed, 0);
            ck_assert_uint_le(packed, bound.length);
            ck_assert(zlib_unpack(CODING_GZIP, (struct bytes){bound.data, packed}, back.data, back.length, &length));
            ck_assert_uint_eq(length, text.length);
            ck_assert(memcmp(back.data, text.data, length) == 0);
            struct bytes exact = bytes_of(packed);
            ck_assert_uint_eq(gzip_compress(&own, text.data, text.length, exact.data, packed - 1), 0);
            free(exact.data);
            free(text.data);
            free(bound.data);
            free(back.data);
        }
    gzip_store_free(&own);
}
END_TEST

/* ---- what is wrong */

START_TEST(cut_at_every_byte)
{
    static const int levels[] = {0, 1, 9};
    const enum coding coding = _i % 2 ? CODING_GZIP : CODING_DEFLATE;
    for (int kind = 0; kind < KINDS; kind++)
        for (int i = 0; i < 6; i++) {
            struct bytes text = text_of((enum kind)kind, 700);
            struct bytes packed =
                zlib_pack(text, &(struct zlib_options){coding, levels[i % 3], i < 3 ? Z_DEFAULT_STRATEGY : Z_FIXED,
                                                       i == 4, NULL});
            for (size_t cut = 0; cut < packed.length; cut++) {
                struct bytes part = bytes_of(cut);
                memcpy(part.data, packed.data, cut);
                expect_failure(coding, part, "cut short", "a part");
                free(part.data);
            }
            free(packed.data);
            free(text.data);
        }
}
END_TEST

/* Whatever zlib says of it, and then the same bytes. */
START_TEST(every_bit_flipped)
{
    const enum coding coding = _i % 2 ? CODING_GZIP : CODING_DEFLATE;
    for (int level = 0; level <= 9; level += 3) {
        struct bytes text = text_of(NUMBERS, 400), to = bytes_of(1 << 16), back = bytes_of(1 << 16);
        struct bytes packed = zlib_pack(
            text, &(struct zlib_options){coding, level, level == 3 ? Z_FIXED : Z_DEFAULT_STRATEGY, false, NULL});
        size_t accepted = 0;
        for (size_t bit = 0; bit < 8 * packed.length; bit++) {
            size_t length = 0, wanted;
            struct error error = {0};
            packed.data[bit / 8] ^= (unsigned char)(1 << bit % 8);
            bool right = zlib_unpack(coding, packed, back.data, back.length, &wanted);
            enum gzip_end end =
                gzip_decompress(&store, coding, packed.data, packed.length, to.data, to.length, &length, &error);
            /* libdeflate takes more code lengths than are announced, and stumbles over what comes of it. */
            expect_same_in_steps(coding, packed, to, end, length, &error, false);
            ck_assert_msg((end == GZIP_DONE) == right, "bit %zu: %d, zlib %d: %s", bit, end, right, error.message);
            ck_assert(!right || (length == wanted && memcmp(to.data, back.data, length) == 0));
            ck_assert(end != GZIP_FAILED || error.code == ERROR_BAD_ENCODING);
            accepted += right;
            packed.data[bit / 8] ^= (unsigned char)(1 << bit % 8);
        }
        /* The time, the two bytes behind it and the flag for text tell nothing that matters, nor do the bits that fill
         * a byte: in a stored block behind its head, else at the end. */
        const size_t idle = coding == CODING_GZIP ? 6 * 8 + 1 : 0;
        ck_assert_uint_ge(accepted, idle);
        ck_assert_uint_lt(accepted, idle + 8);
        free(packed.data);
        free(text.data);
        free(to.data);
        free(back.data);
    }
}
END_TEST

static struct bytes joined(struct bytes a, const void *b, size_t length)
{
    struct bytes both = bytes_of(a.length + length);
    memcpy(both.data, a.data, a.length);
    memcpy(both.data + a.length, b, length);
    return both;
}

START_TEST(what_follows_is_named)
{
    struct bytes text = text_of(NUMBERS, 400);
    for (int i = 0; i < 2; i++) {
        const enum coding coding = i ? CODING_GZIP : CODING_DEFLATE;
        struct bytes packed = zlib_pack(text, &(struct zlib_options){coding, 6, Z_DEFAULT_STRATEGY, false, NULL});
        struct bytes twice = joined(packed, packed.data, packed.length), one = joined(packed, "", 1);
        char place[64];
        snprintf(place, sizeof place, i ? "second gzip member begins at byte %zu" : "at byte %zu", packed.length);
        expect_failure(coding, twice, place, "two");
        expect_failure(coding, one, "1 bytes follow", "a zero behind");
        free(twice.data);
        free(one.data);
        free(packed.data);
    }
    free(text.data);
}
END_TEST

START_TEST(what_is_wrong_is_named)
{
    static const struct {
        enum coding coding;
        size_t at; /* from the end, where it is negative as a number */
        unsigned char byte;
        const char *words;
    } cases[] = {
        {CODING_GZIP, 0, '{', "not gzip: it begins with the bytes 7b 8b"},
        {CODING_GZIP, 1, 0, "not gzip: it begins with the bytes 1f 00"},
        {CODING_GZIP, 2, 7, "method 7"},
        {CODING_GZIP, 3, 0x20, "flags 0x20"},
        {CODING_GZIP, 10, 7, "the compressed data has a block of a kind that there is not, at byte 10 of"},
        {CODING_GZIP, (size_t)-8, 0, "checksum of the gzip body is wrong"},
        {CODING_GZIP, (size_t)-1, 9, "says that it stands for"},
        {CODING_DEFLATE, 0, 0x1F, "not deflate: it begins with the bytes 1f"},
        {CODING_DEFLATE, 1, 0xBB, "preset dictionary"},
        {CODING_DEFLATE, 2, 7, "a block of a kind that there is not"},
        {CODING_DEFLATE, (size_t)-1, 0, "checksum of the deflate body is wrong"},
    };
    struct bytes text = text_of(NUMBERS, 400);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct bytes packed =
            zlib_pack(text, &(struct zlib_options){cases[i].coding, 6, Z_DEFAULT_STRATEGY, false, NULL});
        unsigned char *byte = packed.data + (cases[i].at > packed.length ? packed.length + cases[i].at : cases[i].at);
        *byte = *byte == cases[i].byte ? 1 : cases[i].byte;
        expect_failure(cases[i].coding, packed, cases[i].words, cases[i].words);
        free(packed.data);
    }
    struct bytes gzip = zlib_pack(text, &(struct zlib_options){CODING_GZIP, 6, Z_DEFAULT_STRATEGY, false, NULL});
    expect_failure(CODING_DEFLATE, gzip, "Content-Encoding: gzip", "gzip as deflate");
    expect_failure(CODING_GZIP, (struct bytes){(unsigned char *)"not gzip at all", 15}, "leave Content-Encoding out",
                   "text");
    free(gzip.data);
    free(text.data);
}
END_TEST

/* ---- lengths */

START_TEST(expected_lengths)
{
    unsigned char member[100] = {0x1F, 0x8B, 8};
    static const struct {
        unsigned char trailer[4];
        size_t limit, expected;
    } cases[] = {
        {{0x10, 0x27, 0, 0}, 1 << 20, 10000},
        {{0x10, 0x27, 0, 0}, 10000, 10000},
        {{0x10, 0x27, 0, 0}, 9999, 400},           /* a lie, or too long: either will show */
        {{0xFF, 0xFF, 0xFF, 0xFF}, SIZE_MAX, 400}, /* more than 100 bytes can stand for */
        {{0, 0, 0, 0}, 1 << 20, 400},
        {{0, 0, 0, 0}, 100, 100},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        memcpy(member + 96, cases[i].trailer, 4);
        ck_assert_uint_eq(gzip_expected(CODING_GZIP, member, 100, cases[i].limit), cases[i].expected);
        ck_assert_uint_eq(gzip_expected(CODING_DEFLATE, member, 100, cases[i].limit),
                          cases[i].limit < 400 ? cases[i].limit : 400);
    }
    ck_assert_uint_eq(gzip_expected(CODING_GZIP, NULL, 0, 100), 1);
    ck_assert_uint_eq(gzip_expected(CODING_GZIP, member, 17, 100), 68);
}
END_TEST

/* Nothing is written behind the memory there is, whatever the ratio. */
START_TEST(much_out_of_little)
{
    struct bytes text = text_of(ZEROS, 20 << 20);
    struct bytes packed = zlib_pack(text, &(struct zlib_options){CODING_GZIP, 9, Z_DEFAULT_STRATEGY, false, NULL});
    ck_assert_uint_lt(packed.length, 21000);
    for (size_t capacity = 1; capacity < text.length; capacity = capacity * 5 + 1) {
        struct bytes to = bytes_of(capacity);
        struct error error;
        size_t length;
        ck_assert_int_eq(unpack(CODING_GZIP, packed, to, &length, &error), GZIP_LONGER);
        free(to.data);
    }
    expect_text(CODING_GZIP, packed, text);
    free(packed.data);
    free(text.data);
}
END_TEST

/* Of a long body libdeflate says only that it is wrong; a step knows where. */
START_TEST(faults_in_long_bodies)
{
    struct bytes text = text_of(NOISE, 300000), to = bytes_of(text.length);
    struct bytes packed = zlib_pack(text, &(struct zlib_options){CODING_GZIP, 0, Z_DEFAULT_STRATEGY, false, NULL});
    const struct gzip_step_most most = {8192, 1 << 18};
    struct error error;
    size_t length = 77;
    char place[64];
    snprintf(place, sizeof place, "is cut short, at byte 200000 of 200000");
    ck_assert_int_eq(
        unpack_in_steps(CODING_GZIP, (struct bytes){packed.data, 200000}, to, to.length, &most, &length, &error),
        GZIP_FAILED);
    ck_assert_msg(error.code == ERROR_BAD_ENCODING && strstr(error.message, place), "%s", error.message);
    /* The second stored block's two lengths differ: the first has five bytes of head too. */
    const size_t at = 10 + 5 + (packed.data[11] | (size_t)packed.data[12] << 8);
    packed.data[at + 1] ^= 1;
    snprintf(place, sizeof place, "is damaged, at byte %zu of %zu", at + 5, packed.length);
    ck_assert_int_eq(unpack_in_steps(CODING_GZIP, packed, to, to.length, &most, &length, &error), GZIP_FAILED);
    ck_assert_msg(error.code == ERROR_BAD_ENCODING && strstr(error.message, place), "%s", error.message);
    ck_assert_uint_eq(length, 77);
    free(packed.data);
    free(text.data);
    free(to.data);
}
END_TEST

/* ---- memory */

static size_t allocations, failing; /* the n-th of libdeflate's fails; 0: none */

static void *counting_malloc(size_t size)
{
    return ++allocations == failing ? NULL : malloc(size);
}

START_TEST(libdeflate_has_no_memory)
{
    static unsigned char text[1000], packed[2000];
    struct error error;
    size_t length, n;
    libdeflate_set_memory_allocator(counting_malloc, free);
    allocations = 0;
    failing = 1;
    ck_assert_uint_eq(gzip_compress(&store, text, sizeof text, packed, sizeof packed), 0);
    n = gzip_compress(&store, text, sizeof text, packed, sizeof packed);
    ck_assert_uint_gt(n, 0);
    failing = allocations + 1;
    ck_assert_int_eq(gzip_decompress(&store, CODING_GZIP, packed, n, text, sizeof text, &length, &error), GZIP_FAILED);
    ck_assert_int_eq(error.code, ERROR_OUT_OF_MEMORY);
    ck_assert_int_eq(gzip_decompress(&store, CODING_GZIP, packed, n, text, sizeof text, &length, &error), GZIP_DONE);
    const size_t before = allocations;
    failing = 0;
    for (int i = 0; i < 10; i++) {
        ck_assert_uint_eq(gzip_compress(&store, text, sizeof text, packed, sizeof packed), n);
        ck_assert_int_eq(gzip_decompress(&store, CODING_GZIP, packed, n, text, sizeof text, &length, &error),
                         GZIP_DONE);
    }
    ck_assert_uint_eq(allocations, before);
    libdeflate_set_memory_allocator(malloc, free);
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("gzip");
    TCase *c = tcase_create("gzip");
    tcase_add_checked_fixture(c, set_up, tear_down);
    tcase_set_timeout(c, 60);
    tcase_add_loop_test(c, what_zlib_has_compressed, 0, 2 * KINDS);
    tcase_add_test(c, headers_with_everything);
    tcase_add_loop_test(c, zlib_reads_what_is_compressed, 1, 13);
    tcase_add_loop_test(c, cut_at_every_byte, 0, 2);
    tcase_add_loop_test(c, every_bit_flipped, 0, 2);
    tcase_add_test(c, what_follows_is_named);
    tcase_add_test(c, what_is_wrong_is_named);
    tcase_add_test(c, expected_lengths);
    tcase_add_test(c, much_out_of_little);
    tcase_add_test(c, faults_in_long_bodies);
    tcase_add_test(c, libdeflate_has_no_memory);
    suite_add_tcase(s, c);
    return s;
}
