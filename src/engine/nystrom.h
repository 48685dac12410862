/* Nystrom attention: A is approximated by F A+ B, with F = softmax(q k~^T s), A~ = softmax(q~ k~^T s), B = softmax(q~
 * k^T s), where the landmarks q~ and k~ are means of segments of a sequence's tokens (Xiong et al., Nystromformer: A
 * Nystrom-Based Algorithm for Approximating Self-Attention, 2021). A sequence of no more tokens than landmarks is
 * exact.
 *
 * B V is the attention of landmarks to all keys, and F (A+ (B V)) that of all queries to the landmarks' keys, whose
 * values are A+ (B V): both are attend.c's. Only A+ is computed here, in float64, and the maps, where they are wanted.
 */
#ifndef ATTND_ENGINE_NYSTROM_H
#define ATTND_ENGINE_NYSTROM_H

#include "engine/batch.h"

/* Memory for the sequences measured. False on overflow. */
bool nystrom_bytes(const struct attention_shape *shape, const struct low_rank_rule *rule,
                   const struct batch_extent *extent, unsigned lanes, size_t *bytes);

/* batch_attend under the rule, with nystrom_bytes of memory in batch->low_rank. */
bool nystrom_attend(const struct batch *batch, struct work *work);

/* Once a batch has attended, the rows of its maps can be read, one head of one approximated sequence at a time: between
 * two calls of nystrom_open_map any lanes may call nystrom_map_rows. False when cancelled. */
bool nystrom_open_map(const struct batch *batch, const struct sequence *s, size_t head, struct work *work);

/* Rows of nystrom_map_rows, at most. */
#define NYSTROM_MAP_ROWS ((size_t)48)

/* Rows first_row .. first_row + n_rows - 1 of F A+ B, of the sequence's queries and keys as the batch has them. */
void nystrom_map_rows(const struct batch *batch, size_t first_row, size_t n_rows,
                      float *rows /* [n_rows, n_keys], `stride` apart */, size_t stride, unsigned lane);

/* Of the files nystrom*.c alone. */

struct nystrom {
    const struct batch *batch;
    size_t landmarks, n_sequences;     /* m; those that are approximated */
    const struct sequence **sequences; /* [n_sequences] */
    struct rows query, key;            /* [n_sequences * m, num_heads * d_k]: the landmarks */
    struct rows mixed, values;         /* [n_sequences * m, num_heads * d_v]: B V, and A+ (B V) */
    float *inverses;                   /* [n_sequences, num_heads, m, m]: A+ */
    double *sets;                      /* [n_sets][set_doubles]: what inverses are computed in */
    size_t n_sets, set_doubles;
    /* One head's map: its sequence, F's right-hand side, A+, and B. */
    const struct sequence *open;
    size_t open_head;
    float *landmark_panels; /* packed k~^T [d_k, m] */
    float *inverse_panels;  /* packed A+ [m, m] */
    float *key_panels;      /* packed k^T [d_k, n_keys] */
    float *weights;         /* B [m, n_keys], rows batch_tile_stride(n_keys) apart */
    float *weight_panels;   /* packed B */
    char *lanes;            /* of nystrom_map_rows */
    size_t lane_bytes;
};

/* The state that a batch has attended with. */
static inline struct nystrom *nystrom_of(const struct batch *batch)
{
    return batch->low_rank;
}

/* nystrom_inverse.c: inverses and values, from the landmarks and B V. */
bool nystrom_invert(const struct nystrom *n, struct work *work);
/* Doubles of one set. False on overflow. */
bool nystrom_set_doubles(const struct attention_shape *shape, size_t landmarks, size_t *doubles);

/* nystrom_map.c: all maps that are wanted of approximated sequences. */
bool nystrom_write_maps(struct nystrom *n, struct work *work);
/* Memory of a lane. False on overflow. */
bool nystrom_map_lane_bytes(const struct batch_extent *extent, size_t landmarks, size_t *bytes);

#endif
