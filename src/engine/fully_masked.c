/* Counts the rows that no key is allowed to. Under a sparse pattern that may mean reading many runs for each row, so
 * these rows are tiles like those of any other step; the others are counted by the thread that lays out the batch. */

#include "engine/fully_masked.h"

#include "base/size.h"
#include "engine/attend_plan.h"

#include <string.h>

struct count {
    const struct batch *batch;
    const struct sequence *sequence;
    size_t first_row, tile_rows;
    atomic_size_t *n_rows;
};

static bool is_sparse(const struct sequence *s)
{
    return s->n_queries > 0 && sparse_pattern(s->input->rules);
}

size_t fully_masked_plain(const struct sequence *s)
{
    const struct forward_input *input = s->input;
    if ((input->mask_kind == FORWARD_MASK_NONE && !input->causal) || is_sparse(s))
        return 0;
    size_t n_rows = 0, first_kept = 0;
    if (input->mask_kind == FORWARD_MASK_KEYS && !input->self_attention) { /* the same mask for all rows */
        const uint8_t *mask = sequence_allowed(s, 0), *kept = memchr(mask, 1, s->n_keys);
        first_kept = kept ? (size_t)(kept - mask) : s->n_keys;
    }
    for (size_t row = 0; row < s->n_queries; row++) {
        const size_t limit = sequence_key_limit(s, row);
        const bool pairs = input->mask_kind == FORWARD_MASK_PAIRS;
        n_rows += limit <= first_kept || (pairs && !memchr(sequence_allowed(s, row), 1, limit));
    }
    return n_rows;
}

static void count_tile(const void *argument, size_t index, unsigned lane)
{
    const struct count *count = argument;
    const struct sequence *s = count->sequence;
    const struct batch *batch = count->batch;
    const struct attention_rules *rules = s->input->rules;
    const size_t first = count->first_row + index * count->tile_rows;
    struct pattern_reader *reader = pattern_reader_init(&rules->pattern, rules->layer, s->input->key_length,
                                                        batch->readers + lane * batch->reader_bytes);
    size_t n_rows = 0;
    for (size_t row = first; row < size_min(first + count->tile_rows, s->n_queries); row++)
        n_rows += !row_keys_any(row_keys_begin(reader, s, row), sequence_allowed(s, row));
    atomic_fetch_add_explicit(count->n_rows, n_rows, memory_order_relaxed);
}

/* The first row that may be without a key: every pattern lets a row see its own position, where no mask hides it. */
static size_t first_in_doubt(const struct sequence *s)
{
    if (s->n_queries > 0 && sequence_allowed(s, 0))
        return 0;
    if (s->input->self_attention)
        return s->n_queries;
    return s->input->causal ? 0 : size_min(s->n_queries, s->input->key_length);
}

bool batch_count_fully_masked(const struct batch *batch, struct work *work)
{
    for (size_t i = 0; i < batch->extent.n_sequences; i++) {
        const struct sequence *s = &batch->sequences[i];
        if (!is_sparse(s))
            continue;
        const struct pattern_rule *pattern = &s->input->rules->pattern;
        const size_t n_keys = s->input->key_length, rows = plan_read_rows(pattern, n_keys);
        atomic_size_t found = 0;
        const struct count count = {batch, s, first_in_doubt(s), rows, &found};
        const size_t n_rows = s->n_queries - count.first_row;
        if (!work_split(work, (n_rows + rows - 1) / rows, plan_flop(pattern, n_rows, n_keys), count_tile, &count))
            return false;
        s->result->fully_masked_rows += found;
    }
    return true;
}
