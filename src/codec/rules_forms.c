/* Owns what each kind of a rule is written as: one table of members a rule. Tables only: any thread. */
#include "codec/rules_forms.h"

/* Bases and factors: so that no angle of a position is beyond what float64 can tell apart from infinity. */
#define LEAST_FACTOR 1e-6
#define MOST_FACTOR  1e30

#define AT(member) offsetof(struct rules_asked, member)
#define ALL        (~0u)

#define RULE_NAME(code, name) name,
#define SIZES(least, most)    (least), (most), false, false, NULL
#define NO_RANGE              0, 0, false, false, NULL
#define CHOICES(names)        0, 0, false, false, (names)

/* ---- position */

static const char *const POSITION_NAMES[] = {POSITION_KINDS(RULE_NAME)};
static const char *const STYLES[] = {"half", "interleaved", NULL};

#define ADDED_TABLE RULE_KIND(POSITION_LEARNED)
#define BIAS_TABLE  (RULE_KIND(POSITION_T5) | RULE_KIND(POSITION_RELATIVE))

/* clang-format off */
static const struct rule_field POSITION_FIELDS[] = {
    {"base", FIELD_REAL, RULE_KIND(POSITION_SINUSOIDAL) | RULE_KIND(POSITION_ROPE), 0, AT(rules.position.base),
     LEAST_FACTOR, MOST_FACTOR, false, false, NULL},
    {"P", FIELD_TENSOR, ADDED_TABLE, ADDED_TABLE, AT(table), SIZES(0, 2)},
    {"offset", FIELD_SIZE, ADDED_TABLE, 0, AT(rules.position.offset), SIZES(0, RULES_WHOLE_MOST)},
    {"style", FIELD_CHOICE, RULE_KIND(POSITION_ROPE), 0, AT(rules.position.interleaved), CHOICES(STYLES)},
    {"dims", FIELD_SIZE, RULE_KIND(POSITION_ROPE), 0, AT(rules.position.dims), SIZES(1, RULES_WHOLE_MOST)},
    {"scaling", FIELD_SCALING, RULE_KIND(POSITION_ROPE), 0, 0, NO_RANGE},
    {"R", FIELD_TENSOR, BIAS_TABLE, BIAS_TABLE, AT(table), SIZES(0, 2)},
    {"max_distance", FIELD_SIZE, RULE_KIND(POSITION_T5), 0, AT(rules.position.max_distance), SIZES(1, RULES_WHOLE_MOST)},
    {"bidirectional", FIELD_FLAG, RULE_KIND(POSITION_T5), 0, AT(rules.position.bidirectional), NO_RANGE},
};
/* clang-format on */

static const char *const SCALING_NAMES[] = {"linear", "llama3"};
#define LINEAR RULE_KIND(ROPE_LINEAR - 1)
#define LLAMA3 RULE_KIND(ROPE_LLAMA3 - 1)

/* clang-format off */
static const struct rule_field SCALING_FIELDS[] = {
    {"factor", FIELD_REAL, LINEAR | LLAMA3, LINEAR | LLAMA3, AT(rules.position.factor),
     LEAST_FACTOR, MOST_FACTOR, false, false, NULL},
    {"low_freq_factor", FIELD_REAL, LLAMA3, LLAMA3, AT(rules.position.low_freq_factor),
     0, MOST_FACTOR, false, false, NULL},
    {"high_freq_factor", FIELD_REAL, LLAMA3, LLAMA3, AT(rules.position.high_freq_factor),
     0, MOST_FACTOR, false, false, NULL},
    {"original_max_position_embeddings", FIELD_COUNT, LLAMA3, LLAMA3, AT(rules.position.original_max_positions),
     SIZES(1, RULES_WHOLE_MOST)},
};
/* clang-format on */

/* ---- pattern */

static const char *const PATTERN_NAMES[] = {PATTERN_KINDS(RULE_NAME)};

#define WINDOW  RULE_KIND(PATTERN_WINDOW)
#define DILATED RULE_KIND(PATTERN_DILATED)
#define BIGBIRD RULE_KIND(PATTERN_BIGBIRD)

/* clang-format off */
static const struct rule_field PATTERN_FIELDS[] = {
    {"left", FIELD_SIZE, WINDOW, WINDOW, AT(rules.pattern.left), SIZES(0, RULES_WHOLE_MOST)},
    {"right", FIELD_SIZE, WINDOW, WINDOW, AT(rules.pattern.right), SIZES(0, RULES_WHOLE_MOST)},
    {"window", FIELD_SIZE, DILATED, DILATED, AT(rules.pattern.window), SIZES(0, RULES_WHOLE_MOST)},
    {"step", FIELD_SIZE, DILATED, DILATED, AT(rules.pattern.step), SIZES(1, RULES_WHOLE_MOST)},
    {"size", FIELD_SIZE, RULE_KIND(PATTERN_BLOCK), RULE_KIND(PATTERN_BLOCK), AT(rules.pattern.size), SIZES(1, RULES_WHOLE_MOST)},
    {"stride", FIELD_SIZE, RULE_KIND(PATTERN_STRIDED), RULE_KIND(PATTERN_STRIDED), AT(rules.pattern.size), SIZES(1, RULES_WHOLE_MOST)},
    {"block", FIELD_SIZE, BIGBIRD, BIGBIRD, AT(rules.pattern.size), SIZES(1, RULES_WHOLE_MOST)},
    {"window_blocks", FIELD_SIZE, BIGBIRD, 0, AT(rules.pattern.window_blocks), SIZES(1, RULES_WHOLE_MOST)},
    {"global_blocks", FIELD_SIZE, BIGBIRD, 0, AT(rules.pattern.global_blocks), SIZES(0, RULES_WHOLE_MOST)},
    {"random_blocks", FIELD_SIZE, BIGBIRD, 0, AT(rules.pattern.random_blocks), SIZES(0, RULES_WHOLE_MOST)},
    {"seed", FIELD_WHOLE, BIGBIRD, 0, AT(rules.pattern.seed), SIZES(0, RULES_WHOLE_MOST - 1)},
    {"k", FIELD_SIZE, RULE_KIND(PATTERN_TOP_K), RULE_KIND(PATTERN_TOP_K), AT(rules.pattern.k), SIZES(1, RULES_WHOLE_MOST)},
    {"global", FIELD_POSITIONS, ALL & ~RULE_KIND(PATTERN_TOP_K), 0, 0, NO_RANGE},
};
/* clang-format on */

