/* Kernels of heads, square by square: see kernel_alignment.h. */

#include "analysis/kernel_alignment.h"

#include "analysis/pair_kernels/pair_kernels.h"
#include "base/size.h"
#include "engine/kernels/kernels.h"

#include <math.h>
#include <string.h>

/* The floats of all heads' squares (4 MiB), unless that leaves fewer than LEAST_SIDE rows. */
#define SQUARES_FLOATS ((size_t)1 << 20)
#define LEAST_SIDE     KERNEL_PAD
#define MOST_SIDE      ((size_t)256)

/* Elements of all squares that are multiplied while they are in cache. */
#define PIECE_FLOATS ((size_t)1024)

/* By features: the most of all heads, whose sums of pairs take 8 MiB then, and rows of a block. */
#define MOST_FEATURES ((size_t)1024)
#define BLOCK_ROWS    ((size_t)512)

/* Terms of a product of features that are added up in float32. */
#define FEATURE_DEPTH ((size_t)256)

/* ---- memory */

struct lane {
    void *tile;        /* of head_maps_tile */
    float *features;   /* [side, stride] */
    float *transposed; /* [stride, side], packed; by features [heads, features, side], transposed_stride apart */
    float *part;       /* [side, side] */
};

/* Vectors a power of two apart would meet in few sets of the cache. */
static size_t transposed_stride(const struct kernel_alignment *a)
{
    return a->side + KERNEL_PAD;
}

static bool lay_out_lane(const struct kernel_alignment *a, const struct head_maps *maps, char *memory,
                         struct lane *lane, size_t *bytes)
{
    size_t tile, features, transposed, square, at[4], total = 0;
    if (!head_maps_tile_bytes(maps, a->side, &tile) ||
        !tensor_bytes((size_t[]){a->side, a->stride}, 2, sizeof(float), &features) ||
        !tensor_bytes((size_t[]){a->heads, a->features, transposed_stride(a)}, 3, sizeof(float), &transposed) ||
        !tensor_bytes((size_t[]){a->side, a->side, !a->by_features}, 3, sizeof(float), &square))
        return false;
    const size_t pieces[] = {tile, features, a->by_features ? transposed : features, square};
    for (size_t i = 0; i < 4; i++) {
        at[i] = total;
        if (!arena_need(&total, pieces[i]))
            return false;
    }
    if (lane)
        *lane = (struct lane){memory + at[0], (float *)(memory + at[1]), (float *)(memory + at[2]),
                              (float *)(memory + at[3])};
    *bytes = total;
    return true;
}

/* Elements of a square are summed over pairs of heads in pieces. */
static size_t pieces_of(size_t elements)
{
    return (elements + PIECE_FLOATS - 1) / PIECE_FLOATS;
}

enum piece { KERNELS, MEANS, BEFORE, CENTRED, LANES, PIECES };

static bool list_pieces(const struct kernel_alignment *a, unsigned lanes, size_t bytes[PIECES])
{
    const size_t heads = a->heads;
    return tensor_bytes((size_t[]){heads, a->kernel_stride, !a->by_features}, 3, sizeof(float), &bytes[KERNELS]) &&
           tensor_bytes((size_t[]){heads, a->stride}, 2, sizeof(double), &bytes[MEANS]) &&
           tensor_bytes(&heads, 1, sizeof(double), &bytes[BEFORE]) &&
           tensor_bytes(&heads, 1, sizeof(double), &bytes[CENTRED]) &&
           tensor_bytes((size_t[]){lanes, a->lane_bytes}, 2, 1, &bytes[LANES]);
}

static double by_kernels_flop(double heads, double n_rows, double columns)
{
    const double half = n_rows * (n_rows + fmin(n_rows + (double)KERNEL_PAD, (double)MOST_SIDE)) / 2;
    return 2 * heads * half * columns + heads * (heads + 1) * half;
}

static double by_features_flop(double heads, double n_rows, double columns)
{
    return heads * columns * (heads * columns + 1) * n_rows;
}

static bool better_by_features(size_t heads, double n_rows, size_t columns)
{
    size_t all;
    return size_multiply(heads, columns, &all) && all > 0 && all <= MOST_FEATURES &&
           by_features_flop((double)heads, n_rows, (double)columns) <
               by_kernels_flop((double)heads, n_rows, (double)columns);
}

