/* src/runtime/arena_store.c: the best fit, nothing allocated without need, what is not used goes. */
#include "suite.h"

#include "../fail_alloc.h"
#include "base/clock.h"
#include "runtime/arena_store.h"

#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define MIB ((size_t)1 << 20)

static struct arena_store *store;

static void set_up(void)
{
    struct error error;
    store = arena_store_create(SIZE_MAX, &error);
    ck_assert_ptr_nonnull(store);
}

static void tear_down(void)
{
    arena_store_free(store);
}

static struct arena take(size_t bytes)
{
    struct arena arena = {0};
    ck_assert(arena_store_take(store, bytes, &arena));
    ck_assert_uint_ge(arena.capacity, bytes);
    ck_assert_uint_eq(arena.used, 0);
    return arena;
}

/* Whether a take of that size is met by what is spare. */
static bool has(size_t bytes)
{
    struct arena arena = {0};
    fail_alloc_at(1);
    bool found = arena_store_take(store, bytes, &arena);
    fail_alloc_at(0);
    if (found)
        arena_store_put(store, &arena);
    return found;
}

START_TEST(put_resets_and_takes_over)
{
    struct arena arena = take(1000);
    char *base = arena.base;
    memset(arena_take(&arena, 1000), 1, 1000);
    arena_store_put(store, &arena);
    ck_assert_ptr_null(arena.base);
    ck_assert_uint_eq(arena.capacity, 0);
    ck_assert_uint_eq(arena.used, 0);
    arena = take(1000);
    ck_assert_ptr_eq(arena.base, base);
    arena_store_put(store, &arena);
    arena_store_put(store, &arena); /* one without memory */
}
END_TEST

START_TEST(nothing_is_no_memory)
{
    struct arena spare = take(100), arena = {.used = 1};
    arena_store_put(store, &spare);
    ck_assert(arena_store_take(store, 0, &arena));
    ck_assert_ptr_null(arena.base);
    ck_assert_uint_eq(arena.used, 0);
    ck_assert(has(64));
}
END_TEST

START_TEST(smallest_that_is_large_enough)
{
    static const size_t sizes[] = {4096, 65536, 1024, 16384};
    struct arena arenas[4];
    char *bases[4];
    for (size_t i = 0; i < 4; i++) {
        arenas[i] = take(sizes[i]);
        bases[i] = arenas[i].base;
    }
    for (size_t i = 0; i < 4; i++)
        arena_store_put(store, &arenas[i]);
    static const size_t wanted[] = {2000, 2000, 1024, 100}, found[] = {0, 3, 2, 1};
    for (size_t i = 0; i < 4; i++) {
        arenas[i] = take(wanted[i]);
        ck_assert_ptr_eq(arenas[i].base, bases[found[i]]);
    }
    for (size_t i = 0; i < 4; i++)
        arena_store_put(store, &arenas[i]);
}
END_TEST

START_TEST(largest_is_regrown)
{
    struct arena small = take(1024), large = take(65536), middle = take(4096);
    arena_store_put(store, &small);
    arena_store_put(store, &large);
    arena_store_put(store, &middle);
    struct arena grown = take(100000);
    ck_assert(has(4096));
    ck_assert(!has(4097)); /* that of 64 KiB is the one that grew */
    arena_store_put(store, &grown);
    ck_assert(has(100000));
}
END_TEST

START_TEST(new_ones_are_an_eighth_larger_at_most)
{
    for (size_t bytes = 1; bytes < MIB; bytes += bytes / 9 + 1) {
        struct arena arena = {0};
        struct error error;
        struct arena_store *fresh = arena_store_create(SIZE_MAX, &error);
        ck_assert(arena_store_take(fresh, bytes, &arena));
        ck_assert_uint_ge(arena.capacity, bytes);
        ck_assert_uint_le(arena.capacity, bytes + bytes / 8 + ARENA_ALIGNMENT);
        arena_store_put(fresh, &arena);
        arena_store_free(fresh);
    }
}
END_TEST

