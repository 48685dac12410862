/* src/runtime/spare_arenas.c: the arena used last comes first, large ones go after a minute. */
#include "suite.h"

#include "base/clock.h"
#include "runtime/spare_arenas.h"

static struct arena arena_of(size_t bytes)
{
    struct arena arena = {0};
    ck_assert(arena_reserve(&arena, bytes));
    ck_assert_ptr_nonnull(arena_take(&arena, 1));
    return arena;
}

START_TEST(last_used_comes_first_and_empty)
{
    struct spare_arenas spare;
    ck_assert(spare_arenas_init(&spare, 3));
    struct arena none = spare_arenas_take(&spare);
    ck_assert_ptr_null(none.base);
    struct arena a = arena_of(1000), b = arena_of(2000);
    spare_arenas_put(&spare, a, 1);
    spare_arenas_put(&spare, b, 2);
    struct arena top = spare_arenas_take(&spare), next = spare_arenas_take(&spare);
    ck_assert_ptr_eq(top.base, b.base);
    ck_assert_uint_eq(top.used, 0);
    ck_assert_ptr_eq(next.base, a.base);
    spare_arenas_put(&spare, top, 3);
    spare_arenas_put(&spare, next, 3);
    spare_arenas_free(&spare);
}
END_TEST

START_TEST(large_ones_expire_after_a_minute)
{
    const uint64_t minute = 60 * CLOCK_SECOND;
    const size_t large = ((size_t)8 << 20) + 1;
    struct spare_arenas spare;
    struct arena expired = {0};
    ck_assert(spare_arenas_init(&spare, 4));
    ck_assert_uint_eq(spare_arenas_due(&spare), CLOCK_NEVER);
    struct arena small = arena_of(4096), old = arena_of(large), border = arena_of((size_t)8 << 20),
                 young = arena_of(large);
    spare_arenas_put(&spare, small, 50);
    spare_arenas_put(&spare, old, 100);
    spare_arenas_put(&spare, border, 150);
    spare_arenas_put(&spare, young, 200);
    ck_assert_uint_eq(spare_arenas_due(&spare), 100 + minute);
    ck_assert(!spare_arenas_expire(&spare, 99 + minute, &expired));
    ck_assert(spare_arenas_expire(&spare, 100 + minute, &expired));
    ck_assert_ptr_eq(expired.base, old.base);
    arena_free(&expired);
    ck_assert_uint_eq(spare_arenas_due(&spare), 200 + minute);
    ck_assert(!spare_arenas_expire(&spare, 100 + minute, &expired));
    ck_assert(spare_arenas_expire(&spare, 500 + minute, &expired));
    ck_assert_ptr_eq(expired.base, young.base);
    arena_free(&expired);
    ck_assert_uint_eq(spare_arenas_due(&spare), CLOCK_NEVER);
    ck_assert(!spare_arenas_expire(&spare, CLOCK_NEVER, &expired));
    struct arena top = spare_arenas_take(&spare), next = spare_arenas_take(&spare);
    ck_assert_ptr_eq(top.base, border.base);
    ck_assert_ptr_eq(next.base, small.base);
    arena_free(&top);
    arena_free(&next);
    spare_arenas_free(&spare);
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("spare_arenas");
    TCase *t = tcase_create("spare_arenas");
    tcase_add_test(t, last_used_comes_first_and_empty);
    tcase_add_test(t, large_ones_expire_after_a_minute);
    suite_add_tcase(s, t);
    return s;
}
