/* Tiles of maps against what they are made of, one pair of positions at a time; and what is wrong with words and
 * exclude. */
#include "analysis/head_maps.h"

#include "analysis/random_maps.h"
#include "codec/expect.h"

#include <string.h>

/* Prepared in memory of just the size that was asked for. */
static void prepare(struct head_maps *maps, struct arena *arena)
{
    struct error error;
    size_t bytes;
    ck_assert(head_maps_bytes(maps, &bytes));
    ck_assert(arena_reserve(arena, bytes));
    arena->capacity = bytes;
    ck_assert_msg(head_maps_prepare(maps, arena, &error), "%s", error.message);
}

static void *memory_of_reader(const struct forward_input *rule)
{
    size_t bytes;
    ck_assert(allowed_reader_bytes(rule, &bytes));
    return bytes ? aligned_alloc(ARENA_ALIGNMENT, bytes) : NULL;
}

static size_t position_of(const struct head_sequence *sequence, size_t row)
{
    return sequence->positions ? sequence->positions[row] : sequence->first_position + row;
}

/* Exclude of random keys in every other case; no words. */
START_TEST(random_tiles)
{
    size_t copied = 0, direct = 0, patterned = 0, excluded_rows = 0;
    for (uint64_t seed = 1; seed <= 400; seed++) {
        struct random random = {seed};
        uint8_t *mask;
        struct forward_input rule = random_rule(&random, 3, 9, &mask);
        uint32_t global[2];
        const struct attention_rules rules = {.pattern = random_sparse_pattern(&random, 9, global)};
        const bool posted = seed % 3 == 0, stray = seed % 5 == 0,
                   sparse = !posted && !stray && random_chance(&random, 0.7);
        if (sparse)
            rule.rules = &rules;
        const size_t heads = random_size(&random, 1, 3), keys = rule.key_length;
        float *weights = random_maps(&random, &rule, heads);
        const uint32_t drop[] = {(uint32_t)random_size(&random, 0, keys - 1),
                                 (uint32_t)random_size(&random, 0, keys - 1)},
                       end = 2;
        const struct position_lists exclude = {.n_lists = 1, .ends = &end, .positions = drop};
        const bool drops = seed % 2;
        struct head_maps maps = {.rule = &rule,
                                 .weights = weights,
                                 .num_heads = heads,
                                 .posted = posted,
                                 .stray = stray,
                                 .exclude = drops ? &exclude : NULL};
        struct arena arena = {0}, scratch = {0};
        size_t bytes, most, scored = 0;
        prepare(&maps, &arena);
        void *memory = memory_of_reader(&rule);
        struct allowed_reader reader = allowed_reader_init(&rule, memory);
        ck_assert(head_maps_tile_bytes(&maps, 4, &bytes) && head_maps_tile_bytes_most(&maps, 4, &most));
        ck_assert_uint_le(bytes, most);
        ck_assert(arena_reserve(&scratch, bytes + 1));
        for (size_t b = 0; b < rule.batch; b++) {
            const struct head_sequence *sequence = &maps.sequences[b];
            for (size_t row = 0; row < sequence->n_rows; row++) {
                const size_t head = random_size(&random, 0, heads - 1), i = position_of(sequence, row);
                const float *given = weights + ((b * heads + head) * rule.query_length + i) * keys;
                uint8_t allowed[9];
                struct head_tile tile;
                double left = 0;
                size_t n = 0;
                ck_assert(!rule.self_attention || rule.mask_kind != FORWARD_MASK_KEYS || rule.mask[b * keys + i]);
                for (size_t key = 0; key < sequence->n_keys; key++) {
                    const size_t j = rule.self_attention ? position_of(sequence, key) : key;
                    if (pair_allowed(&rule, b, i, j) && !(drops && (j == drop[0] || j == drop[1]))) {
                        left += (double)given[j];
                        n++;
                    }
                }
                ck_assert_uint_eq(head_maps_allowed(&maps, &reader, b, row, allowed), n);
                ck_assert_uint_eq(sequence->n_allowed[row], n);
                head_maps_tile(&maps, b, head, row, 1, scratch.base, &tile);
                ck_assert_uint_eq(tile.n_keys, sequence->n_keys);
                ck_assert_uint_eq(tile.n_allowed[0], n);
                for (size_t key = 0; key < tile.n_keys; key++) {
                    const size_t j = rule.self_attention ? position_of(sequence, key) : key;
                    const bool is = pair_allowed(&rule, b, i, j) && !(drops && (j == drop[0] || j == drop[1]));
                    const double wanted = !is ? 0 : drops ? (double)given[j] / left : (double)given[j];
                    ck_assert_int_eq(allowed[key], is);
                    ck_assert(fabs((double)tile.weights[key] - wanted) <= 1e-7 * wanted);
                }
                sequence->direct ? direct++ : copied++;
                patterned += sparse && sequence->n_rows > 1;
                scored += n > 0;
            }
        }
        ck_assert_uint_eq(maps.n_rows, scored);
        ck_assert_uint_eq(maps.n_rows + maps.n_excluded, rule.batch * rule.query_length);
        ck_assert(maps.aligned == (rule.self_attention || rule.causal));
        excluded_rows += maps.n_excluded;
        arena_free(&scratch);
        arena_free(&arena);
        free(memory);
        free(weights);
        free(mask);
    }
    ck_assert_uint_gt(patterned, 100);
    ck_assert_uint_gt(copied, 100);
    ck_assert_uint_gt(direct, 100);
    ck_assert_uint_gt(excluded_rows, 100);
}
END_TEST