/* Against a search of all: what is certainly large enough is taken, and nothing that is larger without need. */
START_TEST(best_fit_among_many)
{
    enum { COUNT = 60 };
    struct arena arenas[COUNT];
    size_t capacities[COUNT];
    unsigned seed = 1;
    for (size_t i = 0; i < COUNT; i++) {
        arenas[i] = take((size_t)rand_r(&seed) % 3000 + 1 + ((size_t)rand_r(&seed) % 3 ? 0 : 40000));
        capacities[i] = arenas[i].capacity;
    }
    for (size_t i = 0; i < COUNT; i++)
        arena_store_put(store, &arenas[i]);
    for (size_t round = 0; round < COUNT / 2; round++) {
        size_t bytes = (size_t)rand_r(&seed) % 3000 + 1, enough = bytes + bytes / 8 + ARENA_ALIGNMENT, best = SIZE_MAX;
        for (size_t i = 0; i < COUNT; i++)
            if (capacities[i] >= enough && capacities[i] < best)
                best = capacities[i];
        ck_assert_uint_lt(best, SIZE_MAX);
        arenas[round] = take(bytes);
        size_t found = 0;
        while (found < COUNT && capacities[found] != arenas[round].capacity)
            found++;
        ck_assert_uint_lt(found, COUNT); /* it was spare, not made or regrown */
        ck_assert_uint_le(arenas[round].capacity, best + best / 8);
        capacities[found] = 0;
    }
    for (size_t i = 0; i < COUNT / 2; i++)
        arena_store_put(store, &arenas[i]);
}
END_TEST

/* It would hold memory that it did not ask for, as long as it lasts. */
START_TEST(large_ones_are_kept_from_small_requests)
{
    struct arena large = take(8 * MIB);
    char *base = large.base;
    arena_store_put(store, &large);
    struct arena small = take(100), middle = take(3 * MIB), half = take(5 * MIB);
    ck_assert_uint_lt(small.capacity, 1000);
    ck_assert_uint_le(middle.capacity, 4 * MIB);
    ck_assert_ptr_eq(half.base, base);
    arena_store_put(store, &small);
    arena_store_put(store, &middle);
    arena_store_put(store, &half);
}
END_TEST

/* Beside what is in use there may be only so much, whatever sizes come one after the other. */
START_TEST(spare_ones_are_bounded)
{
    struct error error;
    struct arena_store *bounded = arena_store_create(64 * MIB, &error);
    struct arena arenas[3];
    static const size_t sizes[] = {24 * MIB, 32 * MIB, 16 * MIB};
    for (size_t i = 0; i < 3; i++)
        ck_assert(arena_store_take(bounded, sizes[i], &arenas[i]));
    for (size_t i = 0; i < 3; i++)
        arena_store_put(bounded, &arenas[i]);
    fail_alloc_at(1);
    bool large = arena_store_take(bounded, sizes[1], &arenas[1]);
    fail_alloc_at(1);
    bool others = arena_store_take(bounded, sizes[0], &arenas[0]) && arena_store_take(bounded, sizes[2], &arenas[2]);
    fail_alloc_at(0);
    ck_assert(!large && others);
    arena_store_put(bounded, &arenas[0]);
    arena_store_put(bounded, &arenas[2]);
    struct arena larger = {0};
    ck_assert(arena_store_take(bounded, 80 * MIB, &larger));
    arena_store_put(bounded, &larger); /* larger than all that may be spare */
    fail_alloc_at(1);
    large = arena_store_take(bounded, 80 * MIB, &larger);
    fail_alloc_at(0);
    ck_assert(!large);
    arena_store_free(bounded);
}
END_TEST

