/* The engine's inner loops as tables of functions, one table for each instruction set, and the choice between them.
 *
 * Every table is made from the same C (body.inc), compiled with other flags. All functions are pure: they touch what
 * their arguments point to and may run on any thread.
 *
 * Each number has one order of operations: an element of a product is the same chain of multiply-adds however many rows
 * and columns are computed with it, and a row's weights depend on its own scores only. That is why a request has the
 * same bits whatever it is batched with. */
#ifndef ATTND_ENGINE_KERNELS_KERNELS_H
#define ATTND_ENGINE_KERNELS_KERNELS_H

#include "base/isa.h"
#include "engine/activation.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Every row of an internal matrix is padded to a multiple of this many floats: the widest vector (64 bytes), so that no
 * kernel needs a scalar tail inside them and memory needs are the same for all instruction sets. */
#define KERNEL_PAD         ((size_t)16)
#define KERNEL_PAD_DOUBLES (KERNEL_PAD / 2)

/* Numbers of 32 bits in a row of a matrix of bfloat16, where two numbers are one: the same for all instruction sets. */
static inline size_t kernel_pairs(size_t columns)
{
    return (columns + 2 * KERNEL_PAD - 1) / (2 * KERNEL_PAD) * KERNEL_PAD;
}

static inline size_t kernel_padded(size_t columns)
{
    return (columns + KERNEL_PAD - 1) / KERNEL_PAD * KERNEL_PAD;
}

/* C = scale * (A B) + bias. B is packed into panels: columns j * panel_columns and on, [depth][panel_columns], one
 * after the other; the last panel is only as many vectors wide as it has columns for. Columns are padded with zeros to
 * whole vectors. */
struct product {
    size_t depth, columns;
    const float *a; /* [rows, depth], not packed, any alignment */
    size_t a_stride;
    const float *b;        /* packed [b_depth, columns], aligned to a vector; `depth` of its rows are used */
    const uint32_t *pairs; /* B as narrow_panel makes it, panel by panel, in place of b; NULL: b */
    size_t b_depth;
    size_t b_first;    /* the row of B that A's first column meets */
    bool adds;         /* C + A B in place of A B */
    const float *bias; /* [columns], or NULL: none */
    float scale;       /* 1 where there is a bias, or another product will add to this one */
    float *c;          /* [rows, columns], any alignment; not A */
    size_t c_stride;
};

/* Turns pairs of components of heads, each by an angle of its row: (a, b) becomes (a cos - b sin, b cos + a sin). */
struct rotation {
    size_t d_k, dims; /* components of a head; the first of them that are turned, even */
    bool interleaved; /* pairs are (2i, 2i + 1); else (i, i + dims / 2) */
    /* Of each row, turns_stride floats apart: [2, dims / 2] the cosines, then the sines; where interleaved [2, dims]
     * the cosine of each component's pair, then its sine, negated for the first of the pair. */
    const float *turns;
    size_t turns_stride;
};

struct kernels {
    const char *name;
    size_t vector_floats;
    size_t panel_columns; /* columns of a full panel; work may be split at its multiples */

    /* Floats that the packed form of [depth, columns] takes: at most depth * kernel_padded(columns). */
    size_t (*packed_floats)(size_t depth, size_t columns);
    /* Packs b [depth, columns], rows b_stride apart, into `packed`, aligned to a vector. */
    void (*pack)(const float *b, size_t b_stride, size_t depth, size_t columns, float *packed);
    /* Packs the transpose of b [columns, depth], rows b_stride apart. */
    void (*pack_transposed)(const float *b, size_t b_stride, size_t depth, size_t columns, float *packed);

    /* Rows of a packed panel as bfloat16, rounded to the nearest, ties to even: in 32 bits two numbers, element i of a
     * vector and of the next one. What is written is half as wide, up to a whole vector: at most kernel_pairs(width).
     * Aligned to a vector; width is whole vectors. The numbers are finite. */
    void (*narrow_panel)(const float *panel /* [n_rows, width] */, size_t n_rows, size_t width, uint32_t *pairs);
    /* to = from * factor, or where `adds` to += from, of bfloat16 numbers in their order. Any alignment. */
    void (*widen)(float *to /* [count] */, const uint16_t *from /* [count] */, size_t count, float factor, bool adds);

    /* Rows first_row .. end_row - 1 of C and its panels from column first_column, a multiple of panel_columns, to the
     * one that holds column end_column - 1: all of that panel is written, as far as C has columns. */
    void (*multiply)(const struct product *product, size_t first_row, size_t end_row, size_t first_column,
                     size_t end_column);

