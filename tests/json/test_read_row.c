/* Rows of numbers in every instruction set that has a reader of them, against strtof and a walk through the text. */
#include "base/isa.h"
#include "guarded.h"
#include "random_numbers.h"
#include "suite.h"
#include "json/number.h"
#include "json/read_row/read_row.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Bytes that do not matter, before and behind what is read. */
#define BEFORE "{\"input\": \"0123456789.0123456789-0123\", \"rows\": ["
#define BEHIND "]                                                                                                 }"

/* The reader of instruction set `isa`, or NULL: there is none, or it cannot run here. */
static read_row_function *reader(int isa)
{
    return isa_supported((enum isa)isa) ? read_row_of((enum isa)isa) : NULL;
}

static struct guarded guarded;

static void map_guarded(void)
{
    ck_assert(guarded_map(&guarded, (size_t)256 << 10));
}

static char *at_the_end(const char *text, size_t length)
{
    ck_assert_uint_le(length, (size_t)(guarded.end - guarded.begin));
    return memcpy(guarded.end - length, text, length);
}

static bool same_bits(float a, float b)
{
    return memcmp(&a, &b, sizeof a) == 0;
}

static const char *pass_space(const char *at)
{
    return at + strspn(at, " \n\r\t");
}

/* Reads the row at text + begin as the caller of a reader does, and each number by strtof too. `text` ends with a NUL
 * that is not part of it. Returns how many numbers of it the reader read; *total: of how many. */
static size_t check_row(read_row_function *read_row, const char *text, size_t begin, size_t *total)
{
    size_t length = strlen(text), by_reader = 0;
    char *exact = at_the_end(text, length);
    const char *at = exact + begin, *end = exact + length;
    float floats[64];
    *total = 0;
    for (;;) {
        const char *same = text + (at - exact);
        size_t count = read_row(&at, exact, end, floats, 64);
        by_reader += count;
        *total += count;
        for (size_t i = 0; i < count; i++) {
            char *behind;
            float expected = strtof(same, &behind);
            ck_assert_msg(behind > same && same_bits(floats[i], expected), "%.40s: %a, not %a", same, (double)floats[i],
                          (double)expected);
            same = behind;
            if (i + 1 < count) {
                same = pass_space(same);
                ck_assert_msg(*same == ',', "%.40s: read on", same);
                same = pass_space(same + 1);
            }
        }
        ck_assert_msg(same - text == at - exact, "%.40s: stopped %td bytes from where it should", same,
                      (at - exact) - (same - text));
        if (count == 0) {
            char *behind;
            strtof(same, &behind);
            ck_assert(behind > same);
            at += behind - same;
            ++*total;
        }
        same = pass_space(text + (at - exact));
        if (*same != ',')
            return by_reader;
        at = exact + (pass_space(same + 1) - text);
    }
}

static const char *const SEPARATORS[] = {
    ",", ", ", " , ", ",\n        ", "\t,\r\n", ",\n                       ", " \n,", ",          ", ",  "};

START_TEST(reads_random_decimals)
{
    read_row_function *read_row = reader(_i);
    if (!read_row)
        return;
    struct random random = {11};
    static char text[200 * (RANDOM_DECIMAL_BYTES + 32)];
    size_t by_reader = 0, all = 0;
    for (int row = 0; row < 1500; row++) {
        const char *separator = SEPARATORS[random_below(&random, sizeof SEPARATORS / sizeof *SEPARATORS)];
        size_t length = (size_t)sprintf(text, BEFORE), count = 1 + random_below(&random, 150), total;
        for (size_t i = 0; i < count;) {
            char number[RANDOM_DECIMAL_BYTES];
            random_decimal(&random, number);
            if (isinf(strtof(number, NULL)))
                continue;
            length += (size_t)sprintf(text + length, "%s%s", i++ ? separator : "", number);
        }
        strcpy(text + length, BEHIND);
        by_reader += check_row(read_row, text, sizeof BEFORE - 1, &total);
        ck_assert_uint_eq(total, count);
        all += total;
    }
    ck_assert_uint_gt(by_reader, all / 10);
}
END_TEST

static const char *const FORMATS[] = {"%.9g", "%.17g", "%.6f", "%.3f", "%.0f", "%.8e", "%.1e", "%.16e", "%.19f", "%E"};