double kernel_alignment_flop(size_t heads, double n_rows, size_t columns)
{
    return (better_by_features(heads, n_rows, columns) ? by_features_flop : by_kernels_flop)((double)heads, n_rows,
                                                                                             (double)columns);
}

/* Vectors that are multiplied with each other, and how many sums of their products are kept side by side. */
static size_t n_vectors(const struct kernel_alignment *a)
{
    return a->by_features ? a->heads * a->features : a->heads;
}

static size_t n_parts(const struct kernel_alignment *a, size_t most_rows)
{
    return gram_parts(n_vectors(a),
                      a->by_features ? (most_rows + a->side - 1) / a->side : pieces_of(a->side * a->side));
}

bool kernel_alignment_plan(struct kernel_alignment *a, const struct head_maps *maps, size_t d_v, size_t most_rows,
                           unsigned lanes, size_t *bytes)
{
    size_t pieces[PIECES], total = 0, gram;
    a->heads = maps->num_heads;
    a->features = a->subject == SIMILARITY_OF_OUTPUT ? d_v : maps->longest_keys;
    a->by_features = better_by_features(a->heads, (double)most_rows, a->features);
    a->stride = size_max(kernel_padded(a->features), KERNEL_PAD);
    a->side =
        a->by_features
            ? BLOCK_ROWS
            : size_max(size_min((size_t)sqrt((double)(SQUARES_FLOATS / a->heads)) / KERNEL_PAD * KERNEL_PAD, MOST_SIDE),
                       LEAST_SIDE);
    a->side = size_min(a->side, kernel_padded(most_rows));
    a->kernel_stride = a->side * a->side + KERNEL_PAD;
    a->gram.parts = n_parts(a, most_rows);
    if (!lay_out_lane(a, maps, NULL, NULL, &a->lane_bytes) || !list_pieces(a, lanes, pieces) ||
        !gram_bytes(n_vectors(a), a->gram.parts, &gram))
        return false;
    for (size_t i = 0; i < PIECES; i++)
        if (!arena_need(&total, pieces[i]))
            return false;
    return size_add(total, gram, bytes);
}

bool kernel_alignment_take(struct kernel_alignment *a, unsigned lanes, struct arena *arena)
{
    size_t bytes[PIECES];
    void *pieces[PIECES];
    if (!list_pieces(a, lanes, bytes))
        return false;
    for (size_t i = 0; i < PIECES; i++)
        if (!(pieces[i] = bytes[i] ? arena_take(arena, bytes[i]) : NULL) && bytes[i])
            return false;
    a->kernels = pieces[KERNELS];
    a->means = pieces[MEANS];
    a->before = pieces[BEFORE];
    a->centred = pieces[CENTRED];
    a->lanes = pieces[LANES];
    return gram_init(&a->gram, n_vectors(a), a->gram.parts, arena);
}

/* ---- features */

struct step {
    const struct kernel_alignment *all;
    size_t first, count;              /* rows of the list that are compared */
    size_t row, n_rows;               /* of the square */
    size_t column_row, n_column_rows; /* rows of the list that its columns are */
};

static struct lane lane_of(const struct kernel_alignment *a, unsigned index)
{
    struct lane lane;
    size_t unused;
    lay_out_lane(a, a->rows->maps, a->lanes + index * a->lane_bytes, &lane, &unused);
    return lane;
}

static void read_features(const struct kernel_alignment *a, size_t head, size_t first, size_t count,
                          const struct lane *lane)
{
    if (a->subject == SIMILARITY_OF_OUTPUT)
        similarity_rows_scaled(a->rows, head, first, count, a->scale[head], 0, lane->features, a->stride);
    else
        similarity_rows_maps(a->rows, head, first, count, lane->tile, lane->features);
}

static void read_centred(const struct kernel_alignment *a, size_t head, size_t first, size_t count,
                         const struct lane *lane)
{
    const double *means = a->means + head * a->stride;
    read_features(a, head, first, count, lane);
    for (size_t row = 0; row < count; row++) {
        float *features = lane->features + row * a->stride;
        for (size_t k = 0; k < a->stride; k++)
            features[k] = (float)((double)features[k] - means[k]);
    }
}

