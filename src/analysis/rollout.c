/* Rollout, a sequence and a layer at a time: rows of the layer's mixed map are made where they are multiplied, so that
 * no more than two products [length, length] are kept. Entered by the thread that runs the job; the steps bring in
 * other lanes. */

#include "analysis/rollout.h"

#include "analysis/scored_rows.h"
#include "base/arena_pieces.h"
#include "base/size.h"
#include "engine/kernels/kernels.h"
#include "engine/split.h"

#include <float.h>
#include <string.h>

/* Rows that a tile takes, and panels' columns that are packed together. */
#define TILE_ROWS    ((size_t)48)
#define PACK_COLUMNS ((size_t)256)

struct run {
    const struct rollout *rollout;
    const struct kernels *kernels;
    size_t stride; /* of the rows of a lane's tile */
    float *packed; /* packed [length, length]: R of the layer before */
    float *lanes;  /* [lanes][TILE_ROWS, stride] */
    float *rows;   /* [lanes][stride], with a rule */
    size_t sequence;
    const float *maps;   /* [num_heads, length, length] of the layer */
    const float *before; /* [length, length] R of the layer before; NULL: I */
    float *to;           /* [length, length], or of heads apart [num_heads, length, length] */
    bool apart;
};

static size_t tiles_of(size_t count, size_t per_tile)
{
    return (count + per_tile - 1) / per_tile;
}

const char *rollout_fusion_name(enum rollout_fusion fusion)
{
#define FUSION_NAME(code, name) [code] = name,
    static const char *const names[] = {ROLLOUT_FUSIONS(FUSION_NAME)};
#undef FUSION_NAME
    return names[fusion];
}

/* ---- rows of N(fuse A + I) */

static void copy_allowed(const struct forward_input *rule, size_t sequence, size_t row, const float *from, float *to)
{
    const size_t length = rule->key_length, limit = allowed_key_limit(rule, row);
    const uint8_t *mask = row_mask(rule, sequence, row);
    const bool padding = rule->mask_kind == FORWARD_MASK_KEYS && !mask[row];
    for (size_t j = 0; j < length; j++)
        to[j] = padding || j >= limit || (mask && !mask[j]) ? 0 : from[j];
}

/* A row of a head of the layer [length]: where it lies, or in `copy`. */
static const float *row_of(const struct run *run, size_t head, size_t row, float *copy)
{
    const struct rollout *r = run->rollout;
    const float *from = run->maps + (head * r->length + row) * r->length;
    double sum = 0;
    if (!r->rule)
        return from;
    copy_allowed(r->rule, run->sequence, row, from, copy);
    for (size_t j = 0; j < r->length; j++)
        sum += (double)copy[j];
    if (r->renormalize && sum > 0)
        run->kernels->scale(copy, copy, r->length, (float)(1 / sum));
    return copy;
}

static void fuse_row(const struct run *run, size_t row, float *copy, float *to /* [length] */)
{
    const struct rollout *r = run->rollout;
    const size_t length = r->length;
    memcpy(to, row_of(run, 0, row, copy), length * sizeof *to);
    for (size_t head = 1; head < r->num_heads; head++) {
        const float *from = row_of(run, head, row, copy);
        for (size_t j = 0; j < length; j++)
            switch (r->fusion) {
            case ROLLOUT_MAX:
                to[j] = from[j] > to[j] ? from[j] : to[j];
                break;
            case ROLLOUT_MIN:
                to[j] = from[j] < to[j] ? from[j] : to[j];
                break;
            default:
                to[j] += from[j];
            }
    }
    const double parts = r->fusion == ROLLOUT_MEAN ? (double)r->num_heads : 1;
    double sum = 0;
    for (size_t j = 0; j < length; j++)
        sum += (double)to[j];
    /* to / parts + I, divided by its sum */
    run->kernels->scale(to, to, length, (float)(1 / (sum + parts)));
    to[row] += (float)(parts / (sum + parts));
}

/* ---- a layer */

static void multiply_rows(const struct run *run, const float *rows, size_t stride, size_t n_rows, float *to)
{
    const size_t length = run->rollout->length;
    const struct product product = {
        .depth = length,
        .columns = length,
        .a = rows,
        .a_stride = stride,
        .b = run->packed,
        .b_depth = length,
        .scale = 1,
        .c = to,
        .c_stride = length,
    };
    run->kernels->multiply(&product, 0, n_rows, 0, length);
}

/* The rows of a head of the last layer, by what came before. */
static void mix_apart(const struct run *run, size_t head, size_t first, size_t n_rows, float *copies /* a lane's */,
                      float *to)
{
    const size_t length = run->rollout->length;
    const float *rows = run->maps + (head * length + first) * length;
    size_t stride = length;
    if (!run->before) {
        for (size_t i = 0; i < n_rows; i++)
            memmove(to + i * length, row_of(run, head, first + i, to + i * length), length * sizeof *to);
        return;
    }
    if (run->rollout->rule) {
        for (size_t i = 0; i < n_rows; i++)
            row_of(run, head, first + i, copies + i * run->stride);
        rows = copies;
        stride = run->stride;
    }
    multiply_rows(run, rows, stride, n_rows, to);
}