    /* Softmax without its division. In place, scores [n_keys] of one row become exp(score + bias - maximum), exactly 0
     * where not allowed and for the elements n_keys .. width - 1. Returns the sum, in [1, n_keys]; 0 when no key was
     * left, NaN when a score was NaN or +infinity. scores: aligned to 64 bytes; width: a multiple of KERNEL_PAD, >=
     * n_keys. *logs, unless it is NULL: the sum of weight * ln weight, added up as the sum is; the rest has the same
     * bits with it and without. */
    double (*softmax)(float *scores /* [width] */, size_t n_keys, size_t width,
                      const float *bias /* [n_keys] or NULL */, const uint8_t *allowed /* [n_keys], 1 or 0, or NULL */,
                      double *logs);
    /* The same for n_rows rows without bias and mask, rows `stride` (a multiple of KERNEL_PAD) apart: row i has its
     * first limit + i keys, at least 0 and at most n_keys, as under a causal limit; the elements behind them become 0,
     * up to whole vectors. Writes 1 / sum of each row, which is 0 for a row with no key and NaN where the scores of all
     * keys are -infinity; behind n_rows anything. `logs` as above, of each row, or NULL. */
    void (*softmax_rows)(float *scores /* [n_rows, n_keys] */, size_t stride, size_t n_rows, size_t n_keys,
                         ptrdiff_t limit, float *inverses /* [n_rows, up to a multiple of 4] */,
                         float *logs /* the same */);
    /* Adds the bias to the scores of one row, [n_keys], and makes all -infinity but those of the k >= 1 allowed keys
     * with the largest; of equal ones the first are left, and NaN always is. scores: as for softmax. */
    void (*keep_largest)(float *scores, size_t n_keys, const float *bias /* [n_keys] or NULL */,
                         const uint8_t *allowed /* [n_keys], 1 or 0, or NULL */, size_t k);
    /* to = from * factor. Any alignment; they may be the same, not overlap otherwise. */
    void (*scale)(float *to, const float *from, size_t count, float factor);
    /* The same for n_rows rows, each with its own factor. */
    void (*scale_rows)(float *to /* [n_rows, count] */, size_t to_stride, const float *from /* [n_rows, count] */,
                       size_t from_stride, size_t n_rows, size_t count, const float *factors /* [n_rows] */);
    /* to[i] = from[i], or 0 where the weight of key first_key + i is dropped: where u >> 8 < limit (at most 2^24), u
     * being element j % 4 of Philox4x32-10 at the counter {counter[0], counter[1], counter[2], j / 4}, j that key. Any
     * alignment; they may be the same. */
    void (*drop)(float *to, const float *from, size_t count, uint32_t first_key, const uint32_t counter[3],
                 const uint32_t key[2], uint32_t limit);
    /* C = A B in float64, nothing packed: each element is one chain of multiply-adds in order of depth. B and C are
     * aligned to 64 bytes; their strides, and columns, are multiples of KERNEL_PAD_DOUBLES. C is neither A nor B. */
    void (*multiply_double)(const double *a /* [rows, depth] */, size_t a_stride,
                            const double *b /* [depth, columns] */, size_t b_stride, double *c /* [rows, columns] */,
                            size_t c_stride, size_t rows, size_t depth, size_t columns);
    /* In place, rows x_stride apart; the rotation's first row of turns is that of x's first row. */
    void (*rotate)(const struct rotation *rotation, float *x /* [n_rows, n_heads * d_k] */, size_t x_stride,
                   size_t n_rows, size_t n_heads);
    /* to += from. */
    void (*add_rows)(float *to /* [n_rows, count] */, size_t to_stride, const float *from /* [n_rows, count] */,
                     size_t from_stride, size_t n_rows, size_t count);

    /* Each row x becomes (x - mean) / sqrt(variance + eps) * gain + bias, the variance divided by count (Ba et al.
     * 2016, equation 3); not centred, x / sqrt(mean of x^2 + eps) * gain + bias (Zhang and Sennrich 2019, equation 4).
     * The sums are float64 over blocks of float32. count is at least 1. Any alignment; to and from may be the same. */
    void (*normalize)(float *to /* [n_rows, count] */, size_t to_stride, const float *from /* [n_rows, count] */,
                      size_t from_stride, size_t n_rows, size_t count, bool centred, float eps,
                      const float *gain /* [count] */, const float *bias /* [count], or NULL: none */);
    /* Each x becomes activation(x) * factor, in place. Within 4e-7 * |x| of the activation. Any alignment. */
    void (*activate)(float *rows /* [n_rows, count] */, size_t stride, size_t n_rows, size_t count,
                     enum activation activation, const float *factor /* [n_rows, count], or NULL: 1 */,
                     size_t factor_stride);
};

/* X(identifier, name): the variants built for this processor family, best first. */
#define KERNEL_VARIANTS(X) ISA_VARIANTS(X)

#define KERNEL_DECLARE(identifier, name) extern const struct kernels kernels_##identifier;
KERNEL_VARIANTS(KERNEL_DECLARE)
#undef KERNEL_DECLARE

#define KERNEL_COUNT(identifier, name) +1
enum { KERNEL_VARIANT_COUNT = 0 KERNEL_VARIANTS(KERNEL_COUNT) };
#undef KERNEL_COUNT

/* All variants of this build, by enum isa; those that isa_supported denies must not be called. */
extern const struct kernels *const kernel_variants[KERNEL_VARIANT_COUNT];

/* The table that engine_init chose; before that, the generic one. */
const struct kernels *kernels_chosen(void);

#endif
