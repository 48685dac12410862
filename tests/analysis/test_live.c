/* Live sums of the golden traffic, computed as the server does it, against a float64 reference: statistics with their
 * standard errors, similarities, counts; the same in any order, on any number of lanes, together and one by one, and
 * merged from parts. */
#include "analysis/live_observer.h"
#include "analysis/live_similarity.h"

#include "engine/lanes.h"
#include "engine/pattern_definition.h"
#include "suite.h"
#include "weights/golden.h"
#include "weights/run_forward.h"
#include "weights/weight_set.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { REQUESTS = 4, HEADS = 8 };

struct traffic {
    json_t *document;
    const json_t *expect;
    struct weight_set *set;
    struct forward_input inputs[REQUESTS];
};

static void open_traffic(struct traffic *t)
{
    char name[] = "golden";
    struct error error;
    struct weights_config config = {
        .name = name, .source = WEIGHTS_NUMPY, .d_model = 64, .num_heads = HEADS, .seed = 42, .scale = 0.1};
    t->document = golden_load("live/traffic.json");
    t->expect = json_object_get(t->document, "expect");
    t->set = weight_set_load(&config, &error);
    ck_assert_ptr_nonnull(t->set);
    const json_t *requests = json_object_get(json_object_get(t->document, "request"), "requests");
    ck_assert_uint_eq(json_array_size(requests), REQUESTS);
    for (size_t i = 0; i < REQUESTS; i++) {
        const json_t *request = json_array_get(requests, i), *mask = json_object_get(request, "attention_mask");
        size_t count, shape[4];
        unsigned rank;
        float *x = golden_numbers(json_object_get(request, "input"), &count, shape, &rank);
        t->inputs[i] = (struct forward_input){.batch = shape[0],
                                              .query_length = shape[1],
                                              .key_length = shape[1],
                                              .self_attention = true,
                                              .query = x,
                                              .key = x,
                                              .value = x,
                                              .observed = true};
        if (mask) {
            float *kept = golden_numbers(mask, &count, shape, &rank);
            uint8_t *bytes = malloc(count);
            for (size_t k = 0; k < count; k++)
                bytes[k] = kept[k] != 0;
            free(kept);
            t->inputs[i].mask = bytes;
            t->inputs[i].mask_kind = rank == 2 ? FORWARD_MASK_KEYS : FORWARD_MASK_PAIRS;
        }
    }
}

static void close_traffic(struct traffic *t)
{
    for (size_t i = 0; i < REQUESTS; i++) {
        free((float *)t->inputs[i].query);
        free((uint8_t *)t->inputs[i].mask);
    }
    weight_set_free(t->set);
    json_decref(t->document);
}

static struct live_sums new_sums(size_t num_heads)
{
    struct live_sums sums;
    size_t bytes;
    ck_assert(live_sums_bytes((struct live_shape){.num_layers = 1, .num_heads = num_heads}, &bytes));
    live_sums_init(&sums, (struct live_shape){.num_layers = 1, .num_heads = num_heads}, malloc(bytes));
    return sums;
}

static void free_sums(struct live_sums *sums)
{
    free(sums->values);
}

/* Adds `count` inputs, computed together. */
static void add(const struct weight_set *set, const struct forward_input *const *inputs, size_t count, unsigned lanes,
                struct live_sums *sums)
{
    const size_t heads = set->shape.num_heads;
    struct forward_result results[REQUESTS] = {{0}}, *list[REQUESTS];
    struct live_sums parts[REQUESTS], *targets[REQUESTS];
    struct lanes threads;
    struct arena arena = {0};
    struct error error;
    size_t forward, own;
    lanes_init(&threads, lanes, 11 * lanes + count);
    for (size_t i = 0; i < count; i++) {
        list[i] = &results[i];
        parts[i] = new_sums(heads);
        targets[i] = &parts[i];
    }
    ck_assert(forward_scratch_bytes(&set->shape, inputs, count, lanes, &forward));
    ck_assert(live_observer_bytes(NULL, (struct live_shape){.num_layers = 1, .num_heads = heads}, inputs, count, lanes,
                                  &own));
    ck_assert(arena_reserve(&arena, forward + own));
    arena.capacity = forward + own;
    struct live_observer *observer = live_observer_create(
        NULL, (struct live_shape){.num_layers = 1, .num_heads = heads}, inputs, count, lanes, targets, &arena, &error);
    ck_assert_ptr_nonnull(observer);
    const struct forward_observer interface = live_observer_interface(observer);
    ck_assert(forward_run_observed(set->layers[0], inputs, list, count, &interface, &threads.parallel, &arena, &error));
    for (size_t i = 0; i < count; i++) {
        ck_assert(live_observer_finish(observer, i));
        live_sums_merge(sums, &parts[i]);
        free_sums(&parts[i]);
    }
    arena_free(&arena);
}