/* ---- low_rank: its kinds begin behind "none", which null says */

static const char *const LOW_RANK_NAMES[] = {LOW_RANK_KINDS(RULE_NAME)};
#define LINFORMER RULE_KIND(LOW_RANK_LINFORMER - 1)
#define NYSTROM   RULE_KIND(LOW_RANK_NYSTROM - 1)
#define SVD       RULE_KIND(LOW_RANK_SVD - 1)

/* clang-format off */
static const struct rule_field LOW_RANK_FIELDS[] = {
    {"E", FIELD_TENSOR, LINFORMER, LINFORMER, AT(e), SIZES(0, 3)},
    {"F", FIELD_TENSOR, LINFORMER, LINFORMER, AT(f), SIZES(0, 3)},
    {"landmarks", FIELD_SIZE, NYSTROM, NYSTROM, AT(rules.low_rank.landmarks), SIZES(1, 1024)},
    {"iterations", FIELD_SIZE, NYSTROM, 0, AT(rules.low_rank.iterations), SIZES(1, 32)},
    {"rank", FIELD_SIZE, SVD, SVD, AT(rules.low_rank.rank), SIZES(1, RULES_WHOLE_MOST)},
    {"values", FIELD_FLAG, SVD, 0, AT(rules.low_rank.values), NO_RANGE},
};
/* clang-format on */

/* ---- keep_heads and dropout, which have no kinds */

static const char *const MEASURES[] = {KEEP_HEADS_MEASURES(RULE_NAME) NULL};

/* clang-format off */
static const struct rule_field KEEP_HEADS_FIELDS[] = {
    [FIELD_KEEP_COUNT] = {"count", FIELD_SIZE, ALL, 0, AT(rules.keep_heads.count), SIZES(1, RULES_WHOLE_MOST)},
    [FIELD_KEEP_MASS] = {"mass", FIELD_REAL, ALL, 0, AT(rules.keep_heads.mass), 0, 1, true, false, NULL},
    [FIELD_KEEP_ENTROPY] = {"entropy_below", FIELD_REAL, ALL, 0, AT(rules.keep_heads.entropy_below),
                            0, 1, false, false, NULL},
    [FIELD_KEEP_BY] = {"by", FIELD_CHOICE, ALL, 0, AT(rules.keep_heads.by), CHOICES(MEASURES)},
};

static const struct rule_field DROPOUT_FIELDS[] = {
    {"rate", FIELD_REAL, ALL, ALL, AT(rules.dropout.rate), 0, 1, false, true, NULL},
    {"seed", FIELD_WHOLE, ALL, 0, AT(rules.dropout.seed), SIZES(0, RULES_WHOLE_MOST - 1)},
    {"samples", FIELD_SIZE, ALL, 0, AT(rules.dropout.samples), SIZES(1, 1024)},
};

#define KINDS(names, first) (names) + (first), sizeof(names) / sizeof *(names) - (first)
#define FIELDS(fields)      (fields), sizeof(fields) / sizeof *(fields)

const struct rule_form rules_forms[RULE_COUNT] = {
    [RULE_POSITION_INDEX] = {"position", KINDS(POSITION_NAMES, 0), FIELDS(POSITION_FIELDS)},
    [RULE_PATTERN_INDEX] = {"pattern", KINDS(PATTERN_NAMES, 0), FIELDS(PATTERN_FIELDS)},
    [RULE_LOW_RANK_INDEX] = {"low_rank", KINDS(LOW_RANK_NAMES, 1), FIELDS(LOW_RANK_FIELDS)},
    [RULE_KEEP_HEADS_INDEX] = {"keep_heads", NULL, 0, FIELDS(KEEP_HEADS_FIELDS)},
    [RULE_DROPOUT_INDEX] = {"dropout", NULL, 0, FIELDS(DROPOUT_FIELDS)},
};
const struct rule_form rules_scaling_form = {"scaling", KINDS(SCALING_NAMES, 0), FIELDS(SCALING_FIELDS)};
/* clang-format on */

_Static_assert(sizeof(PATTERN_FIELDS) / sizeof *PATTERN_FIELDS <= RULE_MOST_FIELDS, "a form has room for its fields");
