/* The rules of single layers, as source `blocks` has them in `layer` and `layers`. One thread. */
#ifndef ATTND_WEIGHTS_LAYER_RULES_H
#define ATTND_WEIGHTS_LAYER_RULES_H

#include "weights/blocks_source.h"
#include "weights/rule_tensors.h"
#include "weights/set_rules.h"

struct layer_rule;

struct layer_rules {
    struct rule_files files;
    struct set_rules *rules;  /* owns what they point to */
    struct layer_rule *known; /* [count]: one that stands in `layer` is read once, and not for every layer */
    size_t count;
};

/* For the layers of `config`; what its rules point to becomes part of *rules. `counting`: tensors are looked up, and
 * not read. ERROR_OUT_OF_MEMORY. */
bool layer_rules_begin(struct layer_rules *layers, const struct weights_config *config, struct set_rules *rules,
                       bool counting, struct error *error);

struct blocks_rules layer_rules_interface(struct layer_rules *layers);

/* `check`: false with ERROR_IO where the file was written to meanwhile. */
bool layer_rules_end(struct layer_rules *layers, bool check, struct error *error);

#endif
