/* The members that change the rule of attention, as requests and configurations write them:
 *
 *     position, pattern, low_rank, keep_heads, dropout
 *
 * Each is an object, or null, which switches off what a set does by default. */
#ifndef ATTND_CODEC_RULES_READ_H
#define ATTND_CODEC_RULES_READ_H

#include "base/arena.h"
#include "base/error.h"
#include "codec/tensor.h"
#include "engine/rules.h"

#include <stdbool.h>
#include <stddef.h>

/* X(bit name, member) */
#define RULES(X)                   \
    X(RULE_POSITION, position)     \
    X(RULE_PATTERN, pattern)       \
    X(RULE_LOW_RANK, low_rank)     \
    X(RULE_KEEP_HEADS, keep_heads) \
    X(RULE_DROPOUT, dropout)

#define RULE_INDEX(bit, member) bit##_INDEX,
enum rule_index { RULES(RULE_INDEX) RULE_COUNT };
#undef RULE_INDEX
#define RULE_BIT(bit, member) bit = 1u << bit##_INDEX,
enum rule_bit { RULES(RULE_BIT) };
#undef RULE_BIT

/* What was written. Zero: nothing. Numbers are within their ranges; what depends on the weights' shape, the shapes of
 * tensors first, is for rules_check. */
struct rules_asked {
    unsigned named; /* RULES bits: the members that came */
    /* Where a member did not come or is off, its kind is the first of its enumeration (no samples, for dropout). Tables
     * and E and F are not set yet. Global positions that no sequence reaches are left out. */
    struct attention_rules rules;
    struct tensor table; /* P or R */
    struct tensor e, f;
    bool has_dims; /* rope */
};

/* How they are read. */
struct rules_reading {
    struct rules_asked *asked;
    struct arena *arena; /* takes the positions of `global`: at most twice the bytes of their text */
    /* Reads P, R, E or F, which comes next: of at most `max_rank` axes. */
    bool (*read_tensor)(struct json_reader *r, void *context, unsigned max_rank, struct tensor *tensor,
                        struct error *error);
    void *context;
    bool configured; /* svd may be asked for */
};

/* Reads the value of the member, which comes next. ERROR_INVALID or ERROR_UNKNOWN_MEMBER with the place of what is
 * wrong: a member of it, or its object where one is missing. */
bool rules_read(struct json_reader *r, enum rule_index rule, const struct rules_reading *reading, struct error *error);

/* "position" */
const char *rules_name(enum rule_index rule);

#endif
