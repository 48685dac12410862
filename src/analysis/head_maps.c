/* What of each sequence is measured: its positions, words, excluded keys, and the allowed keys of its rows. Entered by
 * the thread that runs the job. */
#include "analysis/head_maps.h"

#include "analysis/head_words.h"
#include "analysis/scored_rows.h"
#include "base/arena_pieces.h"
#include "base/size.h"

#include <string.h>

/* Padding is left out where a mask of keys stands beside self-attention. */
static bool has_padding(const struct head_maps *maps)
{
    return maps->rule->self_attention && maps->rule->mask_kind == FORWARD_MASK_KEYS;
}

/* Where the pieces of memory of head_maps_prepare lie; one list, so that they are counted as they are taken. */
struct pieces {
    struct head_sequence *sequences; /* [B] */
    uint8_t *has_row;                /* [B, Tq] */
    uint32_t *n_allowed;             /* [B, Tq] */
    uint32_t *positions;             /* [B, Tk], with padding */
    uint32_t *word_ends;             /* [B, Tk], with words */
    uint8_t *excluded;               /* [B, Tk], with exclude */
    uint8_t *marked;                 /* [Tk], with one list of exclude for all sequences */
    uint8_t *allowed;                /* [Tk], of one row */
    void *reader;                    /* of allowed_reader_init */
};

/* Without an arena only *bytes is set. */
static bool take_pieces(const struct head_maps *maps, struct pieces *pieces, struct arena *arena, size_t *bytes)
{
    const size_t batch = maps->rule->batch, rows = maps->rule->query_length, keys = maps->rule->key_length;
    size_t reader;
    if (!allowed_reader_bytes(maps->rule, &reader))
        return false;
    const struct arena_piece all[] = {
        {&pieces->sequences, {batch, 1, 1, 1}, sizeof *pieces->sequences, true},
        {&pieces->has_row, {batch, rows, 1, 1}, sizeof *pieces->has_row, true},
        {&pieces->n_allowed, {batch, rows, 1, 1}, sizeof *pieces->n_allowed, true},
        {&pieces->positions, {batch, keys, 1, 1}, sizeof *pieces->positions, has_padding(maps)},
        {&pieces->word_ends, {batch, keys, 1, 1}, sizeof *pieces->word_ends, maps->words},
        {&pieces->excluded, {batch, keys, 1, 1}, sizeof *pieces->excluded, maps->exclude},
        {&pieces->marked, {keys, 1, 1, 1}, sizeof *pieces->marked, maps->exclude && !maps->exclude->nested},
        {&pieces->allowed, {keys, 1, 1, 1}, sizeof *pieces->allowed, true},
        {&pieces->reader, {reader, 1, 1, 1}, 1, reader > 0},
    };
    *bytes = 0;
    return arena_pieces(all, sizeof all / sizeof *all, arena, bytes);
}

bool head_maps_bytes(const struct head_maps *maps, size_t *bytes)
{
    struct pieces none;
    size_t needed;
    if (!take_pieces(maps, &none, NULL, &needed))
        return false;
    *bytes = needed;
    return true;
}

/* The positions of a padded sequence that are kept. */
static void leave_padding_out(const uint8_t *mask /* [T] */, size_t length, uint32_t *positions /* [T] */,
                              struct head_sequence *sequence)
{
    size_t kept = 0;
    for (size_t i = 0; i < length; i++)
        if (mask[i])
            positions[kept++] = (uint32_t)i;
    sequence->n_rows = sequence->n_keys = kept;
    sequence->first_position = kept ? positions[0] : 0;
    if (kept && positions[kept - 1] - positions[0] != kept - 1)
        sequence->positions = positions;
}

/* A row of zeros in posted maps; the first head speaks for all. */
static bool is_zero_row(const struct head_maps *maps, size_t sequence, size_t position)
{
    const struct forward_input *rule = maps->rule;
    const float *row = head_maps_row(maps, sequence, 0, position);
    for (size_t key = 0; key < rule->key_length; key++)
        if (row[key] != 0)
            return false;
    return true;
}

