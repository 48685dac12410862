/* Runs an input twice and compares: see compare.h. Entered by the thread that runs the job. */

#include "engine/compare.h"

#include "base/size.h"
#include "engine/compare_maps.h"

#include <float.h>
#include <math.h>

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

static bool output_bytes(const struct attention_shape *shape, const struct forward_input *input, size_t *bytes)
{
    return tensor_bytes((size_t[]){input->batch, input->query_length, shape->d_model}, 3, sizeof(float), bytes);
}

/* *attention_error; false when cancelled, or the arena is too small. */
static bool compare_all_maps(const struct batch *full, const struct attention_layer *layer,
                             const struct forward_input *input, struct work *work, struct arena *arena,
                             double *attention_error, struct error *error)
{
    const size_t n_scored = compare_count_scored(full);
    struct forward_result nothing = {.output = NULL}, *nothings[] = {&nothing};
    struct batch maps;
    double sum;
    if (!batch_create(&maps, layer, &input, nothings, 1, work->parallel->lanes, arena, error))
        return false;
    if (!batch_prepare(&maps, work))
        return error_cancelled(error);
    if (!compare_maps(&maps, full, input, work, arena, &sum, error))
        return false;
    *attention_error = n_scored > 0 ? sum / (double)n_scored / (double)layer->shape.num_heads : NAN;
    return true;
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
        found.attention_error = compare_count_scored(&full) > 0 ? 0 : NAN;
    if (relation == MAPS_DIFFER &&
        !compare_all_maps(&full, layer, &sets.maps_input, &work, arena, &found.attention_error, error))
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
    size_t output, first, full, maps, compared, pairs, pairs_full, total = 0, second = 0;
    split_rules(input, &sets);
    const struct forward_input *inputs[] = {input}, *full_inputs[] = {&sets.full_input},
                               *maps_inputs[] = {&sets.maps_input};
    if (!output_bytes(shape, input, &output) || !forward_scratch_bytes(shape, inputs, 1, lanes, &first) ||
        !forward_scratch_bytes(full_shape, full_inputs, 1, lanes, &full) ||
        !forward_scratch_bytes(shape, maps_inputs, 1, lanes, &maps) ||
        !compare_maps_bytes(shape, input, lanes, &compared) || !forward_pairs_bytes(input, lanes, &pairs) ||
        !forward_pairs_bytes(&sets.full_input, lanes, &pairs_full))
        return false;
    if (!arena_need(&total, output) || !arena_need(&total, output) || !arena_need(&second, full) ||
        !arena_need(&second, maps) || !arena_need(&second, compared))
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
