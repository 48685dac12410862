/* What the files of attention share: the memory of a lane, the rows it works on, and the steps of a block of rows. Only
 * they include this. */
#ifndef ATTND_ENGINE_ATTEND_H
#define ATTND_ENGINE_ATTEND_H

#include "engine/attend_plan.h"
#include "engine/batch.h"

/* A lane's memory for sparse patterns. */
struct sparse_lane {
    struct planner planner;
    float *bias;      /* [n_columns] of a row, where a tile has several segments */
    uint8_t *allowed; /* [rows of a unit, n_keys] for the observer; NULL where nothing is observed */
};

/* One lane's memory: this, then its arrays. */
struct lane {
    size_t packed_sequence, packed_kv_head; /* whose keys and values the panels hold; SIZE_MAX: nobody's */
    float *key_panels;                      /* packed [d_k, n_keys] */
    float *value_panels;                    /* packed [n_keys, d_v] */
    float *tile;                            /* [lane_tiles][tile_rows, n_keys], rows batch_tile_stride apart */
    float *z;                               /* [tile_rows, d_v], rows kernel_padded(d_v) apart */
    float *inverse;                         /* [lane_tiles][kernel_padded(tile_rows)]: 1 / sum of the row's weights */
    float *logs;     /* the same; sum of weight * ln weight: for observers, and to choose heads */
    float *bias_row; /* [n_keys]: a row's bias, where it is put together from others, or a sequence has holes */
    float *map_row;  /* [n_keys], where a sequence has holes */
    float *dropped;  /* with dropout: a tile without what is dropped, and a row of attend_dropout.c; else NULL */
    struct sparse_lane *sparse; /* NULL unless there is a sparse pattern */
};

/* The rows a lane works on, of one head. */
struct block {
    const struct batch *batch;
    const struct sequence *sequence;
    const struct lane *lane;
    size_t head, first_row, n_rows;
    size_t n_keys; /* computed: up to the last row's causal limit, at least 1; with a plan the columns of the tile */
    const struct tile_plan *plan; /* which keys the tile's columns are; NULL: all in order */
    size_t tile_stride;
    float *tile, *inverse;                  /* the lane's, for this head */
    float *logs;                            /* the lane's, for these rows; NULL: nobody wants them */
    const float *key_panels, *value_panels; /* packed [d_k, n_keys], [n_keys, d_v] */
};

/* attend.c */

struct lane *attend_lane(const struct batch *batch, unsigned lane);
/* Lets the block have the panels of its head. */
void attend_choose_panels(struct block *b, struct lane *lane);
/* The bias of one row, in the order of the batch's keys; NULL: none. */
const float *attend_bias_of_row(const struct block *b, size_t row);
/* What becomes of a row of which no weight is left: 0 when no key was allowed; NaN when all their scores have
 * overflowed to -infinity, which is to be reported, not to be taken for a mask. */
float attend_empty_row(const float *bias /* [n_keys] or NULL */, const uint8_t *allowed /* [n_keys] or NULL */,
                       size_t n_keys);
/* The tile becomes the rows' unnormalised weights, and `inverse` 1 / sum of each: 0 for a row without an allowed key,
 * so that all that comes of it is 0. */
void attend_make_weights(const struct block *b);
/* Weights times values, normalised, to z [n_rows, d_v]. */
void attend_mix(const struct block *b, const struct rows *z);
/* The head's columns of the block's rows of `heads`, a matrix that the output projection reads. */
static inline struct rows attend_gated_rows(const struct block *b, const struct rows *heads)
{
    const size_t row = b->sequence->query_start + b->first_row;
    return (struct rows){heads->data + row * heads->stride + b->head * b->batch->layer->shape.d_v, heads->stride};
}
/* Fills these from the lane's z. A gate of 0 leaves the head out whatever its values. */
void attend_write_gated(const struct block *b, float gate, const struct rows *heads);
/* All that is wanted of a block of rows of a head. */
void attend_block(const struct block *b);
size_t attend_whole_vectors(const struct kernels *kernels, size_t columns);

/* attend_dropout.c */

/* The lane's `dropped`; 0 without dropout. False on overflow. */
bool samples_lane_bytes(const struct batch_extent *extent, size_t *bytes);
/* The block's rows, of which the tile holds the weights, in each sample of batch->dropout. With a rate of 0 they have
 * the bits of what is without it. */
void attend_samples(const struct block *b, float gate);

/* attend_sparse.c: the same steps for tiles that are planned, and units of all heads. */

/* 0 where there is no such pattern. False on overflow. */
bool sparse_lane_bytes(const struct batch_extent *extent, size_t *bytes);
struct sparse_lane *sparse_lane_open(const struct batch_extent *extent, void *memory);
void sparse_score(const struct block *b);
void sparse_weigh(const struct block *b);
void sparse_mix(const struct block *b);
/* One row of a map, [key_length], without padding. */
void sparse_write_map_row(const struct block *b, size_t i, float *map_row);
void sparse_unit(const struct batch *batch, struct lane *lane, const struct sequence *s, size_t unit,
                 unsigned lane_index);

/* attend_weights.c */

/* The weights of rows of a head once more, of a batch whose attention is open; `see` is shown them block by block, in
 * order. They have the bits that attention has computed with. Not under a rule of low rank. */
void attend_weights(const struct batch *batch, unsigned lane, const struct sequence *s, size_t head, size_t first_row,
                    size_t end_row, void (*see)(void *context, const struct block *block), void *context);

#endif
