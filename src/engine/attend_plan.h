/* Which keys the tiles of a sparse pattern are made of. A sequence's rows are cut into tiles by their positions and the
 * pattern alone; the columns of a tile are the keys that any of its rows sees, in whole segments. What a row's results
 * are depends on its tile's segments and on itself, so tiles may be computed in parts, and by several lanes. */
#ifndef ATTND_ENGINE_ATTEND_PLAN_H
#define ATTND_ENGINE_ATTEND_PLAN_H

#include "engine/batch.h"
#include "engine/pattern.h"

/* Every key segment begins at a multiple of this, which is one of every kernel's panel_columns, and has such a length,
 * or ends with the keys. */
#define SEGMENT_KEYS ((size_t)64)

/* Rows of a tile at most, but those that stand before the first key. */
#define PLAN_ROWS_MOST ((size_t)192)

/* Keys begin .. begin + columns - 1 are the tile's columns from `column` on. */
struct key_segment {
    uint32_t begin, column, columns;
};

/* The columns that a row sees: all those of begin .. end - 1 where it is solid, else those that are marked. None where
 * begin == end. */
struct row_view {
    uint32_t begin, end; /* begin is a multiple of KERNEL_PAD */
    bool solid;
};

struct tile_plan {
    size_t first_row, end_row; /* of the sequence */
    size_t n_segments, n_columns;
    struct key_segment *segments;
    /* Of rows first_viewed and on: */
    size_t first_viewed;
    struct row_view *views;
    uint8_t *allowed; /* [rows, n_columns], rows allowed_stride apart: 1 or 0; of solid rows unspecified */
    size_t allowed_stride;
    bool whole; /* all these rows see all columns */
};

/* A lane's. */
struct planner {
    const struct attention_rules *rules;
    void *reader_memory;
    struct pattern_reader *reader;
    size_t reader_length; /* keys that the reader is for; 0: none */
    uint8_t *marks;       /* [keys / SEGMENT_KEYS] 1: a segment of the tile; 0 between tiles */
    struct tile_plan plan;
};

/* The memory of a planner for sequences within the extent, whose blocks of rows have up to `rows` rows and
 * `allowed_bytes` elements; a reader's alone. False on overflow. */
bool planner_bytes(const struct batch_extent *extent, size_t rows, size_t allowed_bytes, size_t *bytes);
void planner_open(struct planner *planner, const struct batch_extent *extent, size_t rows, size_t allowed_bytes,
                  void *memory);

/* Plans the tile that holds row `row`. */
void plan_tile(struct planner *planner, const struct sequence *s, size_t row);
/* What n_rows rows of the tile see of its columns. */
void plan_rows(struct planner *planner, const struct sequence *s, size_t first_row, size_t n_rows);

/* The keys that one row sees, by pattern and causal order, as runs of the sequence's keys. */
struct row_keys {
    const struct sequence *sequence;
    const struct key_run *runs;
    size_t n_runs, next, limit;
};

struct row_keys row_keys_begin(struct pattern_reader *reader, const struct sequence *s, size_t row);
/* The next run, not empty; false when there is no more. */
bool row_keys_next(struct row_keys *keys, size_t *begin, size_t *end);
/* Whether a mask leaves the row any of them. */
bool row_keys_any(struct row_keys keys, const uint8_t *allowed /* [n_keys] or NULL */);

/* Rows of a tile where nothing cuts it short. */
size_t plan_tile_rows(const struct pattern_rule *rule);
/* How many columns are computed for a row, on average, for limits and for dividing work: an upper bound. */
double plan_columns(const struct pattern_rule *rule, size_t n_queries, size_t n_keys);
/* The flop that drawing and reading runs is worth, for all rows once. */
double plan_flop(const struct pattern_rule *rule, size_t n_queries, size_t n_keys);
/* Rows whose runs a tile may read that does nothing else: few where a row has many. */
size_t plan_read_rows(const struct pattern_rule *rule, size_t n_keys);

/* The pattern of an input that leaves keys out by their positions; NULL: none. */
static inline const struct pattern_rule *sparse_pattern(const struct attention_rules *rules)
{
    return rules && pattern_is_sparse(&rules->pattern) ? &rules->pattern : NULL;
}

#endif
