/* A decoded request against the shape of the weight set it goes to: what is found, what would fit, and where. Pure: any
 * thread. */
#include "codec/forward_request.h"

#include "base/size.h"
#include "codec/forward_members.h"

#include <stdio.h>
#include <string.h>

/* One of input, query, key, value: [tokens, d_model] or [batch, tokens, d_model]. */
static bool check_sequence(const struct tensor *tensor, const char *pointer, size_t d_model, struct error *error)
{
    const bool right_rank = tensor->rank == 2 || tensor->rank == 3;
    char found[TENSOR_SHAPE_TEXT_BYTES];
    if (right_rank && tensor->shape[tensor->rank - 1] == d_model)
        return true;
    tensor_shape_text(tensor->shape, tensor->rank, found, sizeof found);
    if (!right_rank)
        return error_set_at(error, ERROR_INVALID, pointer,
                            "the rank is %u (shape %s), expected 2 ([tokens, %zu]) or 3 ([batch, tokens, %zu])",
                            tensor->rank, found, d_model, d_model);
    return error_set_at(error, ERROR_INVALID, pointer, "the last axis is %zu wide (shape %s), expected d_model, %zu",
                        tensor->shape[tensor->rank - 1], found, d_model);
}

static size_t batch_of(const struct tensor *tensor)
{
    return tensor->rank == 3 ? tensor->shape[0] : 1;
}

static size_t tokens_of(const struct tensor *tensor)
{
    return tensor->shape[tensor->rank - 2];
}

/* `tensor` beside `other`: as many axes and sequences. */
static bool check_beside(const struct tensor *tensor, const char *pointer, const struct tensor *other, const char *name,
                         struct error *error)
{
    if (tensor->rank != other->rank)
        return error_set_at(error, ERROR_INVALID, pointer,
                            "the rank is %u, that of %s is %u: both have the batch axis, or neither", tensor->rank,
                            name, other->rank);
    if (batch_of(tensor) != batch_of(other))
        return error_set_at(error, ERROR_INVALID, pointer, "%zu sequences, but %s has %zu", batch_of(tensor), name,
                            batch_of(other));
    return true;
}

/* Fills the tensors and lengths of *problem. `model`: that it is for; NULL: a bare layer. */
static bool check_tensors(const struct forward_request *request, size_t d_model, const struct model_shape *model,
                          struct forward_input *problem, struct error *error)
{
    const char *input = forward_request_input(request);
    if (strcmp(input, "input") != 0 && strcmp(input, "query") != 0)
        return forward_check_embedding(request, model, problem, error);
    const struct tensor *query = &request->query, *key = &request->key,
                        *value = request->value.rank ? &request->value : key;
    if (request->input.rank) {
        if (!check_sequence(&request->input, "/input", d_model, error))
            return false;
        query = key = value = &request->input;
        problem->self_attention = true;
    } else {
        if (model)
            return error_set_at(error, ERROR_INVALID, "/query",
                                "these weights are layers with what stands around attention, in which queries and "
                                "keys are one sequence: send input%s",
                                model->embeddings.present ? ", or what they embed" : "");
        if (!check_sequence(query, "/query", d_model, error) || !check_sequence(key, "/key", d_model, error) ||
            !check_beside(key, "/key", query, "query", error))
            return false;
        if (!check_sequence(value, "/value", d_model, error) || !check_beside(value, "/value", key, "key", error))
            return false;
        if (tokens_of(value) != tokens_of(key))
            return error_set_at(error, ERROR_INVALID, "/value", "%zu tokens a sequence, but key has %zu",
                                tokens_of(value), tokens_of(key));
    }
    problem->batch = batch_of(query);
    problem->query_length = tokens_of(query);
    problem->key_length = tokens_of(key);
    problem->rank2 = query->rank == 2;
    problem->query = query->data;
    problem->key = key->data;
    problem->value = value->data;
    return true;
}

static bool shape_is(const size_t *shape, unsigned rank, const size_t *expected, unsigned expected_rank)
{
    if (rank != expected_rank)
        return false;
    for (unsigned i = 0; i < rank; i++)
        if (shape[i] != expected[i])
            return false;
    return true;
}

static bool shape_error(const char *pointer, const size_t *shape, unsigned rank, const size_t *one, unsigned one_rank,
                        const size_t *two, unsigned two_rank, struct error *error)
{
    char found[TENSOR_SHAPE_TEXT_BYTES], expected[TENSOR_SHAPE_TEXT_BYTES], also[TENSOR_SHAPE_TEXT_BYTES];
    tensor_shape_text(shape, rank, found, sizeof found);
    tensor_shape_text(one, one_rank, expected, sizeof expected);
    return error_set_at(error, ERROR_INVALID, pointer, "the shape is %s, expected %s%s%s", found, expected,
                        two ? " or " : "", two ? tensor_shape_text(two, two_rank, also, sizeof also) : "");
}

bool forward_check_mask(const struct mask *mask, struct forward_input *problem, struct error *error)
{
    unsigned first = problem->rank2; /* without the batch axis, shapes begin behind it */
    const size_t keys[] = {problem->batch, problem->key_length};
    const size_t pairs[] = {problem->batch, problem->query_length, problem->key_length};
    if (mask->rank == 0)
        return true;
    if (shape_is(mask->shape, mask->rank, keys + first, 2 - first))
        problem->mask_kind = FORWARD_MASK_KEYS;
    else if (shape_is(mask->shape, mask->rank, pairs + first, 3 - first))
        problem->mask_kind = FORWARD_MASK_PAIRS;
    else
        return shape_error("/attention_mask", mask->shape, mask->rank, keys + first, 2 - first, pairs + first,
                           3 - first, error);
    problem->mask = mask->data;
    return true;
}