/* Tiles: rows of the layer, fused; of heads apart head by head. */
static void mix_tile(const void *argument, size_t index, unsigned lane)
{
    const struct run *run = argument;
    const size_t length = run->rollout->length, per_head = tiles_of(length, TILE_ROWS), head = index / per_head;
    const size_t first = index % per_head * TILE_ROWS, n_rows = size_min(TILE_ROWS, length - first);
    float *to = run->to + (head * length + first) * length;
    float *own = run->before ? run->lanes + lane * TILE_ROWS * run->stride : NULL,
          *copy = run->rollout->rule ? run->rows + lane * run->stride : NULL;
    if (run->apart) {
        mix_apart(run, head, first, n_rows, own, to);
        return;
    }
    float *tile = run->before ? own : to;
    const size_t stride = run->before ? run->stride : length;
    for (size_t i = 0; i < n_rows; i++)
        fuse_row(run, first + i, copy, tile + i * stride);
    if (run->before)
        multiply_rows(run, tile, stride, n_rows, to);
}

/* Tiles: some panels of R. */
static void pack_tile(const void *argument, size_t index, unsigned lane)
{
    const struct run *run = argument;
    const size_t length = run->rollout->length, first = index * PACK_COLUMNS;
    (void)lane;
    run->kernels->pack(run->before + first, length, length, size_min(PACK_COLUMNS, length - first),
                       run->packed + first * length);
}

static bool run_layer(const struct run *run, struct work *work)
{
    const struct rollout *r = run->rollout;
    const double square = (double)r->length * (double)r->length;
    const size_t tiles = tiles_of(r->length, TILE_ROWS) * (run->apart ? r->num_heads : 1);
    const double products = run->before ? 2 * square * (double)r->length * (run->apart ? (double)r->num_heads : 1) : 0;
    return (!run->before ||
            work_split(work, tiles_of(r->length, PACK_COLUMNS), square * SPLIT_FLOP_PER_FLOAT, pack_tile, run)) &&
           work_split(work, tiles, products + square * (double)r->num_heads, mix_tile, run);
}

static bool run_sequence(struct run *run, size_t sequence, float *const between[2] /* [length, length] */,
                         float *result, struct work *work)
{
    const struct rollout *r = run->rollout;
    const size_t square = r->length * r->length;
    run->before = NULL;
    run->sequence = sequence;
    for (size_t layer = 0; layer < r->num_layers; layer++) {
        const bool last = layer + 1 == r->num_layers;
        run->maps = r->attention + (sequence * r->num_layers + layer) * r->num_heads * square;
        run->apart = last && r->per_head;
        run->to = last ? result : between[layer % 2];
        if (!run_layer(run, work))
            return false;
        run->before = run->to;
    }
    return true;
}

/* ---- the whole */

double rollout_flop(const struct rollout *r)
{
    const double square = (double)r->length * (double)r->length, layers = (double)r->num_layers,
                 products = layers - 1 + (r->per_head && r->num_layers > 1 ? (double)r->num_heads - 1 : 0);
    const double flop = (double)r->batch * square * (2 * (double)r->length * products + layers * (double)r->num_heads);
    return flop < DBL_MAX ? flop : DBL_MAX;
}

struct pieces {
    float *between[2], *packed, *lanes, *rows;
};

static bool take_pieces(const struct rollout *r, unsigned lanes, struct pieces *pieces, struct arena *arena,
                        size_t *bytes)
{
    if (r->length > SIZE_MAX - KERNEL_PAD)
        return false;
    const size_t padded = kernel_padded(r->length);
    const bool products = r->num_layers > 1;
    const struct arena_piece all[] = {
        {&pieces->between[0], {r->length, r->length, 1, 1}, sizeof(float), products},
        {&pieces->between[1], {r->length, r->length, 1, 1}, sizeof(float), r->num_layers > 2},
        {&pieces->packed, {r->length, padded, 1, 1}, sizeof(float), products},
        {&pieces->lanes, {lanes, TILE_ROWS, padded, 1}, sizeof(float), products},
        {&pieces->rows, {lanes, padded, 1, 1}, sizeof(float), r->rule != NULL},
    };
    *bytes = 0;
    return arena_pieces(all, sizeof all / sizeof *all, arena, bytes);
}

bool rollout_scratch_bytes(const struct rollout *rollout, unsigned lanes, size_t *bytes)
{
    struct pieces none;
    return take_pieces(rollout, lanes, &none, NULL, bytes);
}

bool rollout_run(const struct rollout *r, const struct parallel *parallel, struct arena *arena, float *result,
                 struct error *error)
{
    struct work work = {.parallel = parallel};
    struct pieces pieces = {0};
    size_t bytes;
    if (!take_pieces(r, parallel->lanes, &pieces, arena, &bytes))
        return error_out_of_memory(error);
    struct run run = {
        .rollout = r,
        .kernels = kernels_chosen(),
        .stride = kernel_padded(r->length),
        .packed = pieces.packed,
        .lanes = pieces.lanes,
        .rows = pieces.rows,
    };
    const size_t floats = (r->per_head ? r->num_heads : 1) * r->length * r->length;
    for (size_t sequence = 0; sequence < r->batch; sequence++)
        if (!run_sequence(&run, sequence, pieces.between, result + sequence * floats, &work))
            return error_cancelled(error);
    return true;
}