/* Tiles: the heads. */
static void find_means(const void *argument, size_t head, unsigned lane_index)
{
    const struct step *step = argument;
    const struct kernel_alignment *a = step->all;
    const struct pair_kernels *kernels = pair_kernels_of(isa_chosen());
    const struct lane lane = lane_of(a, lane_index);
    double *means = a->means + head * a->stride;
    memset(means, 0, a->stride * sizeof *means);
    a->before[head] = a->centred[head] = 0;
    for (size_t done = 0, n; done < step->count; done += n) {
        n = size_min(a->side, step->count - done);
        read_features(a, head, step->first + done, n, &lane);
        a->before[head] += kernels->squares(lane.features, n * a->stride);
        for (size_t row = 0; row < n; row++)
            kernels->add(means, lane.features + row * a->stride, a->stride);
    }
    for (size_t k = 0; k < a->stride; k++)
        means[k] /= (double)step->count;
}

/* ---- squares */

/* square [n_rows, side] = features * transposed, in float32 within FEATURE_DEPTH terms; 0 in the other columns and
 * rows. */
static void multiply_features(const struct step *step, const struct lane *lane, float *square)
{
    const struct kernel_alignment *a = step->all;
    const struct kernels *kernels = kernels_chosen();
    if (step->n_rows < a->side || step->n_column_rows < a->side)
        memset(square, 0, a->side * a->side * sizeof *square);
    for (size_t k = 0; k < a->stride; k += FEATURE_DEPTH) {
        const size_t depth = size_min(FEATURE_DEPTH, a->stride - k);
        const struct product product = {
            .depth = depth,
            .columns = step->n_column_rows,
            .a = lane->features + k,
            .a_stride = a->stride,
            .b = lane->transposed + k * kernel_padded(step->n_column_rows),
            .b_depth = depth,
            .scale = 1,
            .c = k ? lane->part : square,
            .c_stride = a->side,
        };
        kernels->multiply(&product, 0, step->n_rows, 0, product.columns);
        for (size_t row = 0; k && row < step->n_rows; row++)
            for (size_t i = 0; i < step->n_column_rows; i++)
                square[row * a->side + i] += lane->part[row * a->side + i];
    }
}

/* Tiles: the heads. */
static void make_square(const void *argument, size_t head, unsigned lane_index)
{
    const struct step *step = argument;
    const struct kernel_alignment *a = step->all;
    const struct lane lane = lane_of(a, lane_index);
    float *square = a->kernels + head * a->kernel_stride;
    read_centred(a, head, step->column_row, step->n_column_rows, &lane);
    for (size_t k = 0; k < a->stride; k += FEATURE_DEPTH)
        kernels_chosen()->pack_transposed(lane.features + k, a->stride, size_min(FEATURE_DEPTH, a->stride - k),
                                          step->n_column_rows,
                                          lane.transposed + k * kernel_padded(step->n_column_rows));
    if (step->row != step->column_row)
        read_centred(a, head, step->row, step->n_rows, &lane);
    multiply_features(step, &lane, square);
    if (step->row == step->column_row)
        for (size_t row = 0; row < step->n_rows; row++)
            a->centred[head] += (double)square[row * (a->side + 1)];
}

/* Tiles: the parts of the sums; the pieces of a part are neighbours. */
static void add_part(const void *argument, size_t part, unsigned lane)
{
    (void)lane;
    const struct step *step = argument;
    const struct kernel_alignment *a = step->all;
    const struct pair_kernels *kernels = pair_kernels_of(isa_chosen());
    const size_t elements = step->n_rows * a->side, pieces = pieces_of(elements), parts = a->gram.parts;
    const double weight = step->row == step->column_row ? 1 : 2; /* for what lies above the diagonal */
    for (size_t i = part * pieces / parts; i < (part + 1) * pieces / parts; i++) {
        const size_t at = i * PIECE_FLOATS;
        kernels->products(a->kernels + at, a->kernel_stride, a->heads, size_min(PIECE_FLOATS, elements - at), weight,
                          gram_part(&a->gram, part), NULL);
    }
}

static double pairs_flop(size_t heads, double elements)
{
    return (double)heads * (double)(heads + 1) * elements;
}

