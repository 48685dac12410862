/* Facts of all rows of all sequences. Entered by the thread that runs the job. */
#include "analysis/row_facts.h"

#include "base/size.h"

#include <math.h>

struct pieces {
    uint8_t *keys;            /* [B, Tq] */
    double *uniform_distance; /* [B, Tq] */
    double *logarithms;       /* [Tk + 1] */
    uint8_t *allowed;         /* [Tk] */
    void *reader;             /* [reader_bytes] of allowed_reader_init */
    size_t reader_bytes;
};

static bool count_bytes(const struct head_maps *maps, size_t *rows, size_t *reader, size_t *bytes)
{
    const struct forward_input *rule = maps->rule;
    size_t distances, logarithms, total = 0;
    if (!size_multiply(rule->batch, rule->query_length, rows) || !size_multiply(*rows, sizeof(double), &distances) ||
        rule->key_length == SIZE_MAX || !size_multiply(rule->key_length + 1, sizeof(double), &logarithms) ||
        !arena_need(&total, *rows) || !arena_need(&total, distances) || !arena_need(&total, logarithms) ||
        !arena_need(&total, rule->key_length) || !allowed_reader_bytes(rule, reader) || !arena_need(&total, *reader))
        return false;
    *bytes = total;
    return true;
}

bool row_facts_bytes(const struct head_maps *maps, size_t *bytes)
{
    size_t rows, reader;
    return count_bytes(maps, &rows, &reader, bytes);
}

static uint8_t keys_of_row(const struct head_maps *maps, const uint8_t *allowed, size_t n_keys, ptrdiff_t place)
{
    const ptrdiff_t end = (ptrdiff_t)n_keys;
    uint8_t keys = n_keys > 0 && allowed[0] ? ROW_HAS_FIRST : 0;
    if (!maps->aligned)
        return keys;
    if (place >= 1 && place - 1 < end && allowed[place - 1])
        keys |= ROW_HAS_PREVIOUS;
    if (place >= -1 && place + 1 < end && allowed[place + 1])
        keys |= ROW_HAS_NEXT;
    if (place >= 0 && place < end && allowed[place])
        keys |= ROW_HAS_SELF;
    return keys;
}

static double mean_distance(const uint8_t *allowed, size_t n_keys, size_t n_allowed, ptrdiff_t place)
{
    uint64_t sum = 0;
    for (size_t key = 0; key < n_keys; key++) {
        const ptrdiff_t distance = (ptrdiff_t)key - place;
        sum += allowed[key] ? (uint64_t)(distance < 0 ? -distance : distance) : 0;
    }
    return (double)sum / (double)n_allowed;
}

bool row_facts_make(const struct head_maps *maps, struct arena *arena, struct row_facts *facts)
{
    const size_t used = arena->used, length = maps->rule->query_length, keys = maps->rule->key_length;
    struct head_maps_watch watch = {0};
    struct pieces pieces;
    size_t rows, bytes;
    if (!count_bytes(maps, &rows, &pieces.reader_bytes, &bytes))
        return false;
    pieces.keys = arena_take(arena, rows);
    pieces.uniform_distance = arena_take(arena, rows * sizeof *pieces.uniform_distance);
    pieces.logarithms = arena_take(arena, (keys + 1) * sizeof *pieces.logarithms);
    pieces.allowed = arena_take(arena, keys);
    pieces.reader = pieces.reader_bytes ? arena_take(arena, pieces.reader_bytes) : NULL;
    if (!pieces.keys || !pieces.uniform_distance || !pieces.logarithms || !pieces.allowed ||
        (pieces.reader_bytes && !pieces.reader)) {
        arena_rewind(arena, used);
        return false;
    }
    struct allowed_reader reader = allowed_reader_init(maps->rule, pieces.reader);
    pieces.logarithms[0] = 0;
    for (size_t n = 1; n <= maps->longest_keys; n++)
        pieces.logarithms[n] = log((double)n);
    for (size_t i = 0; i < maps->rule->batch; i++) {
        const struct head_sequence *sequence = &maps->sequences[i];
        for (size_t row = 0; row < sequence->n_rows; row++) {
            if (!head_maps_goes_on(maps, &watch, keys)) {
                arena_rewind(arena, used);
                return false;
            }
            const size_t n_allowed = head_maps_allowed(maps, &reader, i, row, pieces.allowed), at = i * length + row;
            if (n_allowed == 0)
                continue;
            pieces.keys[at] = keys_of_row(maps, pieces.allowed, sequence->n_keys, row_place(maps, row));
            if (maps->aligned)
                pieces.uniform_distance[at] =
                    mean_distance(pieces.allowed, sequence->n_keys, n_allowed, row_place(maps, row));
        }
    }
    *facts = (struct row_facts){pieces.keys, pieces.uniform_distance, pieces.logarithms};
    return true;
}
