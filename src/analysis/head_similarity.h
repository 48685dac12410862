/* How alike heads are, pair by pair, by their attention or by their output, and how much one averaged head would have
 * to compromise. docs/MODEL.md defines each metric. */
#ifndef ATTND_ANALYSIS_HEAD_SIMILARITY_H
#define ATTND_ANALYSIS_HEAD_SIMILARITY_H

#include "analysis/head_maps.h"
#include "base/arena.h"
#include "engine/parallel.h"

/* X(code, name, of output too): a and b are two heads, flattened over all rows; p and q a row of each. */
#define SIMILARITY_METRICS(X)                                                                             \
    X(SIMILARITY_COSINE, "cosine", true)        /* <a, b> / (||a|| ||b||) */                              \
    X(SIMILARITY_PEARSON, "pearson", true)      /* the same less each head's mean over allowed entries */ \
    X(SIMILARITY_CENTERED, "centered", false)   /* the same less even attention, 1/n_i */                 \
    X(SIMILARITY_JS, "js", false)               /* 1 - mean over rows of JS(p, q) / ln 2 */               \
    X(SIMILARITY_HELLINGER, "hellinger", false) /* 1 - mean over rows of ||sqrt p - sqrt q|| / sqrt 2 */  \
    X(SIMILARITY_CKA, "cka", true)              /* linear CKA of the rows as features, columns centred */

#define SIMILARITY_ENUM(code, name, of_output) code,
enum similarity_metric { SIMILARITY_METRICS(SIMILARITY_ENUM) SIMILARITY_METRIC_COUNT };
#undef SIMILARITY_ENUM

enum similarity_subject { SIMILARITY_OF_ATTENTION, SIMILARITY_OF_OUTPUT };
enum similarity_reduction {
    SIMILARITY_POOLED, /* one vector per head over all sequences */
    SIMILARITY_MEAN    /* the mean of the sequences' similarities, over those where it is defined */
};

/* "cosine" for SIMILARITY_COSINE. */
const char *similarity_metric_name(enum similarity_metric metric);
bool similarity_metric_of_output(enum similarity_metric metric);

struct similarity_question {
    enum similarity_metric metric;
    enum similarity_subject subject;
    enum similarity_reduction reduction;
    bool diversity;    /* wanted */
    size_t num_layers; /* the heads are those of so many layers, as many of each: each layer has a diversity. 0: one */
};

struct head_similarity {
    double *similarity; /* [num_heads, num_heads], symmetric; NaN where undefined: a head of norm 0, or of no more than
                           1e-6 of its norm after what the metric subtracts. 1 on the diagonal of the others */
    double *diversity;  /* [num_layers of the question] nats, >= 0; NaN: no row scored, or not wanted */
    size_t n_rows;      /* out: rows compared, of all sequences */
    size_t n_excluded;  /* out: rows left out */
};

/* Floating-point operations, in the sense of forward_flop; at most. */
double head_similarity_flop(const struct similarity_question *question, size_t num_heads, size_t batch,
                            size_t query_length, size_t key_length, size_t d_v);

/* The arena that head_similarity_run needs, maps being prepared. False when it overflows size_t. */
bool head_similarity_bytes(const struct similarity_question *question, const struct head_maps *maps, size_t d_v,
                           unsigned lanes, size_t *bytes);

/* `heads` [B, num_heads, Tq, d_v], Z, is read for output only; with layers [B, num_layers, num_heads, Tq, d_v]. The
 * same bits on any number of lanes. ERROR_CLIENT_GONE when parallel->cancelled said so (to be replaced by the caller's
 * reason); ERROR_NOT_FINITE where a map or output is not finite; ERROR_INVALID for cka of pooled attention of sequences
 * that have not all the same number of keys; ERROR_OUT_OF_MEMORY when the arena is too small. The buffers of
 * *similarity are then unspecified. */
bool head_similarity_run(const struct similarity_question *question, const struct head_maps *maps, const float *heads,
                         size_t d_v, const struct parallel *parallel, struct arena *arena,
                         struct head_similarity *similarity, struct error *error);

#endif
