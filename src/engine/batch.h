/* The ragged batch: which rows of which inputs are computed, where they stand among the concatenated rows, and the
 * memory for all of it. */
#ifndef ATTND_ENGINE_BATCH_H
#define ATTND_ENGINE_BATCH_H

#include "base/arena.h"
#include "engine/dropout.h"
#include "engine/forward.h"
#include "engine/keep_heads.h"
#include "engine/layer.h"
#include "engine/observer.h"
#include "engine/position.h"
#include "engine/split.h"

/* One sequence of one input. */
struct sequence {
    const struct forward_input *input;
    const struct forward_input *observed_input; /* what observers know it by */
    struct forward_result *result;
    size_t index;                  /* in its input, < batch */
    size_t query_start, n_queries; /* rows of `query` that are its */
    size_t key_start, n_keys;      /* rows of `key` and `value` */
    const uint32_t *kept; /* [n_queries] the positions those rows have in the input, where padding was left out; NULL:
                             all in order */
    bool holes;           /* kept is not one run of neighbours */
    bool output_wanted;
    /* Attention work (attend.c): its first unit, units of a head, rows of a unit and of a tile of scores at most. A
     * unit of an observed sequence is one tile for each head. */
    size_t first_unit, units_per_head, unit_rows, tile_rows;
    bool observed;
    bool plain;         /* no bias, rules or mask of pairs: its rows see all keys that causal leaves */
    bool sparse;        /* under a sparse pattern: a unit is of all heads, tiles are planned (attend_plan.h) */
    size_t unit_offset; /* sparse: rows that its first unit is shorter by, so that units begin where tiles do */
    float *panels;      /* the packed keys and values of all heads, where many units need them; NULL: lanes pack them */
};

/* A matrix of the batch: rows `stride` floats apart. */
struct rows {
    float *data;
    size_t stride;
};

struct rows_in {
    const float *data;
    size_t stride;
};

/* The rows between the layers of a model, all [n_queries, d_model]: attention reads `from` and writes to `to`, or adds
 * to it. The rows of a batch, in its order: nothing is gathered from the inputs, and no output scattered to results. */
struct layer_rows {
    struct rows_in from;
    struct rows to;
    bool adds;
    size_t layer;                                       /* of the model */
    const struct forward_input *const *observed_inputs; /* [count] what observers know the inputs by */
};

/* What the batch measures: all that memory depends on. */
struct batch_extent {
    size_t n_sequences, n_queries, n_keys; /* sequences; rows in all */
    size_t n_kept;                         /* positions to remember: rows of padded sequences */
    size_t longest_keys;                   /* of a sequence */
    size_t tile_floats, tile_rows;         /* the largest tile of scores, the most rows of one */
    size_t lane_tiles;                     /* tiles that a lane keeps at once: of all heads, where any is observed */
    size_t panel_floats;                   /* of the sequences whose panels are shared */
    size_t longest;                        /* rows of keys of a sequence, attended to as they are or not */
    size_t n_approximate;                  /* sequences under nystrom with more tokens than landmarks */
    bool maps;                             /* any of them may have its maps written */
    bool direct;                           /* one input, no padding: its tensors are the batch */
    bool separate_keys, separate_values;   /* keys are not the queries' rows; values not the keys' */
    bool padded, holes;
    bool between;                        /* a layer of a model: struct layer_rows */
    const struct attention_rules *rules; /* of all inputs; NULL: none */
    /* Sparse patterns: positions of a sequence's keys at most, padding counted; floats of a tile, 0 without such a
     * pattern; whether any such sequence is observed. */
    size_t longest_positions, sparse_floats;
    bool sparse_observed;
    /* Positions: distances below 0 and above it that biases are made for, numbers of the circle (angles.h), whether a
     * request's bias adds to one by distance. */
    size_t most_behind, most_ahead, n_near;
    bool biases_add;
};

