/* Tokens that are ids, or rows and pixels in their place, against the embeddings of the weight set they go to. Pure:
 * any thread. */
#include "codec/forward_members.h"

#include "base/size.h"

#include <stdio.h>
#include <string.h>

/* Whether two shapes are one. */
static bool same_shape(const size_t *shape, unsigned rank, const size_t *expected, unsigned expected_rank)
{
    return rank == expected_rank && memcmp(shape, expected, rank * sizeof *shape) == 0;
}

static bool shape_fault(const char *pointer, const size_t *shape, unsigned rank, const char *expected,
                        struct error *error)
{
    char found[TENSOR_SHAPE_TEXT_BYTES];
    tensor_shape_text(shape, rank, found, sizeof found);
    return error_set_at(error, ERROR_INVALID, pointer, "the shape is %s, expected %s", found, expected);
}

/* ---- which input, and how many tokens */

/* The weights take no such input. */
static bool not_taken(const char *pointer, const char *takes, struct error *error)
{
    return error_set_at(error, ERROR_INVALID, pointer, "these weights have no such embeddings: %s", takes);
}

static void set_sizes(struct forward_input *problem, bool rank2, size_t batch, size_t tokens)
{
    problem->rank2 = rank2;
    problem->batch = rank2 ? 1 : batch;
    problem->query_length = problem->key_length = tokens;
}

static bool check_ids(const struct integers *ids, const struct embeddings_shape *shape, struct forward_input *problem,
                      struct error *error)
{
    if (shape->vocabulary == 0)
        return not_taken("/input_ids", shape->present ? "send pixel_values, or input" : "send input", error);
    set_sizes(problem, ids->rank == 1, ids->shape[0], ids->shape[ids->rank - 1]);
    return true;
}

static bool check_embeds(const struct tensor *embeds, const struct embeddings_shape *shape,
                         struct forward_input *problem, struct error *error)
{
    char expected[80];
    if (shape->vocabulary == 0)
        return not_taken("/inputs_embeds", shape->present ? "send pixel_values, or input" : "send input", error);
    if (embeds->rank < 2 || embeds->shape[embeds->rank - 1] != shape->width) {
        snprintf(expected, sizeof expected, "[tokens, %zu] or [batch, tokens, %zu]", shape->width, shape->width);
        return shape_fault("/inputs_embeds", embeds->shape, embeds->rank, expected, error);
    }
    set_sizes(problem, embeds->rank == 2, embeds->shape[0], embeds->shape[embeds->rank - 2]);
    return true;
}

static bool check_pixels(const struct tensor *pixels, const struct embeddings_shape *shape,
                         struct forward_input *problem, struct error *error)
{
    const size_t side = shape->image_size, image[] = {shape->channels, side, side};
    char expected[128];
    if (shape->patch_size == 0)
        return not_taken("/pixel_values", shape->present ? "send input_ids, or input" : "send input", error);
    if (pixels->rank < 3 || !same_shape(pixels->shape + pixels->rank - 3, 3, image, 3)) {
        snprintf(expected, sizeof expected, "[batch, %zu, %zu, %zu], or without the batch axis", shape->channels, side,
                 side);
        return shape_fault("/pixel_values", pixels->shape, pixels->rank, expected, error);
    }
    const size_t per_row = side / shape->patch_size;
    set_sizes(problem, pixels->rank == 3, pixels->shape[0], per_row * per_row + 1);
    return true;
}

bool forward_check_embedding(const struct forward_request *request, const struct model_shape *model,
                             struct forward_input *problem, struct error *error)
{
    static const struct embeddings_shape none = {.present = false};
    const struct embeddings_shape *shape = model ? &model->embeddings : &none;
    problem->self_attention = true;
    problem->embedding = &request->embedding;
    return request->input_ids.rank       ? check_ids(&request->input_ids, shape, problem, error)
           : request->inputs_embeds.rank ? check_embeds(&request->inputs_embeds, shape, problem, error)
                                         : check_pixels(&request->pixel_values, shape, problem, error);
}

