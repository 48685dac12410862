/* Rules against the shape of the weights that they are for. */
#ifndef ATTND_CODEC_RULES_CHECK_H
#define ATTND_CODEC_RULES_CHECK_H

#include "base/error.h"
#include "codec/rules_read.h"
#include "engine/attention.h"
#include "engine/model_shape.h"
#include "engine/rules.h"

#include <stdbool.h>
#include <stddef.h>

/* What a weight set does where a request says nothing. */
struct rules_defaults {
    const struct attention_rules *rules; /* NULL: nothing but attention */
    bool causal;
    const double *importance;        /* [num_layers, num_heads], for keep_heads; NULL: none is stored */
    const struct model_shape *model; /* the layers that it does it in, with rules of their own; NULL: one bare layer */
};

/* Puts the tensors that were read into *rules: those of `asked`, which it was copied from in whole or in part (`named`:
 * the RULES bits of it). Errors have the place of the member, /position/R: what was found, what fits this shape. */
bool rules_check(const struct rules_asked *asked, unsigned named, const struct attention_shape *shape,
                 struct attention_rules *rules, struct error *error);

/* Whether nothing is asked for: what has no rules at all gives the same. */
bool rules_are_off(const struct attention_rules *rules);

/* The name of a rule that does not go with the low rank that is there, in any layer of the defaults' model; NULL: they
 * all do. Linformer and Nystrom go with nothing that says which keys or heads count, svd not with rope. causal_given:
 * `causal` is for all layers, whatever is their own. *position is the kind that stands there, in that layer. */
const char *rules_conflict(const struct attention_rules *rules, bool causal, bool causal_given,
                           const struct rules_defaults *defaults, enum position_kind *position);

/* "linformer" */
const char *low_rank_name(enum low_rank_kind kind);
const char *position_name(enum position_kind kind);

#endif
