#include "base/arena.h"
#include "suite.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

START_TEST(pieces_are_aligned_apart_and_writable)
{
    struct arena arena = {0};
    size_t sizes[] = {1, 63, 64, 65, 4096, 3 << 20}, total = 0;
    unsigned char *pieces[6];
    for (size_t i = 0; i < 6; i++)
        ck_assert(arena_need(&total, sizes[i]));
    ck_assert(arena_reserve(&arena, total));
    for (size_t i = 0; i < 6; i++) {
        pieces[i] = arena_take(&arena, sizes[i]);
        ck_assert_ptr_nonnull(pieces[i]);
        ck_assert_uint_eq((uintptr_t)pieces[i] % ARENA_ALIGNMENT, 0);
        memset(pieces[i], (int)i, sizes[i]);
    }
    for (size_t i = 0; i < 6; i++)
        ck_assert(pieces[i][0] == i && pieces[i][sizes[i] - 1] == i);
    arena_reset(&arena);
    ck_assert_ptr_eq(arena_take(&arena, 1), pieces[0]);
    arena_free(&arena);
}
END_TEST

START_TEST(more_than_was_reserved_is_refused)
{
    struct arena arena = {0};
    ck_assert_ptr_null(arena_take(&arena, 1));
    ck_assert(arena_reserve(&arena, 128));
    ck_assert_ptr_null(arena_take(&arena, 129));
    ck_assert_ptr_null(arena_take(&arena, SIZE_MAX));
    ck_assert_ptr_nonnull(arena_take(&arena, 128));
    ck_assert_ptr_null(arena_take(&arena, 1));
    arena_reset(&arena);
    ck_assert(!arena_reserve(&arena, SIZE_MAX));
    ck_assert_ptr_nonnull(arena_take(&arena, 128)); /* it is as it was */
    arena_free(&arena);
}
END_TEST

START_TEST(the_rest_is_one_piece_that_is_shortened)
{
    struct arena arena = {0};
    size_t bytes = 7;
    ck_assert_ptr_null(arena_take_rest(&arena, &bytes));
    ck_assert_uint_eq(bytes, 0);
    ck_assert(arena_reserve(&arena, 1024));
    char *first = arena_take(&arena, 100), *rest = arena_take_rest(&arena, &bytes);
    ck_assert_ptr_eq(rest, first + 128);
    ck_assert_uint_eq(bytes, 1024 - 128);
    ck_assert_uint_eq(arena_left(&arena), 0);
    memset(rest, 1, bytes);
    ck_assert_ptr_null(arena_take_rest(&arena, &bytes));
    arena_shorten(&arena, rest, 65);
    ck_assert_uint_eq(arena.used, 256);
    ck_assert_uint_eq(arena_left(&arena), 768);
    arena_shorten(&arena, rest, 129); /* a piece never grows */
    ck_assert_uint_eq(arena.used, 256);
    ck_assert_ptr_eq(arena_take(&arena, 1), first + 256);
    arena_rewind(&arena, 256);
    arena_shorten(&arena, rest, 0);
    ck_assert_uint_eq(arena.used, 128);
    ck_assert_ptr_eq(arena_take(&arena, 1), rest);
    arena_free(&arena);
}
END_TEST

START_TEST(needs_are_overflow_checked)
{
    size_t total = SIZE_MAX - 100;
    ck_assert(!arena_need(&total, 128));
    ck_assert(!arena_need(&total, SIZE_MAX));
}
END_TEST

START_TEST(touched_memory_is_there)
{
    static const size_t sizes[] = {100, 70000, 300001, 5000000};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        struct arena arena = {0};
        ck_assert(arena_reserve_touched(&arena, sizes[i], sizes[i]));
        size_t page = (size_t)sysconf(_SC_PAGESIZE), offset = (size_t)((uintptr_t)arena.base % page);
        size_t n_pages = (offset + arena.capacity + page - 1) / page;
        unsigned char *present = calloc(n_pages, 1);
        ck_assert_int_eq(mincore(arena.base - offset, offset + arena.capacity, present), 0);
        for (size_t p = 0; p < n_pages; p++)
            ck_assert(present[p] & 1);
        free(present);
        char *base = arena.base;
        ck_assert(arena_reserve_touched(&arena, sizes[i] / 2, sizes[i] / 2));
        ck_assert_ptr_eq(arena.base, base);
        ck_assert(!arena_reserve_touched(&arena, SIZE_MAX, SIZE_MAX));
        ck_assert_ptr_eq(arena.base, base);
        arena_free(&arena);
    }
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("arena");
    TCase *c = tcase_create("arena");
    tcase_add_test(c, pieces_are_aligned_apart_and_writable);
    tcase_add_test(c, more_than_was_reserved_is_refused);
    tcase_add_test(c, the_rest_is_one_piece_that_is_shortened);
    tcase_add_test(c, needs_are_overflow_checked);
    tcase_add_test(c, touched_memory_is_there);
    suite_add_tcase(s, c);
    return s;
}
