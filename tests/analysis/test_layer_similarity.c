/* Similarity of heads of many layers against its definition in float64, pair by pair: of layers with the same allowed
 * keys and with patterns of their own; the same bits on any number of lanes; memory; that it can be cancelled. */
#include "analysis/layer_similarity.h"
#include "analysis/random_maps.h"
#include "base/size.h"
#include "engine/lanes.h"

#include <string.h>

enum { LAYERS = 3, HEADS = 2, ALL = LAYERS * HEADS, LENGTH = 22, D_V = 3 };

struct scene {
    struct forward_input rules[LAYERS];
    struct attention_rules attention_rules[LAYERS];
    uint32_t global[LAYERS][2];
    uint8_t *mask;
    float *weights; /* [B, LAYERS, HEADS, T, T] */
    float *heads;   /* [B, LAYERS, HEADS, T, D_V] */
    struct head_maps maps[LAYERS];
    struct arena prepared[LAYERS];
    struct position_lists exclude;
    uint32_t position, end;
};

/* `apart`: layers have patterns of their own. */
static void make_scene(struct scene *s, struct random *random, bool apart, bool excludes, bool whole)
{
    struct error error;
    *s = (struct scene){.end = 1};
    struct forward_input rule = random_rule(random, 3, LENGTH, &s->mask);
    rule.self_attention = true;
    rule.key_length = rule.query_length = size_min(rule.query_length, rule.key_length);
    if (whole)
        rule.mask_kind = FORWARD_MASK_NONE; /* as many keys in all sequences */
    const size_t map = rule.query_length * rule.key_length, width = rule.query_length * D_V;
    s->weights = malloc(rule.batch * ALL * map * sizeof *s->weights);
    s->heads = malloc(rule.batch * ALL * width * sizeof *s->heads);
    s->position = (uint32_t)random_size(random, 0, rule.key_length - 1);
    s->exclude = (struct position_lists){.n_lists = 1, .ends = &s->end, .positions = &s->position};
    for (size_t i = 0; i < rule.batch * ALL * width; i++)
        s->heads[i] = (float)random_normal(random);
    for (size_t layer = 0; layer < LAYERS; layer++) {
        s->rules[layer] = rule;
        if (apart) {
            s->attention_rules[layer].pattern = random_sparse_pattern(random, LENGTH / 2, s->global[layer]);
            s->attention_rules[layer].layer = layer;
            s->rules[layer].rules = &s->attention_rules[layer];
        }
        float *maps = random_maps(random, &s->rules[layer], HEADS);
        for (size_t b = 0; b < rule.batch; b++)
            memcpy(s->weights + (b * LAYERS + layer) * HEADS * map, maps + b * HEADS * map, HEADS * map * sizeof *maps);
        free(maps);
        size_t bytes;
        s->maps[layer] = (struct head_maps){.rule = &s->rules[layer],
                                            .weights = s->weights,
                                            .num_heads = HEADS,
                                            .num_layers = LAYERS,
                                            .layer = layer,
                                            .exclude = excludes ? &s->exclude : NULL};
        ck_assert(head_maps_bytes(&s->maps[layer], &bytes) && arena_reserve(&s->prepared[layer], bytes));
        if (!head_maps_prepare(&s->maps[layer], &s->prepared[layer], &error)) {
            ck_assert_str_eq(error.pointer, "/exclude/0"); /* padding */
            s->maps[0].num_heads = 0;
            return;
        }
    }
}

static void free_scene(struct scene *s)
{
    for (size_t layer = 0; layer < LAYERS; layer++)
        arena_free(&s->prepared[layer]);
    free(s->weights);
    free(s->heads);
    free(s->mask);
}

/* ---- the definition */

/* A row of two heads: what is compared of it. */
struct compared {
    double a[LENGTH], b[LENGTH];
    size_t count, keys; /* numbers, and allowed keys */
};

static bool kept(const struct scene *s, size_t b, size_t i)
{
    return s->rules[0].mask_kind != FORWARD_MASK_KEYS || s->mask[b * s->rules[0].key_length + i];
}

/* What a row of a head has left when keys are excluded. */
static double sum_left(const struct scene *s, size_t b, size_t flat, size_t i)
{
    const size_t n = s->rules[0].key_length, layer = flat / HEADS;
    double sum = 0;
    for (size_t j = 0; j < n; j++) {
        if (pair_allowed(&s->rules[layer], b, i, j) && !(s->maps[0].exclude && j == s->position))
            sum += (double)s->weights[((b * ALL + flat) * n + i) * n + j];
    }
    return sum;
}

