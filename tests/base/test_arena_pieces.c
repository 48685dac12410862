/* Lists of pieces: what they need is what they take. */
#include "base/arena_pieces.h"
#include "suite.h"

#include <stdint.h>

START_TEST(counted_and_taken)
{
    float *a = NULL;
    double *b = NULL;
    char *c = NULL;
    const struct arena_piece all[] = {
        {&a, {2, 3, 5, 1}, sizeof *a, true}, {&c, {9, 1, 1, 1}, 1, false}, {&b, {7, 1, 1, 1}, sizeof *b, true}};
    struct arena arena = {0};
    size_t bytes = 64, taken = 0;
    ck_assert(arena_pieces(all, 3, NULL, &bytes));
    ck_assert_uint_eq(bytes, 64 + 128 + 64); /* 120 and 56 bytes, each to a multiple of 64 */
    ck_assert_ptr_null(a);
    ck_assert(arena_reserve(&arena, 192));
    arena.capacity = 192;
    ck_assert(arena_pieces(all, 3, &arena, &taken));
    ck_assert_uint_eq(taken, 192);
    ck_assert_ptr_eq(a, arena.base);
    ck_assert_ptr_eq(b, arena.base + 128);
    ck_assert_ptr_null(c);
    ck_assert(!arena_pieces(all, 1, &arena, &taken)); /* nothing is left */
    arena_free(&arena);
}
END_TEST

START_TEST(sizes_that_overflow)
{
    char *piece = NULL;
    const struct arena_piece wide = {&piece, {SIZE_MAX, 2, 1, 1}, 1, true},
                             most = {&piece, {SIZE_MAX - 70, 1, 1, 1}, 1, true};
    size_t bytes = 0;
    ck_assert(!arena_pieces(&wide, 1, NULL, &bytes));
    ck_assert_uint_eq(bytes, 0);
    bytes = 1000;
    ck_assert(!arena_pieces(&most, 1, NULL, &bytes));
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("base/arena_pieces");
    TCase *c = tcase_create("arena_pieces");
    tcase_add_test(c, counted_and_taken);
    tcase_add_test(c, sizes_that_overflow);
    suite_add_tcase(s, c);
    return s;
}