static void expect_number(const json_t *wanted, double got, double tolerance, const char *what)
{
    if (json_is_null(wanted)) {
        ck_assert_msg(isnan(got), "%s: got %.9g, expected none", what, got);
        return;
    }
    const double value = json_number_value(wanted);
    ck_assert_msg(fabs(got - value) <= tolerance * (1 + fabs(value)), "%s: got %.12g, expected %.12g", what, got,
                  value);
}

static void expect_answers(const struct live_sums *sums, const json_t *expect)
{
    char name[64];
    double matrix[HEADS * HEADS];
    ck_assert(sums->counts.sequences == json_number_value(json_object_get(expect, "n_sequences")));
    ck_assert(sums->counts.rows == json_number_value(json_object_get(expect, "n_rows")));
    ck_assert(sums->counts.excluded == 3);
    for (size_t head = 0; head < HEADS; head++) {
        const json_t *wanted = json_array_get(json_object_get(expect, "heads"), head);
        size_t seen = 0;
        for (size_t i = 0; i < HEAD_STATISTIC_COUNT; i++) {
            if (!head_statistic_kinds[i].live)
                continue;
            const struct ratio_sums got = live_sums_of(sums, 0, head, (enum head_statistic)i);
            expect_number(json_object_get(wanted, head_statistic_kinds[i].name), ratio_sums_mean(&got), 2e-6,
                          head_statistic_kinds[i].name);
            snprintf(name, sizeof name, "%s_stderr", head_statistic_kinds[i].name);
            expect_number(json_object_get(wanted, name), ratio_sums_stderr(&got), 2e-6, name);
            seen += 2;
        }
        ck_assert_uint_eq(seen, json_object_size(wanted));
    }
    for (int metric = 0; metric < SIMILARITY_METRIC_COUNT; metric++) {
        if (!live_similarity_has((enum similarity_metric)metric))
            continue;
        const char *metric_name = similarity_metric_name((enum similarity_metric)metric);
        live_similarity(sums, 0, (enum similarity_metric)metric, matrix);
        for (size_t a = 0; a < HEADS; a++)
            for (size_t b = 0; b < HEADS; b++)
                expect_number(json_array_get(json_array_get(json_object_get(expect, metric_name), a), b),
                              matrix[a * HEADS + b], 2e-6, metric_name);
    }
}

/* In all orders, on _i + 1 lanes, one by one and all together. */
START_TEST(traffic_gives_the_reference_answers)
{
    const unsigned lanes = (unsigned)_i + 1;
    struct traffic t;
    open_traffic(&t);
    for (size_t first = 0; first < REQUESTS; first++) {
        struct live_sums apart = new_sums(HEADS), together = new_sums(HEADS);
        const struct forward_input *all[REQUESTS];
        for (size_t i = 0; i < REQUESTS; i++) {
            all[i] = &t.inputs[(first + i * 3) % REQUESTS];
            add(t.set, &all[i], 1, lanes, &apart);
        }
        add(t.set, all, REQUESTS, lanes, &together);
        expect_answers(&apart, t.expect);
        expect_answers(&together, t.expect);
        free_sums(&apart);
        free_sums(&together);
    }
    close_traffic(&t);
}
END_TEST

static bool near(double a, double b, double size)
{
    return fabs(a - b) <= 1e-12 * size;
}