/* False for a row that is not compared. Columns are numbered without padding, for cka. */
static bool row_of(const struct scene *s, size_t b, size_t left, size_t right, size_t i, bool output, bool columns,
                   struct compared *row)
{
    const size_t n = s->rules[0].key_length;
    *row = (struct compared){.count = 0};
    const double sums[] = {sum_left(s, b, left, i), sum_left(s, b, right, i)};
    for (size_t head = 0; s->maps[0].exclude && head < ALL; head++) /* nothing left in a head that is compared beside */
        if ((!s->rules[0].rules || head / HEADS == left / HEADS || head / HEADS == right / HEADS) &&
            !(sum_left(s, b, head, i) > 0))
            return false;
    for (size_t j = 0; j < n; j++) {
        if (!kept(s, b, j))
            continue;
        const bool excluded = s->maps[0].exclude && j == s->position;
        const bool allowed = pair_allowed(&s->rules[left / HEADS], b, i, j) &&
                             pair_allowed(&s->rules[right / HEADS], b, i, j) && !excluded;
        row->keys += allowed;
        if (!allowed && !columns)
            continue;
        for (size_t side = 0; side < 2; side++) {
            const float weight = s->weights[((b * ALL + (side ? right : left)) * n + i) * n + j];
            const double value = !allowed ? 0 : s->maps[0].exclude ? (double)weight / sums[side] : (double)weight;
            (side ? row->b : row->a)[row->count] = value;
        }
        row->count++;
    }
    if (row->keys == 0)
        return false;
    if (output) {
        row->count = D_V;
        for (size_t k = 0; k < D_V; k++) {
            row->a[k] = (double)s->heads[((b * ALL + left) * n + i) * D_V + k];
            row->b[k] = (double)s->heads[((b * ALL + right) * n + i) * D_V + k];
        }
    }
    return true;
}

static double entropy_term(double x)
{
    return x > 0 ? x * log(x) : 0;
}

/* Linear CKA by kernels of centred rows. */
static double cka(double *a, double *b, size_t rows, size_t columns)
{
    double *sides[] = {a, b}, products[3] = {0};
    for (size_t side = 0; side < 2; side++)
        for (size_t c = 0; c < columns; c++) {
            double mean = 0;
            for (size_t r = 0; r < rows; r++)
                mean += sides[side][r * columns + c] / (double)rows;
            for (size_t r = 0; r < rows; r++)
                sides[side][r * columns + c] -= mean;
        }
    for (size_t r = 0; r < rows; r++)
        for (size_t q = 0; q < rows; q++) {
            double kernels[2] = {0};
            for (size_t side = 0; side < 2; side++)
                for (size_t c = 0; c < columns; c++)
                    kernels[side] += sides[side][r * columns + c] * sides[side][q * columns + c];
            products[0] += kernels[0] * kernels[0];
            products[1] += kernels[1] * kernels[1];
            products[2] += kernels[0] * kernels[1];
        }
    return products[0] > 1e-9 && products[1] > 1e-9 ? products[2] / sqrt(products[0] * products[1]) : NAN;
}