/* What is stray is dropped, and each row divided by what is left. */
START_TEST(stray_and_rounded)
{
    const float weights[] = {0.98f, 0.03f, 0.5f, 0.49f};
    const struct forward_input rule = {
        .batch = 1, .query_length = 2, .key_length = 2, .self_attention = true, .causal = true};
    struct head_maps maps = {
        .rule = &rule, .weights = weights, .num_heads = 1, .posted = true, .stray = true, .renormalize = true};
    struct arena arena = {0};
    struct head_tile tile;
    size_t bytes;
    prepare(&maps, &arena);
    ck_assert(head_maps_tile_bytes(&maps, 2, &bytes));
    void *scratch = aligned_alloc(64, bytes);
    head_maps_tile(&maps, 0, 0, 0, 2, scratch, &tile);
    ck_assert(tile.weights[0] == 1 && tile.weights[1] == 0);
    ck_assert(fabsf(tile.weights[tile.stride] - 0.5f / 0.99f) < 1e-7f);
    ck_assert(tile.n_allowed[0] == 1 && tile.n_allowed[1] == 2);
    free(scratch);
    arena_free(&arena);
}
END_TEST

/* A head that has all of its weight on a key that is excluded has no row left, the other has. */
START_TEST(nothing_left_in_one_head)
{
    const float weights[] = {1, 0, 0.5f, 0.5f, 0.5f, 0.5f, 0.5f, 0.5f};
    const uint32_t end = 1, drop = 0;
    const struct position_lists exclude = {.n_lists = 1, .ends = &end, .positions = &drop};
    const struct forward_input rule = {.batch = 1, .query_length = 2, .key_length = 2, .self_attention = true};
    struct head_maps maps = {.rule = &rule, .weights = weights, .num_heads = 2, .posted = true, .exclude = &exclude};
    struct arena arena = {0};
    struct head_tile tile;
    size_t bytes;
    prepare(&maps, &arena);
    ck_assert(head_maps_tile_bytes(&maps, 2, &bytes));
    void *scratch = aligned_alloc(64, bytes);
    head_maps_tile(&maps, 0, 0, 0, 2, scratch, &tile);
    ck_assert(tile.n_allowed[0] == 0 && tile.n_allowed[1] == 1);
    ck_assert(tile.weights[1] == 0 && tile.weights[tile.stride + 1] == 1);
    head_maps_tile(&maps, 0, 1, 0, 2, scratch, &tile);
    ck_assert(tile.n_allowed[0] == 1 && tile.n_allowed[1] == 1);
    ck_assert_uint_eq(maps.n_rows, 2);
    free(scratch);
    arena_free(&arena);
}
END_TEST

/* What one list for all sequences leaves out of each is what it leaves out listed for each, whatever their padding. */
START_TEST(one_list_of_exclude_for_all)
{
    enum { BATCH = 3, KEYS = 5 };
    const uint8_t mask[BATCH * KEYS] = {1, 1, 1, 1, 1, 0, 1, 1, 1, 0, 1, 0, 1, 0, 1};
    const uint32_t once[] = {3}, each[] = {3, 6, 9}, drops[] = {4, 1, 4, 4, 1, 4, 4, 1, 4};
    const struct position_lists one = {.n_lists = 1, .ends = once, .positions = drops};
    const struct position_lists all = {.n_lists = BATCH, .nested = true, .ends = each, .positions = drops};
    const struct forward_input rule = {.batch = BATCH,
                                       .query_length = KEYS,
                                       .key_length = KEYS,
                                       .self_attention = true,
                                       .mask_kind = FORWARD_MASK_KEYS,
                                       .mask = mask};
    const uint8_t excluded[BATCH][KEYS] = {{0, 1, 0, 0, 1}, {1, 0, 0}, {0, 0, 1}};
    const size_t n_keys[BATCH] = {5, 3, 3};
    const float weights[BATCH * KEYS * KEYS] = {0};
    for (int i = 0; i < 2; i++) {
        struct head_maps maps = {.rule = &rule, .weights = weights, .num_heads = 1, .exclude = i ? &all : &one};
        struct arena arena = {0};
        prepare(&maps, &arena);
        for (size_t b = 0; b < BATCH; b++) {
            ck_assert_uint_eq(maps.sequences[b].n_keys, n_keys[b]);
            ck_assert_mem_eq(maps.sequences[b].excluded, excluded[b], n_keys[b]);
        }
        arena_free(&arena);
    }
}
END_TEST

