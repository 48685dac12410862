/* Groups of rows of all heads: see similarity_blocks.h. */

#include "analysis/similarity_blocks.h"

#include "analysis/pair_kernels/pair_kernels.h"
#include "base/size.h"
#include "engine/kernels/kernels.h"

#include <math.h>
#include <string.h>

/* Heads of a slice, which are compared with half of all others: reading the group is little beside it. */
#define HEADS_A_SLICE 16.0

/* Floats of a head in a group. Those of 200 heads stay in L2; with more heads it is half as many. */
#define GROUP_FLOATS ((size_t)1024)
#define MANY_HEADS   ((size_t)256)

static bool subtracts(const struct similarity_blocks *b)
{
    return b->metric == SIMILARITY_PEARSON || b->metric == SIMILARITY_CENTERED;
}

static bool by_rows(const struct similarity_blocks *b)
{
    return !similarity_by_products(b->metric);
}

/* cka compares in squares of its own. */
static bool compares(const struct similarity_blocks *b)
{
    return b->metric != SIMILARITY_CKA;
}

/* Of all pairs, by the elements of a head. */
static double pairs_flop(const struct similarity_blocks *b, double elements)
{
    const double pairs = (double)b->heads * (double)(b->heads + 1) / 2 * elements;
    if (!compares(b))
        return 0;
    if (!by_rows(b))
        return 2 * pairs;
    return pairs * (b->metric == SIMILARITY_JS ? SIMILARITY_JS_FLOP : SIMILARITY_HELLINGER_FLOP);
}

static double read_flop(const struct similarity_blocks *b, size_t map_stride, double rows)
{
    return SIMILARITY_READ_FLOP * (double)b->heads * rows * (double)size_max(map_stride, b->stride);
}

/* ---- memory */

struct lane {
    void *tile;       /* of head_maps_tile */
    float *compared;  /* [heads, group_rows, stride], heads head_stride apart */
    double *sum;      /* [group_rows, map_stride] of all heads' weights */
    float *weights;   /* [group_rows, map_stride] their mean, or one head's */
    float *baseline;  /* [group_rows, map_stride] what is subtracted */
    uint8_t *allowed; /* [longest_keys] */
    struct allowed_reader reader;
};

/* Where the pieces of a lane lie; `lane` may be NULL. False when their size overflows. */
static bool lay_out_lane(const struct similarity_blocks *b, const struct head_maps *maps, char *memory,
                         struct lane *lane, size_t *bytes)
{
    const size_t floats[] = {b->group_rows, kernel_padded(maps->longest_keys)};
    size_t tile, compared, sum, weights, reader, at[7], total = 0;
    if (!head_maps_tile_bytes(maps, b->group_rows, &tile) ||
        !tensor_bytes((size_t[]){b->heads, b->head_stride, compares(b)}, 3, sizeof(float), &compared) ||
        !tensor_bytes(floats, 2, sizeof(double), &sum) || !tensor_bytes(floats, 2, sizeof(float), &weights) ||
        !allowed_reader_bytes(maps->rule, &reader))
        return false;
    const size_t pieces[] = {tile, compared, sum, weights, weights, maps->longest_keys, reader};
    for (size_t i = 0; i < 7; i++) {
        at[i] = total;
        if (!arena_need(&total, pieces[i]))
            return false;
    }
    if (lane)
        *lane = (struct lane){
            .tile = memory + at[0],
            .compared = (float *)(memory + at[1]),
            .sum = (double *)(memory + at[2]),
            .weights = (float *)(memory + at[3]),
            .baseline = (float *)(memory + at[4]),
            .allowed = (uint8_t *)(memory + at[5]),
            .reader = allowed_reader_init(maps->rule, memory + at[6]),
        };
    *bytes = total;
    return true;
}

enum piece { LANES, PART_SUMS, PART_DIVERSITY, SCALE, MEAN, SUMS, PIECES };

static bool list_pieces(const struct similarity_blocks *b, unsigned lanes, size_t bytes[PIECES])
{
    const size_t heads = b->heads, parts = b->gram.parts;
    return tensor_bytes((size_t[]){lanes, b->lane_bytes}, 2, 1, &bytes[LANES]) &&
           tensor_bytes((size_t[]){parts, heads}, 2, sizeof(struct head_sums), &bytes[PART_SUMS]) &&
           tensor_bytes((size_t[]){parts, b->layers}, 2, sizeof(double), &bytes[PART_DIVERSITY]) &&
           tensor_bytes(&heads, 1, sizeof(double), &bytes[SCALE]) &&
           tensor_bytes(&heads, 1, sizeof(double), &bytes[MEAN]) &&
           tensor_bytes(&heads, 1, sizeof(struct head_sums), &bytes[SUMS]);
}

