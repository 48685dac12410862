/* Generations: who has entered keeps what was there, and what nobody uses any more is gone. */
#include "engine/attention.h"
#include "server/generation.h"
#include "suite.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static struct weights_config entry = {
    .name = (char *)"a", .source = WEIGHTS_IDENTITY, .required = true, .d_model = 8, .num_heads = 2};
static struct config config = {.weights = &entry, .weights_count = 1};
static struct memory_budget budget;
static struct generations generations;

static void set_up(void)
{
    struct error error;
    ck_assert(engine_init(NULL, &error));
    budget_init(&budget, 1 << 20);
}

/* A generation of one set, which the test holds too where `held` is not NULL. */
static struct generation *create(const struct generation *previous, struct weight_set **held)
{
    struct faults faults = {0}, warnings = {0};
    struct weights_registry registry;
    struct error error;
    struct settings *settings = settings_create(&config, NULL, &error);
    ck_assert_ptr_nonnull(settings);
    ck_assert(registry_load(&config, &registry, &faults, &warnings));
    if (held)
        *held = weight_set_hold(registry.sets[0]);
    struct generation *generation = generation_create(settings, &registry, previous);
    ck_assert_ptr_nonnull(generation);
    ck_assert_uint_eq(registry.count, 0);
    return generation;
}

/* Whether only the test holds it. */
static bool is_gone(struct weight_set *set)
{
    return atomic_load(&set->holders) == 1;
}

static void replace(struct weight_set **held, size_t charge)
{
    struct budget_share share = {0};
    struct error error;
    ck_assert(budget_take(&budget, &share, charge, &error));
    generations_replace(&generations, create(atomic_load(&generations.current), held), &share);
    ck_assert_uint_eq(share.bytes, 0);
}

START_TEST(it_goes_when_its_last_user_leaves)
{
    struct weight_set *first, *second, *third;
    unsigned early, late;
    generations_init(&generations, &budget, create(NULL, &first));
    const struct generation *seen = generations_enter(&generations, &early);
    ck_assert_ptr_eq(seen->registry.sets[0], first);

    replace(&second, 100);
    ck_assert(!is_gone(first));
    ck_assert_uint_eq(atomic_load(&budget.used), 100);
    ck_assert_ptr_eq(generations_enter(&generations, &late)->registry.sets[0], second);
    ck_assert_str_eq(seen->registry.sets[0]->name, "a");
    generations_leave(&generations, early);
    ck_assert(is_gone(first));
    ck_assert_uint_eq(atomic_load(&budget.used), 0);

    replace(&third, 7);
    ck_assert(!is_gone(second));
    generations_leave(&generations, late);
    ck_assert(is_gone(second));
    ck_assert(!is_gone(third));
    ck_assert_uint_eq(atomic_load(&budget.used), 0);

    generations_destroy(&generations);
    ck_assert(is_gone(third));
    weight_set_free(first);
    weight_set_free(second);
    weight_set_free(third);
}
END_TEST

/* Users who come one behind the other never leave it empty, and yet the old ones go. */
START_TEST(it_goes_under_unbroken_use)
{
    struct weight_set *sets[20];
    unsigned turns[2];
    generations_init(&generations, &budget, create(NULL, &sets[0]));
    generations_enter(&generations, &turns[0]);
    for (size_t i = 1; i < 20; i++) {
        replace(&sets[i], 0);
        for (size_t n = 0; n < 4; n++) { /* somebody is always inside */
            generations_enter(&generations, &turns[1]);
            generations_leave(&generations, turns[0]);
            turns[0] = turns[1];
        }
        ck_assert_msg(is_gone(sets[i - 1]), "generation %zu is still there", i - 1);
    }
    generations_leave(&generations, turns[0]);
    generations_destroy(&generations);
    for (size_t i = 0; i < 20; i++)
        weight_set_free(sets[i]);
}
END_TEST

START_TEST(counts_go_on_under_a_name)
{
    generations_init(&generations, &budget, create(NULL, NULL));
    struct usage *usage = atomic_load(&generations.current)->usage[0];
    replace(NULL, 0);
    ck_assert_ptr_eq(atomic_load(&generations.current)->usage[0], usage);
    entry.name = (char *)"b";
    replace(NULL, 0);
    ck_assert_ptr_ne(atomic_load(&generations.current)->usage[0], usage);
    entry.name = (char *)"a";
    generations_destroy(&generations);
}
END_TEST

static _Atomic bool stop;

static void *use(void *unused)
{
    size_t *rounds = calloc(1, sizeof *rounds);
    (void)unused;
    while (!atomic_load(&stop)) {
        unsigned turn;
        const struct generation *generation = generations_enter(&generations, &turn);
        if (strcmp(generation->registry.sets[0]->name, "a") != 0 || generation->config->weights_count != 1)
            abort();
        generations_leave(&generations, turn);
        *rounds += 1;
    }
    return rounds;
}

START_TEST(many_threads)
{
    pthread_t threads[3];
    generations_init(&generations, &budget, create(NULL, NULL));
    atomic_store(&stop, false);
    for (size_t i = 0; i < 3; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, use, NULL), 0);
    for (size_t i = 0; i < 300; i++)
        replace(NULL, 10);
    atomic_store(&stop, true);
    for (size_t i = 0; i < 3; i++) {
        void *rounds;
        pthread_join(threads[i], &rounds);
        free(rounds);
    }
    generations_destroy(&generations);
    ck_assert_uint_eq(atomic_load(&budget.used), 0);
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("generation");
    TCase *c = tcase_create("generation");
    tcase_add_checked_fixture(c, set_up, NULL);
    tcase_add_test(c, it_goes_when_its_last_user_leaves);
    tcase_add_test(c, it_goes_under_unbroken_use);
    tcase_add_test(c, counts_go_on_under_a_name);
    tcase_add_test(c, many_threads);
    suite_add_tcase(s, c);
    return s;
}
