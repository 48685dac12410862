/* Tensors in base64 that are longer than a block and a vector, in every number format and instruction set, against
 * arithmetic on doubles and an encoder of one bit group a step. */
#include "base/isa.h"
#include "codec/expect.h"
#include "codec/numbers.h"
#include "codec/tensor_base64.h"
#include "json/reader.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { COUNT = 5000 };

static struct arena arena;

static void free_memory(void)
{
    arena_free(&arena);
}

/* As it stands in a body, '/' as "\/" where `escape`. */
static char *encode_slowly(const unsigned char *data, size_t length, bool escape, size_t *characters)
{
    const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    char *text = malloc(2 * (length + 3) / 3 * 4), *to = text;
    for (size_t bit = 0; bit < 8 * length; bit += 6) {
        unsigned value = 0;
        for (size_t i = bit; i < bit + 6; i++)
            value = value << 1 | (i < 8 * length ? data[i / 8] >> (7 - i % 8) & 1u : 0);
        if (escape && alphabet[value] == '/')
            *to++ = '\\';
        *to++ = alphabet[value];
    }
    for (size_t bytes = length; bytes % 3; bytes++)
        *to++ = '=';
    *characters = (size_t)(to - text);
    return text;
}

static bool begin(int isa)
{
    struct error error;
    srand(17);
    ck_assert(arena_reserve(&arena, 1 << 20));
    arena_reset(&arena);
    return isa_choose(isa_name((enum isa)isa), &error);
}

START_TEST(test_numbers)
{
    enum dtype dtype = FLOATS[_i % FLOAT_FORMATS];
    static unsigned char data[8 * COUNT];
    static float expected[COUNT];
    struct error error;
    char words[64];
    if (!begin(_i / FLOAT_FORMATS))
        return;
    write_numbers(dtype, COUNT, data, expected);
    static const size_t counts[] = {1, 2, 3, 5, 31, 100, 1024, 1536, 1537, COUNT};
    for (size_t n = 0; n < 2 * sizeof counts / sizeof *counts; n++) {
        size_t count = counts[n / 2], bytes = count * dtype_bytes(dtype);
        struct json_key string = {.escaped = n % 2};
        char *text = encode_slowly(data, bytes, string.escaped, &string.length);
        string.raw = text;
        arena_reset(&arena);
        float *floats = tensor_base64_numbers(&string, dtype, count, &arena, "/input", &error);
        ck_assert_msg(floats != NULL, "%s", error.message);
        ck_assert_mem_eq(floats, expected, count * sizeof *floats);
        arena_reset(&arena);
        ck_assert(!tensor_base64_numbers(&string, dtype, count + 1, &arena, "/input", &error));
        snprintf(words, sizeof words, "%zu %zu", bytes, bytes + dtype_bytes(dtype));
        expect_error(&error, ERROR_INVALID, "/input", words, "length");
        free(text);
    }
}
END_TEST

START_TEST(test_faults)
{
    enum dtype dtype = FLOATS[_i % FLOAT_FORMATS];
    static unsigned char data[8 * COUNT];
    static float expected[COUNT];
    struct error error;
    if (!begin(_i / FLOAT_FORMATS))
        return;
    write_numbers(dtype, COUNT, data, expected);
    for (size_t turn = 0; turn < 60; turn++) {
        size_t bytes = COUNT * dtype_bytes(dtype), at = (size_t)rand() % COUNT;
        unsigned char *number = data + at * dtype_bytes(dtype), kept[8];
        struct json_key string = {.escaped = false};
        char words[64];
        if (turn % 2) {
            memcpy(kept, number, dtype_bytes(dtype));
            make_infinite(dtype, number);
        }
        char *text = encode_slowly(data, bytes, false, &string.length);
        string.raw = text;
        if (turn % 2 == 0) {
            at = (size_t)rand() % (string.length - 2);
            text[at] = "-_ =\n\x80"[turn / 2 % 6];
        }
        ck_assert(!tensor_base64_numbers(&string, dtype, COUNT, &arena, "/input", &error));
        ck_assert_uint_eq(arena.used, 0);
        snprintf(words, sizeof words, "%zu", at);
        expect_error(&error, turn % 2 ? ERROR_NOT_FINITE : ERROR_BAD_ENCODING, turn % 2 ? "/input" : "/input/base64",
                     words, "fault");
        if (turn % 2)
            memcpy(number, kept, dtype_bytes(dtype));
        free(text);
    }
}
END_TEST

START_TEST(test_masks)
{
    static const enum dtype formats[] = {DTYPE_BOOL, DTYPE_U8, DTYPE_I32, DTYPE_I64};
    static unsigned char data[8 * COUNT];
    static uint8_t expected[COUNT];
    struct error error;
    if (!begin(_i))
        return;
    for (size_t f = 0; f < sizeof formats / sizeof *formats; f++) {
        size_t bytes = dtype_bytes(formats[f]);
        struct json_key string = {.escaped = false};
        memset(data, 0, sizeof data);
        for (size_t i = 0; i < COUNT; i++)
            data[i * bytes] = expected[i] = (uint8_t)(rand() >> 7 & 1);
        for (int wrong = 0; wrong < 2; wrong++) {
            data[4321 * bytes + bytes - 1] ^= wrong ? 2 : 0;
            char *text = encode_slowly(data, COUNT * bytes, false, &string.length);
            string.raw = text;
            arena_reset(&arena);
            uint8_t *mask = tensor_base64_mask(&string, formats[f], COUNT, &arena, "/attention_mask", &error);
            ck_assert((mask == NULL) == wrong);
            if (wrong)
                expect_error(&error, ERROR_INVALID, "/attention_mask", "4321", "mask");
            else
                ck_assert_mem_eq(mask, expected, COUNT);
            free(text);
        }
    }
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("tensor_base64");
    TCase *c = tcase_create("tensor_base64");
    tcase_add_checked_fixture(c, NULL, free_memory);
    tcase_add_loop_test(c, test_numbers, 0, ISA_COUNT * FLOAT_FORMATS);
    tcase_add_loop_test(c, test_faults, 0, ISA_COUNT * FLOAT_FORMATS);
    tcase_add_loop_test(c, test_masks, 0, ISA_COUNT);
    suite_add_tcase(s, c);
    return s;
}
