/* A+, the pseudo-inverse of softmax(q~ k~^T s), by the iteration of Xiong et al. 2021 (equation 11), and its product
 * with B V. In float64: the inverse of an all but singular matrix takes what float32 rounds away for what there is.
 *
 * Several matrices go through each step together, cut into blocks of rows, so that there is work for all lanes whether
 * matrices are many or large. Entered by the thread that runs the job; tiles on any lane. */

#include "engine/nystrom.h"

#include "base/size.h"

#include <math.h>

/* Rows of a tile, at least. */
#define TILE_ROWS_LEAST ((size_t)8)

/* The matrices of one head of one sequence, which is `pair` of the heads of all sequences. Rows are `stride` apart. */
struct set {
    size_t pair;
    double *matrix, *inverse;      /* [m, m]: A~ and Z */
    double *product, *left, *next; /* [m, m] */
    double *keys;                  /* [d_k, m]: k~^T */
    double *queries;               /* [m, d_k] */
    double *mixed, *values;        /* [m, d_v]: B V and A+ B V */
    double *factor;                /* 1 / (max column sum * max row sum of A~) */
};

struct inversion {
    const struct nystrom *n;
    size_t first_pair, n_pairs; /* in work now */
    size_t stride, query_stride, value_stride;
    size_t row_blocks, block_rows;
    unsigned iteration; /* inverse and next change places from one to the next */
};

static size_t padded(size_t columns)
{
    return (columns + KERNEL_PAD_DOUBLES - 1) / KERNEL_PAD_DOUBLES * KERNEL_PAD_DOUBLES;
}

/* Never a power of two, as batch_tile_stride. */
static size_t matrix_stride(size_t m)
{
    return padded(m) + KERNEL_PAD_DOUBLES;
}

bool nystrom_set_doubles(const struct attention_shape *shape, size_t landmarks, size_t *doubles)
{
    const size_t stride = matrix_stride(landmarks); /* landmarks are few */
    size_t keys, queries, values;
    if (shape->d_k > SIZE_MAX / 2 || shape->d_v > SIZE_MAX / 2 || !size_multiply(shape->d_k, stride, &keys) ||
        !size_multiply(landmarks, padded(shape->d_k), &queries) ||
        !size_multiply(2 * landmarks, padded(shape->d_v), &values) || !size_add(keys, queries, &keys) ||
        !size_add(keys, values, &keys))
        return false;
    return size_add(keys, 5 * landmarks * stride + KERNEL_PAD_DOUBLES, doubles);
}

static struct set set_of(const struct inversion *v, size_t index)
{
    const struct attention_shape *shape = &v->n->batch->layer->shape;
    const size_t m = v->n->landmarks, square = m * v->stride;
    double *memory = v->n->sets + index * v->n->set_doubles;
    struct set set = {
        .pair = v->first_pair + index,
        .matrix = memory,
        .inverse = memory + square,
        .product = memory + 2 * square,
        .left = memory + 3 * square,
        .next = memory + 4 * square,
        .keys = memory + 5 * square,
        .queries = memory + 5 * square + shape->d_k * v->stride,
    };
    if (v->iteration % 2 == 1) {
        double *next = set.inverse;
        set.inverse = set.next;
        set.next = next;
    }
    set.mixed = set.queries + m * v->query_stride;
    set.values = set.mixed + m * v->value_stride;
    set.factor = set.values + m * v->value_stride;
    return set;
}

/* Rows first .. end - 1 of one matrix's step. */
typedef void step_rows(const struct inversion *v, const struct set *set, size_t first, size_t end);

struct step {
    const struct inversion *inversion;
    step_rows *rows;
    size_t row_blocks, block_rows;
};

static void step_tile(const void *argument, size_t index, unsigned lane)
{
    (void)lane;
    const struct step *step = argument;
    const struct set set = set_of(step->inversion, index / step->row_blocks);
    const size_t first = index % step->row_blocks * step->block_rows;
    step->rows(step->inversion, &set, first, size_min(first + step->block_rows, step->inversion->n->landmarks));
}

/* `flop_of_row`: of one row of one matrix. */
static bool run(const struct inversion *v, struct work *work, step_rows *rows, double flop_of_row)
{
    const struct step step = {v, rows, v->row_blocks, v->block_rows};
    return work_split(work, v->n_pairs * v->row_blocks, flop_of_row * (double)(v->n_pairs * v->n->landmarks), step_tile,
                      &step);
}

