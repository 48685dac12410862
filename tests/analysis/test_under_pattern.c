/* A pattern says which keys are allowed as a mask of pairs would: everything that is said of heads has the same bits
 * under either. The mask is made pair by pair, from the patterns' definitions. */
#include "analysis/head_similarity.h"
#include "analysis/head_statistics.h"
#include "analysis/live_facts.h"
#include "analysis/random_maps.h"
#include "engine/lanes.h"

#include <string.h>

enum { LENGTH = 40, HEADS = 3 };

/* The same maps under a pattern, and under the mask that it stands for. */
struct scene {
    struct forward_input sparse, masked;
    struct attention_rules rules;
    uint32_t global[2];
    uint8_t *given, *mask;
    float *weights; /* [B, HEADS, Tq, Tk] */
};

/* No padding: its keys have other numbers. */
static void make_scene(struct scene *s, struct random *random)
{
    s->rules = (struct attention_rules){.pattern = random_sparse_pattern(random, LENGTH / 2, s->global)};
    s->sparse = random_rule(random, 3, LENGTH, &s->given);
    if (s->sparse.self_attention && s->sparse.mask_kind == FORWARD_MASK_KEYS)
        s->sparse.mask_kind = FORWARD_MASK_NONE;
    s->sparse.rules = &s->rules;
    s->masked = s->sparse;
    s->masked.rules = NULL;
    s->masked.mask_kind = FORWARD_MASK_PAIRS;
    uint8_t *at = s->mask = malloc(s->sparse.batch * s->sparse.query_length * s->sparse.key_length);
    for (size_t b = 0; b < s->sparse.batch; b++)
        for (size_t i = 0; i < s->sparse.query_length; i++)
            for (size_t j = 0; j < s->sparse.key_length; j++)
                *at++ = pair_allowed(&s->sparse, b, i, j);
    s->masked.mask = s->mask;
    s->weights = random_maps(random, &s->sparse, HEADS);
}

static void free_scene(struct scene *s)
{
    free(s->given);
    free(s->mask);
    free(s->weights);
}

/* ---- statistics */

static struct head_statistics measure(const struct forward_input *rule, const struct scene *s,
                                      const struct position_lists *exclude)
{
    struct head_maps maps = {.rule = rule, .weights = s->weights, .num_heads = HEADS, .exclude = exclude};
    const size_t positions = HEADS * rule->batch * rule->query_length;
    struct head_statistics found = {.means = calloc(HEADS * HEAD_STATISTIC_COUNT, sizeof *found.means),
                                    .peaks = calloc(HEADS, sizeof *found.peaks),
                                    .entropy_per_position = malloc(positions * sizeof(float)),
                                    .distance_per_position = malloc(positions * sizeof(float))};
    struct arena arena = {0};
    struct error error;
    size_t bytes;
    ck_assert(head_statistics_scratch_bytes(&maps, HEADS, 1, &bytes) && arena_reserve(&arena, bytes));
    arena.capacity = bytes;
    ck_assert_msg(head_statistics_run(&maps, NULL, HEADS, &parallel_serial, &arena, &found, &error), "%s",
                  error.message);
    arena_free(&arena);
    return found;
}

static void free_statistics(struct head_statistics *found)
{
    free(found->means);
    free(found->peaks);
    free(found->entropy_per_position);
    free(found->distance_per_position);
}

START_TEST(statistics)
{
    size_t scored = 0, excluded = 0;
    for (uint64_t seed = 1; seed <= 300; seed++) {
        struct random random = {seed};
        struct scene s;
        make_scene(&s, &random);
        const uint32_t drop = (uint32_t)random_size(&random, 0, s.sparse.key_length - 1), end = 1;
        const struct position_lists lists = {.n_lists = 1, .ends = &end, .positions = &drop};
        const struct position_lists *exclude = seed % 3 ? NULL : &lists;
        struct head_statistics a = measure(&s.sparse, &s, exclude), b = measure(&s.masked, &s, exclude);
        const size_t positions = HEADS * s.sparse.batch * s.sparse.query_length * sizeof(float);
        ck_assert_mem_eq(a.means, b.means, HEADS * HEAD_STATISTIC_COUNT * sizeof *a.means);
        ck_assert_mem_eq(a.entropy_per_position, b.entropy_per_position, positions);
        ck_assert_mem_eq(a.distance_per_position, b.distance_per_position, positions);
        for (size_t head = 0; head < HEADS; head++) {
            const struct head_peaks *x = &a.peaks[head], *y = &b.peaks[head];
            ck_assert(x->n_rows == y->n_rows && x->sink_key == y->sink_key && x->sink_mass == y->sink_mass &&
                      x->best_offset == y->best_offset && x->best_offset_share == y->best_offset_share);
            scored += x->n_rows;
            excluded += s.sparse.batch * s.sparse.query_length - x->n_rows;
        }
        free_statistics(&a);
        free_statistics(&b);
        free_scene(&s);
    }
    ck_assert_uint_gt(scored, 5000);
    ck_assert_uint_gt(excluded, 500);
}
END_TEST

