/* The thread that runs the job. */

#include "engine/model_layer.h"

#include "engine/attend_plan.h"

#include <string.h>

/* Rules that change nothing in a layer: what is added to the input was added before the first. */
static bool changes_nothing(const struct attention_rules *rules)
{
    return rules->position.kind == POSITION_NONE && !sparse_pattern(rules) && rules->pattern.kind != PATTERN_TOP_K &&
           rules->low_rank.kind == LOW_RANK_NONE && rules->keep_heads.kind == KEEP_ALL_HEADS &&
           rules->dropout.samples == 0;
}

static void set_rules(const struct model_shape *shape, size_t n, const struct attention_rules *asked, bool sampled,
                      struct attention_rules *rules)
{
    const struct layer_shape *layer = &shape->layers[n];
    *rules = asked ? *asked : (struct attention_rules){0};
    if (layer->own_position && !rules->position_given)
        rules->position = layer->position;
    if (layer->own_pattern && !rules->pattern_given)
        rules->pattern = layer->pattern;
    if (rules->position.kind == POSITION_SINUSOIDAL || rules->position.kind == POSITION_LEARNED)
        rules->position.kind = POSITION_NONE;
    if (rules->keep_heads.importance)
        rules->keep_heads.importance += n * shape->attention.num_heads;
    rules->dropout.samples = sampled;
    rules->layer = n;
    rules->num_layers = shape->num_layers;
}

static struct forward_input input_of_layer(const struct model_shape *shape, size_t n, const struct forward_input *asked,
                                           const struct attention_rules *rules)
{
    const struct layer_shape *layer = &shape->layers[n];
    struct forward_input input = *asked;
    input.rules = changes_nothing(rules) ? NULL : rules;
    if (layer->own_causal && !input.causal_given)
        input.causal = layer->causal;
    if (input.head_mask && input.head_mask_per_layer)
        input.head_mask += n * shape->attention.num_heads;
    return input;
}

struct forward_input model_layer_input(const struct model_shape *shape, size_t n, const struct forward_input *input,
                                       struct attention_rules *rules)
{
    set_rules(shape, n, input->rules, false, rules);
    return input_of_layer(shape, n, input, rules);
}

const struct attention_layer *model_attention(const struct model *model, size_t n)
{
    return &model->layers[n].attention;
}

/* The place of a layer among those that are returned; their number: it is not. */
static size_t place_of_layer(const struct forward_result *result, size_t included, size_t n)
{
    size_t place = 0;
    if (!result->include_layers)
        return n;
    while (place < included && result->include_layers[place] != n)
        place++;
    return place;
}

static float *at_layer(float *tensor, size_t planes)
{
    return tensor ? tensor + planes : NULL;
}

/* The layer's part of a result. */
static struct forward_result result_of_layer(const struct model_shape *shape, const struct forward_input *input,
                                             const struct forward_result *result, size_t n)
{
    const struct attention_shape *a = &shape->attention;
    const size_t included = result->each_layer ? 1 : result->include_layers ? result->n_layers : shape->num_layers;
    const size_t place = result->each_layer ? 0 : place_of_layer(result, included, n), tq = input->query_length,
                 tk = input->key_length;
    struct forward_result part = {
        .include_heads = result->include_heads, .n_maps = result->n_maps, .n_layers = included};
    if (place == included)
        return part;
    const size_t maps = place * result->n_maps * tq, heads = place * a->num_heads;
    part.attention = at_layer(result->attention, maps * forward_map_columns(input));
    part.heads = at_layer(result->heads, maps * a->d_v);
    part.query = at_layer(result->query, heads * tq * a->d_k);
    part.key = at_layer(result->key, heads * tk * a->d_k);
    part.value = at_layer(result->value, heads * tk * a->d_v);
    return part;
}

void layer_view_set(struct layer_view *view, const struct model_shape *shape, size_t n,
                    const struct forward_input *const *inputs, struct forward_result *const *results, size_t count,
                    bool sampled)
{
    const bool keeps = count > 0 && inputs[0]->rules && inputs[0]->rules->keep_heads.kind != KEEP_ALL_HEADS;
    uint8_t *used = view->heads_used;
    set_rules(shape, n, count > 0 ? inputs[0]->rules : NULL, sampled, &view->rules);
    for (size_t i = 0; i < count; i++) {
        struct forward_input *input = &view->inputs[i];
        *input = input_of_layer(shape, n, inputs[i], &view->rules);
        input->observed = input->observed && !sampled;
        view->results[i] = results ? result_of_layer(shape, input, results[i], n) : (struct forward_result){0};
        if (keeps && used) {
            view->results[i].heads_used = used;
            used += inputs[i]->batch * shape->attention.num_heads;
        }
        view->input_list[i] = input;
        view->result_list[i] = &view->results[i];
    }
}

void layer_view_between(struct layer_view *view, const struct forward_input *const *inputs,
                        struct forward_result *const *results, size_t count)
{
    const bool added = count > 0 && position_is_added(inputs[0]->rules);
    if (added)
        view->rules = (struct attention_rules){.position = inputs[0]->rules->position};
    for (size_t i = 0; i < count; i++) {
        struct forward_input *input = &view->inputs[i];
        *input = *inputs[i];
        input->rules = added ? &view->rules : NULL;
        input->observed = false;
        view->results[i] = (struct forward_result){0};
        if (results)
            view->results[i] = (struct forward_result){.output = results[i]->output,
                                                       .output_std = results[i]->output_std,
                                                       .hidden_states = results[i]->hidden_states,
                                                       .n_states = results[i]->n_states};
        view->input_list[i] = input;
        view->result_list[i] = &view->results[i];
    }
}

void layer_view_end(const struct layer_view *view, const struct model_shape *shape, size_t n,
                    struct forward_result *const *results, size_t count)
{
    const size_t num_heads = shape->attention.num_heads;
    for (size_t i = 0; i < count; i++) {
        const struct forward_result *part = &view->results[i];
        const size_t layers = results[i]->each_layer ? 1 : shape->num_layers, layer = results[i]->each_layer ? 0 : n;
        results[i]->fully_masked_rows += part->fully_masked_rows;
        results[i]->approximate |= part->approximate;
        for (size_t b = 0; results[i]->heads_used && part->heads_used && b < view->inputs[i].batch; b++)
            memcpy(results[i]->heads_used + (b * layers + layer) * num_heads, part->heads_used + b * num_heads,
                   num_heads);
    }
}