static bool check_bias(const struct tensor *bias, size_t num_heads, struct forward_input *problem, struct error *error)
{
    const size_t each[] = {problem->batch, num_heads, problem->query_length, problem->key_length}, *shared = each + 1;
    if (bias->rank == 0)
        return true;
    if (!problem->rank2 && shape_is(bias->shape, bias->rank, each, 4))
        problem->bias_per_sequence = true;
    else if (!shape_is(bias->shape, bias->rank, shared, 3))
        return shape_error("/bias", bias->shape, bias->rank, shared, 3, problem->rank2 ? NULL : each, 4, error);
    problem->bias = bias->data;
    return true;
}

static bool check_head_mask(const struct tensor *head_mask, size_t num_heads, struct forward_input *problem,
                            struct error *error)
{
    const size_t each[] = {problem->num_layers, num_heads}, *shared = each + 1;
    if (head_mask->rank == 0)
        return true;
    if (problem->num_layers && shape_is(head_mask->shape, head_mask->rank, each, 2))
        problem->head_mask_per_layer = true;
    else if (!shape_is(head_mask->shape, head_mask->rank, shared, 1))
        return shape_error("/head_mask", head_mask->shape, head_mask->rank, shared, 1,
                           problem->num_layers ? each : NULL, 2, error);
    problem->head_mask = head_mask->data;
    return true;
}

/* Heads, or layers, that one pass over a list looks for: as many as nearly every layer has, in memory that a stack
 * holds. */
#define HEADS_AT_ONCE 4096

/* The index of the first of `heads` [count], each below num_heads, that stands before it already; count: none. */
static size_t first_repeated(const uint32_t *heads, size_t count, size_t num_heads)
{
    bool seen[HEADS_AT_ONCE];
    for (size_t first = 0; first < num_heads; first += HEADS_AT_ONCE) {
        memset(seen, 0, sizeof seen);
        for (size_t i = 0; i < count; i++) {
            size_t head = heads[i] - first; /* huge for one of a pass before */
            if (head >= HEADS_AT_ONCE)
                continue;
            if (seen[head])
                count = i;
            else
                seen[head] = true;
        }
    }
    return count;
}

/* Each of the numbers [count] is a `what`, of which there are so many, and is there once. `unknown`: the first that
 * stands as FORWARD_NO_HEAD. */
static bool check_numbers(const uint32_t *numbers, size_t count, size_t there, int64_t unknown, const char *what,
                          struct error *error)
{
    char place[48];
    size_t known = 0;
    while (known < count && numbers[known] != FORWARD_NO_HEAD && numbers[known] < there)
        known++;
    const size_t repeated = known > 1 ? first_repeated(numbers, known, there) : known;
    if (repeated == count)
        return true;
    snprintf(place, sizeof place, "/include_%ss/%zu", what, repeated);
    if (repeated < known)
        return error_set_at(error, ERROR_INVALID, place, "%s %u is there twice; name each once", what,
                            numbers[repeated]);
    return error_set_at(error, ERROR_INVALID, place, "there is no %s %lld: the %ss are 0 to %zu", what,
                        (long long)(numbers[known] == FORWARD_NO_HEAD ? unknown : numbers[known]), what, there - 1);
}

bool forward_check_include_heads(const struct forward_request *request, size_t num_heads, struct error *error)
{
    return check_numbers(request->include_heads, request->n_include_heads, num_heads, request->no_head, "head", error);
}

bool forward_check_include_layers(const struct forward_request *request, size_t num_layers, struct error *error)
{
    return check_numbers(request->include_layers, request->n_include_layers, num_layers, request->no_layer, "layer",
                         error);
}

/* What goes through layers is one sequence, and is projected by them. */
static bool check_return(const struct forward_request *request, const struct attention_shape *shape,
                         const struct forward_input *problem, struct error *error)
{
    if (!(request->returned & RETURN_HIDDEN_STATES) || (problem->self_attention && shape->projected))
        return true;
    return error_set_at(error, ERROR_INVALID, "/return", "hidden_states are what goes through layers; %s",
                        shape->projected ? "queries and keys of their own do not: send input"
                                         : "of these weights, which have no projections, they are input and output");
}

bool forward_request_check(const struct forward_request *request, const struct attention_shape *shape,
                           const struct rules_defaults *defaults, struct forward_input *problem, struct error *error)
{
    const struct model_shape *model = defaults ? defaults->model : NULL;
    struct forward_input made = {.num_layers = model ? model->num_layers : 0};
    if (!check_tensors(request, shape->d_model, model, &made, error) ||
        !forward_check_mask(&request->attention_mask, &made, error) ||
        !check_bias(&request->bias, shape->num_heads, &made, error) ||
        !check_head_mask(&request->head_mask, shape->num_heads, &made, error) ||
        !forward_check_rules(request, shape, defaults, &made, error) ||
        !forward_check_rows(request, model, &made, error) ||
        !forward_check_include_heads(request, shape->num_heads, error) ||
        !forward_check_include_layers(request, size_max(made.num_layers, 1), error) ||
        !check_return(request, shape, &made, error))
        return false;
    *problem = made;
    return true;
}