START_TEST(reads_usual_forms_itself)
{
    read_row_function *read_row = reader(_i);
    if (!read_row)
        return;
    struct random random = {12};
    static char text[1 << 16];
    for (size_t format = 0; format < sizeof FORMATS / sizeof *FORMATS; format++)
        for (size_t form = 0; form < sizeof SEPARATORS / sizeof *SEPARATORS; form++) {
            size_t length = (size_t)sprintf(text, BEFORE), total;
            for (int i = 0; i < 500; i++) {
                double value = ldexp((double)(int64_t)random_u64(&random), -63 - (int)random_below(&random, 12));
                length += (size_t)sprintf(text + length, "%s", i ? SEPARATORS[form] : "");
                length += (size_t)sprintf(text + length, FORMATS[format], value);
            }
            strcpy(text + length, BEHIND);
            /* It leaves those beside which a window ends in a long separator, and the last of each. */
            ck_assert_uint_gt(check_row(read_row, text, sizeof BEFORE - 1, &total), 450);
            ck_assert_uint_eq(total, 500);
        }
}
END_TEST

/* Every length of each part, at every place in a word of the map. */
START_TEST(reads_every_length)
{
    read_row_function *read_row = reader(_i);
    if (!read_row)
        return;
    const char digits[] = "9182736455463728190123456789987654321000",
               exponents[][6] = {"", "e5", "e-07", "E+12", "e-123"};
    static char text[4096];
    size_t by_reader = 0, all = 0, total;
    for (int whole = 1; whole <= 36; whole++)
        for (int fraction = 0; fraction <= 36; fraction++)
            for (int exponent = 0; exponent < 5; exponent++) {
                size_t length = (size_t)sprintf(text, BEFORE);
                for (int i = 0; i < 11; i++) {
                    length += (size_t)sprintf(text + length, "%s%s%.*s", i ? ", " : "", i % 3 ? "" : "-", whole,
                                              i % 2 && whole == 1 ? "0" : digits);
                    if (fraction)
                        length += (size_t)sprintf(text + length, ".%.*s", fraction, digits + i % 3);
                    length += (size_t)sprintf(text + length, "%s%.*s", exponents[exponent], i, "          ");
                }
                if (isinf(strtof(text + sizeof BEFORE - 1, NULL)))
                    continue;
                strcpy(text + length, BEHIND);
                by_reader += check_row(read_row, text, sizeof BEFORE - 1, &total);
                ck_assert_uint_eq(total, 11);
                all += total;
            }
    ck_assert_uint_gt(by_reader, all / 10);
}
END_TEST

/* Halfway points, and what a rounding in double before that to float gets wrong. */
START_TEST(rounds_once)
{
    read_row_function *read_row = reader(_i);
    if (!read_row)
        return;
    struct random random = {13};
    static char text[1 << 14];
    size_t total;
    for (int row = 0; row < 300; row++) {
        size_t length = (size_t)sprintf(text, BEFORE);
        for (int i = 0; i < 100; i++) {
            float lower =
                ldexpf(1 + (float)random_below(&random, 1 << 23) * 0x1p-23f, (int)random_below(&random, 40) - 10);
            double half = ((double)lower + (double)nextafterf(lower, INFINITY)) / 2;
            half = i % 3 == 0 ? half : nextafter(half, i % 3 == 1 ? 0 : INFINITY);
            length += (size_t)sprintf(text + length, "%s%.*g", i ? "," : "", 16 + i % 4, half);
        }
        strcpy(text + length, BEHIND);
        ck_assert_uint_gt(check_row(read_row, text, sizeof BEFORE - 1, &total), 30);
        ck_assert_uint_eq(total, 100);
    }
}
END_TEST

/* What is not JSON is neither read nor passed, and the number before it is the last. */
START_TEST(stops_before_what_is_wrong)
{
    static const char *const wrong[] = {",01",
                                        ",-01",
                                        ",00.5",
                                        ",-",
                                        ",--1",
                                        ",+1",
                                        ",.5",
                                        ",-.5",
                                        ",1.",
                                        ",-1.",
                                        ",1.e5",
                                        ",1e",
                                        ",1e+",
                                        ",1e-",
                                        ",1E+-1",
                                        ",1e--1",
                                        ",1.5e",
                                        ",1/2",
                                        ",/1",
                                        ",1-2",
                                        ",1..2",
                                        ",1.2.3",
                                        ",..",
                                        ",NaN",
                                        ",true",
                                        ",null",
                                        ",\"1\"",
                                        ",[1]",
                                        ",]",
                                        ",",
                                        ",,1",
                                        ";1",
                                        " 1",
                                        ",\v1",
                                        ",\f 1",
                                        ",\x01 1",
                                        ", \x1F"
                                        "1",
                                        ",\xA0"
                                        "1",
                                        ", \x80"
                                        "1",
                                        ",1\x01",
                                        ",1e5e5",
                                        ",1e5.5",
                                        ",1e+5-",
                                        ",1x",
                                        ",0x1",
                                        ",1e 5",
                                        ", ,1",
                                        ",- 1",
                                        ",1e39",
                                        ",-1e99",
                                        ",1e5/",
                                        ",-/",
                                        ",1.-5",
                                        ",1./5",
                                        ",1e/5",
                                        ",e5",
                                        ",-e5"};
    read_row_function *read_row = reader(_i);
    if (!read_row)
        return;
    char text[2048];
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        for (int before = 0; before < 70; before++) {
            size_t length = (size_t)sprintf(text, BEFORE), last;
            for (int j = 0; j <= before; j++)
                length += (size_t)sprintf(text + length, "%s%d.%d", j ? "," : "", j, 7 * j);
            last = length;
            length += (size_t)snprintf(text + length, sizeof text - length, "%s,5.5,6.5,7.5%s", wrong[i], BEHIND);
            char *exact = at_the_end(text, length);
            const char *at = exact + sizeof BEFORE - 1;
            float floats[128];
            size_t count = read_row(&at, exact, exact + length, floats, 128);
            /* Where a number that is right begins the wrong text, that is read. */
            const char *element = pass_space(text + last), *behind = text + last;
            if (*element == ',') {
                float value;
                element = pass_space(element + 1);
                if (number_read_f32(&element, text + length, &value) == NUMBER_OK)
                    behind = element;
            }
            ck_assert_msg(count == (size_t)before + 1 || (count == (size_t)before + 2 && behind > text + last),
                          "%s: %zu of %d", wrong[i], count, before + 1);
            ck_assert_msg(at - exact == (count == (size_t)before + 1 ? (ptrdiff_t)last : behind - text), "%s",
                          wrong[i]);
        }
}
END_TEST