bool similarity_blocks_plan(struct similarity_blocks *b, const struct head_maps *maps, size_t d_v, size_t most_rows,
                            unsigned lanes, size_t *bytes)
{
    const size_t map_stride = kernel_padded(maps->longest_keys), heads = maps->num_heads,
                 floats = heads > MANY_HEADS ? GROUP_FLOATS / 2 : GROUP_FLOATS;
    size_t pieces[PIECES], total = 0, gram = 0;
    b->heads = heads;
    b->stride = size_max(b->subject == SIMILARITY_OF_OUTPUT ? kernel_padded(d_v) : map_stride, KERNEL_PAD);
    b->group_rows = size_max(size_min(floats / size_max(b->stride, map_stride), most_rows), 1);
    /* Heads that lie a power of two apart would meet in few sets of the cache. */
    b->head_stride = b->group_rows * b->stride + KERNEL_PAD;
    const size_t groups = (most_rows + b->group_rows - 1) / b->group_rows;
    const double rows = (double)b->group_rows;
    b->gram.parts = gram_parts(heads, groups);
    const double read = read_flop(b, map_stride, rows), pairs = pairs_flop(b, rows * (double)b->stride);
    b->slices = by_rows(b) ? (size_t)fmax(fmin(pairs / TILE_FLOP_MOST, (double)heads / HEADS_A_SLICE), 1) : 1;
    const double groups_a_tile = fmin(fmax(TILE_FLOP_MOST / (read + pairs / (double)b->slices), 1), (double)groups);
    if (!size_multiply((size_t)groups_a_tile, b->gram.parts, &b->block_groups) ||
        !lay_out_lane(b, maps, NULL, NULL, &b->lane_bytes) || !list_pieces(b, lanes, pieces) ||
        (compares(b) && !gram_bytes(heads, b->gram.parts, &gram)))
        return false;
    for (size_t i = 0; i < PIECES; i++)
        if (!arena_need(&total, pieces[i]))
            return false;
    return size_add(total, gram, bytes);
}

bool similarity_blocks_take(struct similarity_blocks *b, unsigned lanes, struct arena *arena)
{
    size_t bytes[PIECES];
    void *pieces[PIECES];
    if (!list_pieces(b, lanes, bytes))
        return false;
    for (size_t i = 0; i < PIECES; i++)
        if (!(pieces[i] = arena_take(arena, bytes[i])))
            return false;
    b->lanes = pieces[LANES];
    b->part_sums = pieces[PART_SUMS];
    b->part_diversity = pieces[PART_DIVERSITY];
    b->scale = pieces[SCALE];
    b->mean = pieces[MEAN];
    b->sums = pieces[SUMS];
    memset(b->part_diversity, 0, bytes[PART_DIVERSITY]);
    return !compares(b) || gram_init(&b->gram, b->heads, b->gram.parts, arena);
}

/* ---- a group */

struct block {
    const struct similarity_blocks *all;
    const struct pair_kernels *kernels;
    size_t first_row, n_rows, n_groups; /* of the list of rows */
};

static void subtract(float *restrict x, const float *restrict baseline, size_t count)
{
    for (size_t i = 0; i < count; i++)
        x[i] -= baseline[i];
}

/* Makes weights or output into what the metric compares. */
static void make_comparable(const struct block *block, const struct lane *lane, float *x, size_t count,
                            struct head_sums *sums)
{
    const struct similarity_blocks *b = block->all;
    if (b->metric == SIMILARITY_HELLINGER)
        block->kernels->square_roots(x, count);
    if (!subtracts(b))
        return;
    if (b->subject == SIMILARITY_OF_ATTENTION) {
        sums->before += block->kernels->squares(x, count);
        subtract(x, lane->baseline, count);
    }
    sums->rest += block->kernels->sum(x, count);
}

/* The diversity of the rows of a layer's heads, whose weights lane->sum has together. */
static double diversity_of(const struct block *block, const struct lane *lane, size_t n_weights, double negentropies)
{
    const double heads = (double)(block->all->heads / block->all->layers);
    for (size_t i = 0; i < n_weights; i++)
        lane->weights[i] = (float)(lane->sum[i] / heads);
    return negentropies / heads - block->kernels->midpoint_log(lane->weights, lane->weights, n_weights);
}