/* Over all sequences. NaN where it is undefined, or near to it. */
static double define(const struct scene *s, const struct similarity_question *q, size_t left, size_t right)
{
    const bool output = q->subject == SIMILARITY_OF_OUTPUT, columns = q->metric == SIMILARITY_CKA;
    const size_t most = s->rules[0].batch * LENGTH * LENGTH;
    double *a = calloc(most, sizeof *a), *b = calloc(most, sizeof *b), js = 0, hellinger = 0, found;
    size_t n = 0, rows = 0, width = 0;
    for (size_t sequence = 0; sequence < s->rules[0].batch; sequence++)
        for (size_t i = 0; i < s->rules[0].query_length; i++) {
            struct compared row;
            double distance = 0;
            if (!kept(s, sequence, i) || !row_of(s, sequence, left, right, i, output, columns, &row))
                continue;
            for (size_t k = 0; k < row.count; k++, n++) {
                const double even = q->metric == SIMILARITY_CENTERED ? 1 / (double)row.keys : 0;
                a[n] = row.a[k] - even;
                b[n] = row.b[k] - even;
                js += (entropy_term(row.a[k]) + entropy_term(row.b[k])) / 2 - entropy_term((row.a[k] + row.b[k]) / 2);
                distance += (sqrt(fmax(row.a[k], 0)) - sqrt(fmax(row.b[k], 0))) *
                            (sqrt(fmax(row.a[k], 0)) - sqrt(fmax(row.b[k], 0)));
            }
            hellinger += sqrt(distance);
            width = row.count;
            rows++;
        }
    double means[2] = {0}, aa = 0, bb = 0, ab = 0, before[2] = {0};
    for (size_t k = 0; k < n && q->metric == SIMILARITY_PEARSON; k++) {
        means[0] += a[k] / (double)n;
        means[1] += b[k] / (double)n;
    }
    for (size_t k = 0; k < n; k++) {
        before[0] += a[k] * a[k];
        before[1] += b[k] * b[k];
        aa += (a[k] - means[0]) * (a[k] - means[0]);
        bb += (b[k] - means[1]) * (b[k] - means[1]);
        ab += (a[k] - means[0]) * (b[k] - means[1]);
    }
    if (rows == 0)
        found = NAN;
    else if (q->metric == SIMILARITY_JS)
        found = 1 - js / (double)rows / M_LN2;
    else if (q->metric == SIMILARITY_HELLINGER)
        found = 1 - hellinger / (double)rows / M_SQRT2;
    else if (q->metric == SIMILARITY_CKA)
        found = cka(a, b, rows, width);
    else
        found = aa > 1e-6 * (1 + before[0]) && bb > 1e-6 * (1 + before[1]) ? ab / sqrt(aa * bb) : NAN;
    free(a), free(b);
    return found;
}

/* ---- */

static bool compare(const struct scene *s, const struct similarity_question *q, const struct parallel *parallel,
                    double *numbers /* [ALL, ALL] and LAYERS */, struct error *error)
{
    struct arena arena = {0};
    struct head_similarity found = {.similarity = numbers, .diversity = numbers + ALL * ALL};
    size_t bytes;
    ck_assert(layer_similarity_bytes(q, s->maps, LAYERS, D_V, parallel->lanes, &bytes) && arena_reserve(&arena, bytes));
    arena.capacity = bytes;
    const bool done = layer_similarity_run(q, s->maps, LAYERS, s->heads, D_V, parallel, &arena, &found, error);
    arena_free(&arena);
    return done;
}

START_TEST(as_defined)
{
    size_t compared = 0, undefined = 0;
    for (uint64_t seed = 1; seed <= 160; seed++) {
        struct random random = {seed};
        const bool apart = seed % 2;
        struct similarity_question q = {.metric = (enum similarity_metric)(seed / 2 % SIMILARITY_METRIC_COUNT),
                                        .subject = seed % 5 == 0 ? SIMILARITY_OF_OUTPUT : SIMILARITY_OF_ATTENTION,
                                        .diversity = true};
        if (q.subject == SIMILARITY_OF_OUTPUT && !similarity_metric_of_output(q.metric))
            q.metric = SIMILARITY_COSINE;
        struct scene s;
        struct lanes lanes;
        struct error error;
        double numbers[ALL * ALL + LAYERS], again[ALL * ALL + LAYERS];
        make_scene(&s, &random, apart, seed % 7 == 0 && q.subject == SIMILARITY_OF_ATTENTION,
                   q.metric == SIMILARITY_CKA);
        if (s.maps[0].num_heads == 0) {
            free_scene(&s);
            continue;
        }
        ck_assert_msg(compare(&s, &q, &parallel_serial, numbers, &error), "%s", error.message);
        for (size_t a = 0; a < ALL; a++)
            for (size_t b = 0; b < a; b++) {
                const double wanted = define(&s, &q, a, b), got = numbers[a * ALL + b];
                ck_assert(memcmp(&got, &numbers[b * ALL + a], sizeof got) == 0);
                undefined += isnan(wanted);
                if (isnan(wanted))
                    continue;
                ck_assert_msg(fabs(got - wanted) <= 3e-5, "seed %d, %s of heads %zu and %zu: %.9g, not %.9g", (int)seed,
                              similarity_metric_name(q.metric), a, b, got, wanted);
                compared++;
            }
        lanes_init(&lanes, 3, seed);
        ck_assert_msg(compare(&s, &q, &lanes.parallel, again, &error), "%s", error.message);
        ck_assert_mem_eq(numbers, again, sizeof numbers);
        free_scene(&s);
    }
    ck_assert_uint_gt(compared, 1200);
    ck_assert_uint_lt(undefined, compared / 2);
}
END_TEST

