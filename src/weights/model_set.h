/* Weight sets of many layers: from an entry of the configuration to the model in memory, with its rules. One thread,
 * which has others help it while it reads. */
#ifndef ATTND_WEIGHTS_MODEL_SET_H
#define ATTND_WEIGHTS_MODEL_SET_H

#include "weights/weight_set.h"

/* Whether the entry's source is one of these. */
static inline bool model_set_is(const struct weights_config *config)
{
    return config->source == WEIGHTS_BLOCKS || config->source == WEIGHTS_HUGGINGFACE;
}

/* Fills what such a set has beside its name. As weight_set_load; on failure *set is fit for weight_set_free. */
bool model_set_load(const struct weights_config *config, struct weight_set *set, struct error *error);

/* As weight_set_need. */
bool model_set_need(const struct weights_config *config, struct weight_set_need *need, struct error *error);

#endif
