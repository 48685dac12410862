/* Positions (rules.h): what is added to the inputs, what turns queries and keys, what is added to scores; and the
 * tables that a call makes for them once, which are only read afterwards. Nothing here is as large as queries times
 * keys. */
#ifndef ATTND_ENGINE_POSITION_H
#define ATTND_ENGINE_POSITION_H

#include "engine/angles.h"
#include "engine/attention.h"
#include "engine/forward.h"
#include "engine/kernels/kernels.h"
#include "engine/split.h"

struct batch;
struct batch_extent;
struct sequence;

struct positions {
    const struct position_rule *rule; /* NULL: none */
    /* sinusoidal, rope */
    struct angles angles;
    double *reader_memory; /* [lanes, 4, angles.count] */
    /* rope: of the batch's rows. Keys that are the queries' rows share their turns. */
    float *query_turns; /* [n_queries, turns_stride] */
    float *key_turns;   /* [n_keys, turns_stride] */
    bool fused;         /* projections turn what they make, while it is in the cache; else batch_rotate does */
    /* alibi, t5, relative: of the distance n, key less query, of which there are n_distances from -most_behind on */
    float *distance_bias; /* [num_heads, n_distances] */
    size_t n_distances, most_behind;
};

/* What an input asks of the tables, for batch_extent. */
void position_extend(struct batch_extent *extent, const struct forward_input *input);

/* Whether rows are changed before they are projected, so that the caller's tensors cannot be the batch. */
static inline bool position_is_added(const struct attention_rules *rules)
{
    return rules && (rules->position.kind == POSITION_SINUSOIDAL || rules->position.kind == POSITION_LEARNED);
}

/* Whether queries and keys are turned. */
static inline bool position_rotates(const struct attention_rules *rules)
{
    return rules && rules->position.kind == POSITION_ROPE;
}

/* Memory of the tables, and the tables themselves in it, empty. `memory` is aligned as arenas align. */
bool position_bytes(const struct attention_shape *shape, const struct batch_extent *extent, unsigned lanes,
                    size_t *bytes);
/* Wants the batch's sequences, and that they know their results. */
void position_open(struct batch *batch, unsigned lanes, void *memory, size_t bytes);

/* Fills the tables; adds to the gathered rows what is to be added. */
bool batch_fill_positions(const struct batch *batch, struct work *work);
bool batch_add_positions(const struct batch *batch, struct work *work);

/* The rotation of the rows of queries or keys from `first_row` on. */
struct rotation position_rotation(const struct batch *batch, bool keys, size_t first_row);
/* Copies projections into the results that want them before they are turned, and turns what the projections have not.
 */
bool batch_rotate(const struct batch *batch, struct work *work);

/* The bias that row `row` of a sequence has by distance, of the keys in the order of the input; NULL: none. */
const float *position_bias_of_row(const struct batch *batch, const struct sequence *s, size_t head, size_t row);

/* The steps' own. */

/* Walks over the rows of queries or keys of a batch. */
struct position_cursor {
    const struct sequence *sequence;
    size_t row; /* of the sequence */
    bool keys;
};
struct position_cursor position_cursor_open(const struct batch *batch, bool keys, size_t first_row);
/* Where the row stands for what is added or turns; goes on to the next row. */
int64_t position_cursor_next(struct position_cursor *cursor);

/* A reader in the lane's memory. */
struct angle_reader position_reader(const struct positions *positions, unsigned lane);

size_t rope_dims(const struct attention_shape *shape, const struct position_rule *rule);
size_t rope_turns_stride(const struct attention_shape *shape, const struct position_rule *rule);
/* The angle of one position, for each pair. */
void rope_frequencies(const struct position_rule *rule, size_t dims, double *frequencies /* [dims / 2] */);
bool rope_fill(const struct batch *batch, struct work *work);

bool position_bias_fill(const struct batch *batch, struct work *work);

/* Rows of a block of rows that is worked on at once: as many as keep a reader from starting anew too often. */
#define POSITION_ROWS ((size_t)256)

/* What an angle costs, in the sense of work_split; and one by the C library. */
#define POSITION_FLOP_ANGLE    8.0
#define POSITION_FLOP_FUNCTION 200.0

#endif