/* Sums of y, whatever they are kept about. */
static void expect_same_sums(const struct live_sums *a, const struct live_sums *b)
{
    for (size_t i = 0; i < a->num_heads * LIVE_STATISTIC_COUNT; i++) {
        const enum head_statistic statistic = live_statistics[i / a->num_heads];
        const struct ratio_sums of_a = live_sums_of(a, 0, i % a->num_heads, statistic), *p = &of_a;
        const struct ratio_sums of_b = live_sums_of(b, 0, i % a->num_heads, statistic), *q = &of_b;
        const double y = p->z + p->offset * p->n;
        const double yy = p->zz + 2 * p->offset * p->zn + p->offset * p->offset * p->nn;
        const double yn = p->zn + p->offset * p->nn;
        ck_assert(p->sequences == q->sequences && p->n == q->n && p->nn == q->nn);
        ck_assert(near(y, q->z + q->offset * q->n, fabs(y) + p->n));
        ck_assert(near(yy, q->zz + 2 * q->offset * q->zn + q->offset * q->offset * q->nn, yy + p->nn));
        ck_assert(near(yn, q->zn + q->offset * q->nn, fabs(yn) + p->nn));
    }
    for (size_t i = 0; i < live_sums_pairs(a->num_heads); i++)
        ck_assert(near(a->products[i], b->products[i], a->keys->even));
    ck_assert(near(a->keys->even, b->keys->even, a->keys->even));
}

/* The sums themselves add, in whatever order and grouping. */
START_TEST(sums_add_in_any_order)
{
    struct traffic t;
    struct live_sums parts[REQUESTS], forwards = new_sums(HEADS), backwards = new_sums(HEADS), half = new_sums(HEADS);
    open_traffic(&t);
    for (size_t i = 0; i < REQUESTS; i++) {
        const struct forward_input *one = &t.inputs[i];
        parts[i] = new_sums(HEADS);
        add(t.set, &one, 1, 1, &parts[i]);
    }
    for (size_t i = 0; i < REQUESTS; i++)
        live_sums_merge(&forwards, &parts[i]);
    live_sums_merge(&half, &parts[1]);
    live_sums_merge(&half, &parts[0]);
    live_sums_merge(&backwards, &parts[3]);
    live_sums_merge(&backwards, &half);
    live_sums_merge(&backwards, &parts[2]);
    expect_same_sums(&forwards, &backwards);
    expect_answers(&backwards, t.expect);
    for (size_t i = 0; i < REQUESTS; i++)
        free_sums(&parts[i]);
    free_sums(&forwards);
    free_sums(&backwards);
    free_sums(&half);
    close_traffic(&t);
}
END_TEST

static const struct attention_rules PATTERNS[] = {
    {.pattern = {.kind = PATTERN_WINDOW, .left = 5, .right = 2}},
    {.pattern = {.kind = PATTERN_BLOCK, .size = 64, .global = (const uint32_t[]){3, 100}, .n_global = 2}},
    {.pattern = {.kind = PATTERN_DILATED, .window = 3, .step = 7}},
    {.pattern = {.kind = PATTERN_STRIDED, .size = 17}},
    {.pattern =
         {.kind = PATTERN_BIGBIRD, .size = 10, .window_blocks = 3, .global_blocks = 1, .random_blocks = 2, .seed = 5}},
};

