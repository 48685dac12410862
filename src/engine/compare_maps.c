/* Two runs' maps and outputs against each other. Rows of maps are compared on any lane. */

#include "engine/compare_maps.h"

#include "base/size.h"
#include "engine/attend.h"
#include "engine/low_rank.h"
#include "engine/nystrom.h"

#include <math.h>
#include <string.h>

/* Rows of a head that are compared in one unit; independent of lanes, as the order of sums is. */
#define ROWS ((size_t)192)

/* Whether the full run scores the row. */
static bool is_scored(const struct sequence *s, size_t row)
{
    const size_t limit = sequence_key_limit(s, row);
    const uint8_t *allowed = sequence_allowed(s, row);
    return limit > 0 && (!allowed || memchr(allowed, 1, limit));
}

/* Numbers are added up in float32 within blocks of so many, in lanes, and in float64 over the blocks. */
enum { BLOCK = 256, LANES = 16 };

/* sum |a * a_factor - b * b_factor| */
static double distance(const float *a /* [count] */, float a_factor, const float *b /* [count] */, float b_factor,
                       size_t count)
{
    double sum = 0;
    for (size_t block = 0; block < count; block += BLOCK) {
        const size_t end = size_min(block + BLOCK, count);
        float lanes[LANES] = {0};
        size_t i = block;
        for (; i + LANES <= end; i += LANES)
            for (size_t n = 0; n < LANES; n++)
                lanes[n] += fabsf(a[i + n] * a_factor - b[i + n] * b_factor);
        for (; i < end; i++)
            lanes[0] += fabsf(a[i] * a_factor - b[i] * b_factor);
        for (size_t n = 0; n < LANES; n++)
            sum += (double)lanes[n];
    }
    return sum;
}

static double total(const float *a /* [count] */, float factor, size_t count)
{
    return distance(a, factor, a, 0, count);
}

struct comparison {
    const struct batch *maps, *full;
    size_t chunks; /* of the longest sequence */
    double *sums;  /* [sequences, heads, chunks]: of half the distances of scored rows */
};

/* One unit on its lane. */
struct rows_compared {
    const struct comparison *comparison;
    unsigned lane;
    const struct block *block; /* of the maps */
    double sum;
};

/* The L1 distance of row i of the maps' block from row j of the full one. Behind the row's causal limit both are 0. */
static double row_distance(const struct block *a, size_t i, const struct block *b, size_t j)
{
    const struct tile_plan *plan = a->plan;
    const size_t limit = sequence_key_limit(b->sequence, b->first_row + j);
    const float *weights = a->tile + i * a->tile_stride, *full = b->tile + j * b->tile_stride;
    if (!plan)
        return distance(weights, a->inverse[i], full, b->inverse[j], limit);
    double sum = 0;
    size_t seen = 0;
    for (size_t n = 0; n < plan->n_segments && plan->segments[n].begin < limit; n++) {
        const struct key_segment *segment = &plan->segments[n];
        const size_t end = size_min(segment->begin + segment->columns, limit);
        sum += total(full + seen, b->inverse[j], segment->begin - seen);
        sum += distance(weights + segment->column, a->inverse[i], full + segment->begin, b->inverse[j],
                        end - segment->begin);
        seen = end;
    }
    return sum + total(full + seen, b->inverse[j], limit - seen);
}

static void compare_block(void *context, const struct block *full)
{
    struct rows_compared *rows = context;
    const struct block *maps = rows->block;
    for (size_t j = 0; j < full->n_rows; j++)
        if (is_scored(full->sequence, full->first_row + j))
            rows->sum += row_distance(maps, full->first_row + j - maps->first_row, full, j) / 2;
}

static void see_block(void *context, const struct block *maps)
{
    struct rows_compared *rows = context;
    const struct comparison *c = rows->comparison;
    const struct sequence *s = &c->full->sequences[maps->sequence - c->maps->sequences];
    rows->block = maps;
    attend_weights(c->full, rows->lane, s, maps->head, maps->first_row, maps->first_row + maps->n_rows, compare_block,
                   rows);
}

static void compare_unit(const void *argument, size_t unit, unsigned lane)
{
    const struct comparison *c = argument;
    const size_t num_heads = c->maps->layer->shape.num_heads;
    const struct sequence *s = &c->maps->sequences[unit / c->chunks / num_heads];
    const size_t first = unit % c->chunks * ROWS, end = size_min(first + ROWS, s->n_queries);
    struct rows_compared rows = {.comparison = c, .lane = lane};
    if (first < end)
        attend_weights(c->maps, lane, s, unit / c->chunks % num_heads, first, end, see_block, &rows);
    c->sums[unit] = rows.sum;
}

static bool is_nystrom(const struct forward_input *input)
{
    return input->rules && input->rules->low_rank.kind == LOW_RANK_NYSTROM;
}

/* One head of a sequence that nystrom approximates. */
struct approximated {
    const struct comparison *comparison;
    const struct sequence *sequence; /* of the maps' batch */
    size_t head, stride;
    float *rows;  /* [lanes][NYSTROM_MAP_ROWS, n_keys], rows `stride` apart */
    double *sums; /* [chunks] */
};

