/* Random sparse patterns, and what they let a query see, pair by pair, by their definitions (docs/MODEL.md). */
#ifndef ATTND_TESTS_ANALYSIS_RANDOM_PATTERN_H
#define ATTND_TESTS_ANALYSIS_RANDOM_PATTERN_H

#include "engine/forward.h"
#include "engine/random.h"

/* Whether query i sees key j: i counts as docs/MODEL.md has it. bigbird without drawn blocks. */
static inline bool pattern_has_pair(const struct pattern_rule *p, long i, long j)
{
    const long size = (long)p->size, far = i < j ? j - i : i - j;
    for (size_t k = 0; k < p->n_global; k++)
        if (i == (long)p->global[k] || j == (long)p->global[k])
            return true;
    switch (p->kind) {
    case PATTERN_WINDOW:
        return i - (long)p->left <= j && j <= i + (long)p->right;
    case PATTERN_DILATED:
        return far <= (long)(p->window * p->step) && far % (long)p->step == 0;
    case PATTERN_STRIDED:
        return j <= i && (i - j < size || (i - j) % size == 0);
    case PATTERN_BLOCK:
    case PATTERN_BIGBIRD: {
        const long a = i >= 0 ? i / size : -((size - 1 - i) / size), b = j / size; /* rounded down */
        if (p->kind == PATTERN_BLOCK)
            return a == b;
        return (a < b ? b - a : a - b) <= ((long)p->window_blocks - 1) / 2 || b < (long)p->global_blocks ||
               a < (long)p->global_blocks;
    }
    default:
        return true;
    }
}

/* Of all kinds but full and top_k, for lengths of up to most_length. `global` [2] is used by every other one. */
static inline struct pattern_rule random_pattern(struct random *random, size_t most_length, uint32_t *global)
{
    struct pattern_rule rule = {.kind = (enum pattern_kind)random_size(random, PATTERN_WINDOW, PATTERN_BIGBIRD),
                                .left = random_size(random, 0, most_length / 2),
                                .right = random_size(random, 0, most_length / 2),
                                .window = random_size(random, 0, 3),
                                .step = random_size(random, 1, 3),
                                .size = random_size(random, 1, 4),
                                .window_blocks = 2 * random_size(random, 0, 1) + 1,
                                .global_blocks = random_size(random, 0, 1)};
    if (random_chance(random, 0.5)) {
        global[0] = (uint32_t)random_size(random, 0, most_length);
        global[1] = global[0] + (uint32_t)random_size(random, 1, 3);
        rule.global = global;
        rule.n_global = 2;
    }
    return rule;
}

/* What an input's pattern lets query `row` see. */
static inline bool pattern_allows(const struct forward_input *input, size_t row, size_t key)
{
    const long shift = input->causal ? (long)input->key_length - (long)input->query_length : 0;
    return !input->rules || pattern_has_pair(&input->rules->pattern, (long)row + shift, (long)key);
}

#endif
