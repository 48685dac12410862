/* Runs an input twice and compares: see compare.h. Entered by the thread that runs the job; rows of maps are compared
 * on any lane. */

#include "engine/compare.h"

#include "base/size.h"
#include "engine/attend.h"
#include "engine/low_rank.h"
#include "engine/nystrom.h"

#include <float.h>
#include <math.h>
#include <string.h>

/* Rows of a head that are compared in one unit; independent of lanes, as the order of sums is. */
#define ROWS ((size_t)192)

/* The rules of the full run, and those that the other run's maps are made by: as its own, but nothing that acts on what
 * comes behind them. */
struct rule_sets {
    struct attention_rules full, maps;
    struct forward_input full_input, maps_input;
};

static void split_rules(const struct forward_input *input, struct rule_sets *sets)
{
    sets->full_input = sets->maps_input = *input;
    sets->full_input.observed = sets->maps_input.observed = false;
    sets->maps_input.no_maps = false; /* they are multiplied out here */
    if (!input->rules)
        return;
    sets->full = sets->maps = *input->rules;
    sets->full.pattern = (struct pattern_rule){.kind = PATTERN_FULL};
    sets->full.low_rank = (struct low_rank_rule){.kind = LOW_RANK_NONE};
    sets->full.keep_heads = sets->maps.keep_heads = (struct keep_heads_rule){.kind = KEEP_ALL_HEADS};
    sets->full.dropout = sets->maps.dropout = (struct dropout_rule){.samples = 0};
    sets->full_input.rules = &sets->full;
    sets->maps_input.rules = &sets->maps;
}

enum maps_relation { MAPS_UNDEFINED, MAPS_EQUAL, MAPS_DIFFER };

/* How the maps of the two runs can differ. */
static enum maps_relation relate_maps(const struct forward_input *input, bool same_layer)
{
    const struct attention_rules *rules = input->rules;
    if (rules && rules->low_rank.kind == LOW_RANK_LINFORMER)
        return MAPS_UNDEFINED;
    const bool full = !rules || (rules->pattern.kind == PATTERN_FULL && rules->low_rank.kind != LOW_RANK_NYSTROM);
    return full && same_layer ? MAPS_EQUAL : MAPS_DIFFER;
}

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

/* Scored rows of all sequences. */
static size_t count_scored(const struct batch *full)
{
    size_t n = 0;
    for (size_t i = 0; i < full->extent.n_sequences; i++)
        for (size_t row = 0; row < full->sequences[i].n_queries; row++)
            n += is_scored(&full->sequences[i], row);
    return n;
}

/* *error; false when cancelled, or the arena is too small. */
static bool compare_maps(const struct batch *full, const struct attention_layer *layer,
                         const struct forward_input *input, struct work *work, struct arena *arena,
                         double *attention_error, struct error *error)
{
    const struct attention_shape *shape = &layer->shape;
    const size_t n_scored = count_scored(full);
    struct forward_result nothing = {.output = NULL}, *nothings[] = {&nothing};
    struct batch maps;
    struct comparison c = {.maps = &maps, .full = full, .chunks = (input->query_length - 1) / ROWS + 1};
    size_t bytes;
    float *rows = NULL;
    if (!sums_bytes(shape, input, &bytes) || !(c.sums = arena_take(arena, bytes)) ||
        !rows_bytes(input, work->parallel->lanes, &bytes) || (bytes > 0 && !(rows = arena_take(arena, bytes))))
        return error_out_of_memory(error);
    if (!batch_create(&maps, layer, &input, nothings, 1, work->parallel->lanes, arena, error))
        return false;
    const size_t units = input->batch * shape->num_heads * c.chunks;
    const bool complete =
        batch_prepare(&maps, work) &&
        (rows ? low_rank_attend(&maps, work) && compare_nystrom(&c, rows, work)
              : batch_open_attention(&maps, work) &&
                    work_split(work, units, attend_flop(&maps) + attend_flop(full), compare_unit, &c));
    if (!complete)
        return error_cancelled(error);
    double sum = 0;
    for (size_t i = 0; i < units; i++)
        sum += c.sums[i];
    *attention_error = n_scored > 0 ? sum / (double)n_scored / (double)shape->num_heads : NAN;
    return true;
}