static bool is_cancelled(void *context)
{
    size_t *asked = context;
    return ++*asked > 2;
}

/* Whoever makes maps ready looks whether they are wanted, in one long sequence as in many short ones. */
START_TEST(cancelled_while_made_ready)
{
    const struct forward_input rules[] = {
        {.batch = 1, .query_length = 3000, .key_length = 3000, .self_attention = true},
        {.batch = 300000, .query_length = 1, .key_length = 1, .self_attention = true},
    };
    for (size_t i = 0; i < 2; i++) {
        size_t asked = 0, bytes;
        const struct parallel watched = {.cancelled = is_cancelled, .context = &asked};
        struct head_maps maps = {.rule = &rules[i], .num_heads = 1, .watched = &watched};
        struct arena arena = {0};
        struct error error;
        ck_assert(head_maps_bytes(&maps, &bytes));
        ck_assert(arena_reserve(&arena, bytes));
        ck_assert(!head_maps_prepare(&maps, &arena, &error));
        ck_assert_int_eq(error.code, ERROR_CLIENT_GONE);
        ck_assert_uint_eq(asked, 3);
        ck_assert_uint_eq(arena.used, 0);
        arena_free(&arena);
    }
}
END_TEST

/* A list is not gone through for each sequence: that would take minutes here. */
START_TEST(long_exclude_for_many_sequences)
{
    enum { BATCH = 200000, LENGTH = 1000000 };
    uint32_t *positions = calloc(LENGTH, sizeof *positions);
    const uint32_t end = LENGTH;
    const struct position_lists exclude = {.n_lists = 1, .ends = &end, .positions = positions};
    const struct forward_input rule = {.batch = BATCH, .query_length = 1, .key_length = 1, .self_attention = true};
    float *weights = calloc(BATCH, sizeof *weights);
    struct head_maps maps = {.rule = &rule, .weights = weights, .num_heads = 1, .exclude = &exclude};
    struct arena arena = {0};
    prepare(&maps, &arena);
    ck_assert_uint_eq(maps.n_excluded, BATCH);
    free(weights);
    free(positions);
    arena_free(&arena);
}
END_TEST

/* Two sequences of three positions, of which the second has padding in its middle. */
static const struct {
    const char *what;
    uint32_t lists, list_ends[3], word_ends[4], positions[6];
    const char *pointer, *words;
} WRONG_WORDS[] = {
    {"one list for two", 1, {2}, {1, 3}, {0, 1, 2}, "/words", "1 2"},
    {"a position missing", 2, {1, 2}, {2, 4}, {0, 1, 0, 2}, "/words/0", "position 2"},
    {"a position twice", 2, {2, 3}, {1, 4, 6}, {0, 0, 1, 2, 0, 2}, "/words/0", "1 0"},
    {"out of order", 2, {2, 3}, {1, 3, 5}, {1, 0, 2, 0, 2}, "/words/0", "0 1"},
    {"a position too many", 2, {2, 3}, {3, 4, 6}, {0, 1, 2, 3, 0, 2}, "/words/0", "1 3"},
    {"a word of nothing", 2, {3, 4}, {2, 2, 3, 5}, {0, 1, 2, 0, 2}, "/words/0", "1"},
    {"padding in a word", 2, {1, 2}, {3, 6}, {0, 1, 2, 0, 1, 2}, "/words/1", "1 2"},
};

START_TEST(wrong_words)
{
    const uint8_t mask[] = {1, 1, 1, 1, 0, 1};
    const float weights[18] = {0};
    const struct forward_input rule = {.batch = 2,
                                       .query_length = 3,
                                       .key_length = 3,
                                       .self_attention = true,
                                       .mask_kind = FORWARD_MASK_KEYS,
                                       .mask = mask};
    const struct word_lists words = {.n_lists = WRONG_WORDS[_i].lists,
                                     .list_ends = WRONG_WORDS[_i].list_ends,
                                     .word_ends = WRONG_WORDS[_i].word_ends,
                                     .positions = WRONG_WORDS[_i].positions};
    struct head_maps maps = {.rule = &rule, .weights = weights, .num_heads = 1, .words = &words}, as_before = maps;
    struct arena arena = {0};
    struct error error;
    size_t bytes;
    ck_assert(head_maps_bytes(&maps, &bytes) && arena_reserve(&arena, bytes));
    ck_assert(!head_maps_prepare(&maps, &arena, &error));
    expect_error(&error, ERROR_INVALID, WRONG_WORDS[_i].pointer, WRONG_WORDS[_i].words, WRONG_WORDS[_i].what);
    ck_assert(memcmp(&maps, &as_before, sizeof maps) == 0);
    ck_assert_uint_eq(arena.used, 0);
    arena_free(&arena);
}
END_TEST