static bool add_square(struct kernel_alignment *a, const struct step *step, struct work *work)
{
    const double heads = (double)a->heads, floats = heads * (double)a->side * (double)(2 * a->stride);
    const double flop = 2 * heads * (double)step->n_rows * (double)step->n_column_rows * (double)a->stride;
    return work_split(work, a->heads, flop + SPLIT_FLOP_PER_FLOAT * floats, make_square, step) &&
           work_split(work, a->gram.parts, pairs_flop(a->heads, (double)step->n_rows * (double)a->side), add_part,
                      step);
}

/* ---- by features */

/* Tiles: the parts of the sums, a block of rows each: `row` and the `n_rows` behind it in blocks of `side`. */
static void add_block(const void *argument, size_t part, unsigned lane_index)
{
    const struct step *step = argument;
    const struct kernel_alignment *a = step->all;
    const struct lane lane = lane_of(a, lane_index);
    const size_t begin = part * a->side, stride = transposed_stride(a);
    if (begin >= step->n_rows)
        return;
    const size_t n_rows = size_min(a->side, step->n_rows - begin), depth = kernel_padded(n_rows);
    for (size_t head = 0; head < a->heads; head++) {
        read_centred(a, head, step->row + begin, n_rows, &lane);
        for (size_t k = 0; k < a->features; k++) {
            float *to = lane.transposed + (head * a->features + k) * stride;
            for (size_t row = 0; row < n_rows; row++)
                to[row] = lane.features[row * a->stride + k];
            memset(to + n_rows, 0, (depth - n_rows) * sizeof *to);
        }
    }
    pair_kernels_of(isa_chosen())
        ->products(lane.transposed, stride, n_vectors(a), depth, 1, gram_part(&a->gram, part), NULL);
}

static bool add_blocks(struct kernel_alignment *a, struct step *step, struct work *work)
{
    const size_t most = a->gram.parts * a->side;
    for (size_t row = 0; row < step->count; row += most) {
        step->row = step->first + row;
        step->n_rows = size_min(most, step->count - row);
        if (!work_split(work, a->gram.parts,
                        by_features_flop((double)a->heads, (double)step->n_rows, (double)a->features), add_block, step))
            return false;
    }
    return true;
}

/* ||V^T U||_F^2 of heads a >= b: the lower half of all products is there. In the same order for a head with itself, so
 * that equal heads give equal numbers. */
static double square_of_product(const struct kernel_alignment *alignment, size_t a, size_t b)
{
    const size_t k = alignment->features, stride = alignment->gram.heads;
    const double *sums = gram_part(&alignment->gram, 0) + a * k * stride + b * k; /* [k, k] */
    double squares = 0;
    for (size_t i = 0; i < k; i++)
        for (size_t j = 0; j < k; j++) {
            const double product = a == b && j > i ? sums[j * stride + i] : sums[i * stride + j];
            squares += product * product;
        }
    return squares;
}

void kernel_alignment_total(struct kernel_alignment *a, double *products)
{
    if (!a->by_features) {
        gram_total(&a->gram, products);
        return;
    }
    gram_total(&a->gram, gram_part(&a->gram, 0));
    for (size_t head = 0; head < a->heads; head++) {
        for (size_t other = 0; other <= head; other++)
            products[head * a->heads + other] = square_of_product(a, head, other);
        for (size_t k = head * a->features; k < (head + 1) * a->features; k++)
            a->centred[head] += gram_part(&a->gram, 0)[k * (a->gram.heads + 1)];
    }
}

bool kernel_alignment_run(struct kernel_alignment *a, size_t first, size_t count, struct work *work)
{
    struct step step = {.all = a, .first = first, .count = count};
    const double floats = (double)a->heads * (double)count * (double)a->stride;
    gram_clear(&a->gram);
    if (!work_split(work, a->heads, floats * SPLIT_FLOP_PER_FLOAT, find_means, &step))
        return false;
    if (a->by_features)
        return add_blocks(a, &step, work);
    for (size_t row = 0; row < count; row += a->side)
        for (size_t column = 0; column <= row; column += a->side) {
            step.row = first + row;
            step.n_rows = size_min(a->side, count - row);
            step.column_row = first + column;
            step.n_column_rows = size_min(a->side, count - column);
            if (!add_square(a, &step, work))
                return false;
        }
    return true;
}
