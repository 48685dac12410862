#include "engine/kernels/kernels.h"
#include "problem.h"
#include "suite.h"

#include <string.h>

START_TEST(generic_until_chosen)
{
    ck_assert_str_eq(engine_isa(), "generic");
}
END_TEST

START_TEST(best_supported_is_chosen)
{
    struct error error;
    ck_assert(engine_init(NULL, &error));
    size_t best = 0;
    while (!isa_supported((enum isa)best))
        best++;
    ck_assert_str_eq(engine_isa(), kernel_variants[best]->name);
}
END_TEST

START_TEST(every_supported_one_can_be_forced)
{
    for (size_t i = 0; i < KERNEL_VARIANT_COUNT; i++) {
        struct error error = {0};
        const bool chosen = engine_init(kernel_variants[i]->name, &error);
        ck_assert(chosen == isa_supported((enum isa)i));
        if (chosen)
            ck_assert_str_eq(engine_isa(), kernel_variants[i]->name);
        else
            ck_assert_int_eq(error.code, ERROR_CONFIGURATION);
    }
}
END_TEST

START_TEST(unknown_names_are_refused)
{
    const char *const names[] = {"avx512", "", "generic ", "GENERIC"};
    for (size_t i = 0; i < 4; i++) {
        struct error error = {0};
        ck_assert(engine_init("generic", &error));
        ck_assert(!engine_init(names[i], &error));
        ck_assert_int_eq(error.code, ERROR_CONFIGURATION);
        ck_assert_str_eq(engine_isa(), "generic");
        for (size_t k = 0; k < KERNEL_VARIANT_COUNT; k++)
            ck_assert_ptr_nonnull(strstr(error.message, kernel_variants[k]->name));
    }
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("engine/select");
    TCase *t = tcase_create("select");
    tcase_add_test(t, generic_until_chosen);
    tcase_add_test(t, best_supported_is_chosen);
    tcase_add_test(t, every_supported_one_can_be_forced);
    tcase_add_test(t, unknown_names_are_refused);
    suite_add_tcase(s, t);
    return s;
}
