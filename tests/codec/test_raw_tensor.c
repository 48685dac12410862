/* Tensors and masks given as bytes: every format at every alignment against arithmetic on doubles, and all that is
 * refused. */
#include "codec/expect.h"
#include "codec/numbers.h"
#include "codec/raw_tensor.h"

#include <stdio.h>

enum { COUNT = 3 * 4 * 251 };

static struct arena arena;

static void free_memory(void)
{
    arena_free(&arena);
}

static void begin(void)
{
    srand(29);
    ck_assert(arena_reserve(&arena, 1 << 16));
    arena_reset(&arena);
}

static struct raw_tensor raw_of(enum dtype dtype, const unsigned char *data)
{
    return (struct raw_tensor){.dtype = dtype,
                               .rank = 3,
                               .shape = {3, 4, 251},
                               .count = COUNT,
                               .data = data,
                               .bytes = COUNT * dtype_bytes(dtype)};
}

START_TEST(numbers_of_every_format)
{
    const enum dtype dtype = FLOATS[_i / 8];
    const size_t shift = (size_t)_i % 8;
    static unsigned char data[8 * COUNT];
    static float expected[COUNT];
    static _Alignas(64) unsigned char bytes[8 * COUNT + 8];
    struct tensor tensor = {0};
    struct error error;
    begin();
    write_numbers(dtype, COUNT, data, expected);
    memcpy(bytes + shift, data, COUNT * dtype_bytes(dtype));
    const struct raw_tensor raw = raw_of(dtype, bytes + shift);
    ck_assert_msg(raw_tensor_read(&raw, "/input", 3, &arena, &tensor, &error), "%s", error.message);
    ck_assert_uint_eq(tensor.rank, 3);
    ck_assert_mem_eq(tensor.shape, raw.shape, 3 * sizeof *raw.shape);
    ck_assert_uint_eq(tensor.count, COUNT);
    ck_assert_mem_eq(tensor.data, expected, COUNT * sizeof *expected);
    const bool in_place = dtype == DTYPE_F32 && shift % 4 == 0;
    ck_assert_int_eq((const void *)tensor.data == bytes + shift, in_place);
    ck_assert_uint_eq(arena.used, in_place ? 0 : (4 * COUNT + 63) / 64 * 64);
}
END_TEST

START_TEST(what_is_not_finite)
{
    const enum dtype dtype = FLOATS[_i / 2];
    const size_t shift = (size_t)_i % 2;
    static unsigned char data[8 * COUNT + 1];
    static float expected[COUNT];
    struct tensor tensor = {.rank = 7};
    struct error error;
    char words[32];
    begin();
    for (int turn = 0; turn < 20; turn++) {
        size_t at = (size_t)rand() % COUNT;
        write_numbers(dtype, COUNT, data + shift, expected);
        make_infinite(dtype, data + shift + at * dtype_bytes(dtype));
        const struct raw_tensor raw = raw_of(dtype, data + shift);
        ck_assert(!raw_tensor_read(&raw, "/query", 3, &arena, &tensor, &error));
        snprintf(words, sizeof words, "%zu %d", at, COUNT);
        expect_error(&error, ERROR_NOT_FINITE, "/query", words, "infinity");
        ck_assert_uint_eq(arena.used, 0);
        ck_assert_uint_eq(tensor.rank, 7);
    }
}
END_TEST

/* A mask's value as a number of the format. */
static void put_value(enum dtype dtype, unsigned char *to, int value)
{
    const float f32 = (float)value;
    const double f64 = value;
    const int32_t i32 = value;
    const int64_t i64 = value;
    const uint16_t f16 = value == 0 ? 0 : value == 1 ? 0x3C00 : 0x4000; /* 2 */
    uint32_t bits;
    memcpy(&bits, &f32, sizeof bits);
    const uint16_t bf16 = (uint16_t)(bits >> 16);
    switch (dtype) {
    case DTYPE_F32:
        memcpy(to, &f32, sizeof f32);
        break;
    case DTYPE_F16:
        memcpy(to, &f16, sizeof f16);
        break;
    case DTYPE_BF16:
        memcpy(to, &bf16, sizeof bf16);
        break;
    case DTYPE_F64:
        memcpy(to, &f64, sizeof f64);
        break;
    case DTYPE_I32:
        memcpy(to, &i32, sizeof i32);
        break;
    case DTYPE_I64:
        memcpy(to, &i64, sizeof i64);
        break;
    default:
        *to = (unsigned char)value;
    }
}