/* Reads the rows of all heads. Adds up their diversities, unless they are not asked for. */
static void read_group(const struct block *block, size_t first, size_t n_rows, double *diversity /* [layers] or NULL */,
                       struct lane *lane, struct head_sums *sums)
{
    const struct similarity_blocks *b = block->all;
    const struct similarity_rows *rows = b->rows;
    const size_t n_weights = n_rows * rows->map_stride;
    const bool compared = compares(b) && b->subject == SIMILARITY_OF_ATTENTION;
    const size_t layer_heads = b->heads / b->layers;
    double negentropies = 0;
    if (subtracts(b) && b->subject == SIMILARITY_OF_ATTENTION)
        similarity_rows_baseline(rows, first, n_rows, b->shift, &lane->reader, lane->allowed, lane->baseline);
    for (size_t head = 0; head < b->heads; head++) {
        float *x = lane->compared + head * b->head_stride, *weights = compared ? x : lane->weights;
        if (compared || diversity)
            similarity_rows_maps(rows, head, first, n_rows, lane->tile, weights);
        if (diversity) {
            if (head % layer_heads == 0) {
                memset(lane->sum, 0, n_weights * sizeof *lane->sum);
                negentropies = 0;
            }
            block->kernels->add(lane->sum, weights, n_weights);
            negentropies += block->kernels->midpoint_log(weights, weights, n_weights);
            if (head % layer_heads == layer_heads - 1)
                diversity[head / layer_heads] += diversity_of(block, lane, n_weights, negentropies);
        }
        if (!compares(b))
            continue;
        if (!compared)
            similarity_rows_scaled(rows, head, first, n_rows, b->scale[head], b->mean[head], x, b->stride);
        make_comparable(block, lane, x, n_rows * b->stride, &sums[head]);
    }
}

/* The pairs of a slice: every so many heads, for later ones have more pairs. `next`: rows that are read next, NULL:
 * they cannot be foreseen. */
static void add_pairs(const struct block *block, const float *x, size_t n_rows, size_t slice,
                      double *sums /* [heads, heads] */, const struct pair_next *next)
{
    const struct similarity_blocks *b = block->all;
    const size_t count = n_rows * b->stride, heads = b->heads;
    if (!by_rows(b)) {
        block->kernels->products(x, b->head_stride, heads, count, 1, sums, next);
        return;
    }
    for (size_t head = slice; head < heads; head += b->slices)
        for (size_t other = 0; other <= head; other++) {
            const float *p = x + head * b->head_stride, *q = x + other * b->head_stride;
            sums[head * heads + other] += b->metric == SIMILARITY_JS
                                              ? block->kernels->midpoint_log(p, q, count)
                                              : block->kernels->row_distances(p, q, n_rows, b->stride);
        }
}

/* Tiles: the slices of the parts of the sums; the groups of a part are neighbours. */
static void add_part(const void *argument, size_t index, unsigned lane_index)
{
    const struct block *block = argument;
    const struct similarity_blocks *b = block->all;
    const size_t parts = b->gram.parts, part = index / b->slices, slice = index % b->slices;
    double *diversity = b->diversity && slice == 0 ? b->part_diversity + part * b->layers : NULL;
    struct lane lane;
    size_t unused;
    lay_out_lane(b, b->rows->maps, b->lanes + lane_index * b->lane_bytes, &lane, &unused);
    const size_t end = (part + 1) * block->n_groups / parts;
    for (size_t group = part * block->n_groups / parts; group < end; group++) {
        const size_t row = group * b->group_rows, n_rows = size_min(b->group_rows, block->n_rows - row),
                     behind = row + n_rows;
        struct pair_next next;
        read_group(block, block->first_row + row, n_rows, diversity, &lane, b->part_sums + part * b->heads);
        if (compares(b))
            add_pairs(block, lane.compared, n_rows, slice, gram_part(&b->gram, part),
                      behind < block->n_rows &&
                              similarity_rows_in_place(b->rows, block->first_row + behind,
                                                       size_min(b->group_rows, block->n_rows - behind), &next)
                          ? &next
                          : NULL);
    }
}

/* ---- all groups */

bool similarity_blocks_run(struct similarity_blocks *b, size_t first, size_t count, struct work *work)
{
    const size_t most = b->block_groups * b->group_rows;
    memset(b->part_sums, 0, b->gram.parts * b->heads * sizeof *b->part_sums);
    if (compares(b))
        gram_clear(&b->gram);
    for (size_t done = 0, n; done < count; done += n) {
        n = size_min(most, count - done);
        const struct block block = {.all = b,
                                    .kernels = pair_kernels_of(isa_chosen()),
                                    .first_row = first + done,
                                    .n_rows = n,
                                    .n_groups = (n + b->group_rows - 1) / b->group_rows};
        const double flop = (double)b->slices * read_flop(b, b->rows->map_stride, (double)n) +
                            pairs_flop(b, (double)n * (double)b->stride);
        if (!work_split(work, b->gram.parts * b->slices, flop, add_part, &block))
            return false;
    }
    for (size_t head = 0; head < b->heads; head++)
        for (size_t part = 0; part < b->gram.parts; part++) {
            const struct head_sums *sums = &b->part_sums[part * b->heads + head];
            b->sums[head].before += sums->before;
            b->sums[head].rest += sums->rest;
        }
    return true;
}

double similarity_blocks_diversity(const struct similarity_blocks *b, size_t layer)
{
    double sum = 0;
    for (size_t part = 0; part < b->gram.parts; part++)
        sum += b->part_diversity[part * b->layers + layer];
    return sum;
}
