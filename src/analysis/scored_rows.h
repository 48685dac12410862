/* Which query rows of a forward an analysis scores, and which keys they may attend to: by mask, causal and pattern.
 * Padding and rows that are left without a key are not scored. Pure: any thread. */
#ifndef ATTND_ANALYSIS_SCORED_ROWS_H
#define ATTND_ANALYSIS_SCORED_ROWS_H

#include "engine/forward.h"
#include "engine/pattern.h"
#include "engine/split.h"

/* The keys below this are allowed to query `row`, as far as `causal` goes. */
size_t allowed_key_limit(const struct forward_input *input, size_t row);

/* The keys of query `row` of a sequence that the mask allows [Tk], 1 or 0, or NULL: all. */
const uint8_t *row_mask(const struct forward_input *input, size_t sequence, size_t row);

/* Whether the input's rules hide keys beyond mask and causal. What top_k drops is allowed, and has weight 0. */
static inline bool has_pattern(const struct forward_input *input)
{
    return input->rules && pattern_is_sparse(&input->rules->pattern);
}

/* Whether two layers let each row of the same input see the same keys, by causal order and pattern. */
bool same_allowed_keys(const struct forward_input *a, const struct forward_input *b);

/* Reads the allowed keys of rows, the pattern included. One thread's, with memory of its own. */
struct allowed_reader {
    const struct forward_input *input;
    struct pattern_reader *pattern; /* NULL: there is none */
    uint8_t *row;                   /* [Tk] of the row that was read last, under a pattern */
    struct key_run all;             /* of it, without */
};

/* Its memory, as arena_need counts it: 0 without a pattern. False on overflow. */
bool allowed_reader_bytes(const struct forward_input *input, size_t *bytes);

/* memory: allowed_reader_bytes, aligned as arenas align; not looked at where they are 0. */
struct allowed_reader allowed_reader_init(const struct forward_input *input, void *memory);

/* The keys of query `row` of a sequence: those below *limit that are 1, or, where it returns NULL, all of those. By the
 * request's positions, whatever is padding. Valid until the reader's next call. Rows in order are cheap. */
const uint8_t *allowed_row(struct allowed_reader *reader, size_t sequence, size_t row, size_t *limit);

/* The same as runs of keys, of which those count that are below *limit, and 1 in row_mask. In the time that their
 * number takes. */
const struct key_run *allowed_runs(struct allowed_reader *reader, size_t row, size_t *count, size_t *limit);

/* Fills scored [B, Tq] with 1 or 0, and *n_scored: how many are 1. readers: allowed_reader_bytes for each of the work's
 * lanes, aligned. False when cancelled. */
bool scored_rows(const struct forward_input *input, void *readers, size_t reader_bytes, struct work *work,
                 uint8_t *scored, size_t *n_scored);

#endif