static bool row_has_key(const struct head_maps *maps, struct allowed_reader *reader, size_t index, size_t row)
{
    const size_t position = head_sequence_position(&maps->sequences[index], row);
    size_t limit;
    if (maps->posted && is_zero_row(maps, index, position))
        return false;
    const uint8_t *allowed = allowed_row(reader, index, position, &limit);
    return allowed ? limit > 0 && memchr(allowed, 1, limit) : limit > 0;
}

/* Keys that are looked at in about a millisecond, and what a row costs beside its keys. */
#define WATCHED_KEYS ((size_t)1 << 18)
#define ROW_KEYS     ((size_t)32)

bool head_maps_goes_on(const struct head_maps *maps, struct head_maps_watch *watch, size_t n_keys)
{
    if (watch->cancelled)
        return false;
    watch->keys += n_keys + ROW_KEYS;
    if (watch->keys >= WATCHED_KEYS) {
        watch->keys = 0;
        watch->cancelled = maps->watched && maps->watched->cancelled(maps->watched->context);
    }
    return !watch->cancelled;
}

static bool prepare_sequence(struct head_maps *maps, size_t index, const struct pieces *pieces,
                             struct allowed_reader *reader, struct head_maps_watch *watch, struct error *error)
{
    const struct forward_input *rule = maps->rule;
    const size_t rows = rule->query_length, keys = rule->key_length;
    struct head_sequence *sequence = &pieces->sequences[index];
    uint8_t *has_row = pieces->has_row + index * rows;
    uint32_t *n_allowed = pieces->n_allowed + index * rows;
    *sequence = (struct head_sequence){.n_rows = rows, .n_keys = keys, .has_row = has_row, .n_allowed = n_allowed};
    if (has_padding(maps))
        leave_padding_out(rule->mask + index * keys, keys, pieces->positions + index * keys, sequence);
    sequence->n_positions = sequence->n_rows;
    sequence->direct = !sequence->positions && !maps->words && !maps->exclude && !maps->stray && !maps->renormalize;
    for (size_t row = 0; row < sequence->n_positions; row++)
        has_row[row] = head_maps_goes_on(maps, watch, keys) && row_has_key(maps, reader, index, row);
    if (maps->words &&
        !head_words_of_sequence(maps->words, index, rule, pieces->word_ends + index * keys, sequence, error))
        return false;
    if (maps->exclude && !head_words_exclude(maps->exclude, index, rule, pieces->marked,
                                             pieces->excluded + index * keys, sequence, error))
        return false;
    for (size_t row = 0; row < sequence->n_rows && head_maps_goes_on(maps, watch, keys); row++)
        n_allowed[row] = (uint32_t)head_maps_allowed(maps, reader, index, row, pieces->allowed);
    return !watch->cancelled || error_cancelled(error);
}

bool head_maps_prepare(struct head_maps *maps, struct arena *arena, struct error *error)
{
    const struct forward_input *rule = maps->rule;
    const size_t used = arena->used;
    struct head_maps made = *maps;
    struct head_maps_watch watch = {0};
    struct pieces pieces;
    size_t bytes;
    if (!take_pieces(maps, &pieces, arena, &bytes)) {
        arena_rewind(arena, used);
        return error_out_of_memory(error);
    }
    struct allowed_reader reader = allowed_reader_init(rule, pieces.reader);
    made.sequences = pieces.sequences;
    made.longest_rows = made.longest_keys = made.n_rows = made.n_excluded = 0;
    made.aligned = rule->self_attention || rule->causal;
    made.shift = rule->self_attention || !rule->causal ? 0 : rule->key_length - rule->query_length;
    for (size_t i = 0; i < rule->batch; i++) {
        const struct head_sequence *sequence = &pieces.sequences[i];
        if (!prepare_sequence(&made, i, &pieces, &reader, &watch, error)) {
            arena_rewind(arena, used);
            return false;
        }
        made.longest_rows = size_max(made.longest_rows, sequence->n_rows);
        made.longest_keys = size_max(made.longest_keys, sequence->n_keys);
        size_t scored = 0;
        for (size_t row = 0; row < sequence->n_rows; row++)
            scored += sequence->n_allowed[row] > 0;
        made.n_rows += scored;
        made.n_excluded += (maps->words ? sequence->n_rows : rule->query_length) - scored;
    }
    *maps = made;
    return true;
}
