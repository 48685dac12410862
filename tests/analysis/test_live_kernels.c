/* What rows add to live sums, for every instruction set, against float64: measures of rows of every length under limits
 * and masks, what is left of the rows and its products, and the sums of ratio estimators. */
#include "analysis/live_kernels/live_kernels.h"
#include "analysis/ratio_sums.h"
#include "analysis/row_facts.h"
#include "engine/kernels/kernels.h"
#include "engine/random.h"
#include "suite.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { HEADS_MOST = 9 };

static const struct live_kernels *kernels_of(int index)
{
    return isa_supported((enum isa)index) ? live_kernels_of((enum isa)index) : NULL;
}

static double random_unit(struct random *random)
{
    return (double)(random_bits(random) >> 11) * 0x1p-53;
}

/* Rows as attention leaves them, and the same in float64. */
struct rows {
    struct live_rows asked;
    size_t heads, head_stride;
    float *weights;   /* [heads, n_rows, stride] */
    double *p;        /* [heads, n_rows, n_keys]: the probabilities */
    uint8_t *allowed; /* [n_rows, n_keys] */
    float *inverse, *logs, *even, *inverse_logarithm, *root, *inverse_root;
    uint8_t *keys;
};

static float *floats(size_t count)
{
    float *memory = aligned_alloc(64, (count + 31) / 16 * 64);
    for (size_t i = 0; i < (count + 31) / 16 * 16; i++)
        memory[i] = NAN; /* what is not meant to be used */
    return memory;
}

enum kind { OPEN, CAUSAL, MASKED };

static bool may_attend(const struct rows *r, size_t row, size_t key)
{
    return (ptrdiff_t)key < r->asked.key_limit + (ptrdiff_t)(row * r->asked.key_step) &&
           (!r->asked.allowed || r->allowed[row * r->asked.n_keys + key]);
}

static void fill_facts(struct rows *r, size_t row)
{
    const size_t n_keys = r->asked.n_keys;
    const ptrdiff_t place = r->asked.place + (ptrdiff_t)row;
    size_t n = 0;
    for (size_t key = 0; key < n_keys; key++)
        n += may_attend(r, row, key);
    r->even[row] = n > 0 ? (float)(1 / (double)n) : 0;
    r->root[row] = (float)sqrt((double)n);
    r->inverse_logarithm[row] = n > 1 ? (float)(1 / log((double)n)) : 0;
    r->inverse_root[row] = n > 1 ? (float)(1 / (sqrt((double)n) - 1)) : 0;
    r->keys[row] = n > 0 && may_attend(r, row, 0) ? ROW_HAS_FIRST : 0;
    for (int side = -1; side <= 1; side++)
        if (place + side >= 0 && place + side < (ptrdiff_t)n_keys && may_attend(r, row, (size_t)(place + side)))
            r->keys[row] |= side < 0 ? ROW_HAS_PREVIOUS : side > 0 ? ROW_HAS_NEXT : ROW_HAS_SELF;
}

/* A head's row: its weights, 1 / sum and sum of weight * ln weight. */
static void draw_row(struct rows *r, struct random *random, size_t head, size_t row)
{
    const size_t n_keys = r->asked.n_keys;
    float *weights = r->weights + head * r->head_stride + row * r->asked.stride;
    double *p = r->p + (head * r->asked.n_rows + row) * n_keys, sum = 0, logs = 0, top = -INFINITY;
    const double peaked = random_unit(random) < 0.2 ? 0 : 20 * random_unit(random);
    for (size_t key = 0; key < n_keys; key++) {
        p[key] = may_attend(r, row, key) ? -peaked * random_unit(random) : -INFINITY;
        top = fmax(top, p[key]);
    }
    memset(weights, 0, (n_keys + 15) / 16 * 64);
    for (size_t key = 0; key < n_keys; key++) {
        weights[key] = top > -INFINITY ? (float)exp(p[key] - top) : 0;
        sum += (double)weights[key];
        logs += weights[key] > 0 ? (double)weights[key] * log((double)weights[key]) : 0;
    }
    r->inverse[head * (r->asked.n_rows + 16) + row] = sum > 0 ? (float)(1 / sum) : 0;
    r->logs[head * (r->asked.n_rows + 16) + row] = (float)logs;
    for (size_t key = 0; key < n_keys; key++)
        p[key] = sum > 0 ? (double)weights[key] / sum : 0;
}

