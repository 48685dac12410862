/* multiply: against float64, on every edge of tiles, panels, vectors and blocks; and the one order of operations: an
 * element has the same bits in any piece of any product. */

#include "check.h"

#include "guard.h"
#include "reference.h"

#include <math.h>
#include <string.h>

/* What the matrices are made of. */
enum numbers { UNIT, SMALL, SUBNORMAL, LARGE, MIXED, NUMBER_KINDS };

struct work {
    const struct kernels *k;
    struct random *random;
    size_t rows, depth, columns, b_depth, a_stride, c_stride;
    enum numbers kind;
    float *a;            /* [rows, depth], rows a_stride apart */
    float *b;            /* [b_depth, columns] */
    float *packed;       /* b */
    uint32_t *pairs;     /* b, where the product reads it as bfloat16; or NULL */
    float *bias;         /* [columns] or NULL */
    float *c;            /* [rows, columns], rows c_stride apart */
    float *one, *single; /* [b_depth, 1] packed; a C of one element */
    float *whole;        /* C as it came out of one call; not a kernel's */
    struct product product;
};

/* A and B together stay below FLT_MAX for every depth here. */
static float draw(struct random *random, enum numbers kind, bool left)
{
    const float normal = (float)random_normal(random);
    switch (kind) {
    case SMALL: /* the products are subnormal */
        return normal * 1e-20f;
    case SUBNORMAL:
        return left ? normal * 1e-40f : normal;
    case LARGE:
        return left ? normal * 1e30f : normal;
    case MIXED:
        return ldexpf(normal, (int)random_size(random, 0, 60) - 30);
    default:
        return normal;
    }
}

/* B to its panels. */
static void pack_work(const struct work *w)
{
    w->k->pack(w->b, w->columns, w->b_depth, w->columns, w->packed);
    if (w->pairs)
        reference_pairs(w->k, w->b, w->b_depth, w->columns, w->pairs);
}

static void open_work(struct work *w, const struct kernels *k, struct random *random, size_t rows, size_t depth,
                      size_t columns)
{
    *w = (struct work){.k = k, .random = random, .rows = rows, .depth = depth, .columns = columns};
    w->kind = random_chance(random, 0.5) ? UNIT : (enum numbers)random_size(random, 0, NUMBER_KINDS - 1);
    w->b_depth = depth + (random_chance(random, 0.7) ? 0 : random_size(random, 1, 5));
    w->a_stride = depth + random_size(random, 0, 3);
    w->c_stride = columns + random_size(random, 0, 3);
    check_case("[%zu, %zu] x [%zu of %zu, %zu], rows %zu and %zu apart, numbers of kind %d", rows, depth, depth,
               w->b_depth, columns, w->a_stride, w->c_stride, (int)w->kind);
    const size_t vector = k->vector_floats * sizeof(float);
    w->a = guard_take("a", ((rows - 1) * w->a_stride + depth) * sizeof(float), sizeof(float));
    w->b = guard_take("b before packing", w->b_depth * columns * sizeof(float), sizeof(float));
    w->packed = guard_take("b", k->packed_floats(w->b_depth, columns) * sizeof(float), vector);
    w->c = guard_take("c", ((rows - 1) * w->c_stride + columns) * sizeof(float), sizeof(float));
    w->one = guard_take("b of one column", k->packed_floats(w->b_depth, 1) * sizeof(float), vector);
    w->single = guard_take("c of one element", sizeof(float), sizeof(float));
    w->whole = guard_take("a copy of c", ((rows - 1) * w->c_stride + columns) * sizeof(float), sizeof(float));
    for (size_t i = 0; i < rows; i++)
        for (size_t d = 0; d < depth; d++)
            w->a[i * w->a_stride + d] = draw(random, w->kind, true);
    if (random_chance(random, 0.4))
        w->pairs =
            guard_take("b as bfloat16", reference_pairs_count(k, w->b_depth, columns) * sizeof(uint32_t), vector);
    for (size_t i = 0; i < w->b_depth * columns; i++) {
        w->b[i] = draw(random, w->kind, false);
        if (w->pairs)
            w->b[i] = reference_bf16_value(reference_bf16(w->b[i]));
    }
    if (random_chance(random, 0.5)) {
        w->bias = guard_take("bias", columns * sizeof(float), sizeof(float));
        for (size_t j = 0; j < columns; j++)
            w->bias[j] = (float)random_normal(random);
    }
    static const float scales[] = {1, 0.75f, 0.1767767f, -2, 1e-3f};
    w->product = (struct product){
        .depth = depth,
        .columns = columns,
        .a = w->a,
        .a_stride = w->a_stride,
        .b = w->pairs ? NULL : w->packed,
        .pairs = w->pairs,
        .b_depth = w->b_depth,
        .bias = w->bias,
        .scale = w->bias ? 1 : scales[random_size(random, 0, 4)],
        .c = w->c,
        .c_stride = w->c_stride,
    };
    pack_work(w);
}