START_TEST(masks_of_every_format)
{
    const enum dtype dtype = (enum dtype)_i;
    const size_t size = dtype_bytes(dtype);
    static unsigned char data[8 * COUNT + 1];
    static uint8_t expected[COUNT];
    struct mask mask = {0};
    struct error error;
    char words[32];
    begin();
    for (size_t i = 0; i < COUNT; i++) {
        expected[i] = (uint8_t)(rand() >> 7 & 1);
        put_value(dtype, data + 1 + i * size, expected[i]);
    }
    const struct raw_tensor raw = raw_of(dtype, data + 1);
    ck_assert_msg(raw_tensor_mask(&raw, "/attention_mask", 3, &arena, &mask, &error), "%s", error.message);
    ck_assert_uint_eq(mask.rank, 3);
    ck_assert_uint_eq(mask.count, COUNT);
    ck_assert_mem_eq(mask.data, expected, COUNT);
    const bool in_place = dtype == DTYPE_BOOL || dtype == DTYPE_U8;
    ck_assert_int_eq(mask.data == data + 1, in_place);
    ck_assert_uint_eq(arena.used, in_place ? 0 : (COUNT + 63) / 64 * 64);
    for (int turn = 0; turn < 20; turn++) {
        size_t at = (size_t)rand() % COUNT;
        put_value(dtype, data + 1 + at * size, 2);
        arena_reset(&arena);
        ck_assert(!raw_tensor_mask(&raw, "/attention_mask", 3, &arena, &mask, &error));
        snprintf(words, sizeof words, "%zu %d", at, COUNT);
        expect_error(&error, ERROR_INVALID, "/attention_mask", words, "2");
        ck_assert_uint_eq(arena.used, 0);
        put_value(dtype, data + 1 + at * size, expected[at]);
    }
}
END_TEST

START_TEST(mask_values_far_from_0_and_1)
{
    static const int64_t wide[] = {0, INT64_C(1) << 32, 1};
    static const int32_t negative[] = {1, -1, 0};
    static const double fraction[] = {1, 0.5, 0}, not_a_number[] = {1, NAN, 0};
    const struct {
        enum dtype dtype;
        const void *data;
    } cases[] = {{DTYPE_I64, wide}, {DTYPE_I32, negative}, {DTYPE_F64, fraction}, {DTYPE_F64, not_a_number}};
    struct mask mask;
    struct error error;
    begin();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct raw_tensor raw = {.dtype = cases[i].dtype,
                                       .rank = 1,
                                       .shape = {3},
                                       .count = 3,
                                       .data = cases[i].data,
                                       .bytes = 3 * dtype_bytes(cases[i].dtype)};
        ck_assert(!raw_tensor_mask(&raw, "/attention_mask", 3, &arena, &mask, &error));
        expect_error(&error, ERROR_INVALID, "/attention_mask", "1", "a value");
    }
}
END_TEST

/* Each is refused as a tensor and as a mask. */
static const struct {
    struct raw_tensor raw;
    const char *words;
} WRONG[] = {
    {{.dtype = DTYPE_F32, .rank = 0, .count = 1, .bytes = 4}, "single 1 3"},
    {{.dtype = DTYPE_F32, .rank = 4, .shape = {1, 1, 1, 1}, .count = 1, .bytes = 4}, "4 3"},
    {{.dtype = DTYPE_F32, .rank = 8, .shape = {1, 1, 1, 1, 1, 1, 1, 99}, .count = 99, .bytes = 396}, "8 3 99"},
    {{.dtype = DTYPE_F32, .rank = 2, .shape = {4, 0}, .count = 0, .bytes = 0}, "axis 1 empty 4 0"},
    {{.dtype = DTYPE_F32, .rank = 2, .shape = {2, 3}, .count = 6, .bytes = 23}, "24 23 2 3"},
    {{.dtype = DTYPE_F16, .rank = 2, .shape = {2, 3}, .count = 6, .bytes = 24}, "12 24 f16"},
    {{.dtype = DTYPE_F32, .rank = 2, .shape = {SIZE_MAX / 2, 3}, .count = 6, .bytes = 24}, "memory"},
    {{.dtype = DTYPE_COUNT, .dtype_name = "F8_E4M3", .rank = 1, .shape = {4}, .count = 4, .bytes = 4}, "F8_E4M3"},
    {{.dtype = DTYPE_COUNT, .rank = 1, .shape = {4}, .count = 4, .bytes = 4}, "unknown format"},
};

