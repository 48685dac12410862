/* The rule that attention is computed under, beyond masks, causal order and bias: positions, sparse patterns, low rank,
 * a dynamic number of heads, dropout. Plain data: who fills it has checked it against the layer's shape (codec/), the
 * engine trusts it. docs/MODEL.md has the formulas and their sources.
 *
 * Positions: query i stands at i, under `causal` at i + (Tk - Tq), key j at j; padding counts. Patterns and biases go
 * by these; what is added to the input or rotates goes by forward_input.position_ids where they are given. */
#ifndef ATTND_ENGINE_RULES_H
#define ATTND_ENGINE_RULES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* X(code, name) */
#define POSITION_KINDS(X)                                                                                          \
    X(POSITION_NONE, "none")                                                                                       \
    X(POSITION_SINUSOIDAL, "sinusoidal") /* added to query, key and value rows */                                  \
    X(POSITION_LEARNED, "learned")       /* the same, from a table */                                              \
    X(POSITION_ROPE, "rope")             /* rotates projected queries and keys */                                  \
    X(POSITION_ALIBI, "alibi")           /* the others are added to the scaled scores: functions of j - i alone */ \
    X(POSITION_T5, "t5")                                                                                           \
    X(POSITION_RELATIVE, "relative")

#define PATTERN_KINDS(X)          \
    X(PATTERN_FULL, "full")       \
    X(PATTERN_WINDOW, "window")   \
    X(PATTERN_DILATED, "dilated") \
    X(PATTERN_BLOCK, "block")     \
    X(PATTERN_STRIDED, "strided") \
    X(PATTERN_BIGBIRD, "bigbird") \
    X(PATTERN_TOP_K, "top_k") /* content decides: its keys are all allowed, those that are dropped have weight 0 */

#define LOW_RANK_KINDS(X)                                                                                            \
    X(LOW_RANK_NONE, "none")                                                                                         \
    X(LOW_RANK_LINFORMER, "linformer")                                                                               \
    X(LOW_RANK_NYSTROM, "nystrom")                                                                                   \
    X(LOW_RANK_SVD, "svd") /* made when weights are loaded: another layer, of which the engine needs to know nothing \
                            */

#define KEEP_HEADS_MEASURES(X)          \
    X(KEEP_BY_NORM, "norm")             \
    X(KEEP_BY_CONFIDENCE, "confidence") \
    X(KEEP_BY_IMPORTANCE, "importance")

#define RULE_ENUM(code, name) code,
enum position_kind { POSITION_KINDS(RULE_ENUM) POSITION_KIND_COUNT };
enum pattern_kind { PATTERN_KINDS(RULE_ENUM) PATTERN_KIND_COUNT };
enum low_rank_kind { LOW_RANK_KINDS(RULE_ENUM) LOW_RANK_KIND_COUNT };
enum keep_heads_measure { KEEP_HEADS_MEASURES(RULE_ENUM) KEEP_HEADS_MEASURE_COUNT };
#undef RULE_ENUM

enum rope_scaling { ROPE_UNSCALED, ROPE_LINEAR, ROPE_LLAMA3 };

struct position_rule {
    enum position_kind kind;
    double base; /* sinusoidal, rope */
    /* rope */
    size_t dims;      /* of each head the first so many components, even; 0: all d_k */
    bool interleaved; /* pairs are (2i, 2i + 1); else (i, i + dims / 2) */
    enum rope_scaling scaling;
    double factor, low_freq_factor, high_freq_factor, original_max_positions;
    const float *frequencies; /* [dims / 2] in place of base^(-2i / dims) and its scaling; NULL: those */
    /* learned: P [table_rows, d_model]; t5 and relative: R [table_rows, num_heads] */
    const float *table;
    size_t table_rows;
    size_t offset;       /* learned: position t has row t + offset */
    size_t max_distance; /* t5 */
    bool bidirectional;  /* t5 */
};

struct pattern_rule {
    enum pattern_kind kind;
    size_t left, right;                                 /* window */
    size_t window, step;                                /* dilated */
    size_t size;                                        /* of a block (block, bigbird); the stride (strided) */
    size_t window_blocks, global_blocks, random_blocks; /* bigbird */
    uint64_t seed;                                      /* bigbird */
    size_t k;                                           /* top_k */
    const uint32_t *global; /* [n_global] positions that see all and are seen by all, ascending, each once; not with
                               top_k */
    size_t n_global;
};

struct low_rank_rule {
    enum low_rank_kind kind;
    /* linformer: E and F, of which the first Tk columns are used */
    const float *e, *f;          /* [projected_keys, e_columns], [projected_keys, f_columns], or with a leading axis */
    size_t e_columns, f_columns; /* at least Tk */
    bool e_per_head, f_per_head; /* [num_heads, ...] */
    size_t projected_keys;
    size_t landmarks, iterations; /* nystrom */
    size_t rank;                  /* svd */
    bool values;                  /* svd: of W_V W_O too */
};

enum keep_heads_kind { KEEP_ALL_HEADS, KEEP_COUNT, KEEP_MASS, KEEP_ENTROPY_BELOW };

struct keep_heads_rule {
    enum keep_heads_kind kind;
    enum keep_heads_measure by; /* count, mass */
    size_t count;
    double mass, entropy_below;
    const double *importance; /* [num_heads]; KEEP_BY_IMPORTANCE only */
};

struct dropout_rule {
    size_t samples; /* 0: no dropout */
    double rate;
    uint64_t seed;
};

struct attention_rules {
    bool position_given, pattern_given; /* they overrule the layers' own (model_shape.h) */
    struct position_rule position;
    struct pattern_rule pattern;
    struct low_rank_rule low_rank;
    struct keep_heads_rule keep_heads;
    struct dropout_rule dropout;
    size_t layer, num_layers; /* of its set, for random numbers */
};

/* Whether queries meet fewer keys than there are, made of all of them: maps are then no weights of keys. rules may be
 * NULL. */
static inline bool rules_shrink_keys(const struct attention_rules *rules)
{
    return rules && (rules->low_rank.kind == LOW_RANK_LINFORMER || rules->low_rank.kind == LOW_RANK_NYSTROM);
}

/* Whether this measure of heads decides which are kept. rules may be NULL. */
static inline bool rules_keep_heads_by(const struct attention_rules *rules, enum keep_heads_measure measure)
{
    return rules && (rules->keep_heads.kind == KEEP_COUNT || rules->keep_heads.kind == KEEP_MASS) &&
           rules->keep_heads.by == measure;
}

#endif
