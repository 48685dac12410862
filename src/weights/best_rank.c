/* left = Q1 R1 and right = Q2 R2 by Householder's reflections; R1 R2^T = U S V^T by one-sided Jacobi rotations (Golub
 * and Van Loan, Matrix Computations, 5.2 and 8.6), which find small singular values as well as large ones. Pure: any
 * thread. */

#include "weights/best_rank.h"

#include "base/size.h"

#include <float.h>
#include <math.h>
#include <string.h>

/* Rotations converge in some ten sweeps; after so many they stop in any case. */
#define SWEEPS_MOST 60

/* Sums in several chains, which compilers may not make of one. */
typedef double lanes __attribute__((vector_size(32), aligned(8), may_alias));

static double dot(const double *a, const double *b, size_t count)
{
    lanes sums[2] = {{0}, {0}};
    size_t i = 0;
    for (; i + 8 <= count; i += 8) {
        sums[0] += *(const lanes *)(a + i) * *(const lanes *)(b + i);
        sums[1] += *(const lanes *)(a + i + 4) * *(const lanes *)(b + i + 4);
    }
    const lanes both = sums[0] + sums[1];
    double sum = (both[0] + both[2]) + (both[1] + both[3]);
    for (; i < count; i++)
        sum += a[i] * b[i];
    return sum;
}

/* y += factor * x */
static void add_scaled(double *y, double factor, const double *x, size_t count)
{
    for (size_t i = 0; i < count; i++)
        y[i] += factor * x[i];
}

/* The reflections of m's columns: column j becomes the vector of reflection j from its row j on, whose head is 1 and is
 * not kept, and of R what stands above. diagonal[j] is R's, factors[j] 2 / v^T v. */
static void triangulate(const struct tall_matrix *m, size_t width, double *diagonal, double *factors)
{
    const size_t depth = size_min(m->rows, width);
    for (size_t j = 0; j < depth; j++) {
        double *v = m->columns + j * m->rows + j;
        const size_t count = m->rows - j;
        const double norm = sqrt(dot(v, v, count));
        diagonal[j] = v[0] > 0 ? -norm : norm;
        factors[j] = 0;
        if (norm == 0)
            continue;
        /* v = x - diagonal e_0, over its head: no cancellation, they differ in sign */
        const double head = v[0] - diagonal[j];
        for (size_t i = 1; i < count; i++)
            v[i] /= head;
        v[0] = 1;
        factors[j] = -head / diagonal[j];
        for (size_t k = j + 1; k < width; k++) {
            double *other = m->columns + k * m->rows + j;
            add_scaled(other, -factors[j] * dot(v, other, count), v, count);
        }
    }
}

/* R's element of row i and column j. */
static double triangle(const struct tall_matrix *m, const double *diagonal, size_t i, size_t j)
{
    return i > j ? 0 : i == j ? diagonal[i] : m->columns[j * m->rows + i];
}

/* Columns p and q of `matrix` [depth, ...] become orthogonal; the same rotation turns those of `turned`. Whether they
 * were not. */
static bool rotate(double *p, double *q, size_t depth, double *turned_p, double *turned_q, size_t turned_depth)
{
    const double a = dot(p, p, depth), b = dot(q, q, depth), c = dot(p, q, depth);
    if (!(fabs(c) > DBL_EPSILON * sqrt(a) * sqrt(b)))
        return false;
    const double zeta = (b - a) / (2 * c), tangent = (zeta < 0 ? -1 : 1) / (fabs(zeta) + hypot(1, zeta)),
                 cosine = 1 / sqrt(1 + tangent * tangent), sine = cosine * tangent;
    for (size_t i = 0; i < depth; i++) {
        const double x = p[i], y = q[i];
        p[i] = cosine * x - sine * y;
        q[i] = sine * x + cosine * y;
    }
    for (size_t i = 0; i < turned_depth; i++) {
        const double x = turned_p[i], y = turned_q[i];
        turned_p[i] = cosine * x - sine * y;
        turned_q[i] = sine * x + cosine * y;
    }
    return true;
}