static size_t c_bytes(const struct work *w)
{
    return ((w->rows - 1) * w->c_stride + w->columns) * sizeof(float);
}

/* C in one call, kept in `whole`. From here on the arguments are read-only. */
static void multiply_whole(struct work *w)
{
    guard_read_only(w->a);
    guard_read_only(w->packed);
    if (w->pairs)
        guard_read_only(w->pairs);
    if (w->bias)
        guard_read_only(w->bias);
    w->k->multiply(&w->product, 0, w->rows, 0, w->columns);
    memcpy(w->whole, w->c, c_bytes(w));
}

static void check_values(const struct work *w)
{
    for (size_t i = 0; i < w->rows; i++) {
        for (size_t j = 0; j < w->columns; j++) {
            double bound;
            const double expected = reference_element(w->a + i * w->a_stride, w->b + j, w->columns, w->depth,
                                                      w->product.scale, w->bias ? w->bias[j] : 0, &bound);
            const double found = (double)w->whole[i * w->c_stride + j];
            if (!(fabs(found - expected) <= bound))
                check_fail("at [%zu, %zu] %.9g, not %.9g within %.3g", i, j, found, expected, bound);
        }
        const size_t between = i + 1 < w->rows ? w->c_stride - w->columns : 0;
        if (!guard_untouched(w->whole + i * w->c_stride + w->columns, between * sizeof(float)))
            check_fail("writes between rows %zu and %zu of c", i, i + 1);
    }
}

/* An element as a product of one row and one column. */
static void check_alone(const struct work *w, size_t row, size_t column)
{
    w->k->pack(w->b + column, w->columns, w->b_depth, 1, w->one);
    struct product product = w->product;
    product.columns = 1;
    product.a += row * w->a_stride;
    product.b = w->one; /* of float32: widened numbers are used as they are */
    product.pairs = NULL;
    product.bias = w->bias ? w->bias + column : NULL;
    product.c = w->single;
    w->k->multiply(&product, 0, 1, 0, 1);
    if (memcmp(w->single, &w->whole[row * w->c_stride + column], sizeof(float)) != 0)
        check_fail("[%zu, %zu] alone is %.9g, in company %.9g: another order of operations", row, column,
                   (double)*w->single, (double)w->whole[row * w->c_stride + column]);
}

/* Rows and columns of C that were asked for have the bits of the whole; other rows, and panels, are untouched. Behind
 * `end_column` up to its panel's end the kernel may write what the whole has. */
static void check_piece(const struct work *w, size_t first_row, size_t end_row, size_t first_column, size_t end_column)
{
    const size_t panel = w->k->panel_columns, panel_end = (end_column + panel - 1) / panel * panel;
    memset(w->c, GUARD_BYTE, c_bytes(w));
    w->k->multiply(&w->product, first_row, end_row, first_column, end_column);
    for (size_t i = 0; i < w->rows; i++)
        for (size_t j = 0; j < w->columns; j++) {
            const size_t at = i * w->c_stride + j;
            const bool same = memcmp(&w->c[at], &w->whole[at], sizeof(float)) == 0,
                       untouched = guard_untouched(&w->c[at], sizeof(float));
            const bool inside = i >= first_row && i < end_row && j >= first_column;
            const bool right = inside && j < end_column  ? same
                               : inside && j < panel_end ? same || untouched
                                                         : untouched;
            if (!right)
                check_fail("rows %zu to %zu, columns %zu to %zu: at [%zu, %zu] %.9g, in the whole %.9g", first_row,
                           end_row, first_column, end_column, i, j, (double)w->c[at], (double)w->whole[at]);
        }
}

static void check_random_piece(const struct work *w)
{
    const size_t panel = w->k->panel_columns, panels = (w->columns + panel - 1) / panel;
    const size_t first_row = random_size(w->random, 0, w->rows - 1), first = random_size(w->random, 0, panels - 1);
    check_piece(w, first_row, random_size(w->random, first_row + 1, w->rows), first * panel,
                random_size(w->random, first * panel + 1, w->columns));
}

/* All of C in pieces of few rows and one panel, as a parallel loop computes it. */
static void check_pieces(const struct work *w)
{
    const size_t panel = w->k->panel_columns;
    memset(w->c, GUARD_BYTE, c_bytes(w));
    for (size_t row = 0, n; row < w->rows; row += n) {
        n = random_size(w->random, 1, w->rows - row < 3 ? w->rows - row : 3);
        for (size_t column = 0; column < w->columns; column += panel)
            w->k->multiply(&w->product, row, row + n, column,
                           w->columns - column < panel ? w->columns : column + panel);
    }
    if (memcmp(w->c, w->whole, c_bytes(w)) != 0)
        check_fail("other bits in pieces: another order of operations");
}