/* Over the rows that the full run scores. */
static double compare_outputs(const struct batch *full, const float *output /* [B, Tq, d_model] */,
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

static bool output_bytes(const struct attention_shape *shape, const struct forward_input *input, size_t *bytes)
{
    return tensor_bytes((size_t[]){input->batch, input->query_length, shape->d_model}, 3, sizeof(float), bytes);
}

static bool count_pairs(const struct attention_shape *shape, const struct rule_sets *sets,
                        const struct forward_input *input, const struct parallel *parallel, struct arena *arena,
                        struct approximation *approximation, struct error *error)
{
    if (forward_pairs(shape, input, parallel, arena, &approximation->pairs) &&
        forward_pairs(shape, &sets->full_input, parallel, arena, &approximation->pairs_full))
        return true;
    return error_cancelled(error);
}

bool forward_run_compared(const struct attention_layer *layer, const struct attention_layer *full_layer,
                          const struct forward_input *input, struct forward_result *result,
                          const struct parallel *parallel, struct arena *arena, struct approximation *approximation,
                          struct error *error)
{
    struct rule_sets sets;
    struct batch full;
    struct work work = {.parallel = parallel};
    const struct forward_input *inputs[] = {input}, *full_inputs[] = {&sets.full_input};
    struct forward_result own = *result, full_result = {.output = NULL}, *results[] = {&own},
                          *full_results[] = {&full_result};
    struct approximation found = {.attention_error = NAN};
    size_t bytes;
    split_rules(input, &sets);
    if (!output_bytes(&layer->shape, input, &bytes) || !(full_result.output = arena_take(arena, bytes)) ||
        (!own.output && !(own.output = arena_take(arena, bytes))))
        return error_out_of_memory(error);
    const size_t used = arena->used;
    if (!forward_run(layer, inputs, results, 1, parallel, arena, error))
        return false;
    arena_rewind(arena, used);
    if (!count_pairs(&layer->shape, &sets, input, parallel, arena, &found, error) ||
        !batch_create(&full, full_layer, full_inputs, full_results, 1, parallel->lanes, arena, error))
        return false;
    if (!batch_run(&full, &work))
        return error_cancelled(error);
    found.output_error = compare_outputs(&full, own.output, full_result.output);
    const enum maps_relation relation = relate_maps(input, layer == full_layer);
    if (relation == MAPS_EQUAL)
        found.attention_error = count_scored(&full) > 0 ? 0 : NAN;
    if (relation == MAPS_DIFFER &&
        !compare_maps(&full, layer, &sets.maps_input, &work, arena, &found.attention_error, error))
        return false;
    result->fully_masked_rows = own.fully_masked_rows;
    result->approximate = own.approximate;
    *approximation = found;
    return true;
}

bool forward_compare_bytes(const struct attention_shape *shape, const struct attention_shape *full_shape,
                           const struct forward_input *input, unsigned lanes, size_t *bytes)
{
    struct rule_sets sets;
    size_t output, first, full, maps, sums, rows, pairs, pairs_full, total = 0, second = 0;
    split_rules(input, &sets);
    const struct forward_input *inputs[] = {input}, *full_inputs[] = {&sets.full_input},
                               *maps_inputs[] = {&sets.maps_input};
    if (!output_bytes(shape, input, &output) || !forward_scratch_bytes(shape, inputs, 1, lanes, &first) ||
        !forward_scratch_bytes(full_shape, full_inputs, 1, lanes, &full) ||
        !forward_scratch_bytes(shape, maps_inputs, 1, lanes, &maps) || !sums_bytes(shape, input, &sums) ||
        !rows_bytes(input, lanes, &rows) || !forward_pairs_bytes(input, lanes, &pairs) ||
        !forward_pairs_bytes(&sets.full_input, lanes, &pairs_full))
        return false;
    if (!arena_need(&total, output) || !arena_need(&total, output) || !arena_need(&second, full) ||
        !arena_need(&second, maps) || !arena_need(&second, sums) || !arena_need(&second, rows))
        return false;
    const size_t most = size_max(size_max(first, second), size_max(pairs, pairs_full));
    if (!arena_need(&total, most))
        return false;
    *bytes = total;
    return true;
}

double forward_compare_flop(const struct attention_shape *shape, const struct attention_shape *full_shape,
                            const struct forward_input *input)
{
    struct rule_sets sets;
    split_rules(input, &sets);
    const double flop = forward_flop(shape, input) + forward_flop(shape, &sets.maps_input) +
                        forward_map_flop(input, shape->num_heads) + 2 * forward_flop(full_shape, &sets.full_input);
    return flop < DBL_MAX ? flop : DBL_MAX;
}
