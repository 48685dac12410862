/* What a weight set does where a request says nothing: the rules of its configuration, with their tensors. */
#ifndef ATTND_WEIGHTS_SET_RULES_H
#define ATTND_WEIGHTS_SET_RULES_H

#include "base/arena.h"
#include "base/error.h"
#include "codec/rules_check.h"
#include "config/config.h"
#include "weights/importance_store.h"
#include "weights/model_source.h"
#include "weights/rule_tensors.h"

#include <stdbool.h>
#include <stddef.h>

struct set_rules {
    struct rules_defaults defaults; /* its rules are the next, or NULL; its importance is the store's */
    struct attention_rules rules;
    char *texts[RULE_COUNT]; /* as they were configured: JSON; NULL: not at all, or null */
    /* NULL where the set's loading failed; numbers may be put into it at any time. */
    struct importance_store *importance;
    struct arena positions, layer_positions; /* those of `global`, the set's and its layers' own */
    struct rule_tensors tensors;             /* P or R, E, F, and those of the layers' own rules */
};

/* Reads what the entry says for weights of that shape, over what their source says by itself (NULL: nothing, they are
 * one bare layer). *rules is empty, or has what the layers' own rules point to. Errors have the place within the entry,
 * /pattern/left. On failure too it is valid for set_rules_free. */
bool set_rules_load(const struct weights_config *config, const struct attention_shape *shape,
                    const struct model_source *source, struct set_rules *rules, struct error *error);

/* What it would be: *low_rank without tensors, and the bytes of all tensors, of which only the file's header is read.
 */
bool set_rules_need(const struct weights_config *config, const struct attention_shape *shape,
                    const struct model_source *source, struct low_rank_rule *low_rank, size_t *bytes,
                    struct error *error);

/* Whether the entry says anything that decides results. */
bool set_rules_are_plain(const struct set_rules *rules);

void set_rules_free(struct set_rules *rules);

#endif
