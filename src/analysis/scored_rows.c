/* The allowed keys of each row, by mask, causal and pattern. Any thread. */

#include "analysis/scored_rows.h"

#include "base/arena.h"
#include "base/size.h"
#include "engine/attend_plan.h"

#include <string.h>

size_t allowed_key_limit(const struct forward_input *input, size_t row)
{
    if (!input->causal)
        return input->key_length;
    const size_t end = row + 1 + input->key_length;
    return end <= input->query_length ? 0 : size_min(end - input->query_length, input->key_length);
}

const uint8_t *row_mask(const struct forward_input *input, size_t sequence, size_t row)
{
    switch (input->mask_kind) {
    case FORWARD_MASK_KEYS:
        return input->mask + sequence * input->key_length;
    case FORWARD_MASK_PAIRS:
        return input->mask + (sequence * input->query_length + row) * input->key_length;
    case FORWARD_MASK_NONE:
        break;
    }
    return NULL;
}

/* ---- patterns */

/* The row of bytes lies first, then the pattern's reader. */
static bool count_bytes(const struct forward_input *input, size_t *row, size_t *bytes)
{
    size_t pattern;
    *row = 0;
    return arena_need(row, input->key_length) &&
           pattern_reader_bytes(&input->rules->pattern, input->key_length, &pattern) && size_add(*row, pattern, bytes);
}

static bool same_pattern(const struct pattern_rule *a, const struct pattern_rule *b)
{
    return a->kind == b->kind && a->left == b->left && a->right == b->right && a->window == b->window &&
           a->step == b->step && a->size == b->size && a->window_blocks == b->window_blocks &&
           a->global_blocks == b->global_blocks && a->random_blocks == b->random_blocks && a->seed == b->seed &&
           a->n_global == b->n_global &&
           (a->n_global == 0 || memcmp(a->global, b->global, a->n_global * sizeof *a->global) == 0);
}

bool same_allowed_keys(const struct forward_input *a, const struct forward_input *b)
{
    if (a->causal != b->causal || has_pattern(a) != has_pattern(b))
        return false;
    if (!has_pattern(a))
        return true;
    const bool drawn = a->rules->pattern.kind == PATTERN_BIGBIRD && a->rules->pattern.random_blocks > 0;
    return same_pattern(&a->rules->pattern, &b->rules->pattern) && !(drawn && a->rules->layer != b->rules->layer);
}

bool allowed_reader_bytes(const struct forward_input *input, size_t *bytes)
{
    size_t row;
    *bytes = 0;
    return !has_pattern(input) || count_bytes(input, &row, bytes);
}

struct allowed_reader allowed_reader_init(const struct forward_input *input, void *memory)
{
    struct allowed_reader reader = {.input = input};
    size_t row, bytes;
    if (has_pattern(input) && count_bytes(input, &row, &bytes)) {
        reader.row = memory;
        reader.pattern =
            pattern_reader_init(&input->rules->pattern, input->rules->layer, input->key_length, (char *)memory + row);
    }
    return reader;
}

const struct key_run *allowed_runs(struct allowed_reader *reader, size_t row, size_t *count, size_t *limit)
{
    const struct forward_input *input = reader->input;
    *limit = allowed_key_limit(input, row);
    if (reader->pattern)
        return pattern_runs(reader->pattern, (ptrdiff_t)row + forward_position_shift(input), count);
    reader->all = (struct key_run){0, (uint32_t)*limit};
    *count = *limit > 0;
    return &reader->all;
}

const uint8_t *allowed_row(struct allowed_reader *reader, size_t sequence, size_t row, size_t *limit)
{
    const struct forward_input *input = reader->input;
    const uint8_t *mask = row_mask(input, sequence, row);
    if (!reader->pattern) {
        *limit = allowed_key_limit(input, row);
        return mask;
    }
    size_t count, end = 0;
    const struct key_run *runs = allowed_runs(reader, row, &count, limit);
    for (size_t i = 0; i < count && runs[i].begin < *limit; i++) {
        const size_t begin = runs[i].begin;
        memset(reader->row + end, 0, begin - end);
        end = size_min(runs[i].end, *limit);
        if (mask)
            memcpy(reader->row + begin, mask + begin, end - begin);
        else
            memset(reader->row + begin, 1, end - begin);
    }
    *limit = end;
    return reader->row;
}

/* ---- rows */

static bool is_scored(struct allowed_reader *reader, size_t sequence, size_t row)
{
    const struct forward_input *input = reader->input;
    const uint8_t *mask = row_mask(input, sequence, row);
    size_t count, limit;
    if (input->self_attention && input->mask_kind == FORWARD_MASK_KEYS && !mask[row])
        return false;
    const struct key_run *runs = allowed_runs(reader, row, &count, &limit);
    for (size_t i = 0; i < count && runs[i].begin < limit; i++)
        if (!mask || memchr(mask + runs[i].begin, 1, size_min(runs[i].end, limit) - runs[i].begin))
            return true;
    return false;
}

/* Rows of a tile without a pattern. */
#define TILE_ROWS ((size_t)64)

struct scoring {
    const struct forward_input *input;
    char *readers; /* [lanes][reader_bytes] */
    size_t reader_bytes, tile_rows;
    uint8_t *scored; /* [B, Tq] */
    atomic_size_t *n_scored;
};

static void score_tile(const void *argument, size_t index, unsigned lane)
{
    const struct scoring *s = argument;
    const size_t length = s->input->query_length, first = index * s->tile_rows,
                 end = size_min(first + s->tile_rows, s->input->batch * length);
    struct allowed_reader reader =
        allowed_reader_init(s->input, s->readers ? s->readers + lane * s->reader_bytes : NULL);
    size_t count = 0;
    for (size_t row = first; row < end; row++)
        count += s->scored[row] = is_scored(&reader, row / length, row % length);
    atomic_fetch_add_explicit(s->n_scored, count, memory_order_relaxed);
}

bool scored_rows(const struct forward_input *input, void *readers, size_t reader_bytes, struct work *work,
                 uint8_t *scored, size_t *n_scored)
{
    const struct pattern_rule *pattern = has_pattern(input) ? &input->rules->pattern : NULL;
    const size_t rows = input->batch * input->query_length, n_keys = input->key_length,
                 tile_rows = pattern ? plan_read_rows(pattern, n_keys) : TILE_ROWS;
    const double looked_at = input->mask_kind == FORWARD_MASK_NONE ? 1 : (double)n_keys;
    const double flop = (double)rows * looked_at + (pattern ? plan_flop(pattern, rows, n_keys) : 0);
    atomic_size_t count = 0;
    const struct scoring scoring = {input, readers, reader_bytes, tile_rows, scored, &count};
    if (!work_split(work, (rows + tile_rows - 1) / tile_rows, flop, score_tile, &scoring))
        return false;
    *n_scored = count;
    return true;
}
