/* Rules against the shape of the weights that they are for. */
#ifndef ATTND_CODEC_RULES_CHECK_H
#define ATTND_CODEC_RULES_CHECK_H

#include "base/error.h"
#include "codec/rules_read.h"
#include "engine/attention.h"
#include "engine/rules.h"

#include <stdbool.h>
#include <stddef.h>

/* What a weight set does where a request says nothing. */
struct rules_defaults {
    const struct attention_rules *rules; /* NULL: nothing but attention */
    bool causal;
    const double *importance; /* [num_heads], for keep_heads; NULL: none is stored */
};

/* Puts the tensors that were read into *rules: those of `asked`, which it was copied from in whole or in part (`named`:
 * the RULES bits of it). Errors have the place of the member, /position/R: what was found, what fits this shape. */
bool rules_check(const struct rules_asked *asked, unsigned named, const struct attention_shape *shape,
                 struct attention_rules *rules, struct error *error);

/* Whether nothing is asked for: what has no rules at all gives the same. */
bool rules_are_off(const struct attention_rules *rules);

/* The names of rules that do not go together, of what is there already without a request; NULL: they all do. Linformer
 * and Nystrom go with nothing that says which keys or heads count, svd not with rope. */
const char *rules_conflict(const struct attention_rules *rules, bool causal);

/* "linformer" */
const char *low_rank_name(enum low_rank_kind kind);
const char *position_name(enum position_kind kind);

#endif
