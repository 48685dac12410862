/* One layer of a model at work: the rules it runs under, and what is there of its results. For model_run.c. */
#ifndef ATTND_ENGINE_MODEL_LAYER_H
#define ATTND_ENGINE_MODEL_LAYER_H

#include "engine/batch.h"
#include "engine/model_parts.h"
#include "engine/model_run.h"

/* The inputs and results of a call as one layer sees them. */
struct layer_view {
    struct attention_rules rules;
    struct forward_input inputs[MODEL_MOST_INPUTS];
    struct forward_result results[MODEL_MOST_INPUTS];
    const struct forward_input *input_list[MODEL_MOST_INPUTS]; /* pointers to these */
    struct forward_result *result_list[MODEL_MOST_INPUTS];
    uint8_t *heads_used; /* [sequences of all inputs, num_heads], of this layer; NULL: none are written */
};

/* What layer `n` is to do. Without `results` nothing of it is returned. `sampled`: weights are dropped, and nobody
 * looks on. */
void layer_view_set(struct layer_view *view, const struct model_shape *shape, size_t n,
                    const struct forward_input *const *inputs, struct forward_result *const *results, size_t count,
                    bool sampled);

/* What is there before the first layer and between layers, where rows are moved in and out: of the rules what is added
 * to the first layer's input, of the results what has a row for each token. */
void layer_view_between(struct layer_view *view, const struct forward_input *const *inputs,
                        struct forward_result *const *results, size_t count);

/* Behind the layer: adds up what it counted, and copies heads_used to its place. */
void layer_view_end(const struct layer_view *view, const struct model_shape *shape, size_t n,
                    struct forward_result *const *results, size_t count);

#endif