/* ---- rows of tables */

/* Each of `integers` is below `rows`: else the place of the first that is not. */
static bool check_below(const struct integers *integers, const char *pointer, size_t rows, const char *what,
                        struct error *error)
{
    char place[64];
    size_t bad = 0;
    while (bad < integers->count && integers->data[bad] < rows)
        bad++;
    if (bad == integers->count)
        return true;
    if (integers->rank == 2)
        snprintf(place, sizeof place, "%s/%zu/%zu", pointer, bad / integers->shape[1], bad % integers->shape[1]);
    else
        snprintf(place, sizeof place, "%s/%zu", pointer, bad);
    return error_set_at(error, ERROR_INVALID, place, "%u is no %s of these weights: they are 0 to %zu",
                        integers->data[bad], what, rows - 1);
}

static bool check_types(const struct forward_request *request, const struct embeddings_shape *shape,
                        const struct forward_input *problem, struct error *error)
{
    const struct integers *types = &request->token_type_ids;
    const size_t expected[] = {problem->batch, problem->query_length};
    char text[TENSOR_SHAPE_TEXT_BYTES];
    if (types->rank == 0)
        return true;
    if (!problem->embedding || problem->embedding->pixels)
        return error_set_at(error, ERROR_INVALID, "/token_type_ids",
                            "token_type_ids go with input_ids or inputs_embeds, not with %s",
                            forward_request_input(request));
    if (!same_shape(types->shape, types->rank, expected + problem->rank2, 2 - problem->rank2)) {
        tensor_shape_text(expected + problem->rank2, 2 - problem->rank2, text, sizeof text);
        return shape_fault("/token_type_ids", types->shape, types->rank, text, error);
    }
    /* Tokenizers send zeros to models without types too. */
    return check_below(types, "/token_type_ids", size_max(shape->types, 1), "token type", error);
}

/* Tokens of the sequence that has most of them beside padding. */
static size_t most_counted(const struct forward_input *problem, uint32_t padding)
{
    const uint32_t *ids = problem->embedding->ids;
    const size_t tokens = problem->query_length;
    size_t most = 0;
    for (size_t b = 0; b < problem->batch; b++) {
        size_t count = 0;
        for (size_t t = 0; t < tokens; t++)
            count += ids[b * tokens + t] != padding;
        most = size_max(most, count);
    }
    return most;
}

static bool check_positions(const struct forward_request *request, const struct embeddings_shape *shape,
                            const struct forward_input *problem, struct error *error)
{
    const bool counted = shape->count_padding_id && problem->embedding->ids;
    char pointer[24];
    if (shape->positions == 0)
        return true;
    if (problem->position_ids)
        return check_below(&request->position_ids, "/position_ids", shape->positions, "position", error);
    const size_t tokens = counted ? most_counted(problem, shape->padding_id) : problem->query_length;
    const size_t taken = counted ? (size_t)shape->padding_id + 1 : shape->position_offset;
    const size_t room = shape->positions - size_min(shape->positions, taken);
    if (tokens <= room)
        return true;
    snprintf(pointer, sizeof pointer, "/%s", forward_request_input(request));
    return error_set_at(error, ERROR_INVALID, pointer,
                        "%zu tokens%s, but these weights have positions for %zu; send fewer at once", tokens,
                        counted ? " beside padding" : "", room);
}

bool forward_check_rows(const struct forward_request *request, const struct model_shape *model,
                        const struct forward_input *problem, struct error *error)
{
    static const struct embeddings_shape none = {.present = false};
    const struct embeddings_shape *shape = model ? &model->embeddings : &none;
    if (!check_types(request, shape, problem, error))
        return false;
    if (!problem->embedding || problem->embedding->pixels)
        return true;
    return (!request->input_ids.rank ||
            check_below(&request->input_ids, "/input_ids", shape->vocabulary, "token id", error)) &&
           check_positions(request, shape, problem, error);
}