/* Long sequences, whose rows come in several units, with and without masks of pairs and patterns, against the maps. */
START_TEST(long_sequences_are_summed_up_whole)
{
    enum { T = 300, D = 16, H = 2, SPARSE = sizeof PATTERNS / sizeof *PATTERNS };
    char name[] = "plain";
    struct error error;
    struct weights_config config = {.name = name, .source = WEIGHTS_IDENTITY, .d_model = D, .num_heads = H};
    struct weight_set *set = weight_set_load(&config, &error);
    ck_assert_ptr_nonnull(set);
    float *x = malloc(T * D * sizeof *x);
    uint8_t *mask = malloc(T * T);
    for (size_t i = 0; i < T * D; i++)
        x[i] = sinf((float)(i * i % 1009));
    for (size_t i = 0; i < T * T; i++)
        mask[i] = i / T != 7 && i * 2654435761u % 5 != 0; /* row 7 has no key */
    struct forward_input in = {.batch = 1,
                               .query_length = T,
                               .key_length = T,
                               .self_attention = true,
                               .query = x,
                               .key = x,
                               .value = x,
                               .observed = true};
    for (size_t round = 0; round < 2 * (SPARSE + 1); round++) {
        const bool masked = round % 2;
        in.mask_kind = masked ? FORWARD_MASK_PAIRS : FORWARD_MASK_NONE;
        in.mask = masked ? mask : NULL;
        in.rules = round < 2 ? NULL : &PATTERNS[round / 2 - 1];
        struct forward_result maps = run_forward(set->layers[0], &in);
        struct live_sums sums = new_sums(H);
        const struct forward_input *one = &in;
        add(set, &one, 1, 3, &sums);
        double entropy = 0, distance = 0, rows = 0, product = 0, allowed = 0;
        for (size_t i = 0; i < T; i++) {
            double n = 0;
            bool seen[T];
            memset(seen, true, sizeof seen);
            if (in.rules)
                pattern_definition(&in.rules->pattern, 0, (ptrdiff_t)i, T, seen);
            for (size_t j = 0; j < T; j++) {
                seen[j] = seen[j] && (!masked || mask[i * T + j]);
                n += seen[j];
            }
            rows += n > 0;
            for (size_t j = 0; j < T; j++) {
                const double p = (double)maps.attention[(T + i) * T + j];
                if (!seen[j]) {
                    ck_assert(p == 0);
                    continue;
                }
                allowed += 1;
                entropy -= p > 0 ? p * log(p) : 0;
                distance += p * fabs((double)i - (double)j);
                product += ((double)maps.attention[i * T + j] - 1 / n) * (p - 1 / n);
            }
        }
        ck_assert(sums.counts.rows == rows && sums.counts.excluded == T - rows && sums.counts.sequences == 1);
        ck_assert(sums.keys->allowed == allowed);
        struct ratio_sums got = live_sums_of(&sums, 0, 1, STATISTIC_ENTROPY);
        ck_assert(got.n == rows && fabs(ratio_sums_mean(&got) - entropy / rows) < 1e-6);
        ck_assert(isnan(ratio_sums_stderr(&got)));
        got = live_sums_of(&sums, 0, 1, STATISTIC_DISTANCE);
        ck_assert(fabs(ratio_sums_mean(&got) - distance / rows) < 1e-6 * T);
        ck_assert(fabs(live_sums_product(&sums, 0, 0, 1) - product) < 1e-6 * (1 + fabs(product)));
        free_sums(&sums);
        run_forward_free(&maps);
    }
    free(mask);
    free(x);
    weight_set_free(set);
}
END_TEST

/* The sums of a request do not depend on how its rows were shared out, nor on whether all keys are allowed by a mask or
 * for lack of one. */
START_TEST(sums_are_the_same_on_any_number_of_lanes)
{
    enum { T = 300, D = 24, H = 3 };
    char name[] = "plain";
    struct error error;
    struct weights_config config = {.name = name, .source = WEIGHTS_IDENTITY, .d_model = D, .num_heads = H};
    struct weight_set *set = weight_set_load(&config, &error);
    ck_assert_ptr_nonnull(set);
    float *x = malloc(2 * T * D * sizeof *x);
    uint8_t *ones = malloc(2 * T * T);
    memset(ones, 1, 2 * T * T);
    for (size_t i = 0; i < 2 * T * D; i++)
        x[i] = sinf((float)(i * i % 1009));
    for (size_t length = 5; length <= T; length += 59) {
        struct forward_input in = {.batch = 2,
                                   .query_length = length,
                                   .key_length = length,
                                   .self_attention = true,
                                   .query = x,
                                   .key = x,
                                   .value = x,
                                   .observed = true};
        const struct forward_input *one = &in;
        struct live_sums alone = new_sums(H), masked = new_sums(H);
        add(set, &one, 1, 1, &alone);
        for (unsigned lanes = 2; lanes <= 5; lanes++) {
            struct live_sums shared = new_sums(H);
            add(set, &one, 1, lanes, &shared);
            expect_same_sums(&alone, &shared);
            free_sums(&shared);
        }
        in.mask_kind = FORWARD_MASK_PAIRS;
        in.mask = ones;
        add(set, &one, 1, 1, &masked);
        ck_assert(alone.counts.rows == masked.counts.rows && alone.keys->allowed == masked.keys->allowed);
        for (size_t i = 0; i < HEAD_STATISTIC_COUNT; i++) {
            if (!head_statistic_kinds[i].live)
                continue;
            const struct ratio_sums a = live_sums_of(&alone, 0, H - 1, (enum head_statistic)i),
                                    b = live_sums_of(&masked, 0, H - 1, (enum head_statistic)i);
            ck_assert(a.sequences == b.sequences && a.n == b.n && a.nn == b.nn);
            ck_assert(fabs(ratio_sums_mean(&a) - ratio_sums_mean(&b)) <= 1e-6 * (1 + fabs(ratio_sums_mean(&a))));
        }
        free_sums(&alone);
        free_sums(&masked);
    }
    free(ones);
    free(x);
    weight_set_free(set);
}
END_TEST

