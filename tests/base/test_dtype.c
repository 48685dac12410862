#include "base/dtype.h"
#include "suite.h"

#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* Independent of the code under test: the value of a half by its definition, in double. */
static double half_value(unsigned bits)
{
    double sign = bits & 0x8000 ? -1 : 1;
    int exponent = (int)(bits >> 10 & 31), fraction = (int)(bits & 1023);
    return exponent ? sign * ldexp(1 + fraction / 1024.0, exponent - 15) : sign * ldexp(fraction / 1024.0, -14);
}

START_TEST(every_finite_half)
{
    for (unsigned bits = 0; bits < 65536; bits++) {
        uint16_t half = (uint16_t)bits;
        float got;
        if ((bits >> 10 & 31) == 31) {
            ck_assert_uint_eq(dtype_to_f32(DTYPE_F16, &half, &got, 1), 0);
            continue;
        }
        ck_assert_uint_eq(dtype_to_f32(DTYPE_F16, &half, &got, 1), 1);
        ck_assert(got == half_value(bits) && !signbit(got) == !(bits & 0x8000));
    }
}
END_TEST

START_TEST(bf16_is_the_upper_half)
{
    for (unsigned bits = 0; bits < 65536; bits++) {
        uint16_t brain = (uint16_t)bits;
        uint32_t wide = bits << 16, bits_of;
        float got;
        bool finite = (bits >> 7 & 255) != 255;
        ck_assert_uint_eq(dtype_to_f32(DTYPE_BF16, &brain, &got, 1), finite);
        memcpy(&bits_of, &got, 4);
        ck_assert(!finite || bits_of == wide);
    }
}
END_TEST

START_TEST(doubles_round_once_and_overflow_is_found)
{
    static const double in[] = {1.0 + 0x1p-24, 1.0 + 0x1.8p-24, -0.0, 0x1p-149, 0x1p-151, FLT_MAX, -FLT_MAX};
    static const float want[] = {1.0f, 1.0f + 0x1p-23f, -0.0f, 0x1p-149f, 0.0f, FLT_MAX, -FLT_MAX};
    float got[7];
    ck_assert_uint_eq(dtype_to_f32(DTYPE_F64, in, got, 7), 7);
    ck_assert_int_eq(memcmp(got, want, sizeof want), 0);
    static const double wrong[] = {0, 1e39}, not_a_number[] = {NAN, 0};
    ck_assert_uint_eq(dtype_to_f32(DTYPE_F64, wrong, got, 2), 1);
    ck_assert_uint_eq(dtype_to_f32(DTYPE_F64, not_a_number, got, 2), 0);
}
END_TEST

START_TEST(f32_at_any_alignment)
{
    unsigned char bytes[4 * 5 + 1];
    const float values[5] = {1, -2, 3.5f, FLT_MIN, 0};
    float got[5];
    memcpy(bytes + 1, values, sizeof values);
    ck_assert_uint_eq(dtype_to_f32(DTYPE_F32, bytes + 1, got, 5), 5);
    ck_assert_int_eq(memcmp(got, values, sizeof values), 0);
}
END_TEST

START_TEST(names_both_ways)
{
    for (int d = 0; d < DTYPE_COUNT; d++) {
        const char *json = dtype_json_name((enum dtype)d), *file = dtype_safetensors_name((enum dtype)d),
                   *protocol = dtype_oip_name((enum dtype)d);
        ck_assert_int_eq(dtype_from_json_name(json, strlen(json)), d);
        ck_assert_int_eq(dtype_from_safetensors_name(file, strlen(file)), d);
        ck_assert_int_eq(dtype_from_oip_name(protocol, strlen(protocol)), d);
    }
    ck_assert_str_eq(dtype_oip_name(DTYPE_F64), "FP64");
    ck_assert_int_eq(dtype_from_oip_name("UINT8", 5), DTYPE_U8);
    ck_assert_int_eq(dtype_from_oip_name("FP3", 3), DTYPE_COUNT);
    ck_assert_int_eq(dtype_from_oip_name("BYTES", 5), DTYPE_COUNT);
    ck_assert_int_eq(dtype_from_json_name("f8", 2), DTYPE_COUNT);
    ck_assert_int_eq(dtype_from_json_name("f3", 2), DTYPE_COUNT);
}
END_TEST

START_TEST(finds_the_first_that_is_not_finite)
{
    enum { COUNT = 10000 };
    float *numbers = calloc(COUNT, sizeof *numbers);
    ck_assert_ptr_nonnull(numbers);
    ck_assert_uint_eq(dtype_first_not_finite(numbers, 0), 0);
    ck_assert_uint_eq(dtype_first_not_finite(numbers, COUNT), COUNT);
    static const size_t places[] = {0, 1, 15, 16, 4094, 4095, 4096, 4097, 8191, 8192, 9999};
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        numbers[COUNT - 1] = NAN;
        numbers[places[i]] = i % 3 == 0 ? NAN : i % 3 == 1 ? INFINITY : -INFINITY;
        ck_assert_uint_eq(dtype_first_not_finite(numbers, COUNT), places[i]);
        ck_assert_uint_eq(dtype_first_not_finite(numbers, places[i]), places[i]);
        numbers[COUNT - 1] = numbers[places[i]] = -1;
    }
    free(numbers);
}
END_TEST

START_TEST(finds_the_first_that_is_no_mask_value)
{
    static uint8_t values[5000];
    static const size_t places[] = {0, 1, 15, 16, 63, 64, 4095, 4999};
    ck_assert_uint_eq(dtype_first_not_mask(values, 0), 0);
    for (size_t i = 0; i < sizeof values; i++)
        values[i] = i % 3 == 0;
    ck_assert_uint_eq(dtype_first_not_mask(values, sizeof values), sizeof values);
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        const uint8_t kept = values[places[i]];
        values[places[i]] = (uint8_t)(i % 2 ? 2 : 255);
        ck_assert_uint_eq(dtype_first_not_mask(values, sizeof values), places[i]);
        ck_assert_uint_eq(dtype_first_not_mask(values, places[i]), places[i]);
        values[places[i]] = kept;
    }
}
END_TEST

/* The formats' own masks are in tests/codec/test_raw_tensor.c. */
START_TEST(masks_of_few_numbers)
{
    static const float floats[] = {1, -0.0f, 0, 1, 1.0000001f};
    static const int64_t wide[] = {1, 0, INT64_MIN};
    uint8_t mask[5];
    ck_assert_uint_eq(dtype_to_mask(DTYPE_F32, floats, mask, 5), 4);
    ck_assert_uint_eq(dtype_to_mask(DTYPE_F32, floats, mask, 4), 4);
    ck_assert(mask[0] == 1 && mask[1] == 0 && mask[2] == 0 && mask[3] == 1);
    ck_assert_uint_eq(dtype_to_mask(DTYPE_I64, wide, mask, 3), 2);
    ck_assert_uint_eq(dtype_to_mask(DTYPE_I32, wide, mask, 0), 0);
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("dtype");
    TCase *c = tcase_create("dtype");
    tcase_add_test(c, every_finite_half);
    tcase_add_test(c, bf16_is_the_upper_half);
    tcase_add_test(c, doubles_round_once_and_overflow_is_found);
    tcase_add_test(c, f32_at_any_alignment);
    tcase_add_test(c, names_both_ways);
    tcase_add_test(c, finds_the_first_that_is_not_finite);
    tcase_add_test(c, finds_the_first_that_is_no_mask_value);
    tcase_add_test(c, masks_of_few_numbers);
    suite_add_tcase(s, c);
    return s;
}