START_TEST(wrong_ones)
{
    static const unsigned char zeros[512];
    struct raw_tensor raw = WRONG[_i].raw;
    struct tensor tensor = {.rank = 7};
    struct mask mask = {.rank = 7};
    struct error error;
    begin();
    raw.data = zeros;
    ck_assert(!raw_tensor_read(&raw, "/bias", 3, &arena, &tensor, &error));
    expect_error(&error, ERROR_INVALID, "/bias", WRONG[_i].words, "tensor");
    ck_assert(!raw_tensor_mask(&raw, "/attention_mask", 3, &arena, &mask, &error));
    expect_error(&error, ERROR_INVALID, "/attention_mask", WRONG[_i].words, "mask");
    ck_assert_uint_eq(tensor.rank, 7);
    ck_assert_uint_eq(mask.rank, 7);
    ck_assert_uint_eq(arena.used, 0);
}
END_TEST

START_TEST(integers_are_no_tensor)
{
    static const unsigned char zeros[32];
    struct tensor tensor;
    struct error error;
    begin();
    for (int d = DTYPE_BOOL; d < DTYPE_COUNT; d++) {
        const struct raw_tensor raw = {.dtype = (enum dtype)d,
                                       .rank = 1,
                                       .shape = {4},
                                       .count = 4,
                                       .data = zeros,
                                       .bytes = 4 * dtype_bytes((enum dtype)d)};
        ck_assert(!raw_tensor_read(&raw, "/input", 3, &arena, &tensor, &error));
        expect_error(&error, ERROR_INVALID, "/input", dtype_json_name((enum dtype)d), "integers");
    }
}
END_TEST

START_TEST(full_arena)
{
    static const _Alignas(4) unsigned char data[4 * 64];
    const struct raw_tensor half = {
        .dtype = DTYPE_F16, .rank = 1, .shape = {64}, .count = 64, .data = data, .bytes = 128};
    const struct raw_tensor single = {
        .dtype = DTYPE_F32, .rank = 1, .shape = {64}, .count = 64, .data = data, .bytes = 256};
    struct tensor tensor;
    struct mask mask;
    struct error error;
    struct arena none = {0};
    ck_assert(!raw_tensor_read(&half, "/input", 3, &none, &tensor, &error));
    ck_assert_int_eq(error.code, ERROR_OUT_OF_MEMORY);
    ck_assert(!raw_tensor_mask(&half, "/attention_mask", 3, &none, &mask, &error));
    ck_assert_int_eq(error.code, ERROR_OUT_OF_MEMORY);
    ck_assert(raw_tensor_read(&single, "/input", 3, &none, &tensor, &error));
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("raw_tensor");
    TCase *c = tcase_create("raw_tensor");
    tcase_add_checked_fixture(c, NULL, free_memory);
    tcase_add_loop_test(c, numbers_of_every_format, 0, 8 * FLOAT_FORMATS);
    tcase_add_loop_test(c, what_is_not_finite, 0, 2 * FLOAT_FORMATS);
    tcase_add_loop_test(c, masks_of_every_format, 0, DTYPE_COUNT);
    tcase_add_test(c, mask_values_far_from_0_and_1);
    tcase_add_loop_test(c, wrong_ones, 0, sizeof WRONG / sizeof *WRONG);
    tcase_add_test(c, integers_are_no_tensor);
    tcase_add_test(c, full_arena);
    suite_add_tcase(s, c);
    return s;
}