static void check_product(const struct kernels *k, struct random *random, size_t rows, size_t depth, size_t columns)
{
    struct work w;
    open_work(&w, k, random, rows, depth, columns);
    multiply_whole(&w);
    check_values(&w);
    check_pieces(&w);
    check_random_piece(&w);
    check_alone(&w, 0, columns - 1);
    check_alone(&w, random_size(random, 0, rows - 1), random_size(random, 0, columns - 1));
    guard_end();
}

/* A product over the first rows of B has the bits it has when B has no more rows. */
static void check_part_of_depth(const struct kernels *k, struct random *random, size_t rows, size_t columns)
{
    struct work w;
    const size_t depth = random_size(random, 1, 40);
    open_work(&w, k, random, rows, depth, columns);
    multiply_whole(&w);
    k->pack(w.b, columns, depth, columns,
            w.one = guard_take("a shorter b", k->packed_floats(depth, columns) * sizeof(float),
                               k->vector_floats * sizeof(float)));
    w.product.b = w.one;
    w.product.pairs = NULL;
    w.product.b_depth = depth;
    memset(w.c, GUARD_BYTE, c_bytes(&w));
    k->multiply(&w.product, 0, rows, 0, columns);
    if (memcmp(w.c, w.whole, c_bytes(&w)) != 0)
        check_fail("other bits when b has no more rows than are used");
    guard_end();
}

/* A product over the later rows of B that adds to one over the first: the float32 sum of both. */
static void check_sum_of_parts(const struct kernels *k, struct random *random, size_t rows, size_t columns)
{
    struct work w;
    const size_t depth = random_size(random, 2, 40), first = random_size(random, 1, depth - 1);
    open_work(&w, k, random, rows, depth, columns);
    struct product part = w.product;
    part.bias = NULL;
    part.scale = 1;
    part.depth = first;
    k->multiply(&part, 0, rows, 0, columns);
    memcpy(w.whole, w.c, c_bytes(&w)); /* the first part */
    part.depth = depth - first;
    part.a += first;
    part.b_first = first;
    k->multiply(&part, 0, rows, 0, columns);
    for (size_t i = 0; i < rows; i++)
        for (size_t j = 0; j < columns; j++) {
            double bound;
            const size_t at = i * w.c_stride + j;
            const double alone = reference_element(w.a + i * w.a_stride + first, w.b + first * columns + j, columns,
                                                   part.depth, 1, 0, &bound);
            if (!(fabs((double)w.c[at] - alone) <= bound))
                check_fail("rows %zu to %zu of b: at [%zu, %zu] %.9g, not %.9g", first, depth, i, j, (double)w.c[at],
                           alone);
            w.whole[at] += w.c[at];
        }
    part = w.product;
    part.bias = NULL;
    part.scale = 1;
    part.depth = first;
    k->multiply(&part, 0, rows, 0, columns);
    part.depth = depth - first;
    part.a += first;
    part.b_first = first;
    part.adds = true;
    k->multiply(&part, 0, rows, 0, columns);
    if (memcmp(w.c, w.whole, c_bytes(&w)) != 0)
        check_fail("the product of rows %zu to %zu of b is not added to that of those before", first, depth);
    guard_end();
}

/* A causal limit leaves zeros behind it: computed or left out, and wherever the depth is cut into blocks, the bits are
 * the same. */
static void check_zeros_behind(const struct kernels *k, struct random *random, size_t columns)
{
    struct work w;
    const size_t rows = random_size(random, 1, 7), depth = random_size(random, 400, 2000);
    const size_t limit = random_size(random, 1, depth), used = random_size(random, limit, depth);
    open_work(&w, k, random, rows, depth, columns);
    for (size_t i = 0; i < rows; i++)
        for (size_t d = limit; d < depth; d++)
            w.a[i * w.a_stride + d] = 0;
    w.product.depth = used;
    multiply_whole(&w);
    w.product.depth = limit;
    memset(w.c, GUARD_BYTE, c_bytes(&w));
    k->multiply(&w.product, 0, rows, 0, columns);
    if (memcmp(w.c, w.whole, c_bytes(&w)) != 0)
        check_fail("other bits with %zu zeros behind depth %zu of %zu", used - limit, limit, depth);
    guard_end();
}

