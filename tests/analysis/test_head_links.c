/* Links against a sort of all pairs. */
#include "analysis/head_links.h"

#include "analysis/random_maps.h"
#include "engine/lanes.h"

#include <string.h>

static int strongest_first(const void *a, const void *b)
{
    const struct head_link *x = a, *y = b;
    if (x->weight != y->weight)
        return x->weight > y->weight ? -1 : 1;
    if (x->sequence != y->sequence)
        return x->sequence < y->sequence ? -1 : 1;
    if (x->query != y->query)
        return x->query < y->query ? -1 : 1;
    return (x->key > y->key) - (x->key < y->key);
}

static void try_links(uint64_t seed, size_t most_length, struct parallel *parallel)
{
    struct random random = {seed};
    uint8_t *mask;
    const struct forward_input rule = random_rule(&random, 4, most_length, &mask);
    const size_t heads = random_size(&random, 1, 3), pairs = rule.batch * rule.query_length * rule.key_length;
    float *weights = random_maps(&random, &rule, heads);
    struct head_maps maps = {.rule = &rule, .weights = weights, .num_heads = heads};
    struct head_links links = {.top_k = random_size(&random, 1, 12),
                               .min_weight = random_chance(&random, 0.5) ? 0 : (float)random_size(&random, 0, 4) / 8};
    links.links = malloc(heads * links.top_k * sizeof *links.links);
    links.counts = malloc(heads * sizeof *links.counts);
    struct head_link *all = malloc(pairs * sizeof *all);
    struct arena arena = {0};
    struct error error;
    size_t bytes;
    ck_assert(head_links_scratch_bytes(&maps, parallel->lanes, &bytes));
    ck_assert(arena_reserve(&arena, bytes));
    ck_assert_msg(head_links_run(&maps, parallel, &arena, &links, &error), "%s", error.message);
    for (size_t head = 0; head < heads; head++) {
        size_t count = 0;
        for (size_t b = 0; b < rule.batch; b++)
            for (size_t i = 0; i < rule.query_length; i++)
                for (size_t j = 0; j < rule.key_length; j++) {
                    const float w = weights[((b * heads + head) * rule.query_length + i) * rule.key_length + j];
                    if (pair_allowed(&rule, b, i, j) && w > 0 && w >= links.min_weight)
                        all[count++] = (struct head_link){w, (uint32_t)b, (uint32_t)i, (uint32_t)j};
                }
        qsort(all, count, sizeof *all, strongest_first);
        ck_assert_uint_eq(links.counts[head], count < links.top_k ? count : links.top_k);
        ck_assert(memcmp(all, links.links + head * links.top_k, links.counts[head] * sizeof *all) == 0);
    }
    arena_free(&arena);
    free(all);
    free(links.links);
    free(links.counts);
    free(weights);
    free(mask);
}

START_TEST(random_links)
{
    for (uint64_t seed = 1; seed <= 300; seed++) {
        struct parallel serial = parallel_serial;
        try_links(seed, 12, &serial);
    }
}
END_TEST

START_TEST(links_on_lanes)
{
    for (uint64_t seed = 1; seed <= 10; seed++) {
        struct lanes lanes;
        lanes_init(&lanes, 4, seed);
        try_links(seed, 150, &lanes.parallel);
    }
}
END_TEST

START_TEST(cancelled)
{
    const struct forward_input rule = {.batch = 3, .query_length = 100, .key_length = 100, .self_attention = true};
    struct random random = {1};
    struct lanes lanes;
    struct error error;
    struct arena arena = {0};
    struct head_link found[2 * 4];
    size_t counts[2], bytes;
    float *weights = random_maps(&random, &rule, 2);
    struct head_maps maps = {.rule = &rule, .weights = weights, .num_heads = 2};
    struct head_links links = {found, counts, 4, 0};
    lanes_init(&lanes, 2, 1);
    lanes.cancel_after = 1;
    ck_assert(head_links_scratch_bytes(&maps, 2, &bytes) && arena_reserve(&arena, bytes));
    ck_assert(!head_links_run(&maps, &lanes.parallel, &arena, &links, &error));
    ck_assert_int_eq(error.code, ERROR_CLIENT_GONE);
    arena_free(&arena);
    free(weights);
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("analysis/head_links");
    TCase *t = tcase_create("head_links");
    tcase_add_test(t, random_links);
    tcase_add_test(t, links_on_lanes);
    tcase_add_test(t, cancelled);
    suite_add_tcase(s, t);
    return s;
}
