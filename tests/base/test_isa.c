#include "base/isa.h"

#include "suite.h"

#include <string.h>

START_TEST(generic_until_chosen)
{
    ck_assert_str_eq(isa_name(isa_chosen()), "generic");
}
END_TEST

START_TEST(the_best_that_is_supported_is_chosen)
{
    struct error error;
    ck_assert(isa_choose(NULL, &error));
    for (int isa = 0; isa < (int)isa_chosen(); isa++)
        ck_assert(!isa_supported((enum isa)isa));
    ck_assert(isa_supported(isa_chosen()));
}
END_TEST

START_TEST(every_supported_one_can_be_forced)
{
    const char *name = isa_name((enum isa)_i);
    struct error error = {0};
    const bool chosen = isa_choose(name, &error);
    ck_assert(chosen == isa_supported((enum isa)_i));
    if (chosen) {
        ck_assert_str_eq(isa_name(isa_chosen()), name);
        return;
    }
    ck_assert_int_eq(error.code, ERROR_CONFIGURATION);
    ck_assert_str_eq(isa_name(isa_chosen()), "generic");
}
END_TEST

START_TEST(unknown_names_are_refused)
{
    static const char *const names[] = {"avx512", "", "generic ", "GENERIC"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct error error = {0};
        ck_assert(!isa_choose(names[i], &error));
        ck_assert_int_eq(error.code, ERROR_CONFIGURATION);
        ck_assert_str_eq(isa_name(isa_chosen()), "generic");
        for (int isa = 0; isa < ISA_COUNT; isa++)
            ck_assert_ptr_nonnull(strstr(error.message, isa_name((enum isa)isa)));
    }
}
END_TEST

Suite *suite(void)
{
    Suite *suite = suite_create("isa");
    TCase *cases = tcase_create("isa");
    tcase_add_test(cases, generic_until_chosen);
    tcase_add_test(cases, the_best_that_is_supported_is_chosen);
    tcase_add_loop_test(cases, every_supported_one_can_be_forced, 0, ISA_COUNT);
    tcase_add_test(cases, unknown_names_are_refused);
    suite_add_tcase(suite, cases);
    return suite;
}
