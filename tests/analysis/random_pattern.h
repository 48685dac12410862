/* Sparse patterns for the tests of this folder: what they let a query see is tests/engine/pattern_definition.h's. */
#ifndef ATTND_TESTS_ANALYSIS_RANDOM_PATTERN_H
#define ATTND_TESTS_ANALYSIS_RANDOM_PATTERN_H

#include "engine/forward.h"
#include "engine/pattern_definition.h"

#include <stdlib.h>

/* Of all kinds but full and top_k; every other one with `global` [2]. */
static inline struct pattern_rule random_sparse_pattern(struct random *random, size_t n_keys, uint32_t *global)
{
    const enum pattern_kind kind = (enum pattern_kind)random_size(random, PATTERN_WINDOW, PATTERN_BIGBIRD);
    struct pattern_rule rule = random_pattern(random, kind, n_keys);
    if (random_chance(random, 0.5)) {
        global[0] = (uint32_t)random_size(random, 0, n_keys);
        global[1] = global[0] + (uint32_t)random_size(random, 1, 3);
        rule.global = global;
        rule.n_global = 2;
    }
    return rule;
}

/* What an input's pattern lets query `row` see. */
static inline bool pattern_allows(const struct forward_input *input, size_t row, size_t key)
{
    const ptrdiff_t shift = input->causal ? (ptrdiff_t)input->key_length - (ptrdiff_t)input->query_length : 0;
    if (!input->rules)
        return true;
    bool *seen = malloc(input->key_length * sizeof *seen);
    pattern_definition(&input->rules->pattern, input->rules->layer, (ptrdiff_t)row + shift, input->key_length, seen);
    const bool allows = seen[key];
    free(seen);
    return allows;
}

#endif
