/* Counts the pairs of queries and keys that a forward's definition needs. Entered by the thread that runs the job; rows
 * on any lane. */

#include "engine/attend_plan.h"

#include "base/size.h"

#include <string.h>

/* Rows of a unit where there is no pattern. */
#define ROWS ((size_t)64)

struct counter {
    const struct forward_input *input;
    const struct pattern_rule *pattern; /* NULL: all keys */
    size_t units, unit_rows;            /* of a sequence */
    uint32_t *kept; /* [B, key_length + 1] keys before each position that a mask of keys leaves; NULL: no such mask */
    char *readers;  /* [lanes][reader_bytes] */
    size_t reader_bytes;
    double *counts; /* [B, units] */
};

static const struct pattern_rule *pattern_of(const struct forward_input *input)
{
    return rules_shrink_keys(input->rules) ? NULL : sparse_pattern(input->rules);
}

static size_t rows_of_unit(const struct forward_input *input)
{
    const struct pattern_rule *pattern = pattern_of(input);
    return pattern ? plan_read_rows(pattern, input->key_length) : ROWS;
}

enum { KEPT, READERS, COUNTS, PIECES };

static bool piece_bytes(const struct forward_input *input, unsigned lanes, size_t bytes[PIECES])
{
    const struct pattern_rule *pattern = pattern_of(input);
    const size_t kept = input->mask_kind == FORWARD_MASK_KEYS ? input->batch : 0;
    const size_t units = (input->query_length - 1) / rows_of_unit(input) + 1;
    size_t reader = 0;
    return (!pattern || pattern_reader_bytes(pattern, input->key_length, &reader)) &&
           size_multiply(reader, lanes, &bytes[READERS]) &&
           tensor_bytes((size_t[]){kept, input->key_length + 1}, 2, sizeof(uint32_t), &bytes[KEPT]) &&
           tensor_bytes((size_t[]){input->batch, units}, 2, sizeof(double), &bytes[COUNTS]);
}

bool forward_pairs_bytes(const struct forward_input *input, unsigned lanes, size_t *bytes)
{
    size_t pieces[PIECES], total = 0;
    if (!piece_bytes(input, lanes, pieces))
        return false;
    for (size_t i = 0; i < PIECES; i++)
        if (!arena_need(&total, pieces[i]))
            return false;
    *bytes = total;
    return true;
}

static void count_kept(struct counter *counter)
{
    const struct forward_input *input = counter->input;
    uint32_t *kept = counter->kept;
    for (size_t b = 0; b < input->batch; b++, kept += input->key_length + 1) {
        kept[0] = 0;
        for (size_t j = 0; j < input->key_length; j++)
            kept[j + 1] = kept[j] + (input->mask[b * input->key_length + j] != 0);
    }
}

/* Allowed keys of a row among begin .. end - 1. */
static size_t count_run(const struct counter *counter, size_t sequence, size_t row, size_t begin, size_t end)
{
    const struct forward_input *input = counter->input;
    if (begin >= end)
        return 0;
    if (counter->kept) {
        const uint32_t *kept = counter->kept + sequence * (input->key_length + 1);
        return kept[end] - kept[begin];
    }
    if (input->mask_kind == FORWARD_MASK_PAIRS)
        return forward_mask_count(input->mask + (sequence * input->query_length + row) * input->key_length + begin,
                                  end - begin);
    return end - begin;
}

static size_t count_row(const struct counter *counter, struct pattern_reader *reader, size_t sequence, size_t row)
{
    const struct forward_input *input = counter->input;
    const ptrdiff_t position = (ptrdiff_t)row + forward_position_shift(input);
    if (input->causal && position < 0)
        return 0;
    const size_t limit = input->causal ? size_min((size_t)position + 1, input->key_length) : input->key_length;
    if (!reader)
        return count_run(counter, sequence, row, 0, limit);
    size_t n_runs, pairs = 0;
    const struct key_run *runs = pattern_runs(reader, position, &n_runs);
    for (size_t i = 0; i < n_runs && runs[i].begin < limit; i++)
        pairs += count_run(counter, sequence, row, runs[i].begin, size_min(runs[i].end, limit));
    return pairs;
}

static void count_unit(const void *argument, size_t unit, unsigned lane)
{
    const struct counter *counter = argument;
    const struct forward_input *input = counter->input;
    const size_t sequence = unit / counter->units, first = unit % counter->units * counter->unit_rows;
    const bool padding = input->self_attention && counter->kept;
    const uint8_t *mask = padding ? input->mask + sequence * input->key_length : NULL;
    struct pattern_reader *reader = counter->pattern
                                        ? pattern_reader_init(counter->pattern, input->rules->layer, input->key_length,
                                                              counter->readers + lane * counter->reader_bytes)
                                        : NULL;
    double pairs = 0;
    for (size_t row = first; row < size_min(first + counter->unit_rows, input->query_length); row++)
        if (!mask || mask[row])
            pairs += (double)count_row(counter, reader, sequence, row);
    counter->counts[unit] = pairs;
}

/* Of one head of a sequence whose n_rows rows (and, in self-attention, keys) are computed. */
static double low_rank_pairs(const struct low_rank_rule *rule, double n)
{
    const double m = (double)(rule->kind == LOW_RANK_LINFORMER ? rule->projected_keys : rule->landmarks);
    if (rule->kind == LOW_RANK_LINFORMER)
        return n * m;
    return n > m ? n * m + m * m + m * n : n * n;
}

bool forward_pairs(const struct attention_shape *shape, const struct forward_input *input,
                   const struct parallel *parallel, struct arena *arena, double *pairs)
{
    const size_t used = arena->used;
    size_t bytes[PIECES];
    struct counter counter = {.input = input, .pattern = pattern_of(input), .unit_rows = rows_of_unit(input)};
    counter.units = (input->query_length - 1) / counter.unit_rows + 1;
    struct work work = {.parallel = parallel};
    double sum = 0;
    bool complete = true;
    if (!piece_bytes(input, parallel->lanes, bytes))
        return false;
    counter.reader_bytes = bytes[READERS] / parallel->lanes;
    counter.kept = bytes[KEPT] > 0 ? arena_take(arena, bytes[KEPT]) : NULL;
    counter.readers = bytes[READERS] > 0 ? arena_take(arena, bytes[READERS]) : NULL;
    counter.counts = arena_take(arena, bytes[COUNTS]);
    if (counter.kept)
        count_kept(&counter);
    if (rules_shrink_keys(input->rules)) {
        for (size_t b = 0; b < input->batch; b++)
            sum += low_rank_pairs(&input->rules->low_rank, (double)count_run(&counter, b, 0, 0, input->key_length));
    } else {
        const double runs = counter.pattern ? plan_flop(counter.pattern, input->query_length, input->key_length) : 0;
        complete = work_split(&work, input->batch * counter.units,
                              (double)input->batch * (runs + (double)input->query_length), count_unit, &counter);
        for (size_t i = 0; complete && i < input->batch * counter.units; i++)
            sum += counter.counts[i];
    }
    arena_rewind(arena, used);
    if (complete)
        *pairs = sum * (double)shape->num_heads;
    return complete;
}
