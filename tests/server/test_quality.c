/* Weights and the cutting of lists. */
#include "server/quality.h"
#include "suite.h"

#include <string.h>

static const struct {
    const char *text;
    int weight; /* -1: none */
} WEIGHTS[] = {
    {"q=1", 1000},  {"q=0", 0},        {"q=1.", 1000},   {"q=0.", 0},     {"q=0.5", 500},   {"q=0.25", 250},
    {"q=0.001", 1}, {"q=1.000", 1000}, {"q=0.999", 999}, {"q=1.001", -1}, {"q=0.0001", -1}, {"q=1.1", -1},
    {"q=2", -1},    {"q=", -1},        {"q=.5", -1},     {"q=-0", -1},    {"q=0,5", -1},    {"q=0.5 ", -1},
    {"q=00.5", -1}, {"q=0x1", -1},     {"q=1e0", -1},    {"q=0.5a", -1},  {"q=10", -1},     {"q=nan", -1},
    {"Q=0.5", 500}, {"q", -1},         {"", -1},         {"q =1", -1},    {"q= 1", -1},     {"x=1", -1},
    {"1", -1},      {"qq=1", -1},
};

START_TEST(weights)
{
    const char *text = WEIGHTS[_i].text;
    const struct header_part part = {text, text + strlen(text)};
    short weight = -1;
    ck_assert_msg(quality_read(&part, &weight) == (WEIGHTS[_i].weight >= 0), "\"%s\"", text);
    ck_assert_int_eq(weight, WEIGHTS[_i].weight);
}
END_TEST

/* The parts between commas, each with a bar behind. */
static const struct {
    const char *text, *parts;
} LISTS[] = {
    {"", ""},
    {"a", "a|"},
    {"a,b", "a|b|"},
    {" a , b\t", "a|b|"},
    {",a,,b,", "|a||b|"},
    {"a b", "a b|"},
    {"\"a,b\",c", "\"a,b\"|c|"},
    {"\"a\\\",b\",c", "\"a\\\",b\"|c|"},
    {"\"a,b", "\"a,b|"},
    {"\"a\\", "\"a\\|"},
};

START_TEST(lists)
{
    const char *text = LISTS[_i].text;
    struct header_part rest = {text, text + strlen(text)}, part;
    char found[64] = "";
    while (header_next_part(&rest, ',', &part)) {
        strncat(found, part.begin, (size_t)(part.end - part.begin));
        strcat(found, "|");
    }
    ck_assert_str_eq(found, LISTS[_i].parts);
}
END_TEST

START_TEST(parts_are_compared_whole)
{
    const char text[] = "Gzip";
    const struct header_part part = {text, text + 4}, shorter = {text, text + 3};
    ck_assert(header_part_is(&part, "gzip") && header_part_is(&part, "GZIP"));
    ck_assert(!header_part_is(&part, "gzi") && !header_part_is(&part, "gzipp") && !header_part_is(&shorter, "gzip"));
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("quality");
    TCase *c = tcase_create("quality");
    tcase_add_loop_test(c, weights, 0, sizeof WEIGHTS / sizeof *WEIGHTS);
    tcase_add_loop_test(c, lists, 0, sizeof LISTS / sizeof *LISTS);
    tcase_add_test(c, parts_are_compared_whole);
    suite_add_tcase(s, c);
    return s;
}