static void open_rows(struct rows *r, struct random *random, size_t heads, size_t n_rows, size_t n_keys,
                      ptrdiff_t place, enum kind kind)
{
    const size_t stride = kernel_padded(n_keys) + KERNEL_PAD;
    *r = (struct rows){.heads = heads, .head_stride = n_rows * stride};
    r->weights = floats(heads * r->head_stride);
    r->p = calloc(heads * n_rows * n_keys, sizeof *r->p);
    r->allowed = malloc(n_rows * n_keys);
    for (size_t i = 0; i < n_rows * n_keys; i++)
        r->allowed[i] = i / n_keys != 2 && random_unit(random) < 0.7; /* row 2 has none */
    r->inverse = floats(heads * (n_rows + 16));
    r->logs = floats(heads * (n_rows + 16));
    r->even = floats(n_rows + 16);
    r->inverse_logarithm = floats(n_rows + 16);
    r->root = floats(n_rows + 16);
    r->inverse_root = floats(n_rows + 16);
    r->keys = malloc(n_rows);
    r->asked = (struct live_rows){.n_rows = n_rows,
                                  .n_keys = n_keys,
                                  .stride = stride,
                                  .key_limit = kind == CAUSAL ? place + 1 : (ptrdiff_t)n_keys,
                                  .key_step = kind == CAUSAL,
                                  .allowed_stride = n_keys,
                                  .allowed = kind == MASKED ? r->allowed : NULL,
                                  .place = place,
                                  .even = r->even,
                                  .inverse_logarithm = r->inverse_logarithm,
                                  .root = r->root,
                                  .inverse_root = r->inverse_root,
                                  .keys = r->keys};
    for (size_t row = 0; row < n_rows; row++)
        fill_facts(r, row);
    for (size_t head = 0; head < heads; head++)
        for (size_t row = 0; row < n_rows; row++)
            draw_row(r, random, head, row);
}

static void close_rows(struct rows *r)
{
    free(r->weights);
    free(r->p);
    free(r->allowed);
    free(r->inverse);
    free(r->logs);
    free(r->even);
    free(r->inverse_logarithm);
    free(r->root);
    free(r->inverse_root);
    free(r->keys);
}

static void add_expected(const struct rows *r, size_t head, size_t row, struct live_measures *m)
{
    const size_t n_keys = r->asked.n_keys;
    const double *p = r->p + (head * r->asked.n_rows + row) * n_keys;
    double entropy = 0, squares = 0, largest = 0, n = 0;
    for (size_t key = 0; key < n_keys; key++) {
        const double offset = (double)((ptrdiff_t)key - r->asked.place - (ptrdiff_t)row);
        n += may_attend(r, row, key);
        entropy -= p[key] > 0 ? p[key] * log(p[key]) : 0;
        squares += p[key] * p[key];
        largest = fmax(largest, p[key]);
        m->distance += p[key] * fabs(offset);
        m->signed_distance += p[key] * offset;
        if (may_attend(r, row, key))
            for (int side = -1; side <= 1; side++)
                m->masses[side + 1] += offset == side ? p[key] : 0;
    }
    m->masses[3] += p[0];
    if (n == 0)
        return;
    m->entropy += entropy;
    m->effective_keys += exp(entropy);
    m->confidence += largest;
    if (n < 2)
        return;
    m->normalized_entropy += entropy / log(n);
    m->hoyer += (sqrt(n) - 1 / sqrt(squares)) / (sqrt(n) - 1);
}

static void expect_near(double got, double wanted, double size, const char *what, const struct rows *r)
{
    ck_assert_msg(fabs(got - wanted) <= 5e-7 * size, "%s of %zu rows of %zu keys from place %td on: %.9g, not %.9g",
                  what, r->asked.n_rows, r->asked.n_keys, r->asked.place, got, wanted);
}

static void check_measures(const struct live_kernels *kernels, struct rows *r, size_t head)
{
    struct live_rows asked = r->asked;
    struct live_measures got, wanted = {0};
    const double rows = (double)asked.n_rows;
    asked.weights = r->weights + head * r->head_stride;
    asked.inverse = r->inverse + head * (asked.n_rows + 16);
    asked.logs = r->logs + head * (asked.n_rows + 16);
    for (size_t row = 0; row < asked.n_rows; row++)
        add_expected(r, head, row, &wanted);
    kernels->see_rows(&asked, &got);
    expect_near(got.entropy, wanted.entropy, wanted.entropy + rows, "entropy", r);
    expect_near(got.normalized_entropy, wanted.normalized_entropy, rows, "normalized_entropy", r);
    expect_near(got.effective_keys, wanted.effective_keys, 2 * wanted.effective_keys, "effective_keys", r);
    expect_near(got.confidence, wanted.confidence, rows, "confidence", r);
    expect_near(got.hoyer, wanted.hoyer, 2 * rows, "hoyer", r);
    expect_near(got.distance, wanted.distance, wanted.distance, "distance", r);
    expect_near(got.signed_distance, wanted.signed_distance, wanted.distance, "signed_distance", r);
    for (int i = 0; i < 4; i++)
        expect_near(got.masses[i], wanted.masses[i], rows, "mass", r);
}

