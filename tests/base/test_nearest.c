#include "base/nearest.h"
#include "suite.h"

static const char *const KNOWN[] = {"input", "query", "key", "value", "attention_mask", "causal", "server", "weights"};
#define COUNT (sizeof KNOWN / sizeof *KNOWN)

START_TEST(mistypings_find_what_was_meant)
{
    static const char *const pairs[][2] = {{"casual", "causal"},   {"attention_masks", "attention_mask"},
                                           {"servers", "server"},  {"inptu", "input"},
                                           {"weigths", "weights"}, {"kye", "key"}};
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        ck_assert_pstr_eq(nearest_name(pairs[i][0], KNOWN, COUNT), pairs[i][1]);
}
END_TEST

START_TEST(what_is_like_nothing_finds_nothing)
{
    static const char *const far[] = {"zzzzqqqq", "", "x",
                                      "a_very_long_name_that_goes_on_and_on_far_beyond_what_is_compared_of_it_at_all"};
    for (size_t i = 0; i < sizeof far / sizeof *far; i++)
        ck_assert_ptr_null(nearest_name(far[i], KNOWN, COUNT));
    ck_assert_ptr_null(nearest_name("input", KNOWN, 0));
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("nearest");
    TCase *c = tcase_create("nearest");
    tcase_add_test(c, mistypings_find_what_was_meant);
    tcase_add_test(c, what_is_like_nothing_finds_nothing);
    suite_add_tcase(s, c);
    return s;
}
