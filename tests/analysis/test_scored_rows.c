/* Rows and their keys one pair at a time, over masks of every kind. */

#include "analysis/scored_rows.h"

#include "analysis/random_pattern.h"
#include "base/arena.h"
#include "engine/problem.h"
#include "suite.h"

#include <stdlib.h>

static bool pair_allowed(const struct forward_input *in, size_t b, size_t i, size_t j)
{
    if (in->causal && (ptrdiff_t)j > (ptrdiff_t)i + (ptrdiff_t)in->key_length - (ptrdiff_t)in->query_length)
        return false;
    if (!pattern_allows(in, i, j))
        return false;
    if (in->mask_kind == FORWARD_MASK_KEYS)
        return in->mask[b * in->key_length + j] && !(in->self_attention && !in->mask[b * in->key_length + i]);
    return in->mask_kind == FORWARD_MASK_NONE || in->mask[(b * in->query_length + i) * in->key_length + j];
}

START_TEST(random_masks)
{
    const struct problem_limits limits = {.d_model = 1, .heads = 1, .d_k = 1, .d_v = 1, .batch = 3, .length = 9};
    size_t excluded = 0, included = 0;
    for (uint64_t seed = 1; seed <= 500; seed++) {
        struct random random = {seed};
        const struct attention_shape shape = random_shape(&random, &limits);
        struct problem p = problem_create(&random, &shape, NULL, &limits);
        struct forward_input *in = &p.input;
        uint32_t global[2];
        const struct attention_rules rules = {.pattern = random_sparse_pattern(&random, 9, global)};
        if (random_chance(&random, 0.7))
            in->rules = &rules;
        size_t bytes, limit;
        ck_assert(allowed_reader_bytes(in, &bytes));
        ck_assert_int_eq(bytes > 0, in->rules != NULL);
        void *memory = bytes ? aligned_alloc(ARENA_ALIGNMENT, bytes) : NULL;
        uint8_t *scored = malloc(in->batch * in->query_length);
        size_t count = 0;
        size_t said;
        struct work work = {.parallel = &parallel_serial};
        ck_assert(scored_rows(in, memory, bytes, &work, scored, &said));
        struct allowed_reader reader = allowed_reader_init(in, memory);
        for (size_t b = 0; b < in->batch; b++)
            for (size_t i = 0; i < in->query_length; i++) {
                bool any = false;
                const uint8_t *keys = allowed_row(&reader, b, i, &limit);
                const bool is_scored = scored[b * in->query_length + i];
                for (size_t j = 0; j < in->key_length; j++) {
                    const bool allowed = pair_allowed(in, b, i, j);
                    any = any || allowed;
                    if (is_scored)
                        ck_assert_int_eq(j < limit && (!keys || keys[j]), allowed);
                }
                ck_assert_int_eq(is_scored, any);
                count += any;
            }
        ck_assert_uint_eq(said, count);
        included += count;
        excluded += in->batch * in->query_length - count;
        free(memory);
        free(scored);
        problem_free(&p);
    }
    ck_assert_uint_gt(included, 1000);
    ck_assert_uint_gt(excluded, 100);
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("analysis/scored_rows");
    TCase *t = tcase_create("scored_rows");
    tcase_add_test(t, random_masks);
    suite_add_tcase(s, t);
    return s;
}