START_TEST(memory_that_is_not_there)
{
    struct arena spare = take(1024), arena = {.used = 7};
    arena_store_put(store, &spare);
    fail_alloc_at(1);
    bool taken = arena_store_take(store, 5000, &arena);
    fail_alloc_at(0);
    ck_assert(!taken);
    ck_assert_uint_eq(arena.used, 7);
    ck_assert(has(1024)); /* nothing was lost */
    ck_assert(!arena_store_take(store, SIZE_MAX, &arena));
    ck_assert(!arena_store_take(store, SIZE_MAX / 2 + 1, &arena));
    ck_assert(has(1024));

    struct error error;
    fail_alloc_at(1);
    struct arena_store *none = arena_store_create(SIZE_MAX, &error);
    fail_alloc_at(0);
    ck_assert_ptr_null(none);
    ck_assert_int_eq(error.code, ERROR_OUT_OF_MEMORY);
    arena_store_free(NULL);
}
END_TEST

START_TEST(steady_state_allocates_nothing)
{
    static const size_t sizes[] = {3000, 200, 70000, 3000, 12000};
    bool taken = true;
    for (size_t round = 0; round < 200; round++) {
        struct arena held[5] = {0};
        if (round == 1)
            fail_alloc_at(1); /* no assertions from here on: check allocates too */
        for (size_t i = 0; i < 5; i++)
            taken = arena_store_take(store, sizes[(i + round) % 5], &held[i]) && taken;
        for (size_t i = 0; i < 5; i++)
            arena_store_put(store, &held[i * 3 % 5]);
    }
    bool allocated = fail_alloc_happened();
    fail_alloc_at(0);
    ck_assert(taken);
    ck_assert(!allocated);
}
END_TEST

START_TEST(large_ones_go_after_a_minute)
{
    const uint64_t minute = 60 * CLOCK_SECOND;
    ck_assert_uint_eq(arena_store_expire(store, CLOCK_NEVER - 1), CLOCK_NEVER);
    struct arena border = take(8 * MIB), large = take(8 * MIB + 1);
    uint64_t before = clock_coarse_ns();
    arena_store_put(store, &border);
    arena_store_put(store, &large);
    uint64_t after = clock_coarse_ns();
    uint64_t due = arena_store_expire(store, before + minute - 1);
    ck_assert_uint_ge(due, before + minute);
    ck_assert_uint_le(due, after + minute);
    ck_assert_uint_eq(arena_store_expire(store, due - 1), due);
    while (clock_coarse_ns() == after)
        ;
    ck_assert(has(8 * MIB + 1)); /* which makes it spare anew */
    uint64_t later = arena_store_expire(store, due - 1);
    ck_assert_uint_gt(later, due);
    ck_assert_uint_eq(arena_store_expire(store, later), CLOCK_NEVER);
    ck_assert(!has(8 * MIB + 1));
    ck_assert(has(8 * MIB));
}
END_TEST

START_TEST(many_small_ones_go_until_few_are_left)
{
    enum { COUNT = 20 };
    struct arena arenas[COUNT];
    for (size_t i = 0; i < COUNT; i++)
        arenas[i] = take(4 * MIB);
    for (size_t i = 0; i < COUNT; i++)
        arena_store_put(store, &arenas[i]);
    ck_assert_uint_lt(arena_store_expire(store, clock_ns()), CLOCK_NEVER);
    ck_assert_uint_eq(arena_store_expire(store, clock_ns() + 60 * CLOCK_SECOND), CLOCK_NEVER);
    fail_alloc_at(1);
    size_t left = 0;
    while (arena_store_take(store, 4 * MIB, &arenas[left]))
        left++;
    fail_alloc_at(0);
    ck_assert_uint_eq(left, 64 / 4);
    while (left)
        arena_store_put(store, &arenas[--left]);
}
END_TEST

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) /* they keep what is freed */
static long resident_mib(void)
{
    long pages = 0, resident = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    ck_assert_ptr_nonnull(file);
    ck_assert_int_eq(fscanf(file, "%ld %ld", &pages, &resident), 2);
    fclose(file);
    return resident * sysconf(_SC_PAGESIZE) / (long)MIB;
}

/* From the second round on, the C library takes memory of such sizes from its heap, where something always lies on top.
 */