/* The same, where a matrix cannot be cut. */
static bool run_whole(const struct inversion *v, struct work *work, step_rows *rows, double flop_of_row)
{
    const struct step step = {v, rows, 1, v->n->landmarks};
    return work_split(work, v->n_pairs, flop_of_row * (double)(v->n_pairs * v->n->landmarks), step_tile, &step);
}

/* c = a b in rows first .. end - 1, the matrices [m, m]. */
static void multiply_rows(const struct inversion *v, const double *a, const double *b, double *c, size_t first,
                          size_t end)
{
    const size_t m = v->n->landmarks, stride = v->stride;
    v->n->batch->layer->kernels->multiply_double(a + first * stride, stride, b, stride, c + first * stride, stride,
                                                 end - first, m, padded(m));
}

/* to = diagonal I - from. */
static void subtract_rows(const struct inversion *v, double diagonal, const double *from, double *to, size_t first,
                          size_t end)
{
    const size_t columns = padded(v->n->landmarks);
    for (size_t i = first; i < end; i++) {
        for (size_t j = 0; j < columns; j++)
            to[i * v->stride + j] = -from[i * v->stride + j];
        to[i * v->stride + i] += diagonal;
    }
}

static void load_rows(const struct inversion *v, const struct set *set, size_t first, size_t end)
{
    const struct nystrom *n = v->n;
    const struct attention_shape *shape = &n->batch->layer->shape;
    const size_t m = n->landmarks, head = set->pair % shape->num_heads, base = set->pair / shape->num_heads * m;
    for (size_t i = first; i < end; i++) {
        const float *query = n->query.data + (base + i) * n->query.stride + head * shape->d_k;
        const float *key = n->key.data + (base + i) * n->key.stride + head * shape->d_k;
        const float *mixed = n->mixed.data + (base + i) * n->mixed.stride + head * shape->d_v;
        for (size_t d = 0; d < shape->d_k; d++) {
            set->queries[i * v->query_stride + d] = (double)query[d];
            set->keys[d * v->stride + i] = (double)key[d];
        }
        for (size_t d = 0; d < v->value_stride; d++)
            set->mixed[i * v->value_stride + d] = d < shape->d_v ? (double)mixed[d] : 0;
    }
    if (end == m)
        for (size_t d = 0; d < shape->d_k; d++)
            for (size_t i = m; i < padded(m); i++)
                set->keys[d * v->stride + i] = 0;
}

static void soften(double *scores, size_t count, double scale)
{
    double top = -INFINITY, sum = 0;
    for (size_t j = 0; j < count; j++) {
        scores[j] *= scale;
        top = scores[j] > top ? scores[j] : top;
    }
    for (size_t j = 0; j < count; j++)
        sum += scores[j] = exp(scores[j] - top);
    for (size_t j = 0; j < count; j++)
        scores[j] /= sum;
}

static void score_rows(const struct inversion *v, const struct set *set, size_t first, size_t end)
{
    const struct attention_shape *shape = &v->n->batch->layer->shape;
    const size_t m = v->n->landmarks;
    v->n->batch->layer->kernels->multiply_double(set->queries + first * v->query_stride, v->query_stride, set->keys,
                                                 v->stride, set->matrix + first * v->stride, v->stride, end - first,
                                                 shape->d_k, padded(m));
    for (size_t i = first; i < end; i++)
        soften(set->matrix + i * v->stride, m, (double)shape->scale);
}

/* Entries are not negative. A NaN in a sum is in the transpose too. */
static void measure(const struct inversion *v, const struct set *set, size_t first, size_t end)
{
    const size_t m = v->n->landmarks;
    double *columns = set->product, row_most = 0, column_most = 0;
    for (size_t j = 0; j < m; j++)
        columns[j] = 0;
    for (size_t i = first; i < end; i++) {
        const double *row = set->matrix + i * v->stride;
        double sum = 0;
        for (size_t j = 0; j < m; j++) {
            columns[j] += row[j];
            sum += row[j];
        }
        row_most = fmax(row_most, sum);
    }
    for (size_t j = 0; j < m; j++)
        column_most = fmax(column_most, columns[j]);
    *set->factor = 1 / (column_most * row_most);
}

/* Z = A~^T / (max column sum * max row sum). */
static void begin_rows(const struct inversion *v, const struct set *set, size_t first, size_t end)
{
    const size_t m = v->n->landmarks;
    for (size_t i = first; i < end; i++)
        for (size_t j = 0; j < padded(m); j++)
            set->inverse[i * v->stride + j] = j < m ? set->matrix[j * v->stride + i] * *set->factor : 0;
}

