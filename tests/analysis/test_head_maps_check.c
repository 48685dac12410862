/* What makes maps none, and which row is named of several. */
#include "analysis/head_maps_check.h"

#include "analysis/random_maps.h"
#include "codec/expect.h"
#include "engine/lanes.h"

#include <stdio.h>

/* [2, 2, 2, 2] of equal weights, into which a case puts some. */
#define BATCH 2
#define HEADS 2
#define ROWS  2

static const struct {
    const char *what;
    struct {
        size_t batch, head, row;
        float weights[2];
    } rows[2];
    bool rank2, causal, renormalize;
    uint8_t mask[4]; /* [B, T] with `padded` */
    bool padded;
    double tolerance;
    const char *pointer, *words; /* NULL: nothing is wrong */
    bool stray;
} CASES[] = {
    {.what = "right", .rows = {{0, 0, 0, {0.5f, 0.5f}}}},
    {.what = "within", .rows = {{1, 1, 1, {0.5f, 0.5009f}}}},
    {.what = "over",
     .rows = {{1, 1, 1, {0.5f, 0.5011f}}},
     .pointer = "/attention/1/1/1",
     .words = "1.0011 renormalize"},
    {.what = "under", .rows = {{0, 1, 0, {0.5f, 0.1f}}}, .pointer = "/attention/0/1/0", .words = "0.6 head row batch"},
    {.what = "the first is named",
     .rows = {{1, 0, 1, {0, 0.25f}}, {0, 1, 1, {0.125f, 0}}},
     .pointer = "/attention/0/1/1",
     .words = "0.125"},
    {.what = "negative", .rows = {{1, 0, 0, {1.5f, -0.5f}}}, .pointer = "/attention/1/0/0", .words = "-0.5"},
    {.what = "16 bits", .rows = {{0, 0, 0, {0.5f, 0.5035f}}}, .tolerance = HEAD_MAPS_TOLERANCE_16_BIT},
    {.what = "over for 16 bits",
     .rows = {{0, 0, 0, {0.5f, 0.5045f}}},
     .tolerance = HEAD_MAPS_TOLERANCE_16_BIT,
     .pointer = "/attention/0/0/0",
     .words = "1.0045 0.004 renormalize"},
    {.what = "renormalized",
     .rows = {{0, 0, 0, {0.5f, 0.46f}}},
     .renormalize = true,
     .tolerance = HEAD_MAPS_TOLERANCE_RENORMALIZE},
    {.what = "over for that",
     .rows = {{0, 0, 0, {0.5f, 0.44f}}},
     .renormalize = true,
     .tolerance = HEAD_MAPS_TOLERANCE_RENORMALIZE,
     .pointer = "/attention/0/0/0",
     .words = "0.94 0.05"},
    {.what = "zeros in both heads", .rows = {{0, 0, 1, {0, 0}}, {0, 1, 1, {0, 0}}}},
    {.what = "zeros in one head", .rows = {{1, 1, 0, {0, 0}}}, .pointer = "/attention/1/1/0", .words = "zeros"},
    {.what = "zeros in the first head", .rows = {{1, 0, 0, {0, 0}}}, .pointer = "/attention/1/1/0", .words = "zeros"},
    {.what = "causal",
     .rows = {{0, 0, 0, {0.99995f, 5e-5f}}, {0, 1, 0, {1, 0}}},
     .rank2 = true,
     .causal = true,
     .stray = true},
    {.what = "not causal",
     .rows = {{0, 0, 0, {0.998f, 2e-3f}}, {0, 1, 0, {1, 0}}},
     .rank2 = true,
     .causal = true,
     .pointer = "/attention/0/0",
     .words = "0.002 causal"},
    {.what = "padding holds anything",
     .rows = {{0, 0, 1, {7, -2}}, {0, 1, 1, {0, 0}}},
     .padded = true,
     .mask = {1, 0, 1, 1},
     .pointer = "/attention/0/0/0", /* half of its weight is on padding */
     .words = "0.5 attention_mask"},
};