/* ---- similarity */

static double *compare(const struct forward_input *rule, const struct scene *s, enum similarity_metric metric,
                       const struct parallel *parallel)
{
    const struct similarity_question question = {.metric = metric, .reduction = SIMILARITY_MEAN, .diversity = true};
    struct head_maps maps = {.rule = rule, .weights = s->weights, .num_heads = HEADS};
    struct arena prepared = {0}, arena = {0};
    double *numbers = malloc((HEADS * HEADS + 3) * sizeof *numbers);
    struct head_similarity found = {.similarity = numbers, .diversity = numbers + HEADS * HEADS};
    struct error error;
    size_t bytes;
    ck_assert(head_maps_bytes(&maps, &bytes) && arena_reserve(&prepared, bytes));
    ck_assert(head_maps_prepare(&maps, &prepared, &error));
    ck_assert(head_similarity_bytes(&question, &maps, 1, parallel->lanes, &bytes) && arena_reserve(&arena, bytes));
    arena.capacity = bytes;
    ck_assert_msg(head_similarity_run(&question, &maps, NULL, 1, parallel, &arena, &found, &error), "%s",
                  error.message);
    numbers[HEADS * HEADS + 1] = (double)found.n_rows;
    numbers[HEADS * HEADS + 2] = (double)found.n_excluded;
    arena_free(&arena);
    arena_free(&prepared);
    return numbers;
}

START_TEST(similarity)
{
    for (uint64_t seed = 1; seed <= 60; seed++) {
        struct random random = {seed};
        struct scene s;
        make_scene(&s, &random);
        for (int metric = 0; metric < SIMILARITY_METRIC_COUNT; metric++) {
            struct lanes lanes;
            lanes_init(&lanes, 3, seed);
            double *a = compare(&s.sparse, &s, (enum similarity_metric)metric, &lanes.parallel),
                   *b = compare(&s.masked, &s, (enum similarity_metric)metric, &parallel_serial);
            ck_assert_mem_eq(a, b, (HEADS * HEADS + 3) * sizeof *a);
            free(a);
            free(b);
        }
        free_scene(&s);
    }
}
END_TEST

/* ---- facts of rows for live sums */

static struct live_facts facts_of(const struct forward_input *rule, struct arena *arena)
{
    struct live_facts facts;
    size_t bytes;
    ck_assert(live_facts_bytes(rule, &bytes) && arena_reserve(arena, bytes));
    arena->capacity = bytes;
    ck_assert(live_facts_make(rule, arena, &facts));
    return facts;
}

static void expect_same_facts(const struct forward_input *rule, const struct live_facts *a, const struct live_facts *b)
{
    const size_t rows = rule->batch * rule->query_length, floats = rows * sizeof(float);
    struct live_keys of_a, of_b;
    const struct live_counts x = live_facts_count(a, rule, &of_a), y = live_facts_count(b, rule, &of_b);
    ck_assert_uint_eq(a->stride, b->stride);
    ck_assert_mem_eq(a->even, b->even, floats);
    ck_assert_mem_eq(a->inverse_logarithm, b->inverse_logarithm, floats);
    ck_assert_mem_eq(a->root, b->root, floats);
    ck_assert_mem_eq(a->inverse_root, b->inverse_root, floats);
    ck_assert_mem_eq(a->keys, b->keys, rows);
    ck_assert_mem_eq(a->sequences, b->sequences, rule->batch * sizeof *a->sequences);
    ck_assert(x.sequences == y.sequences && x.rows == y.rows && x.excluded == y.excluded &&
              of_a.allowed == of_b.allowed && of_a.even == of_b.even);
}