struct batch {
    const struct attention_layer *layer;
    size_t layer_index; /* of its model, for observers */
    size_t heads_per_kv_head;
    struct batch_extent extent;
    struct positions positions;
    struct kept_heads kept_heads;
    struct sequence *sequences; /* [n_sequences] */
    /* The gathered inputs; unused when direct. */
    struct rows x_query; /* [n_queries, d_model] */
    struct rows x_key;   /* [n_keys, d_model] */
    struct rows x_value; /* [n_keys, d_model] */
    /* What the projections read: these, or the caller's. */
    struct rows_in in_query, in_key, in_value;
    /* What they write, and what attention reads; for identity the inputs, or what rotation has made of them, which is
     * then projected_query and projected_key. */
    struct rows projected_query, projected_key, projected_value;
    struct rows_in query; /* [n_queries, num_heads * d_k] */
    struct rows_in key;   /* [n_keys, num_kv_heads * d_k] */
    struct rows_in value; /* [n_keys, num_kv_heads * d_v] */
    struct rows heads;    /* [n_queries, num_heads * d_v], after head_mask; data NULL when nobody reads it */
    struct rows output;   /* [n_queries, d_model]; for identity the same as heads */
    bool output_adds;     /* the output is added to what is there */
    float *panels;        /* [panel_floats] */
    char *lanes;          /* [lanes][lane_bytes] scratch for attend.c */
    size_t lane_bytes;
    char *readers; /* [lanes][reader_bytes]: of a sparse pattern, for steps beside attention; NULL without */
    size_t reader_bytes;
    void *low_rank;                          /* memory of linformer.c or nystrom.c */
    void *samples;                           /* memory of dropout.c */
    const struct dropout_pass *dropout;      /* what attention fills in place of `heads`, while samples are computed */
    const struct forward_observer *observer; /* or NULL */
};

/* Rows of a tile of scores for sequences of n_keys keys, and floats between the rows. */
size_t batch_tile_rows(size_t n_keys);
size_t batch_tile_stride(size_t n_keys);

/* Floats of a planned tile at most, and rows of one with n_columns of the sequence's n_keys keys. */
size_t batch_sparse_floats(size_t n_queries, size_t n_keys);
size_t batch_sparse_rows(size_t n_queries, size_t n_keys, size_t n_columns);

/* The bytes of arena that batch_create takes. False on overflow. */
bool batch_bytes(const struct attention_shape *shape, const struct forward_input *const *inputs, size_t count,
                 unsigned lanes, size_t *bytes);

/* Lays out the batch in the arena. Nothing is computed or copied yet; fully_masked_rows of the results is set,
 * but for sequences under a sparse pattern (fully_masked.h).
 * ERROR_OUT_OF_MEMORY when the arena is too small. */
bool batch_create(struct batch *batch, const struct attention_layer *layer, const struct forward_input *const *inputs,
                  struct forward_result *const *results, size_t count, unsigned lanes, struct arena *arena,
                  struct error *error);

/* The same of a layer of a model, with projections: its inputs are self-attention, and their tensors are not read. */
bool batch_layer_bytes(const struct attention_shape *shape, const struct forward_input *const *inputs, size_t count,
                       unsigned lanes, size_t *bytes);
bool batch_create_layer(struct batch *batch, const struct attention_layer *layer,
                        const struct forward_input *const *inputs, struct forward_result *const *results, size_t count,
                        unsigned lanes, const struct layer_rows *rows, struct arena *arena, struct error *error);

/* The end of the keys that `causal` leaves to row `row` of a sequence, which may lie before the first or behind the
 * last key, and is one further for the next row; without it the last key's, or behind. */
static inline ptrdiff_t sequence_key_end(const struct sequence *s, size_t row)
{
    return (ptrdiff_t)s->n_keys + (s->input->causal ? (ptrdiff_t)row + 1 - (ptrdiff_t)s->n_queries : 0);
}

/* The key positions below this are allowed to row `row`, as far as `causal` goes. */
static inline size_t sequence_key_limit(const struct sequence *s, size_t row)
{
    const ptrdiff_t end = sequence_key_end(s, row);
    return end <= 0 ? 0 : (size_t)end < s->n_keys ? (size_t)end : s->n_keys;
}