START_TEST(what_expires_goes_back_to_the_system)
{
    static const size_t sizes[] = {12 * MIB, 20 * MIB, 31 * MIB};
    for (int round = 0; round < 4; round++) {
        struct arena arenas[3];
        void *on_top[3];
        long before = resident_mib();
        for (size_t i = 0; i < 3; i++) {
            arenas[i] = take(sizes[i]);
            memset(arenas[i].base, 1, arenas[i].capacity);
            on_top[i] = malloc(5000);
        }
        ck_assert_int_ge(resident_mib(), before + 60);
        for (size_t i = 0; i < 3; i++)
            arena_store_put(store, &arenas[i]);
        arena_store_expire(store, clock_ns() + 60 * CLOCK_SECOND);
        ck_assert_int_le(resident_mib(), before + 4);
        for (size_t i = 0; i < 3; i++)
            free(on_top[i]);
    }
}
END_TEST
#endif

static _Atomic unsigned n_shared;

static void *use_and_put(void *argument)
{
    const unsigned char mark = (unsigned char)(size_t)argument;
    for (size_t round = 0; round < 3000; round++) {
        struct arena arena = {0};
        size_t bytes = (round * 977 + mark * 131) % 9000 + 1;
        if (!arena_store_take(store, bytes, &arena))
            continue;
        unsigned char *piece = arena_take(&arena, bytes);
        memset(piece, mark, bytes);
        if (round % 16 == 0)
            arena_store_expire(store, round % 32 ? 0 : CLOCK_NEVER - 1);
        for (size_t i = 0; i < bytes; i++)
            if (piece[i] != mark)
                atomic_fetch_add(&n_shared, 1);
        arena_store_put(store, &arena);
    }
    return NULL;
}

START_TEST(threads_share_no_arena)
{
    pthread_t threads[4];
    for (size_t i = 0; i < 4; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, use_and_put, (void *)(i + 1)), 0);
    for (size_t i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    ck_assert_uint_eq(n_shared, 0);
}
END_TEST

#ifdef __GLIBC__
static bool is_resident(char *at)
{
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    unsigned char state = 0;
    ck_assert_int_eq(mincore((void *)((uintptr_t)at / page * page), page, &state), 0);
    return state & 1;
}

/* Much memory is left to those who use it: touching it takes long, and nobody could end that. */
START_TEST(much_is_not_touched_at_once)
{
    struct arena arena;
    mallopt(M_PERTURB, 0); /* malloc would fill what it gives */
    ck_assert(arena_store_take_touched(store, 512 * MIB, &arena));
    ck_assert(is_resident(arena.base + 63 * MIB));
    ck_assert(!is_resident(arena.base + 500 * MIB));
    arena_free(&arena);
}
END_TEST
#endif

Suite *suite(void)
{
    Suite *s = suite_create("arena_store");
    TCase *t = tcase_create("arena_store");
    tcase_add_checked_fixture(t, set_up, tear_down);
    tcase_add_test(t, put_resets_and_takes_over);
    tcase_add_test(t, nothing_is_no_memory);
    tcase_add_test(t, smallest_that_is_large_enough);
    tcase_add_test(t, largest_is_regrown);
    tcase_add_test(t, new_ones_are_an_eighth_larger_at_most);
    tcase_add_test(t, best_fit_among_many);
    tcase_add_test(t, large_ones_are_kept_from_small_requests);
    tcase_add_test(t, spare_ones_are_bounded);
    tcase_add_test(t, memory_that_is_not_there);
    tcase_add_test(t, steady_state_allocates_nothing);
    tcase_add_test(t, large_ones_go_after_a_minute);
    tcase_add_test(t, many_small_ones_go_until_few_are_left);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    tcase_add_test(t, what_expires_goes_back_to_the_system);
#endif
#ifdef __GLIBC__
    tcase_add_test(t, much_is_not_touched_at_once);
#endif
    tcase_add_test(t, threads_share_no_arena);
    suite_add_tcase(s, t);
    return s;
}