/* Z = Z (13 I - A~Z (15 I - A~Z (7 I - A~Z))) / 4, in four steps. */

static void first_rows(const struct inversion *v, const struct set *set, size_t first, size_t end)
{
    multiply_rows(v, set->matrix, set->inverse, set->product, first, end);
    subtract_rows(v, 7, set->product, set->left, first, end);
}

static void second_rows(const struct inversion *v, const struct set *set, size_t first, size_t end)
{
    multiply_rows(v, set->product, set->left, set->next, first, end);
    subtract_rows(v, 15, set->next, set->next, first, end);
}

static void third_rows(const struct inversion *v, const struct set *set, size_t first, size_t end)
{
    multiply_rows(v, set->product, set->next, set->left, first, end);
    subtract_rows(v, 13, set->left, set->left, first, end);
}

static void fourth_rows(const struct inversion *v, const struct set *set, size_t first, size_t end)
{
    multiply_rows(v, set->inverse, set->left, set->next, first, end);
    for (size_t i = first; i < end; i++)
        for (size_t j = 0; j < padded(v->n->landmarks); j++)
            set->next[i * v->stride + j] /= 4;
}

static void store_rows(const struct inversion *v, const struct set *set, size_t first, size_t end)
{
    const struct nystrom *n = v->n;
    const struct attention_shape *shape = &n->batch->layer->shape;
    const size_t m = n->landmarks, head = set->pair % shape->num_heads, base = set->pair / shape->num_heads * m;
    n->batch->layer->kernels->multiply_double(set->inverse + first * v->stride, v->stride, set->mixed, v->value_stride,
                                              set->values + first * v->value_stride, v->value_stride, end - first, m,
                                              v->value_stride);
    for (size_t i = first; i < end; i++) {
        float *values = n->values.data + (base + i) * n->values.stride + head * shape->d_v;
        float *inverse = n->inverses + (set->pair * m + i) * m;
        for (size_t d = 0; d < shape->d_v; d++)
            values[d] = (float)set->values[i * v->value_stride + d];
        for (size_t j = 0; j < m; j++)
            inverse[j] = (float)set->inverse[i * v->stride + j];
    }
}

static bool invert_pairs(struct inversion *v, struct work *work)
{
    const struct attention_shape *shape = &v->n->batch->layer->shape;
    const size_t iterations = v->n->batch->extent.rules->low_rank.iterations;
    const double m = (double)v->n->landmarks, d_k = (double)shape->d_k, d_v = (double)shape->d_v;
    const double copied = SPLIT_FLOP_PER_FLOAT * m, multiplied = 4 * m * m; /* float64 takes twice as long */
    v->iteration = 0;
    if (!run(v, work, load_rows, SPLIT_FLOP_PER_FLOAT * (2 * d_k + d_v)) ||
        !run(v, work, score_rows, 4 * m * d_k + 4 * copied) || !run_whole(v, work, measure, copied) ||
        !run(v, work, begin_rows, copied))
        return false;
    for (size_t i = 0; i < iterations; i++, v->iteration++)
        if (!run(v, work, first_rows, multiplied) || !run(v, work, second_rows, multiplied) ||
            !run(v, work, third_rows, multiplied) || !run(v, work, fourth_rows, multiplied))
            return false;
    return run(v, work, store_rows, 4 * m * d_v + copied);
}

bool nystrom_invert(const struct nystrom *n, struct work *work)
{
    const struct attention_shape *shape = &n->batch->layer->shape;
    const size_t m = n->landmarks, n_pairs = n->n_sequences * shape->num_heads;
    const double fitting = TILE_FLOP_MOST / (4 * (double)m * (double)m);
    struct inversion v = {
        .n = n,
        .stride = matrix_stride(m),
        .query_stride = padded(shape->d_k),
        .value_stride = padded(shape->d_v),
        .block_rows = fitting < (double)m ? size_max((size_t)fitting, TILE_ROWS_LEAST) : m,
    };
    v.row_blocks = (m + v.block_rows - 1) / v.block_rows;
    for (v.first_pair = 0; v.first_pair < n_pairs; v.first_pair += v.n_pairs) {
        v.n_pairs = size_min(n->n_sets, n_pairs - v.first_pair);
        if (!invert_pairs(&v, work))
            return false;
    }
    return true;
}
