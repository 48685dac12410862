/* Rows measured with each instruction set, against float64 one weight at a time, and a sort of the C library. */
#include "analysis/row_measures/row_measures.h"

#include "engine/random.h"
#include "suite.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const struct row_kernels *kernels;

static int ascending(const void *a, const void *b)
{
    const float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

static void expect_near(double got, double wanted, double absolute, const char *what, size_t n_keys)
{
    ck_assert_msg(fabs(got - wanted) <= absolute + 1e-6 * fabs(wanted), "%s of %zu keys: got %.9g, expected %.9g", what,
                  n_keys, got, wanted);
}

static void expect_measures(const struct measured_rows *rows, const struct row_measures *m, size_t row)
{
    const size_t n = rows->n_keys;
    const float *p = rows->weights + row * rows->stride;
    const double place = (double)rows->first_place + (double)row;
    double entropy = 0, total = 0, squares = 0, distance = 0, signed_distance = 0, ranks = 0, held = 0;
    float *sorted = malloc(n * sizeof *sorted);
    size_t argmax = 0, keys = 0;
    for (size_t k = 0; k < n; k++) {
        const double w = (double)p[k];
        entropy -= w >= (double)FLT_MIN ? w * log(w) : 0;
        total += w;
        squares += w * w;
        distance += w * fabs((double)k - place);
        signed_distance += w * ((double)k - place);
        argmax = p[k] > p[argmax] ? k : argmax;
    }
    memcpy(sorted, p, n * sizeof *sorted);
    qsort(sorted, n, sizeof *sorted, ascending);
    for (size_t k = 0; k < n; k++)
        ranks += (double)(k + 1) * (double)sorted[k];
    while (keys < n && held < MEASURED_SHARE)
        held += (double)sorted[n - ++keys];
    expect_near(m->entropy[row], entropy, 1e-6, "entropy", n);
    expect_near(m->total[row], total, 0, "total", n);
    expect_near(m->squares[row], squares, 0, "squares", n);
    expect_near(m->distance[row], distance, 1e-6, "distance", n);
    expect_near(m->signed_distance[row], signed_distance, 1e-6 + 1e-6 * distance, "signed distance", n);
    ck_assert(fabs(m->rank_sum[row] - ranks) <= 1e-12 * ranks);
    ck_assert(m->largest[row] == p[argmax]);
    ck_assert_uint_eq(m->argmax[row], argmax);
    ck_assert_uint_eq(m->keys_for_share[row], keys ? keys : 1);
    free(sorted);
}

/* Rows of every kind: dense, sharp, equal weights, mostly zeros, subnormal ones. */
static void fill(struct random *random, float *row, size_t n)
{
    const size_t kind = random_size(random, 0, 4);
    double sum = 0;
    for (size_t k = 0; k < n; k++) {
        const double z = random_normal(random);
        const double w = kind == 0   ? exp(z)
                         : kind == 1 ? exp(9 * z)
                         : kind == 2 ? 1
                         : kind == 3 ? (random_chance(random, 0.2) ? exp(z) : 0)
                                     : exp(40 * z);
        row[k] = (float)fmin(w, 1e30);
        sum += (double)row[k];
    }
    for (size_t k = 0; k < n && sum > 0; k++)
        row[k] = (float)((double)row[k] / sum);
    if (!(sum > 0))
        row[random_size(random, 0, n - 1)] = 1;
}

static void try_rows(struct random *random, size_t n_rows, size_t n_keys)
{
    const size_t stride = n_keys + random_size(random, 0, 3), count = (n_rows - 1) * stride + n_keys;
    const size_t padded = (n_keys + MEASURED_KEYS_PADDING - 1) / MEASURED_KEYS_PADDING * MEASURED_KEYS_PADDING;
    float *weights = calloc(count, sizeof *weights); /* exactly: a sanitizer sees what is read behind */
    float *scratch = aligned_alloc(64, padded * MEASURED_ROWS * sizeof *scratch);
    double *columns = calloc(n_keys, sizeof *columns);
    struct row_measures measures, again;
    for (size_t row = 0; row < n_rows; row++)
        fill(random, weights + row * stride, n_keys);
    const struct measured_rows rows = {weights, stride, n_rows, n_keys, (ptrdiff_t)random_size(random, 0, 40) - 20};
    kernels->measure(&rows, true, scratch, &measures);
    for (size_t row = 0; row < n_rows; row++)
        expect_measures(&rows, &measures, row);

    /* One row alone has the bits it has in company, sorted or not. */
    const size_t alone = random_size(random, 0, n_rows - 1);
    kernels->measure(
        &(struct measured_rows){weights + alone * stride, stride, 1, n_keys, rows.first_place + (ptrdiff_t)alone},
        false, scratch, &again);
    ck_assert(again.entropy[0] == measures.entropy[alone] && again.total[0] == measures.total[alone] &&
              again.squares[0] == measures.squares[alone] && again.distance[0] == measures.distance[alone] &&
              again.signed_distance[0] == measures.signed_distance[alone]);

    for (size_t k = 0; k < n_keys; k++)
        columns[k] = (double)k;
    kernels->add_columns(&rows, columns);
    for (size_t k = 0; k < n_keys; k++) {
        double wanted = (double)k;
        for (size_t row = 0; row < n_rows; row++)
            wanted += (double)weights[row * stride + k];
        ck_assert(columns[k] == wanted);
    }
    free(columns);
    free(scratch);
    free(weights);
}

START_TEST(random_rows)
{
    if (!isa_supported((enum isa)_i))
        return;
    kernels = row_kernels_of((enum isa)_i);
    struct random random = {7};
    for (size_t n_keys = 1; n_keys <= 70; n_keys++)
        try_rows(&random, random_size(&random, 1, MEASURED_ROWS), n_keys);
    for (size_t n_rows = 1; n_rows <= MEASURED_ROWS; n_rows++)
        try_rows(&random, n_rows, random_size(&random, 1, 40));
    static const size_t lengths[] = {127, 128, 129, 255, 256, 257, 511, 512, 600, 1025};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
        try_rows(&random, random_size(&random, 1, MEASURED_ROWS), lengths[i]);
}
END_TEST

/* A network that sorts every sequence of zeros and ones sorts every sequence (Knuth 5.3.4 Z): all of them, up to 16
 * keys, and those of one change beyond. */
START_TEST(zeros_and_ones)
{
    if (!isa_supported((enum isa)_i))
        return;
    kernels = row_kernels_of((enum isa)_i);
    float *scratch = aligned_alloc(64, 320 * MEASURED_ROWS * sizeof *scratch);
    for (size_t n = 1; n <= 16; n++) {
        float weights[MEASURED_ROWS * 16];
        for (uint32_t begin = 0; begin < (1u << n); begin += MEASURED_ROWS) {
            struct row_measures measures;
            for (uint32_t row = 0; row < MEASURED_ROWS; row++)
                for (size_t k = 0; k < n; k++)
                    weights[row * n + k] = (float)((begin + row) >> k & 1);
            kernels->measure(&(struct measured_rows){weights, n, MEASURED_ROWS, n, 0}, true, scratch, &measures);
            for (uint32_t row = 0; row < MEASURED_ROWS; row++) {
                const double ones = __builtin_popcount((begin + row) & ((1u << n) - 1));
                ck_assert(measures.rank_sum[row] == ones * (double)n - ones * (ones - 1) / 2);
            }
        }
    }
    for (size_t n = 17; n <= 320; n += n < 140 ? 1 : 23)
        for (size_t ones = 0; ones <= n; ones += MEASURED_ROWS) {
            float weights[MEASURED_ROWS * 320];
            struct row_measures measures;
            for (size_t row = 0; row < MEASURED_ROWS; row++)
                for (size_t k = 0; k < n; k++)
                    weights[row * n + k] = k < ones + row; /* the ones first: all have to move */
            kernels->measure(&(struct measured_rows){weights, n, MEASURED_ROWS, n, 0}, true, scratch, &measures);
            for (size_t row = 0; row < MEASURED_ROWS; row++) {
                const double many = (double)(ones + row < n ? ones + row : n);
                ck_assert(measures.rank_sum[row] == many * (double)n - many * (many - 1) / 2);
            }
        }
    free(scratch);
}
END_TEST

START_TEST(sums)
{
    if (!isa_supported((enum isa)_i))
        return;
    kernels = row_kernels_of((enum isa)_i);
    struct random random = {3};
    for (size_t n = 0; n <= 70; n++) {
        float *weights = malloc((n + !n) * sizeof *weights), least = 0, wanted_least = 0;
        double wanted = 0;
        for (size_t k = 0; k < n; k++) {
            weights[k] = (float)random_normal(&random);
            wanted += (double)weights[k];
            wanted_least = fminf(wanted_least, weights[k]);
        }
        ck_assert(fabs(kernels->sum(weights, n, &least) - wanted) < 1e-12);
        ck_assert(least == wanted_least);
        if (n > 0) {
            weights[random_size(&random, 0, n - 1)] = NAN;
            ck_assert(isnan(kernels->sum(weights, n, &least)));
        }
        free(weights);
    }
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("analysis/row_measures");
    TCase *t = tcase_create("row_measures");
    tcase_add_loop_test(t, random_rows, 0, ISA_COUNT);
    tcase_add_loop_test(t, zeros_and_ones, 0, ISA_COUNT);
    tcase_add_loop_test(t, sums, 0, ISA_COUNT);
    suite_add_tcase(s, t);
    return s;
}