static void compare_approximated(const void *argument, size_t chunk, unsigned lane)
{
    const struct approximated *a = argument;
    const struct sequence *s = a->sequence;
    float *tile = a->rows + lane * NYSTROM_MAP_ROWS * a->stride, ones[NYSTROM_MAP_ROWS];
    struct rows_compared rows = {.comparison = a->comparison, .lane = lane};
    struct block block = {
        .batch = a->comparison->maps,
        .sequence = s,
        .head = a->head,
        .n_keys = s->n_keys,
        .tile_stride = a->stride,
        .tile = tile,
        .inverse = ones,
    };
    for (size_t i = 0; i < NYSTROM_MAP_ROWS; i++)
        ones[i] = 1;
    const size_t end = size_min((chunk + 1) * ROWS, s->n_queries);
    for (block.first_row = chunk * ROWS; block.first_row < end; block.first_row += block.n_rows) {
        block.n_rows = size_min(NYSTROM_MAP_ROWS, end - block.first_row);
        nystrom_map_rows(block.batch, block.first_row, block.n_rows, tile, a->stride, lane);
        see_block(&rows, &block);
    }
    a->sums[chunk] = rows.sum;
}

/* Sequences that are exact do not differ. */
static bool compare_nystrom(const struct comparison *c, float *rows, struct work *work)
{
    const size_t num_heads = c->maps->layer->shape.num_heads;
    for (size_t i = 0; i < c->maps->extent.n_sequences; i++) {
        const struct sequence *s = &c->maps->sequences[i];
        const double flop = attend_flop(c->full) / (double)c->maps->extent.n_sequences / (double)num_heads;
        for (size_t head = 0; head < num_heads; head++) {
            const struct approximated a = {.comparison = c,
                                           .sequence = s,
                                           .head = head,
                                           .stride = batch_tile_stride(s->input->key_length),
                                           .rows = rows,
                                           .sums = c->sums + (i * num_heads + head) * c->chunks};
            memset(a.sums, 0, c->chunks * sizeof *a.sums);
            if (low_rank_approximates(s->input->rules, s->n_keys) &&
                (!nystrom_open_map(c->maps, s, head, work) ||
                 !work_split(work, (s->n_queries + ROWS - 1) / ROWS, 2 * flop, compare_approximated, &a)))
                return false;
        }
    }
    return true;
}

/* For compare_nystrom. */
static bool rows_bytes(const struct forward_input *input, unsigned lanes, size_t *bytes)
{
    *bytes = 0;
    return !is_nystrom(input) ||
           (input->key_length < SIZE_MAX / 2 &&
            tensor_bytes((size_t[]){lanes, NYSTROM_MAP_ROWS, batch_tile_stride(input->key_length)}, 3, sizeof(float),
                         bytes));
}

static bool sums_bytes(const struct attention_shape *shape, const struct forward_input *input, size_t *bytes)
{
    const size_t chunks = (input->query_length - 1) / ROWS + 1;
    return tensor_bytes((size_t[]){input->batch, shape->num_heads, chunks}, 3, sizeof(double), bytes);
}

size_t compare_count_scored(const struct batch *full)
{
    size_t n = 0;
    for (size_t i = 0; i < full->extent.n_sequences; i++)
        for (size_t row = 0; row < full->sequences[i].n_queries; row++)
            n += is_scored(&full->sequences[i], row);
    return n;
}

bool compare_maps_bytes(const struct attention_shape *shape, const struct forward_input *input, unsigned lanes,
                        size_t *bytes)
{
    size_t sums, rows;
    *bytes = 0;
    return sums_bytes(shape, input, &sums) && rows_bytes(input, lanes, &rows) && arena_need(bytes, sums) &&
           arena_need(bytes, rows);
}

bool compare_maps(const struct batch *maps, const struct batch *full, const struct forward_input *input,
                  struct work *work, struct arena *arena, double *sum, struct error *error)
{
    const struct attention_shape *shape = &maps->layer->shape;
    struct comparison c = {.maps = maps, .full = full, .chunks = (input->query_length - 1) / ROWS + 1};
    size_t bytes;
    float *rows = NULL;
    if (!sums_bytes(shape, input, &bytes) || !(c.sums = arena_take(arena, bytes)) ||
        !rows_bytes(input, work->parallel->lanes, &bytes) || (bytes > 0 && !(rows = arena_take(arena, bytes))))
        return error_out_of_memory(error);
    const size_t units = input->batch * shape->num_heads * c.chunks;
    const bool complete = rows ? low_rank_attend(maps, work) && compare_nystrom(&c, rows, work)
                               : batch_open_attention(maps, work) &&
                                     work_split(work, units, attend_flop(maps) + attend_flop(full), compare_unit, &c);
    if (!complete)
        return error_cancelled(error);
    *sum = 0;
    for (size_t i = 0; i < units; i++)
        *sum += c.sums[i];
    return true;
}

double compare_outputs(const struct batch *full, const float *output /* [B, Tq, d_model] */,
                       const float *full_output /* the same */)
{
    const size_t d_model = full->layer->shape.d_model;
    double difference = 0, norm = 0;
    for (size_t i = 0; i < full->extent.n_sequences; i++) {
        const struct sequence *s = &full->sequences[i];
        for (size_t row = 0; row < s->n_queries; row++) {
            if (!is_scored(s, row))
                continue;
            const size_t at = (s->index * s->input->query_length + sequence_position(s, row)) * d_model;
            for (size_t d = 0; d < d_model; d++) {
                const double y = (double)output[at + d], y_full = (double)full_output[at + d];
                difference += (y - y_full) * (y - y_full);
                norm += y_full * y_full;
            }
        }
    }
    return norm != 0 ? sqrt(difference / norm) : NAN;
}
