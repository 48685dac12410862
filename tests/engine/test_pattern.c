/* Patterns against their definition, evaluated pair by pair. */

#include "engine/pattern.h"

#include "engine/philox.h"
#include "pattern_definition.h"
#include "suite.h"

#include <stdlib.h>
#include <string.h>

static struct pattern_reader *make_reader(const struct pattern_rule *rule, size_t layer, size_t n_keys)
{
    size_t bytes;
    ck_assert(pattern_reader_bytes(rule, n_keys, &bytes));
    ck_assert_uint_eq(bytes % 64, 0);
    char *memory = aligned_alloc(64, bytes); /* exactly: the sanitizer sees what is written behind it */
    ck_assert_ptr_nonnull(memory);
    struct pattern_reader *reader = pattern_reader_init(rule, layer, n_keys, memory);
    ck_assert_ptr_eq(reader, memory);
    return reader;
}

static void check_row(struct pattern_reader *reader, const struct pattern_rule *rule, size_t layer, size_t n_keys,
                      ptrdiff_t position)
{
    bool *expected = calloc(n_keys, sizeof *expected);
    pattern_definition(rule, layer, position, n_keys, expected);
    size_t count = SIZE_MAX;
    const struct key_run *runs = pattern_runs(reader, position, &count);
    bool *seen = calloc(n_keys, sizeof *seen);
    for (size_t r = 0; r < count; r++) {
        if (runs[r].begin >= runs[r].end || runs[r].end > n_keys || (r > 0 && runs[r - 1].end >= runs[r].begin))
            ck_abort_msg("kind %d: position %td: run %zu is not one", (int)rule->kind, position, r);
        for (size_t key = runs[r].begin; key < runs[r].end; key++)
            seen[key] = true;
    }
    for (size_t key = 0; key < n_keys; key++)
        if (seen[key] != expected[key])
            ck_abort_msg("kind %d: position %td, key %zu: %s", (int)rule->kind, position, key,
                         seen[key] ? "seen" : "not seen");
    free(seen);
    free(expected);
}

START_TEST(every_pattern_is_its_definition)
{
    struct random random = {(uint64_t)_i};
    for (int round = 0; round < 300; round++) {
        const size_t n_keys = random_size(&random, 1, round % 10 ? 40 : 200), layer = random_size(&random, 0, 5);
        struct pattern_rule rule = random_pattern(&random, (enum pattern_kind)_i, n_keys);
        uint32_t global[64];
        if (_i != PATTERN_TOP_K && random_chance(&random, 0.5))
            for (size_t g = 0; g < n_keys + 10 && rule.n_global < 64; g++)
                if (random_chance(&random, 0.1))
                    global[rule.n_global++] = (uint32_t)g;
        rule.global = global;
        struct pattern_reader *reader = make_reader(&rule, layer, n_keys);
        for (ptrdiff_t position = -(ptrdiff_t)n_keys - 3; position < (ptrdiff_t)n_keys + 20; position++)
            check_row(reader, &rule, layer, n_keys, position);
        for (int i = 0; i < 20; i++) /* in any order */
            check_row(reader, &rule, layer, n_keys, (ptrdiff_t)random_size(&random, 0, n_keys - 1));
        free(reader);
    }
}
END_TEST

START_TEST(many_blocks_are_drawn)
{
    /* Half of all blocks, nearly all of them, a few of very many. */
    const size_t n_blocks[] = {3000, 500, 100000}, random_blocks[] = {1500, 490, 9};
    for (size_t i = 0; i < 3; i++) {
        const struct pattern_rule rule = {.kind = PATTERN_BIGBIRD,
                                          .size = 2,
                                          .window_blocks = 3,
                                          .global_blocks = 1,
                                          .random_blocks = random_blocks[i],
                                          .seed = 9007199254740991};
        const size_t n_keys = 2 * n_blocks[i] - 1;
        struct pattern_reader *reader = make_reader(&rule, 3, n_keys);
        for (ptrdiff_t position = 1; position < (ptrdiff_t)n_keys; position += (ptrdiff_t)n_keys / 5)
            check_row(reader, &rule, 3, n_keys, position);
        free(reader);
    }
}
END_TEST

START_TEST(a_reader_takes_memory_for_what_it_draws_alone)
{
    const struct pattern_rule rule = {
        .kind = PATTERN_BIGBIRD, .size = 1, .window_blocks = 3, .global_blocks = 1, .random_blocks = 3};
    size_t bytes;
    ck_assert(pattern_reader_bytes(&rule, (size_t)1 << 31, &bytes));
    ck_assert_uint_lt(bytes, 1024);
}
END_TEST

/* Each row draws a few of a million blocks: were their list written out for each, it would not end. */
START_TEST(rows_of_very_many_blocks_are_cheap)
{
    const struct pattern_rule rule = {
        .kind = PATTERN_BIGBIRD, .size = 1, .window_blocks = 1, .random_blocks = 5, .seed = 1};
    const size_t n_keys = 1000000;
    struct pattern_reader *reader = make_reader(&rule, 0, n_keys);
    for (size_t position = 0; position < n_keys; position++) {
        size_t count, n_seen = 0;
        const struct key_run *runs = pattern_runs(reader, (ptrdiff_t)position, &count);
        for (size_t r = 0; r < count; r++)
            n_seen += runs[r].end - runs[r].begin;
        if (n_seen != 6)
            ck_abort_msg("position %zu sees %zu keys", position, n_seen);
    }
    free(reader);
}
END_TEST

START_TEST(only_positions_make_a_pattern_sparse)
{
    for (int kind = 0; kind < PATTERN_KIND_COUNT; kind++)
        ck_assert_int_eq(pattern_is_sparse(&(struct pattern_rule){.kind = (enum pattern_kind)kind}),
                         kind != PATTERN_FULL && kind != PATTERN_TOP_K);
}
END_TEST

/* The first is models.md's; all are the known answers of Random123 for philox4x32-10. */
START_TEST(philox_gives_its_known_answers)
{
    static const struct {
        uint32_t counter[4];
        uint64_t seed;
        uint32_t numbers[4];
    } answers[] = {
        {{0, 0, 0, 0}, 0, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
         0xffffffffffffffff,
         {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
         0x299f31d0a4093822,
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    for (size_t i = 0; i < 3; i++) {
        uint32_t numbers[4];
        philox(answers[i].counter, answers[i].seed, numbers);
        for (int lane = 0; lane < 4; lane++)
            ck_assert_uint_eq(numbers[lane], answers[i].numbers[lane]);
    }
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("engine/pattern");
    TCase *tests = tcase_create("pattern");
    tcase_add_loop_test(tests, every_pattern_is_its_definition, 0, PATTERN_KIND_COUNT);
    tcase_add_test(tests, many_blocks_are_drawn);
    tcase_add_test(tests, a_reader_takes_memory_for_what_it_draws_alone);
    tcase_add_test(tests, rows_of_very_many_blocks_are_cheap);
    tcase_add_test(tests, only_positions_make_a_pattern_sparse);
    tcase_add_test(tests, philox_gives_its_known_answers);
    suite_add_tcase(s, tests);
    return s;
}
