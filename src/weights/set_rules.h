/* What a weight set does where a request says nothing: the rules of its configuration, with their tensors. */
#ifndef ATTND_WEIGHTS_SET_RULES_H
#define ATTND_WEIGHTS_SET_RULES_H

#include "base/arena.h"
#include "base/error.h"
#include "codec/rules_check.h"
#include "config/config.h"
#include "weights/importance_store.h"

#include <stdbool.h>
#include <stddef.h>

#define SET_RULES_TENSORS 3

struct set_rules {
    struct rules_defaults defaults; /* its rules are the next, or NULL; its importance is the store's */
    struct attention_rules rules;
    char *texts[RULE_COUNT]; /* as they were configured: JSON; NULL: not at all, or null */
    /* NULL where the set's loading failed; numbers may be put into it at any time. */
    struct importance_store *importance;
    struct arena positions;            /* those of `global` */
    float *tensors[SET_RULES_TENSORS]; /* P or R, E, F */
    size_t tensor_counts[SET_RULES_TENSORS];
    unsigned n_tensors;
};

/* Reads what the entry says for weights of that shape. Errors have the place within the entry, /pattern/left. On
 * failure too it is valid for set_rules_free. */
bool set_rules_load(const struct weights_config *config, const struct attention_shape *shape, size_t num_layers,
                    struct set_rules *rules, struct error *error);

/* What it would be: *low_rank without tensors, and the bytes of all tensors, of which only the file's header is read.
 */
bool set_rules_need(const struct weights_config *config, const struct attention_shape *shape,
                    struct low_rank_rule *low_rank, size_t *bytes, struct error *error);

/* Whether the entry says anything that decides results. */
bool set_rules_are_plain(const struct set_rules *rules);

void set_rules_free(struct set_rules *rules);

#endif