START_TEST(writes_no_more_than_there_is_room_for)
{
    read_row_function *read_row = reader(_i);
    if (!read_row)
        return;
    char text[1024] = BEFORE;
    for (int i = 0; i < 100; i++)
        strcat(text, i ? ",1.5" : "1.5");
    strcat(text, BEHIND);
    for (size_t room = 0; room <= 100; room++) {
        const char *at = text + sizeof BEFORE - 1;
        float floats[101];
        memset(floats, 0, sizeof floats);
        ck_assert_uint_eq(read_row(&at, text, text + strlen(text), floats, room), room);
        for (size_t i = 0; i <= 100; i++)
            ck_assert_float_eq(floats[i], i < room ? 1.5f : 0);
        ck_assert_uint_eq((size_t)(at - text), sizeof BEFORE - 1 + (room ? 4 * room - 1 : 0));
    }
}
END_TEST

/* Texts that end anywhere, where what may be read ends too. */
START_TEST(reads_nothing_behind_the_end)
{
    static const char *const elements[] = {"1",
                                           "-1.5",
                                           "12345678901234567890123456789012",
                                           "-0.00000000000000123456789012345",
                                           "1.00000000000000123456789012345e-30",
                                           "0.123456789012345678",
                                           "123456789e+1"};
    static const char *const spaces[] = {"", " ", "          ", "                               ",
                                         "                                          "};
    read_row_function *read_row = reader(_i);
    if (!read_row)
        return;
    char text[4096];
    size_t read = 0;
    for (size_t before = 0; before < 5; before++)
        for (size_t behind = 0; behind < 5; behind++) {
            size_t whole = (size_t)sprintf(text, BEFORE), begin = whole;
            for (int i = 0; i < 12; i++)
                whole += (size_t)sprintf(text + whole, "%s%s,%s", elements[i % 7], spaces[before], spaces[behind]);
            for (size_t length = begin; length <= whole; length++) {
                char *exact = at_the_end(text, length);
                const char *at = exact + begin;
                float floats[16];
                size_t count = read_row(&at, exact, exact + length, floats, 16);
                ck_assert(count <= 12 && at >= exact + begin && at <= exact + length);
                read += count;
                /* And texts that begin anywhere. */
                if (length - begin < 40) {
                    at = exact = memcpy(guarded.begin, text + begin, whole - begin);
                    at += length - begin;
                    read_row(&at, exact, exact + whole - begin, floats, 16);
                }
            }
        }
    ck_assert_uint_gt(read, 1000);
}
END_TEST

Suite *suite(void)
{
    Suite *suite = suite_create("read_row");
    TCase *cases = tcase_create("read_row");
    tcase_set_timeout(cases, 60);
    tcase_add_checked_fixture(cases, map_guarded, NULL);
    tcase_add_loop_test(cases, reads_random_decimals, 0, ISA_COUNT);
    tcase_add_loop_test(cases, reads_usual_forms_itself, 0, ISA_COUNT);
    tcase_add_loop_test(cases, reads_every_length, 0, ISA_COUNT);
    tcase_add_loop_test(cases, rounds_once, 0, ISA_COUNT);
    tcase_add_loop_test(cases, stops_before_what_is_wrong, 0, ISA_COUNT);
    tcase_add_loop_test(cases, reads_nothing_behind_the_end, 0, ISA_COUNT);
    tcase_add_loop_test(cases, writes_no_more_than_there_is_room_for, 0, ISA_COUNT);
    suite_add_tcase(suite, cases);
    return suite;
}