/* The products of what is left, p - 1 / n. */
static void check_products(const struct live_kernels *kernels, const struct rows *r)
{
    const size_t n_rows = r->asked.n_rows, n_keys = r->asked.n_keys;
    double products[HEADS_MOST * (HEADS_MOST + 1) / 2];
    for (size_t i = 0; i < sizeof products / sizeof *products; i++)
        products[i] = 0.25;
    kernels->add_products(r->weights, r->head_stride, r->heads, n_rows, n_keys, r->asked.stride, products);
    for (size_t a = 0; a < r->heads; a++)
        for (size_t b = 0; b <= a; b++) {
            double wanted = 0.25, size = 0;
            for (size_t i = 0; i < n_rows * n_keys; i++) {
                if (!may_attend(r, i / n_keys, i % n_keys))
                    continue;
                const double even = (double)r->even[i / n_keys], x = r->p[a * n_rows * n_keys + i] - even,
                             y = r->p[b * n_rows * n_keys + i] - even;
                wanted += x * y;
                size += fabs(x * y) + 0.1 * even * even;
            }
            expect_near(products[a * (a + 1) / 2 + b], wanted, 2 * size + 1e-9, "product", r);
        }
}

static void check(const struct live_kernels *kernels, struct random *random, size_t heads, size_t n_rows, size_t n_keys,
                  ptrdiff_t place, enum kind kind)
{
    struct rows r;
    open_rows(&r, random, heads, n_rows, n_keys, place, kind);
    for (size_t head = 0; head < heads; head++)
        check_measures(kernels, &r, head);
    check_products(kernels, &r);
    close_rows(&r);
}

START_TEST(rows_are_measured)
{
    const struct live_kernels *kernels = kernels_of(_i);
    struct random random = {3};
    if (!kernels)
        return;
    for (size_t n = 1; n <= 70; n++)
        for (enum kind kind = OPEN; kind <= MASKED; kind++)
            check(kernels, &random, 1 + n % HEADS_MOST, n, n, 0, kind);
    for (size_t n_keys = 1; n_keys <= 200; n_keys += 13)
        for (size_t place = 0; place < n_keys; place += 7)
            check(kernels, &random, 2, 1 + place % 5, n_keys, (ptrdiff_t)place, OPEN);
    for (ptrdiff_t place = -40; place < 60; place += 9) /* rows that stand before the first key and behind the last */
        check(kernels, &random, 2, 9, 33, place, OPEN);
    check(kernels, &random, 3, 60, 300, 120, OPEN);
    check(kernels, &random, 3, 60, 300, 120, CAUSAL);
    check(kernels, &random, 3, 60, 300, 120, MASKED);
    check(kernels, &random, 2, 7, 2500, 1011, OPEN);
    check(kernels, &random, 2, 7, 2500, 1011, MASKED);
}
END_TEST

/* The sums of `count` heads, one by one. */
static void check_means(const struct live_kernels *kernels, struct random *random, size_t count)
{
    double values[4 * 3 * LIVE_MEANS_PADDING], other[4 * 3 * LIVE_MEANS_PADDING], y[4][3 * LIVE_MEANS_PADDING];
    const double n[4] = {12, 7, 3, 25};
    for (size_t i = 0; i < 4; i++)
        for (size_t k = 0; k < count; k++)
            y[i][k] = n[i] * (1 + 0.1 * random_unit(random)) * (double)(k + 1);
    kernels->begin_means(values, y[0], n[0], count);
    kernels->add_means(values, y[1], n[1], count);
    kernels->begin_means(other, y[2], n[2], count);
    kernels->add_means(other, y[3], n[3], count);
    kernels->merge_means(values, other, n[2] + n[3], n[2] * n[2] + n[3] * n[3], count);
    for (size_t k = 0; k < count; k++) {
        struct ratio_sums a = {0}, b = {0};
        ratio_sums_add(&a, y[0][k], n[0]);
        ratio_sums_add(&a, y[1][k], n[1]);
        ratio_sums_add(&b, y[2][k], n[2]);
        ratio_sums_add(&b, y[3][k], n[3]);
        ratio_sums_merge(&a, &b);
        const double size = 1e-12 * (double)((k + 1) * (k + 1));
        ck_assert(fabs(values[k] - a.offset) <= size && fabs(values[count + k] - a.z) <= 100 * size);
        ck_assert(fabs(values[2 * count + k] - a.zz) <= 1000 * size &&
                  fabs(values[3 * count + k] - a.zn) <= 1000 * size);
    }
}

START_TEST(means_are_those_of_ratio_sums)
{
    const struct live_kernels *kernels = kernels_of(_i);
    struct random random = {5};
    if (!kernels)
        return;
    for (size_t count = LIVE_MEANS_PADDING; count <= 3 * LIVE_MEANS_PADDING; count += LIVE_MEANS_PADDING)
        check_means(kernels, &random, count);
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("analysis/live_kernels");
    TCase *t = tcase_create("live_kernels");
    tcase_set_timeout(t, 60);
    tcase_add_loop_test(t, rows_are_measured, 0, ISA_COUNT);
    tcase_add_loop_test(t, means_are_those_of_ratio_sums, 0, ISA_COUNT);
    suite_add_tcase(s, t);
    return s;
}
