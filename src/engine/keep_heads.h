/* A dynamic number of heads (rules.h): which heads of a sequence are kept, by what they did in it or by what is known
 * of them beforehand. A dropped head is as if its head_mask were 0; one that is known beforehand is not computed at
 * all, unless it is shown. */
#ifndef ATTND_ENGINE_KEEP_HEADS_H
#define ATTND_ENGINE_KEEP_HEADS_H

#include "engine/attention.h"
#include "engine/forward.h"
#include "engine/layer.h"
#include "engine/split.h"

struct batch;
struct batch_extent;
struct sequence;

/* What is computed of a projection: units of so many columns, ascending. */
struct computed_units {
    size_t columns;
    uint32_t *numbers; /* [count] */
    size_t count;
};

struct kept_heads {
    const struct keep_heads_rule *rule; /* NULL: all heads are kept */
    bool by_norm;                       /* rows of all heads are needed to choose, whatever is wanted */
    bool by_rows, by_entropy;           /* the softmax's rows are noted, and their logarithms */
    uint8_t *used;                      /* [n_sequences, num_heads] 1: kept */
    /* Where heads are known beforehand, `used` is right from the start, each row the same. Else these are NULL. */
    uint8_t *computed;              /* [num_heads] 1: kept by all or shown by one */
    struct computed_units units[3]; /* of the query, key and value projections */
    /* Else: what rows add to the mean over them, [n_queries, num_heads]. By entropy it is not yet divided by the
     * logarithm; by norm KEEP_HEADS_LEFT_OUT in a row where nothing is added to b_O. */
    float *row_values;
    uint32_t *row_keys; /* [n_queries] allowed keys, counted after attention; NULL: by norm, or known beforehand */
    char *lanes;        /* [lanes][lane_bytes] scratch */
    size_t lane_bytes;
};

/* Memory, as in position.h. keep_heads_open wants the batch's sequences, and that they know their results. */
bool keep_heads_bytes(const struct attention_shape *shape, const struct batch_extent *extent, unsigned lanes,
                      size_t *bytes);
void keep_heads_open(struct batch *batch, unsigned lanes, void *memory, size_t bytes);

/* Whether the head is known by now to be dropped: from the start, or, when samples of dropout are made, chosen. */
bool keep_heads_drops(const struct batch *batch, const struct sequence *s, size_t head);
/* Where heads are known beforehand: whether nothing of the head is computed for the sequence, not even zeros; and
 * whether any head that is computed reads the keys and values of a head. */
bool keep_heads_skips(const struct batch *batch, const struct sequence *s, size_t head);
bool keep_heads_reads(const struct batch *batch, size_t kv_head);

/* Remembers rows of a head: 1 / sum of a row's weights, and the sum of weight * ln weight by entropy. */
void keep_heads_note(const struct batch *batch, const struct sequence *s, size_t head, size_t first_row, size_t n_rows,
                     const float *inverse, const float *logs);

/* After attention: chooses, fills heads_used, and makes the rows that the output projection reads those of the kept
 * heads. */
bool batch_choose_heads(const struct batch *batch, struct work *work);

/* keep_heads_measure.c: its scratch of one lane; and in row_values a row that no head's mean has. */
bool keep_heads_lane_bytes(const struct attention_shape *shape, const struct batch_extent *extent, size_t *bytes);
#define KEEP_HEADS_LEFT_OUT (-1.0f)

/* The choice itself: of `num_heads` values, larger is better (by entropy_below: smaller). Where one is not finite all
 * are kept, lest it be hidden. */
void keep_heads_choose(const struct keep_heads_rule *rule, const double *values /* [num_heads] */, size_t num_heads,
                       uint8_t *used /* [num_heads] */);

#endif