START_TEST(cases)
{
    const bool rank2 = CASES[_i].rank2;
    const struct forward_input rule = {.batch = rank2 ? 1 : BATCH,
                                       .query_length = ROWS,
                                       .key_length = 2,
                                       .rank2 = rank2,
                                       .self_attention = true,
                                       .causal = CASES[_i].causal,
                                       .mask_kind = CASES[_i].padded ? FORWARD_MASK_KEYS : FORWARD_MASK_NONE,
                                       .mask = CASES[_i].mask};
    float weights[BATCH][HEADS][ROWS][2];
    struct head_maps maps = {.rule = &rule,
                             .weights = &weights[0][0][0][0],
                             .num_heads = HEADS,
                             .posted = true,
                             .renormalize = CASES[_i].renormalize};
    struct error error;
    for (size_t i = 0; i < BATCH * HEADS * ROWS * 2; i++)
        (&weights[0][0][0][0])[i] = 0.5f;
    for (size_t i = 0; i < 2; i++)
        for (size_t k = 0; k < 2; k++)
            weights[CASES[_i].rows[i].batch][CASES[_i].rows[i].head][CASES[_i].rows[i].row][k] =
                i > 0 && CASES[_i].rows[1].batch + CASES[_i].rows[1].head + CASES[_i].rows[1].row == 0
                    ? weights[0][0][0][k]
                    : CASES[_i].rows[i].weights[k];
    const double tolerance = CASES[_i].tolerance > 0 ? CASES[_i].tolerance : HEAD_MAPS_TOLERANCE;
    const bool right = head_maps_check(&maps, tolerance, &parallel_serial, &error);
    ck_assert_msg(right == !CASES[_i].pointer, "%s: %s", CASES[_i].what, right ? "nothing found" : error.message);
    if (!right)
        expect_error(&error, ERROR_INVALID, CASES[_i].pointer, CASES[_i].words, CASES[_i].what);
    else
        ck_assert_int_eq(maps.stray, CASES[_i].stray);
}
END_TEST

/* On many lanes, in any order, the first fault is the one that is named. */
START_TEST(first_of_many)
{
    const struct forward_input rule = {.batch = 20, .query_length = 40, .key_length = 40, .self_attention = true};
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct random random = {seed};
        struct lanes lanes;
        struct error error;
        char place[64];
        float *weights = random_maps(&random, &rule, 3);
        size_t first = SIZE_MAX;
        for (size_t i = 0; i < 30; i++) {
            const size_t row = random_size(&random, 300, 20 * 3 * 40 - 1);
            weights[row * 40] += 0.5f;
            first = row < first ? row : first;
        }
        struct head_maps maps = {.rule = &rule, .weights = weights, .num_heads = 3, .posted = true};
        lanes_init(&lanes, 4, seed);
        ck_assert(!head_maps_check(&maps, HEAD_MAPS_TOLERANCE, &lanes.parallel, &error));
        snprintf(place, sizeof place, "/attention/%zu/%zu/%zu", first / 120, first / 40 % 3, first % 40);
        ck_assert_str_eq(error.pointer, place);
        free(weights);
    }
}
END_TEST

START_TEST(computed_maps_are_finite)
{
    float weights[2][4] = {{0.5f, 0.5f, 1, 0}, {0.3f, 0.7f, 0.25f, 0.25f}}; /* their sums are not looked at */
    const struct forward_input rule = {.batch = 1, .query_length = 2, .key_length = 2, .self_attention = true};
    struct head_maps maps = {.rule = &rule, .weights = &weights[0][0], .num_heads = 2};
    struct error error;
    ck_assert(head_maps_check(&maps, 0, &parallel_serial, &error));
    weights[1][2] = NAN;
    ck_assert(!head_maps_check(&maps, 0, &parallel_serial, &error));
    expect_error(&error, ERROR_NOT_FINITE, NULL, "1 inputs", "NaN");
}
END_TEST

START_TEST(cancelled)
{
    const struct forward_input rule = {.batch = 50, .query_length = 60, .key_length = 60, .self_attention = true};
    struct random random = {1};
    struct lanes lanes;
    struct error error;
    float *weights = random_maps(&random, &rule, 3);
    struct head_maps maps = {.rule = &rule, .weights = weights, .num_heads = 3, .posted = true};
    lanes_init(&lanes, 3, 1);
    lanes.cancel_after = 0;
    ck_assert(!head_maps_check(&maps, HEAD_MAPS_TOLERANCE, &lanes.parallel, &error));
    ck_assert_int_eq(error.code, ERROR_CLIENT_GONE);
    free(weights);
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("analysis/head_maps_check");
    TCase *t = tcase_create("head_maps_check");
    tcase_add_loop_test(t, cases, 0, sizeof CASES / sizeof *CASES);
    tcase_add_test(t, first_of_many);
    tcase_add_test(t, computed_maps_are_finite);
    tcase_add_test(t, cancelled);
    suite_add_tcase(s, t);
    return s;
}
