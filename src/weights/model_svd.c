/* Gets the attention of a model's layers, one at a time, and puts what svd.c makes of it into the model over it.
 * Entered by the thread that loads, which has others help it with the heads. */
#include "weights/model_svd.h"

#include "base/size.h"
#include "weights/svd.h"

#include <string.h>

_Static_assert(LAYER_W_Q == (int)SLOT_W_Q && LAYER_W_O == (int)SLOT_W_O && LAYER_B_Q == (int)SLOT_B_Q &&
                   LAYER_B_O == (int)SLOT_B_O && LAYER_TENSOR_COUNT == (int)SLOT_W_1,
               "a layer's tensors come first among those of a block, in one order");

/* The extents of a layer's tensors. */
static struct layer_tensors describe_layer(const struct model_shape *shape, size_t n)
{
    const struct layer_shape *layer = &shape->layers[n];
    const unsigned biases = (unsigned)layer->bias_q << LAYER_B_Q | (unsigned)layer->bias_k << LAYER_B_K |
                            (unsigned)layer->bias_v << LAYER_B_V | (unsigned)layer->bias_o << LAYER_B_O;
    return layer_tensors_describe(&shape->attention, biases);
}

/* Puts the tensors of the matrices in `own`. */
static void put_layer(struct model *made, size_t n, unsigned own, const struct layer_tensors *tensors)
{
    for (unsigned kind = 0; kind < LAYER_TENSOR_COUNT; kind++) {
        const struct layer_tensor *tensor = &tensors->items[kind];
        if (tensor->rows && own & 1U << kind % LAYER_B_Q)
            model_put_rows(made, (struct tensor_slot){n, kind}, 0, tensor->rows, tensor->data, tensor->columns);
    }
}

static bool make_layer(const struct model *model, size_t n, const struct low_rank_rule *rule, unsigned threads,
                       struct model *made, struct error *error)
{
    const struct model_shape *shape = model_shape_of(model);
    struct layer_tensors tensors = describe_layer(shape, n), lower;
    struct attention_shape lower_shape;
    if (!layer_tensors_allocate(&tensors, error))
        return false;
    for (unsigned kind = 0; kind < LAYER_TENSOR_COUNT; kind++)
        if (tensors.items[kind].rows)
            model_get(model, (struct tensor_slot){n, kind}, tensors.items[kind].data);
    const bool done = svd_layer_make(&shape->attention, &tensors, rule, threads, &lower_shape, &lower, error);
    layer_tensors_free(&tensors);
    if (!done)
        return error_precede(error, "layer %zu: ", n);
    put_layer(made, n, svd_layer_own(&shape->attention, rule), &lower);
    layer_tensors_free(&lower);
    return true;
}

struct model *model_svd_make(const struct model *model, const struct low_rank_rule *rule, unsigned threads,
                             struct error *error)
{
    const struct model_shape *shape = model_shape_of(model);
    struct attention_shape lower;
    if (!svd_layer_shape(&shape->attention, rule, &lower, error))
        return NULL;
    struct model *made = model_create_over(model, &lower, svd_layer_own(&shape->attention, rule), error);
    for (size_t n = 0; made && n < shape->num_layers; n++)
        if (!make_layer(model, n, rule, threads, made, error)) {
            model_free(made);
            made = NULL;
        }
    return made;
}

/* The tensors of one layer, of both ranks, and what the threads compute in. */
static bool scratch_bytes(const struct model_shape *shape, const struct attention_shape *lower,
                          const struct low_rank_rule *rule, unsigned threads, size_t *bytes)
{
    const struct layer_tensors from = layer_tensors_describe(&shape->attention, ~0U),
                               to = layer_tensors_describe(lower, ~0U);
    size_t numbers, computed;
    return size_add(layer_tensors_count(&from), layer_tensors_count(&to), &numbers) &&
           size_multiply(numbers, sizeof(float), bytes) &&
           svd_layer_scratch(&shape->attention, rule, threads, &computed) && size_add(*bytes, computed, bytes);
}

bool model_svd_need(const struct model_shape *shape, const struct low_rank_rule *rule, unsigned threads, size_t *bytes,
                    size_t *scratch, struct error *error)
{
    struct attention_shape lower;
    if (!svd_layer_shape(&shape->attention, rule, &lower, error))
        return false;
    return (model_over_bytes(shape, &lower, svd_layer_own(&shape->attention, rule), bytes) &&
            scratch_bytes(shape, &lower, rule, threads, scratch)) ||
           error_out_of_memory(error);
}