/* Of posted maps: rows of zeros in one layer only. */
START_TEST(rows_without_keys)
{
    struct random random = {5};
    struct scene s;
    struct error error;
    double numbers[ALL * ALL + LAYERS];
    const struct similarity_question q = {.metric = SIMILARITY_COSINE, .diversity = true};
    make_scene(&s, &random, false, false, true);
    const size_t n = s.rules[0].key_length;
    for (size_t b = 0; b < s.rules[0].batch; b++)
        for (size_t head = HEADS; head < 2 * HEADS; head++)
            memset(s.weights + ((b * ALL + head) * n) * n, 0, n * sizeof(float));
    for (size_t layer = 0; layer < LAYERS; layer++) {
        s.maps[layer].posted = true;
        arena_reset(&s.prepared[layer]);
        ck_assert(head_maps_prepare(&s.maps[layer], &s.prepared[layer], &error));
    }
    ck_assert_uint_eq(s.maps[1].n_rows, s.maps[0].n_rows - s.rules[0].batch);
    ck_assert(compare(&s, &q, &parallel_serial, numbers, &error));
    double ab = 0, aa = 0, bb = 0; /* heads 0 and HEADS, without each sequence's first row */
    for (size_t b = 0; b < s.rules[0].batch; b++)
        for (size_t i = n; i < n * n; i++) {
            if (!pair_allowed(&s.rules[0], b, i / n, i % n))
                continue;
            const double x = (double)s.weights[b * ALL * n * n + i],
                         y = (double)s.weights[(b * ALL + HEADS) * n * n + i];
            aa += x * x, bb += y * y, ab += x * y;
        }
    ck_assert(fabs(numbers[HEADS] - ab / sqrt(aa * bb)) < 1e-6);
    free_scene(&s);
}
END_TEST

START_TEST(ends_when_cancelled)
{
    for (int apart = 0; apart < 2; apart++) {
        struct random random = {9};
        struct scene s;
        struct lanes lanes;
        struct error error;
        double numbers[ALL * ALL + LAYERS];
        const struct similarity_question q = {.metric = SIMILARITY_JS, .diversity = true};
        make_scene(&s, &random, apart, false, false);
        lanes_init(&lanes, 2, 1);
        lanes.cancel_after = 0;
        ck_assert(!compare(&s, &q, &lanes.parallel, numbers, &error));
        ck_assert_int_eq(error.code, ERROR_CLIENT_GONE);
        free_scene(&s);
    }
}
END_TEST

/* Whether layers are compared together or apart, the message says which it is. */
START_TEST(what_is_not_finite_is_named)
{
    for (int apart = 0; apart < 2; apart++) {
        struct random random = {3};
        struct scene s;
        struct error error;
        double numbers[ALL * ALL + LAYERS];
        const struct similarity_question q = {
            .metric = SIMILARITY_COSINE, .subject = SIMILARITY_OF_OUTPUT, .diversity = true};
        make_scene(&s, &random, apart, false, true);
        const size_t width = s.rules[0].query_length * D_V;
        for (size_t b = 0; b < s.rules[0].batch; b++)
            for (size_t i = 0; i < width; i++)
                s.heads[((b * LAYERS + 1) * HEADS + 1) * width + i] = INFINITY;
        ck_assert(!compare(&s, &q, &parallel_serial, numbers, &error));
        ck_assert_int_eq(error.code, ERROR_NOT_FINITE);
        ck_assert_msg(strncmp(error.message, "layer 1: the output of head 1 is not finite", 43) == 0, "%s",
                      error.message);
        free_scene(&s);
    }
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("layer_similarity");
    TCase *c = tcase_create("layer_similarity");
    tcase_set_timeout(c, 60);
    tcase_add_test(c, as_defined);
    tcase_add_test(c, rows_without_keys);
    tcase_add_test(c, ends_when_cancelled);
    tcase_add_test(c, what_is_not_finite_is_named);
    suite_add_tcase(s, c);
    return s;
}
