/* Random attention maps for the tests of this folder. */
#ifndef ATTND_TESTS_ANALYSIS_RANDOM_MAPS_H
#define ATTND_TESTS_ANALYSIS_RANDOM_MAPS_H

#include "analysis/head_maps.h"
#include "analysis/random_pattern.h"
#include "engine/random.h"
#include "suite.h"

#include <math.h>
#include <stdlib.h>

static inline bool pair_allowed(const struct forward_input *rule, size_t b, size_t i, size_t j)
{
    if ((rule->causal && j + rule->query_length > i + rule->key_length) || !pattern_allows(rule, i, j))
        return false;
    if (rule->mask_kind == FORWARD_MASK_KEYS)
        return rule->mask[b * rule->key_length + j] && (!rule->self_attention || rule->mask[b * rule->key_length + i]);
    return rule->mask_kind == FORWARD_MASK_NONE || rule->mask[(b * rule->query_length + i) * rule->key_length + j];
}

/* [B, num_heads, Tq, Tk] by the rule, in fresh memory; some weights are equal. */
static inline float *random_maps(struct random *random, const struct forward_input *rule, size_t num_heads)
{
    const size_t keys = rule->key_length;
    float *maps = malloc(rule->batch * num_heads * rule->query_length * keys * sizeof *maps), *row = maps;
    for (size_t b = 0; b < rule->batch; b++)
        for (size_t h = 0; h < num_heads; h++)
            for (size_t i = 0; i < rule->query_length; i++, row += keys) {
                double sum = 0;
                for (size_t j = 0; j < keys; j++) {
                    row[j] = pair_allowed(rule, b, i, j) ? (float)exp(floor(4 * random_normal(random)) / 2) : 0;
                    sum += (double)row[j];
                }
                for (size_t j = 0; j < keys && sum > 0; j++)
                    row[j] = (float)((double)row[j] / sum);
            }
    return maps;
}

/* A rule of random sizes and masks; *mask is fresh memory, or NULL. */
static inline struct forward_input random_rule(struct random *random, size_t most_batch, size_t most_length,
                                               uint8_t **mask)
{
    struct forward_input rule = {.batch = random_size(random, 1, most_batch),
                                 .query_length = random_size(random, 1, most_length),
                                 .causal = random_chance(random, 0.4),
                                 .self_attention = random_chance(random, 0.7)};
    rule.key_length = rule.self_attention ? rule.query_length : random_size(random, 1, most_length);
    rule.mask_kind = (enum forward_mask)random_size(random, FORWARD_MASK_NONE, FORWARD_MASK_PAIRS);
    const size_t count = rule.batch * rule.key_length * (rule.mask_kind == FORWARD_MASK_PAIRS ? rule.query_length : 1);
    *mask = malloc(count);
    for (size_t i = 0; i < count; i++)
        (*mask)[i] = random_chance(random, 0.7);
    rule.mask = *mask;
    return rule;
}

#endif