/* core [depth, width], column by column, becomes U S, and turned [width, width], which is the unit matrix, V. */
static void diagonalize(double *core, size_t depth, double *turned, size_t width)
{
    bool rotated = true;
    for (size_t sweep = 0; sweep < SWEEPS_MOST && rotated; sweep++) {
        rotated = false;
        for (size_t p = 0; p + 1 < width; p++)
            for (size_t q = p + 1; q < width; q++)
                rotated |=
                    rotate(core + p * depth, core + q * depth, depth, turned + p * width, turned + q * width, width);
    }
}

/* y [rows] = Q y, y's own rows being all below `depth`. */
static void apply_reflections(const struct tall_matrix *m, const double *factors, size_t depth, double *y)
{
    for (size_t j = depth; j-- > 0;) {
        const double *v = m->columns + j * m->rows + j;
        const size_t count = m->rows - j;
        if (factors[j] != 0)
            add_scaled(y + j, -factors[j] * dot(v, y + j, count), v, count);
    }
}

bool best_rank_scratch(size_t width, size_t *doubles)
{
    size_t squares;
    return width < SIZE_MAX / 8 && size_multiply(width, width, &squares) && size_multiply(squares, 2, &squares) &&
           size_add(squares, 5 * width, doubles);
}

static size_t largest(const double *values, size_t count)
{
    size_t best = 0;
    for (size_t i = 1; i < count; i++)
        if (values[i] > values[best])
            best = i;
    return best;
}

/* One column of a factor: Q times `inner` [depth] times `scale`. */
static void expand(const struct tall_matrix *m, const double *reflections, const double *inner, size_t depth,
                   double scale, double *column)
{
    for (size_t i = 0; i < depth; i++)
        column[i] = inner[i] * scale;
    memset(column + depth, 0, (m->rows - depth) * sizeof *column);
    apply_reflections(m, reflections, depth, column);
}

void best_rank(struct tall_matrix left, struct tall_matrix right, size_t width, size_t rank, double *left_factor,
               double *right_factor, double *scratch)
{
    double *left_diagonal = scratch, *left_reflections = scratch + width, *right_diagonal = scratch + 2 * width,
           *right_reflections = scratch + 3 * width, *values = scratch + 4 * width, *core = scratch + 5 * width,
           *turned = core + width * width;
    const size_t depth = size_min(left.rows, width), columns = size_min(right.rows, width);
    triangulate(&left, width, left_diagonal, left_reflections);
    triangulate(&right, width, right_diagonal, right_reflections);
    for (size_t j = 0; j < columns; j++)
        for (size_t i = 0; i < depth; i++) {
            double sum = 0;
            for (size_t k = size_max(i, j); k < width; k++)
                sum += triangle(&left, left_diagonal, i, k) * triangle(&right, right_diagonal, j, k);
            core[j * depth + i] = sum;
        }
    for (size_t i = 0; i < columns; i++)
        for (size_t j = 0; j < columns; j++)
            turned[i * columns + j] = i == j;
    diagonalize(core, depth, turned, columns);
    for (size_t j = 0; j < columns; j++)
        values[j] = sqrt(dot(core + j * depth, core + j * depth, depth));

    for (size_t n = 0; n < rank; n++) {
        double *left_column = left_factor + n * left.rows, *right_column = right_factor + n * right.rows;
        const size_t best = largest(values, columns);
        if (n >= columns || !(values[best] > 0)) {
            memset(left_column, 0, left.rows * sizeof *left_column);
            memset(right_column, 0, right.rows * sizeof *right_column);
            continue;
        }
        const double root = sqrt(values[best]);
        values[best] = -1;
        expand(&left, left_reflections, core + best * depth, depth, 1 / root, left_column);
        expand(&right, right_reflections, turned + best * columns, columns, root, right_column);
    }
}