/* The position in the input of row `row` of the sequence's queries (and keys, in self-attention). */
static inline size_t sequence_position(const struct sequence *s, size_t row)
{
    return s->kept ? s->kept[row] : row;
}

/* The mask of row `row` [n_keys], 1 or 0, or NULL: padding is left out of the batch already. */
static inline const uint8_t *sequence_allowed(const struct sequence *s, size_t row)
{
    const struct forward_input *input = s->input;
    switch (input->mask_kind) {
    case FORWARD_MASK_KEYS:
        return input->self_attention ? NULL : input->mask + s->index * input->key_length;
    case FORWARD_MASK_PAIRS:
        return input->mask + (s->index * input->query_length + row) * input->key_length;
    case FORWARD_MASK_NONE:
        break;
    }
    return NULL;
}

/* forward.c: all steps of a batch, and those before attention. False when cancelled. */
bool batch_run(const struct batch *batch, struct work *work);
bool batch_prepare(const struct batch *batch, struct work *work);

/* ragged.c: moves rows between the inputs' and results' tensors and the batch. */

/* Copies the kept rows of the inputs into x_*, and zeroes the results of sequences with padding, but maps. */
bool batch_gather(const struct batch *batch, struct work *work);
/* The zeroing alone. */
bool batch_zero_results(const struct batch *batch, struct work *work);
/* Copies rows of the batch to where they stand in a tensor of each result: to [., Tq, d_model] of a sequence, which it
 * says by `place`, which is told `n`; rows of padding become 0. */
bool batch_scatter_rows(const struct batch *batch, const struct rows_in *rows,
                        float *(*place)(const struct sequence *s, size_t d_model, size_t n), size_t n,
                        struct work *work);
/* Copies the projections into the results that want them, before they are turned (position.h). */
bool batch_scatter_projections(const struct batch *batch, struct work *work);
/* Copies the output into the results, and the projections, where they are not turned. */
bool batch_scatter(const struct batch *batch, struct work *work);

/* project.c: the linear maps before and after attention. */

/* The columns that the projections of queries and keys (`turned`: by rope), or of values, are cut at multiples of. */
size_t project_unit(const struct attention_layer *layer, bool turned);
bool batch_project_inputs(const struct batch *batch, struct work *work);
bool batch_project_output(const struct batch *batch, struct work *work);
/* to [n_rows, columns] = from matrix, with its bias; added to what is there where `adds`. */
bool project_rows(const struct kernels *kernels, const struct packed_matrix *matrix, const struct rows_in *from,
                  const struct rows *to, size_t n_rows, bool adds, struct work *work);
/* to = activation(from matrix) times (from factor_matrix), which goes through `factor`; factor_matrix NULL: 1. */
bool project_activated(const struct kernels *kernels, enum activation activation, const struct packed_matrix *matrix,
                       const struct packed_matrix *factor_matrix, const struct rows_in *from, const struct rows *to,
                       const struct rows *factor, size_t n_rows, struct work *work);

/* attend.c: softmax(scale * query key^T + bias) value, for every sequence and head. */
bool batch_attend(const struct batch *batch, struct work *work);
/* What comes before its units: the lanes' memory is laid out, shared panels are packed. */
bool batch_open_attention(const struct batch *batch, struct work *work);
/* Scratch of one lane. False on overflow. */
bool attend_lane_bytes(const struct attention_shape *shape, const struct batch_extent *extent, size_t *bytes);
/* How an observed sequence is cut: rows of a unit, and whether units share the panels of its keys and values. */
size_t attend_observed_rows(const struct attention_shape *shape, size_t n_queries, size_t n_keys, unsigned lanes,
                            bool *shared);
/* Floats of the shared panels of a sequence. False on overflow. */
bool attend_panel_floats(const struct attention_shape *shape, size_t n_keys, size_t *floats);
/* Floating-point operations of the attention of all sequences. */
double attend_flop(const struct batch *batch);
/* The units of a sequence. */
size_t attend_units(const struct batch *batch, const struct sequence *s);
/* Sets how attention of the sequences is cut, and places their panels. */
void attend_divide(struct batch *batch, unsigned lanes);

#endif
