/* Each way in which a deflate stream can be wrong, built bit by bit from RFC 1951, and refused by libdeflate too. */
#include "codec/deflate_fault.h"
#include "suite.h"

#include <libdeflate.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

/* Bits in the order of the stream: "1 10" is 0x05 and more zeros. Spaces are passed over. */
static size_t pack_bits(const char *bits, unsigned char *to)
{
    size_t count = 0;
    memset(to, 0, 64);
    for (; *bits; bits++) {
        if (*bits == ' ')
            continue;
        to[count / 8] |= (unsigned char)((*bits == '1') << count % 8);
        count++;
    }
    return (count + 7) / 8;
}

/* The last block; its kind with the lower bit first; then as each case says. Fixed codes: 7 bits 0000001 is a match of
 * length 3, 8 bits 00110000 + n are the literals; 5 bits a distance. Dynamic: 5 bits literals - 257, 5 bits distances -
 * 1, 4 bits lengths - 4, these for 16, 17, 18, 0, ... with 3 bits each; numbers with the lowest bit first. */
static const struct {
    const char *bits, *words;
    size_t at;
} FAULTS[] = {
    {"1 11", "of a kind", 0},
    {"1 00 00000 1010000000000000 1111111111111111", "two lengths differ", 0},
    {"1 10 0000001 00000", "before its beginning", 1},
    {"1 10 00110000 0000001 00001 00000000", "before its beginning", 2},
    {"1 10 11000110", "a length that there is not", 1},
    {"1 10 0000001 11110", "a distance that there is not", 1},
    {"1 01 00000 00000 0000 100 100 100 100", "make no code", 3},
    {"1 01 00000 00000 0000 100 000 000 100 1 00", "before the first", 3},
    {"1 01 00000 00000 0000 000 000 100 000 111111111111111", "no code", 5},
    {"1 01 00000 00000 0000 000 000 100 000 0 1111111 0 1111111", "more code lengths", 5},
    {"1 01 00000 00000 0000 000 000 100 100 0 0", "cut short", 4},
};

START_TEST(each_fault)
{
    unsigned char data[64], to[1000];
    size_t length = pack_bits(FAULTS[_i].bits, data), at = 99, written;
    const char *fault = deflate_fault(data, length, &at);
    ck_assert_msg(fault && strstr(fault, FAULTS[_i].words), "%s: %s", FAULTS[_i].words, fault ? fault : "none");
    ck_assert_msg(at == FAULTS[_i].at, "%s: at %zu", FAULTS[_i].words, at);
    struct libdeflate_decompressor *decompressor = libdeflate_alloc_decompressor();
    ck_assert_int_eq(libdeflate_deflate_decompress(decompressor, data, length, to, sizeof to, &written),
                     LIBDEFLATE_BAD_DATA);
    libdeflate_free_decompressor(decompressor);
}
END_TEST

START_TEST(none_in_what_zlib_writes)
{
    static unsigned char text[100000], packed[200000];
    uint32_t random = 3;
    for (size_t i = 0; i < sizeof text; i++)
        text[i] = (unsigned char)(i % 5000 < 2500 ? (random = random * 1664525 + 1013904223) >> 24
                                                  : (unsigned char)"0.0,"[i % 4]);
    for (int level = 0; level <= 9; level++)
        for (int strategy = Z_DEFAULT_STRATEGY; strategy <= Z_FIXED; strategy++) {
            z_stream z = {.next_in = text, .avail_in = sizeof text, .next_out = packed, .avail_out = sizeof packed};
            ck_assert_int_eq(deflateInit2(&z, level, Z_DEFLATED, -15, 9, strategy), Z_OK);
            ck_assert_int_eq(deflate(&z, Z_FINISH), Z_STREAM_END);
            size_t at = 99;
            ck_assert_ptr_null(deflate_fault(packed, z.total_out, &at));
            ck_assert_ptr_null(deflate_fault(packed, z.total_out + 7, &at));
            ck_assert_uint_eq(at, 99);
            ck_assert_str_eq(deflate_fault(packed, z.total_out - 1, &at), "is cut short");
            ck_assert_uint_eq(at, z.total_out - 1);
            deflateEnd(&z);
        }
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("deflate_fault");
    TCase *c = tcase_create("deflate_fault");
    tcase_add_loop_test(c, each_fault, 0, sizeof FAULTS / sizeof *FAULTS);
    tcase_add_test(c, none_in_what_zlib_writes);
    suite_add_tcase(s, c);
    return s;
}
