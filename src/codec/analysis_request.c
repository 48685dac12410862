/* The members of an analysis request, and the check of posted maps. The request's memory is the caller's arena; entered
 * by whichever thread decodes it. */
#include "codec/analysis_request.h"

#include "analysis/head_maps_check.h"
#include "codec/analysis_members.h"
#include "codec/position_lists.h"
#include "json/reader.h"

#include <stdio.h>

#define MAP_AXES 5

bool analysis_read_attention(struct json_reader *r, void *context, struct error *error)
{
    struct analysis_decoding *decoding = context;
    return tensor_read_json(r, decoding->forward.arena, &decoding->request->attention, MAP_AXES, error);
}

bool analysis_read_raw_attention(const struct raw_tensor *raw, const char *pointer, void *context, struct error *error)
{
    struct analysis_decoding *decoding = context;
    struct tensor *attention = &decoding->request->attention;
    if (!raw_tensor_read(raw, pointer, MAP_AXES, decoding->forward.arena, attention, error))
        return false;
    decoding->request->forward.points_into_body |= (const void *)attention->data == raw->data;
    return true;
}

bool analysis_read_renormalize(struct json_reader *r, void *context, struct error *error)
{
    struct analysis_decoding *decoding = context;
    return json_read_bool(r, &decoding->request->renormalize, error);
}

bool analysis_read_exclude(struct json_reader *r, void *context, struct error *error)
{
    struct analysis_decoding *decoding = context;
    decoding->request->has_exclude = true;
    return position_lists_read(r, decoding->forward.arena, &decoding->request->exclude, error);
}

bool analysis_read_words(struct json_reader *r, void *context, struct error *error)
{
    struct analysis_decoding *decoding = context;
    decoding->request->has_words = true;
    return word_lists_read(r, decoding->forward.arena, &decoding->request->words, error);
}

/* Beside posted maps stands nothing of a forward but what says which keys were allowed. */
static bool check_alone(const struct forward_request *forward, struct error *error)
{
    const struct {
        const char *name;
        bool there;
    } others[] = {
        {"input", forward->input.rank > 0},
        {"query", forward->query.rank > 0},
        {"key", forward->key.rank > 0},
        {"value", forward->value.rank > 0},
        {"bias", forward->bias.rank > 0},
        {"head_mask", forward->head_mask.rank > 0},
        {"weights", forward->weights != NULL},
        {"position_ids", forward->position_ids.rank > 0},
        {"input_ids", forward->input_ids.rank > 0},
        {"token_type_ids", forward->token_type_ids.rank > 0},
        {"inputs_embeds", forward->inputs_embeds.rank > 0},
        {"pixel_values", forward->pixel_values.rank > 0},
    };
    const unsigned named = forward->rules ? forward->rules->asked.named : 0;
    char pointer[16];
    const char *other = NULL;
    for (unsigned i = 0; i < RULE_COUNT && !other; i++)
        other = named >> i & 1 ? rules_name((enum rule_index)i) : NULL;
    for (size_t i = 0; i < sizeof others / sizeof *others && !other; i++)
        other = others[i].there ? others[i].name : NULL;
    if (!other)
        return true;
    snprintf(pointer, sizeof pointer, "/%s", other);
    return error_set_at(error, ERROR_INVALID, pointer,
                        "attention and %s cannot stand together: send maps to be measured as they are, or what "
                        "a forward takes to have them computed",
                        other);
}

static bool check_complete(struct analysis_request *request, struct error *error)
{
    if (analysis_request_has_maps(request))
        return check_alone(&request->forward, error);
    if (request->renormalize)
        return error_set_at(error, ERROR_INVALID, "/renormalize",
                            "renormalize is for attention maps that are sent: those of a forward sum to 1");
    const struct forward_request *forward = &request->forward;
    if (forward->input.rank + forward->input_ids.rank + forward->inputs_embeds.rank + forward->pixel_values.rank +
            forward->query.rank + forward->key.rank + forward->value.rank ==
        0)
        return error_set_at(error, ERROR_INVALID, "",
                            "the member attention is missing, or what it is to be computed from: input, input_ids, "
                            "inputs_embeds or pixel_values, or query and key");
    return forward_request_complete(&request->forward, error);
}

bool analysis_read_body(const struct request_body *body, const struct request_member *list, size_t count,
                        struct analysis_decoding *context, struct error *error)
{
    struct arena *arena = context->forward.arena;
    const size_t used = arena->used;
    struct request_members members = {.list = list, .count = count, .context = context};
    if (request_body_read(body, &members, error) && check_complete(context->request, error))
        return true;
    arena_rewind(arena, used);
    return false;
}

bool analysis_request_check_maps(const struct analysis_request *request, struct forward_input *rule,
                                 struct maps_extent *extent, struct error *error)
{
    const struct tensor *maps = &request->attention;
    char shape[TENSOR_SHAPE_TEXT_BYTES];
    tensor_shape_text(maps->shape, maps->rank, shape, sizeof shape);
    if (maps->rank < 3)
        return error_set_at(error, ERROR_INVALID, "/attention",
                            "the rank is %u (shape %s), expected 3 ([heads, queries, keys]), 4 ([batch, heads, "
                            "queries, keys]) or 5 ([batch, layers, heads, tokens, tokens])",
                            maps->rank, shape);
    const size_t *extents = maps->shape + (maps->rank - 3); /* [heads, queries, keys] */
    if (maps->rank == 5 && extents[1] != extents[2])
        return error_set_at(error, ERROR_INVALID, "/attention",
                            "the shape is %s, and maps of many layers are of self-attention: expected as many queries "
                            "as keys",
                            shape);
    struct forward_input made = {.batch = maps->rank > 3 ? maps->shape[0] : 1,
                                 .query_length = extents[1],
                                 .key_length = extents[2],
                                 .rank2 = maps->rank == 3,
                                 .self_attention = extents[1] == extents[2],
                                 .causal = request->forward.causal};
    if (!forward_check_mask(&request->forward.attention_mask, &made, error) ||
        !forward_check_include_heads(&request->forward, extents[0], error) ||
        !forward_check_include_layers(&request->forward, maps->rank == 5 ? maps->shape[1] : 1, error))
        return false;
    *rule = made;
    *extent = (struct maps_extent){maps->rank == 5 ? forward_request_layers(&request->forward, maps->shape[1]) : 0,
                                   extents[0]};
    return true;
}

double analysis_request_tolerance(const struct analysis_request *request)
{
    if (request->renormalize)
        return HEAD_MAPS_TOLERANCE_RENORMALIZE;
    return dtype_bytes(request->attention.dtype) == 2 ? HEAD_MAPS_TOLERANCE_16_BIT : HEAD_MAPS_TOLERANCE;
}

struct head_maps analysis_request_maps(const struct analysis_request *request, const struct forward_input *rule,
                                       const float *weights, const struct maps_extent *extent)
{
    const bool posted = analysis_request_has_maps(request), some = posted && request->forward.include_layers;
    return (struct head_maps){.rule = rule,
                              .weights = weights,
                              .num_heads = extent->num_heads,
                              .num_layers =
                                  some && extent->num_layers ? request->attention.shape[1] : extent->num_layers,
                              .posted = posted,
                              .renormalize = request->renormalize,
                              .words = request->has_words ? &request->words : NULL,
                              .exclude = request->has_exclude ? &request->exclude : NULL};
}
