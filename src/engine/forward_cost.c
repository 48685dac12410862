/* What a forward costs, before it begins. Any thread. */

#include "engine/attend_plan.h"

#include <float.h>

/* Of one number that is drawn (Philox: ten rounds for four numbers), and of dropping one weight. */
#define FLOP_OF_DROP 16.0
/* One multiply-add in float64 takes as long as two in float32. */
#define FLOAT64 2.0

static double smaller(double a, double b)
{
    return a < b ? a : b;
}

/* Products of attention, for one head of one sequence. */
static double attention_flop(const struct attention_shape *shape, const struct forward_input *input, double columns)
{
    return 2 * (double)input->query_length * columns * (double)(shape->d_k + shape->d_v);
}

/* F, A~ and B with their products, and the inverse: four products of m x m matrices an iteration. */
static double nystrom_flop(const struct attention_shape *shape, const struct forward_input *input)
{
    const struct low_rank_rule *rule = &input->rules->low_rank;
    const double m = smaller((double)rule->landmarks, (double)input->key_length), n = (double)input->key_length;
    const double d_k = (double)shape->d_k, d_v = (double)shape->d_v;
    return 2 * m * n * (d_k + d_v) * 2 + 2 * m * m * (d_k + d_v) +
           FLOAT64 * 2 * m * m * m * 4 * (double)rule->iterations;
}

/* E k and F v. */
static double linformer_flop(const struct attention_shape *shape, const struct forward_input *input)
{
    const double rows = (double)input->rules->low_rank.projected_keys, keys = (double)input->key_length;
    return 2 * rows * keys * (double)(shape->d_k + shape->d_v) + attention_flop(shape, input, rows);
}

/* Of one head of one sequence. */
static double head_flop(const struct attention_shape *shape, const struct forward_input *input)
{
    const struct attention_rules *rules = input->rules;
    const struct pattern_rule *pattern = sparse_pattern(rules);
    if (rules && rules->low_rank.kind == LOW_RANK_LINFORMER)
        return linformer_flop(shape, input);
    if (rules && rules->low_rank.kind == LOW_RANK_NYSTROM)
        return nystrom_flop(shape, input);
    return attention_flop(shape, input,
                          pattern ? plan_columns(pattern, input->query_length, input->key_length)
                                  : (double)input->key_length);
}

/* Of all samples of dropout, for one sequence: weights dropped, values mixed, heads joined. */
static double samples_flop(const struct attention_shape *shape, const struct forward_input *input)
{
    const double rows = (double)input->query_length, heads = (double)shape->num_heads, d_v = (double)shape->d_v;
    const struct pattern_rule *pattern = sparse_pattern(input->rules);
    const double columns =
        pattern ? plan_columns(pattern, input->query_length, input->key_length) : (double)input->key_length;
    const double joined = shape->projected ? 2 * rows * heads * d_v * (double)shape->d_model : 0;
    return (double)input->rules->dropout.samples * (rows * heads * columns * (2 * d_v + FLOP_OF_DROP) + joined);
}

/* What rules add, for one sequence. */
static double rules_flop(const struct attention_shape *shape, const struct forward_input *input)
{
    const struct attention_rules *rules = input->rules;
    const struct pattern_rule *pattern = sparse_pattern(rules);
    const struct keep_heads_rule *keep = &rules->keep_heads;
    double flop = samples_flop(shape, input);
    if (pattern)
        flop += plan_flop(pattern, input->query_length, input->key_length);
    if ((keep->kind == KEEP_COUNT || keep->kind == KEEP_MASS) && keep->by == KEEP_BY_NORM && shape->projected)
        flop +=
            2 * (double)input->query_length * (double)shape->num_heads * (double)shape->d_v * (double)shape->d_model;
    return flop;
}

double forward_flop(const struct attention_shape *shape, const struct forward_input *input)
{
    const double batch = (double)input->batch, n_queries = batch * (double)input->query_length,
                 n_keys = batch * (double)input->key_length;
    const double d_model = (double)shape->d_model, heads = (double)shape->num_heads,
                 kv_heads = (double)shape->num_kv_heads;
    const double d_k = (double)shape->d_k, d_v = (double)shape->d_v;
    double flop = batch * heads * head_flop(shape, input);
    if (shape->projected)
        flop += 2 * n_queries * d_model * heads * (d_k + d_v) + 2 * n_keys * d_model * kv_heads * (d_k + d_v);
    if (input->rules)
        flop += batch * rules_flop(shape, input);
    return smaller(flop, DBL_MAX);
}

double forward_map_flop(const struct forward_input *input, size_t n_maps)
{
    const struct low_rank_rule *rule = input->rules ? &input->rules->low_rank : NULL;
    if (!rule || rule->kind != LOW_RANK_NYSTROM || rule->landmarks >= input->key_length)
        return 0;
    const double rows = (double)input->query_length, m = (double)rule->landmarks;
    return (double)input->batch * (double)n_maps * 2 * rows * m * ((double)input->key_length + m);
}
