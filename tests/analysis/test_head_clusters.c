/* Clusters, redundancy and pairs against the plainest ways to find them, on random matrices with ties and gaps. */
#include "analysis/head_clusters.h"

#include "engine/random.h"
#include "suite.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* In [0, 1). */
static double random_unit(struct random *random)
{
    return (double)(random_bits(random) >> 11) * 0x1p-53;
}

enum { HEADS_MOST = 24 };

/* Similarities of one decimal place: many are equal. Some heads have none. */
static void fill(double *similarity, size_t n, struct random *random)
{
    bool defined[HEADS_MOST];
    for (size_t i = 0; i < n; i++)
        defined[i] = random_unit(random) > 0.2;
    for (size_t a = 0; a < n; a++)
        for (size_t b = 0; b <= a; b++) {
            const double value = a == b ? 1 : floor(20 * random_unit(random) - 10) / 10;
            similarity[a * n + b] = similarity[b * n + a] = defined[a] && defined[b] ? value : NAN;
        }
}

/* Who reaches whom, by going on until nothing changes. */
static void reach(const double *similarity, size_t n, double threshold, bool *joined)
{
    bool changed = true;
    for (size_t i = 0; i < n * n; i++)
        joined[i] = i % (n + 1) == 0 || similarity[i] >= threshold;
    while (changed) {
        changed = false;
        for (size_t a = 0; a < n; a++)
            for (size_t b = 0; b < n; b++)
                for (size_t c = 0; c < n; c++)
                    if (!joined[a * n + c] && joined[a * n + b] && joined[b * n + c])
                        joined[a * n + c] = changed = true;
    }
}

START_TEST(clusters)
{
    struct random random = {(uint64_t)_i + 1};
    for (size_t n = 1; n <= HEADS_MOST; n++) {
        double similarity[HEADS_MOST * HEADS_MOST];
        bool joined[HEADS_MOST * HEADS_MOST];
        uint32_t found[HEADS_MOST], seen = 0;
        const double threshold = floor(20 * random_unit(&random) - 10) / 10;
        fill(similarity, n, &random);
        reach(similarity, n, threshold, joined);
        const size_t count = head_clusters(similarity, n, threshold, found);
        for (uint32_t a = 0; a < n; a++) {
            ck_assert_uint_le(found[a], seen); /* numbered as they begin */
            seen += found[a] == seen;
            for (uint32_t b = 0; b < n; b++)
                ck_assert_int_eq(found[a] == found[b], joined[a * n + b]);
        }
        ck_assert_uint_eq(count, seen);
    }
}
END_TEST

START_TEST(redundancy)
{
    struct random random = {(uint64_t)_i + 100};
    for (size_t n = 1; n <= HEADS_MOST; n++) {
        double similarity[HEADS_MOST * HEADS_MOST], found[HEADS_MOST];
        fill(similarity, n, &random);
        head_redundancy(similarity, n, found);
        for (size_t a = 0; a < n; a++) {
            double largest = -2;
            for (size_t b = 0; b < n; b++)
                if (a != b && similarity[a * n + b] > largest)
                    largest = similarity[a * n + b];
            if (largest == -2)
                ck_assert(isnan(found[a]));
            else
                ck_assert_double_eq(found[a], largest);
        }
    }
}
END_TEST

static int compare(const void *a, const void *b)
{
    const struct head_pair *p = a, *q = b;
    if (p->similarity != q->similarity)
        return p->similarity > q->similarity ? -1 : 1;
    if (p->head_a != q->head_a)
        return p->head_a < q->head_a ? -1 : 1;
    return p->head_b < q->head_b ? -1 : p->head_b > q->head_b;
}

START_TEST(pairs)
{
    struct random random = {(uint64_t)_i + 200};
    for (size_t n = 1; n <= HEADS_MOST; n++) {
        double similarity[HEADS_MOST * HEADS_MOST];
        struct head_pair all[HEADS_MOST * HEADS_MOST], found[HEADS_MOST * HEADS_MOST + 1];
        size_t count = 0;
        fill(similarity, n, &random);
        for (uint32_t a = 0; a < n; a++)
            for (uint32_t b = a + 1; b < n; b++)
                if (!isnan(similarity[a * n + b]))
                    all[count++] = (struct head_pair){a, b, similarity[a * n + b]};
        qsort(all, count, sizeof *all, compare);
        for (size_t most = 0; most <= n * n; most += 1 + most / 3) {
            const size_t got = head_pairs(similarity, 1, n, found, most);
            ck_assert_uint_eq(got, most < count ? most : count);
            for (size_t i = 0; i < got; i++)
                ck_assert_int_eq(compare(&found[i], &all[i]), 0);
        }
    }
}
END_TEST

/* Of layers: pairs within each, all in one order. */
START_TEST(pairs_of_layers)
{
    enum { LAYERS = 3, HEADS = 4, PAIRS = LAYERS * HEADS * (HEADS - 1) / 2 };
    struct random random = {8};
    double similarity[LAYERS * HEADS * HEADS];
    struct head_pair all[PAIRS], found[PAIRS];
    size_t count = 0;
    for (uint32_t layer = 0; layer < LAYERS; layer++) {
        double *of_layer = similarity + layer * HEADS * HEADS;
        fill(of_layer, HEADS, &random);
        for (uint32_t a = 0; a < HEADS; a++)
            for (uint32_t b = a + 1; b < HEADS; b++)
                if (!isnan(of_layer[a * HEADS + b]))
                    all[count++] = (struct head_pair){layer * HEADS + a, layer * HEADS + b, of_layer[a * HEADS + b]};
    }
    qsort(all, count, sizeof *all, compare);
    for (size_t most = 0; most <= PAIRS; most++) {
        const size_t got = head_pairs(similarity, LAYERS, HEADS, found, most);
        ck_assert_uint_eq(got, most < count ? most : count);
        for (size_t i = 0; i < got; i++)
            ck_assert_int_eq(compare(&found[i], &all[i]), 0);
    }
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("analysis/head_clusters");
    TCase *t = tcase_create("all");
    tcase_add_loop_test(t, clusters, 0, 20);
    tcase_add_loop_test(t, redundancy, 0, 5);
    tcase_add_loop_test(t, pairs, 0, 10);
    tcase_add_test(t, pairs_of_layers);
    suite_add_tcase(s, t);
    return s;
}