START_TEST(words_need_self_attention)
{
    const uint32_t list_end = 1, word_end = 1, position = 0;
    const float weights[2] = {0.5f, 0.5f};
    const struct word_lists words = {1, &list_end, &word_end, &position};
    const struct forward_input rule = {.batch = 1, .query_length = 1, .key_length = 2};
    struct head_maps maps = {.rule = &rule, .weights = weights, .num_heads = 1, .words = &words};
    struct arena arena = {0};
    struct error error;
    size_t bytes;
    ck_assert(head_maps_bytes(&maps, &bytes) && arena_reserve(&arena, bytes));
    ck_assert(!head_maps_prepare(&maps, &arena, &error));
    expect_error(&error, ERROR_INVALID, "/words", "self-attention", "cross attention");
    arena_free(&arena);
}
END_TEST

START_TEST(wrong_exclude)
{
    static const struct {
        uint32_t lists, nested, ends[3], positions[4];
        const char *pointer, *words;
    } wrong[] = {
        {1, 0, {2}, {0, 2}, "/exclude/1", "position 2 0"},
        {1, 1, {2}, {0, 1}, "/exclude", "1 2"},
        {3, 1, {1, 2, 3}, {0, 1, 0}, "/exclude", "3 2"},
        {2, 1, {2, 4}, {0, 1, 1, 7}, "/exclude/1/1", "7 1 2"},
    };
    const float weights[8] = {0};
    const struct forward_input rule = {.batch = 2, .query_length = 2, .key_length = 2, .self_attention = true};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        const struct position_lists exclude = {.n_lists = wrong[i].lists,
                                               .nested = wrong[i].nested,
                                               .ends = wrong[i].ends,
                                               .positions = wrong[i].positions};
        struct head_maps maps = {.rule = &rule, .weights = weights, .num_heads = 1, .exclude = &exclude};
        struct arena arena = {0};
        struct error error;
        size_t bytes;
        ck_assert(head_maps_bytes(&maps, &bytes) && arena_reserve(&arena, bytes));
        ck_assert(!head_maps_prepare(&maps, &arena, &error));
        expect_error(&error, ERROR_INVALID, wrong[i].pointer, wrong[i].words, wrong[i].pointer);
        arena_free(&arena);
    }
}
END_TEST

START_TEST(too_little_memory)
{
    const float weights[4] = {0.5f, 0.5f, 0.5f, 0.5f};
    const struct forward_input rule = {.batch = 1, .query_length = 2, .key_length = 2, .self_attention = true};
    struct head_maps maps = {.rule = &rule, .weights = weights, .num_heads = 1};
    struct arena arena = {0};
    struct error error;
    size_t bytes;
    ck_assert(head_maps_bytes(&maps, &bytes) && arena_reserve(&arena, bytes));
    for (arena.capacity = 0; arena.capacity < bytes; arena.capacity += ARENA_ALIGNMENT) {
        ck_assert(!head_maps_prepare(&maps, &arena, &error));
        ck_assert_int_eq(error.code, ERROR_OUT_OF_MEMORY);
        ck_assert_uint_eq(arena.used, 0);
    }
    ck_assert(head_maps_prepare(&maps, &arena, &error));
    arena_free(&arena);
    struct forward_input huge = rule;
    huge.batch = SIZE_MAX / 4;
    maps.rule = &huge;
    ck_assert(!head_maps_bytes(&maps, &bytes));
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("analysis/head_maps");
    TCase *t = tcase_create("head_maps");
    tcase_add_test(t, random_tiles);
    tcase_add_test(t, stray_and_rounded);
    tcase_add_test(t, nothing_left_in_one_head);
    tcase_add_test(t, one_list_of_exclude_for_all);
    tcase_add_test(t, cancelled_while_made_ready);
    tcase_add_test(t, long_exclude_for_many_sequences);
    tcase_add_loop_test(t, wrong_words, 0, sizeof WRONG_WORDS / sizeof *WRONG_WORDS);
    tcase_add_test(t, words_need_self_attention);
    tcase_add_test(t, wrong_exclude);
    tcase_add_test(t, too_little_memory);
    suite_add_tcase(s, t);
    return s;
}