/* What is not finite stays in its row of A or its column of B, and does not vanish there. */
static void check_not_finite(const struct kernels *k, struct random *random, size_t rows, size_t columns)
{
    static const float faults[] = {NAN, INFINITY, -INFINITY};
    const size_t depth = random_size(random, 1, 900);
    for (int in_a = 0; in_a < 2; in_a++) {
        struct work w;
        open_work(&w, k, random, rows, depth, columns);
        w.k->multiply(&w.product, 0, rows, 0, columns);
        memcpy(w.whole, w.c, c_bytes(&w));
        const size_t row = random_size(random, 0, rows - 1), column = random_size(random, 0, columns - 1),
                     at = random_size(random, 0, depth - 1);
        if (in_a)
            w.a[row * w.a_stride + at] = faults[random_size(random, 0, 2)];
        else
            w.b[at * columns + column] = faults[random_size(random, 0, 2)];
        pack_work(&w);
        k->multiply(&w.product, 0, rows, 0, columns);
        for (size_t i = 0; i < rows; i++)
            for (size_t j = 0; j < columns; j++) {
                const float found = w.c[i * w.c_stride + j], before = w.whole[i * w.c_stride + j];
                if (in_a ? i == row : j == column) {
                    if (isfinite(found))
                        check_fail("%g at [%zu, %zu], although its %s holds what is not finite", (double)found, i, j,
                                   in_a ? "row" : "column");
                } else if (memcmp(&found, &before, sizeof found) != 0) {
                    check_fail("what is not finite has reached [%zu, %zu]: %g, before %g", i, j, (double)found,
                               (double)before);
                }
            }
        guard_end();
    }
}

/* Finite arguments whose products are beyond float32. */
static void check_overflow(const struct kernels *k, struct random *random, size_t rows, size_t columns)
{
    struct work w;
    open_work(&w, k, random, rows, random_size(random, 1, 20), columns);
    for (size_t i = 0; i < rows; i++)
        for (size_t d = 0; d < w.depth; d++)
            w.a[i * w.a_stride + d] = i % 2 ? -1e30f : 1e30f;
    for (size_t i = 0; i < w.b_depth * columns; i++)
        w.b[i] = reference_bf16_value(reference_bf16(1e30f));
    pack_work(&w);
    k->multiply(&w.product, 0, rows, 0, columns);
    for (size_t i = 0; i < rows; i++)
        for (size_t j = 0; j < columns; j++) {
            const float expected = (i % 2 ? -INFINITY : INFINITY) * w.product.scale;
            if (w.c[i * w.c_stride + j] != expected)
                check_fail("%g, not %g, at [%zu, %zu]", (double)w.c[i * w.c_stride + j], (double)expected, i, j);
        }
    guard_end();
}

void check_multiply(const struct kernels *k, struct random *random)
{
    /* Beside the lengths of blocks of depth that the kernels have: 384 and 768. */
    static const size_t depths[] = {383, 384, 385, 767, 768, 769, 1151, 1152, 1153, 1536, 1537};
    static const size_t tall[] = {28, 64, 95, 96, 97, 191, 192, 193, 240, 241, 250, 384, 433};
    const size_t vector = k->vector_floats, panel = k->panel_columns;
    const size_t edges[] = {1, vector - 1, vector, vector + 1, panel - 1, panel, panel + 1, 2 * panel + vector};
    for (enum guard_side side = GUARD_BEHIND; side <= GUARD_BEFORE; side++) {
        guard_begin(side);
        for (size_t columns = 1; columns <= 2 * panel + 3; columns++)
            for (size_t rows = 1; rows <= 27; rows++)
                check_product(k, random, rows, random_size(random, 0, 9), columns);
        for (size_t depth = 0; depth <= 40; depth++)
            for (size_t i = 0; i < sizeof edges / sizeof *edges; i++)
                check_product(k, random, random_size(random, 1, 14), depth, edges[i]);
        for (size_t d = 0; d < sizeof depths / sizeof *depths; d++)
            for (size_t i = 0; i < sizeof edges / sizeof *edges; i++)
                check_product(k, random, random_size(random, 1, 13), depths[d], edges[i]);
        for (size_t i = 0; i < sizeof tall / sizeof *tall; i++)
            check_product(k, random, tall[i], random_size(random, 1, 30), random_size(random, 1, 3 * panel));
        check_product(k, random, 200, 800, panel + 3); /* blocks of rows and of depth */
        for (size_t i = 0; i < sizeof edges / sizeof *edges; i++)
            for (size_t rows = 1; rows <= 13; rows += 4) {
                check_part_of_depth(k, random, rows, edges[i]);
                check_sum_of_parts(k, random, rows, edges[i]);
                check_zeros_behind(k, random, edges[i]);
                check_not_finite(k, random, rows, edges[i]);
                check_overflow(k, random, rows, edges[i]);
            }
    }
}