START_TEST(facts_for_live_sums)
{
    for (uint64_t seed = 1; seed <= 300; seed++) {
        struct random random = {seed};
        struct scene s;
        struct arena of_sparse = {0}, of_masked = {0};
        make_scene(&s, &random);
        const struct live_facts a = facts_of(&s.sparse, &of_sparse), b = facts_of(&s.masked, &of_masked);
        expect_same_facts(&s.sparse, &a, &b);
        arena_free(&of_sparse);
        arena_free(&of_masked);
        free_scene(&s);
    }
}
END_TEST

/* Padding counts in what a row sees, and then is dropped: rows of a padded sequence, by their kept keys. */
START_TEST(facts_of_padded_sequences)
{
    enum { T = 9 };
    static const uint8_t mask[T] = {0, 1, 1, 0, 0, 1, 1, 1, 0};
    static const size_t kept[] = {1, 2, 5, 6, 7};
    const struct attention_rules rules = {.pattern = {.kind = PATTERN_WINDOW, .left = 1, .right = 3}};
    const struct forward_input rule = {.batch = 1,
                                       .query_length = T,
                                       .key_length = T,
                                       .self_attention = true,
                                       .mask_kind = FORWARD_MASK_KEYS,
                                       .mask = mask,
                                       .rules = &rules};
    /* 1 sees 0..4, of which 1 and 2 are kept; 2 sees 1..5: 1, 2, 5; 5 sees 4..8: 5, 6, 7; 6 sees 5..9: 5, 6, 7; 7 sees
     * 6..10: 6, 7. */
    static const size_t n[] = {2, 3, 3, 3, 2};
    static const uint8_t keys[] = {
        ROW_HAS_SELF | ROW_HAS_NEXT | ROW_HAS_FIRST, ROW_HAS_PREVIOUS | ROW_HAS_SELF | ROW_HAS_NEXT | ROW_HAS_FIRST,
        ROW_HAS_SELF | ROW_HAS_NEXT, ROW_HAS_PREVIOUS | ROW_HAS_SELF | ROW_HAS_NEXT, ROW_HAS_PREVIOUS | ROW_HAS_SELF};
    struct arena arena = {0};
    const struct live_facts facts = facts_of(&rule, &arena);
    struct live_keys of_rows;
    const struct live_counts counts = live_facts_count(&facts, &rule, &of_rows);
    for (size_t row = 0; row < sizeof kept / sizeof *kept; row++) {
        ck_assert(facts.even[row] == (float)(1.0 / (double)n[row]));
        ck_assert_uint_eq(facts.keys[row], keys[row]);
    }
    ck_assert(counts.sequences == 1 && counts.rows == 5 && counts.excluded == 4 && of_rows.allowed == 13);
    ck_assert(fabs(of_rows.even - 2.0) < 1e-15); /* 1/2 + 3/3 + 1/2 */
    arena_free(&arena);
}
END_TEST

/* A pattern that content decides hides nothing: every sequence is as open as without. */
START_TEST(top_k_allows_all)
{
    const struct attention_rules rules = {.pattern = {.kind = PATTERN_TOP_K, .k = 2}};
    struct forward_input rule = {.batch = 2, .query_length = 7, .key_length = 7, .self_attention = true};
    struct arena of_top_k = {0}, of_none = {0};
    const struct live_facts none = facts_of(&rule, &of_none);
    ck_assert_uint_eq(none.stride, 0);
    rule.rules = &rules;
    const struct live_facts top_k = facts_of(&rule, &of_top_k);
    struct live_keys of_rows;
    const struct live_counts counts = live_facts_count(&top_k, &rule, &of_rows);
    ck_assert_uint_eq(top_k.stride, 0);
    ck_assert_mem_eq(top_k.sequences, none.sequences, rule.batch * sizeof *none.sequences);
    ck_assert(of_rows.allowed == 2 * 7 * 7 && counts.rows == 14);
    arena_free(&of_top_k);
    arena_free(&of_none);
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("analysis/under_pattern");
    TCase *t = tcase_create("under_pattern");
    tcase_add_test(t, statistics);
    tcase_add_test(t, similarity);
    tcase_add_test(t, facts_for_live_sums);
    tcase_add_test(t, facts_of_padded_sequences);
    tcase_add_test(t, top_k_allows_all);
    suite_add_tcase(s, t);
    return s;
}
