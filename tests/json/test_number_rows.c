/* Rows of numbers in every instruction set that this processor has, against texts that are computed elsewhere. */
#include "json/number_rows.h"

#include "expected_text.h"
#include "guarded.h"
#include "random_numbers.h"
#include "suite.h"
#include "json/number.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The generic one for those that are not supported here, so that a loop over all has the same tests everywhere. */
static const struct number_rows *rows_of(int isa)
{
    return number_rows_of(isa_supported((enum isa)isa) ? (enum isa)isa : ISA_generic);
}

static float from_bits(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

#define MOST 4096 /* numbers in a row here */

/* Writes numbers [count] as shortest (decimals -1) or fixed text and compares each with the expected one. */
static void check_row(int isa, const float *numbers, size_t count, int decimals)
{
    static char text[MOST * (NUMBER_FIXED_BYTES(9) + 1)];
    ck_assert_uint_le(count, MOST);
    const struct number_rows *rows = rows_of(isa);
    const char *end =
        decimals < 0 ? rows->shortest(text, numbers, count) : rows->fixed(text, numbers, count, (unsigned)decimals);
    const char *at = text;
    for (size_t i = 0; i < count; i++) {
        char expected[EXPECTED_TEXT_BYTES + 1];
        if (decimals < 0)
            expected_shortest(numbers[i], expected);
        else
            expected_fixed(numbers[i], (unsigned)decimals, expected);
        strcat(expected, ",");
        const size_t length = strlen(expected);
        ck_assert_msg((size_t)(end - at) >= length && memcmp(at, expected, length) == 0,
                      "%s, decimals %d, number %zu of %zu, %a: %.*s, expected %s", isa_name((enum isa)isa), decimals, i,
                      count, (double)numbers[i], (int)(end - at < 20 ? end - at : 20), at, expected);
        at += length;
    }
    ck_assert_ptr_eq(at, end);
}

/* A row that is filled number by number and checked when it is full. */
struct filling {
    int isa, decimals;
    float numbers[MOST];
    size_t count;
};

static void flush(struct filling *row)
{
    check_row(row->isa, row->numbers, row->count, row->decimals);
    row->count = 0;
}

static void add(struct filling *row, float value)
{
    if (!isfinite(value))
        return;
    row->numbers[row->count++] = value;
    if (row->count == MOST)
        flush(row);
}

static void add_both(struct filling *row, float value)
{
    add(row, value);
    add(row, -value);
}

START_TEST(shortest_at_every_exponent)
{
    static const uint32_t fractions[] = {0,        1,        2,        3,        4,        0x3FFFFF, 0x400000,
                                         0x400001, 0x555555, 0x7FFFFB, 0x7FFFFC, 0x7FFFFD, 0x7FFFFE, 0x7FFFFF};
    struct filling row = {.isa = _i, .decimals = -1};
    for (uint32_t field = 0; field < 255; field++)
        for (size_t i = 0; i < sizeof fractions / sizeof *fractions; i++)
            add_both(&row, from_bits(field << 23 | fractions[i]));
    for (uint32_t bits = 0; bits < 5000; bits++)
        add(&row, from_bits(bits));
    for (uint32_t bit = 0; bit < 23; bit++)
        for (uint32_t beside = 0; beside < 3; beside++)
            add_both(&row, from_bits((UINT32_C(1) << bit) - 1 + beside));
    flush(&row);
}
END_TEST

START_TEST(shortest_beside_powers_of_ten)
{
    struct filling row = {.isa = _i, .decimals = -1};
    for (int power = -46; power <= 38; power++)
        for (int factor = 1; factor < 10; factor++) {
            char text[16];
            snprintf(text, sizeof text, "%de%d", factor, power);
            float up = strtof(text, NULL), down = up;
            for (int i = 0; i < 6; i++) {
                add_both(&row, up);
                add_both(&row, down);
                up = nextafterf(up, INFINITY);
                down = nextafterf(down, 0);
            }
        }
    flush(&row);
}
END_TEST

/* Any bits; decimals of few digits; whole numbers; weights of attention, many with an exponent; zeros and powers of two
 * between them, which the vectors leave to others. */
static float any_number(struct random *random)
{
    switch (random_below(random, 8)) {
    case 0:
        return (float)random_below(random, 100000) / 1e4f;
    case 1:
        return -(float)random_below(random, 1u << 31);
    case 2:
        return random_below(random, 2) ? 0.0f : -0.0f;
    case 3:
        return ldexpf(1, (int)random_below(random, 277) - 149);
    case 4:
    case 5:
        return expf(-(float)random_below(random, 90000) / 1000);
    default:
        return random_f32(random);
    }
}

START_TEST(shortest_of_random_numbers)
{
    struct random random = {11};
    struct filling row = {.isa = _i, .decimals = -1};
    for (int i = 0; i < 60000; i++)
        add(&row, i < 20000 ? random_f32(&random) : any_number(&random));
    flush(&row);
}
END_TEST

static float any_place(struct random *random)
{
    switch (random_below(random, 6)) {
    case 0: /* many ties */
        return ((float)random_below(random, 2000001) - 1000000) / 1024;
    case 1: /* at the end of four digits */
        return 9990.0f + (float)random_below(random, 16384) / 1024;
    case 2: /* next to a whole number or a place */
        return nextafterf((float)random_below(random, 12000) / 100, random_below(random, 2) ? 0 : 1e9f);
    case 3:
        return -ldexpf((float)(random_u64(random) >> 40), -(int)random_below(random, 64));
    case 4:
        return any_number(random);
    default:
        return (float)random_below(random, 1000000) / 1e5f;
    }
}

START_TEST(places_of_random_numbers)
{
    struct random random = {12};
    for (int decimals = 0; decimals <= 9; decimals++) {
        struct filling row = {.isa = _i, .decimals = decimals};
        for (int i = 0; i < 12000; i++)
            add(&row, any_place(&random));
        flush(&row);
    }
}
END_TEST

/* Rows as maps have them: no number is negative or large, in whole blocks or in all but one. */
START_TEST(places_of_weights)
{
    struct random random = {13};
    float numbers[192];
    for (int decimals = 0; decimals <= 9; decimals++)
        for (int round = 0; round < 60; round++) {
            for (int i = 0; i < 192; i++) {
                const float weight = (float)random_below(&random, 1u << 24) * 0x1p-24f;
                numbers[i] = i % 3 ? weight : (float)random_below(&random, 9216) / 1024;
            }
            check_row(_i, numbers, 192, decimals);
            static const float odd[] = {-0.25f, 9.5f, 12345.678f, 9.0f, 0.0f, 10.25f, 8.9999999f, 0.99999999f};
            numbers[random_below(&random, 192)] = odd[round % 8];
            check_row(_i, numbers, 192, decimals);
        }
}
END_TEST

/* Every length and place of the first number, at the end of what may be read and written: 16 bytes a number for the
 * shortest, no more than the text for fixed places. */
START_TEST(touches_nothing_beyond)
{
    struct random random = {14};
    struct guarded from, to;
    ck_assert(guarded_map(&from, 200 * sizeof(float)) && guarded_map(&to, 200 * (NUMBER_FIXED_BYTES(9) + 1)));
    for (size_t count = 0; count <= 150; count++)
        for (int round = 0; round < 24; round++) {
            float *numbers = (float *)(void *)from.end - count;
            const int decimals = round % 12 - 1;
            if (decimals > 9)
                continue;
            for (size_t i = 0; i < count; i++)
                numbers[i] = round < 12 ? (float)random_below(&random, 1u << 24) * 0x1p-24f
                                        : (decimals < 0 ? any_number(&random) : any_place(&random));
            size_t bytes = 16 * count;
            if (decimals >= 0) {
                bytes = 0;
                for (size_t i = 0; i < count; i++) {
                    char expected[EXPECTED_TEXT_BYTES];
                    expected_fixed(numbers[i], (unsigned)decimals, expected);
                    bytes += strlen(expected) + 1;
                }
            }
            char *text = to.end - bytes;
            memset(to.begin, '#', (size_t)(to.end - to.begin));
            const char *end = decimals < 0 ? rows_of(_i)->shortest(text, numbers, count)
                                           : rows_of(_i)->fixed(text, numbers, count, (unsigned)decimals);
            ck_assert(end <= to.end);
            ck_assert_int_eq(text[-1], '#');
            check_row(_i, numbers, count, decimals);
        }
}
END_TEST

START_TEST(where_it_begins_does_not_matter)
{
    struct random random = {15};
    float numbers[16 + 70];
    char texts[2][70 * 16 + 64];
    for (size_t count = 0; count <= 70; count++)
        for (size_t offset = 0; offset < 16; offset++) {
            for (size_t i = 0; i < count; i++)
                numbers[offset + i] = any_number(&random);
            check_row(_i, numbers + offset, count, -1);
            check_row(_i, numbers + offset, count, (int)offset % 10);
            const char *first = rows_of(_i)->shortest(texts[0], numbers + offset, count);
            const char *second = rows_of(_i)->shortest(texts[1] + offset, numbers + offset, count);
            ck_assert_int_eq(first - texts[0], second - (texts[1] + offset));
            ck_assert_mem_eq(texts[0], texts[1] + offset, (size_t)(first - texts[0]));
        }
}
END_TEST

START_TEST(the_longest_texts_fit)
{
    static const float longest[] = {-1.17549435e-38f, -1.37751935e-36f, -0.00012345678f, -123456790.0f, -9998.9999f};
    for (size_t i = 0; i < sizeof longest / sizeof *longest; i++) {
        float row[80];
        for (size_t j = 0; j < 80; j++)
            row[j] = longest[i];
        for (int decimals = -1; decimals <= 9; decimals++)
            check_row(_i, row, 80, decimals);
    }
}
END_TEST

START_TEST(extremes_see_every_place)
{
    float numbers[300];
    for (size_t count = 0; count <= 300; count += count < 70 ? 1 : 23) {
        for (size_t i = 0; i < count; i++)
            numbers[i] = 0.5f;
        ck_assert_uint_eq(rows_of(_i)->extremes(numbers, count).magnitude, count ? 0x3F000000u : 0);
        for (size_t i = 0; i < count; i++) {
            static const uint32_t kinds[] = {0x7F800000, 0xFF800000, 0x7FC00000, 0xFF800001, 0x7F7FFFFF, 0xFF7FFFFF};
            numbers[i] = from_bits(kinds[i % 6]);
            const struct number_extremes most = rows_of(_i)->extremes(numbers, count);
            ck_assert_uint_eq(most.bits, kinds[i % 6]);
            ck_assert_uint_eq(most.magnitude, kinds[i % 6] & 0x7FFFFFFF);
            numbers[i] = 0.5f;
        }
    }
}
END_TEST

Suite *suite(void)
{
    Suite *suite = suite_create("number_rows");
    TCase *cases = tcase_create("number_rows");
    tcase_set_timeout(cases, 60);
    tcase_add_loop_test(cases, shortest_at_every_exponent, 0, ISA_COUNT);
    tcase_add_loop_test(cases, shortest_beside_powers_of_ten, 0, ISA_COUNT);
    tcase_add_loop_test(cases, shortest_of_random_numbers, 0, ISA_COUNT);
    tcase_add_loop_test(cases, places_of_random_numbers, 0, ISA_COUNT);
    tcase_add_loop_test(cases, places_of_weights, 0, ISA_COUNT);
    tcase_add_loop_test(cases, touches_nothing_beyond, 0, ISA_COUNT);
    tcase_add_loop_test(cases, where_it_begins_does_not_matter, 0, ISA_COUNT);
    tcase_add_loop_test(cases, the_longest_texts_fit, 0, ISA_COUNT);
    tcase_add_loop_test(cases, extremes_see_every_place, 0, ISA_COUNT);
    suite_add_tcase(suite, cases);
    return suite;
}