/* Heads that attend evenly have nothing left once that is subtracted; no traffic leaves nothing defined. */
START_TEST(what_is_undefined_is_nan)
{
    char name[] = "plain";
    struct error error;
    struct weights_config config = {.name = name, .source = WEIGHTS_IDENTITY, .d_model = 4, .num_heads = 2};
    struct weight_set *set = weight_set_load(&config, &error);
    ck_assert_ptr_nonnull(set);
    const float zeros[7 * 4] = {0};
    struct forward_input in = {.batch = 1,
                               .query_length = 7,
                               .key_length = 7,
                               .self_attention = true,
                               .query = zeros,
                               .key = zeros,
                               .value = zeros,
                               .observed = true};
    const struct forward_input *one = &in;
    struct live_sums sums = new_sums(2);
    double matrix[4];
    live_similarity(&sums, 0, SIMILARITY_COSINE, matrix);
    ck_assert(isnan(matrix[0]) && isnan(matrix[1]) && isnan(matrix[3]));
    add(set, &one, 1, 1, &sums);
    add(set, &one, 1, 1, &sums);
    live_similarity(&sums, 0, SIMILARITY_COSINE, matrix);
    ck_assert(matrix[0] == 1 && fabs(matrix[1] - 1) < 1e-12);
    live_similarity(&sums, 0, SIMILARITY_PEARSON, matrix);
    ck_assert(isnan(matrix[0]) && isnan(matrix[1]));
    live_similarity(&sums, 0, SIMILARITY_CENTERED, matrix);
    ck_assert(isnan(matrix[0]) && isnan(matrix[1]));
    const struct ratio_sums entropy = live_sums_of(&sums, 0, 0, STATISTIC_ENTROPY);
    ck_assert(ratio_sums_stderr(&entropy) < 1e-12);
    free_sums(&sums);
    weight_set_free(set);
}
END_TEST

START_TEST(memory_is_as_documented)
{
    for (size_t heads = 1; heads <= 1024; heads++) {
        size_t bytes;
        ck_assert(live_sums_bytes((struct live_shape){.num_layers = 1, .num_heads = heads}, &bytes));
        ck_assert_uint_le(bytes + sizeof(struct live_sums), 8192 + 1024 * heads + 4 * heads * heads);
    }
    size_t bytes;
    ck_assert(!live_sums_bytes((struct live_shape){.num_layers = 1, .num_heads = SIZE_MAX / 2}, &bytes));
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("analysis/live");
    TCase *t = tcase_create("live");
    tcase_set_timeout(t, 60);
    tcase_add_loop_test(t, traffic_gives_the_reference_answers, 0, 4);
    tcase_add_test(t, sums_add_in_any_order);
    tcase_add_test(t, long_sequences_are_summed_up_whole);
    tcase_add_test(t, sums_are_the_same_on_any_number_of_lanes);
    tcase_add_test(t, what_is_undefined_is_nan);
    tcase_add_test(t, memory_is_as_documented);
    suite_add_tcase(s, t);
    return s;
}
