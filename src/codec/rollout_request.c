/* The members of a /v1/heads/rollout request beside those of a forward and of posted maps. Entered by whichever thread
 * decodes it. */
#include "codec/rollout_request.h"

#include "codec/analysis_members.h"
#include "codec/choice.h"
#include "json/reader.h"

struct rollout_decoding {
    struct analysis_decoding analysis;
    struct rollout_request *request;
};

static bool read_head_fusion(struct json_reader *r, void *context, struct error *error)
{
    struct rollout_decoding *decoding = context;
    const char *names[ROLLOUT_FUSION_COUNT];
    unsigned fusion;
    for (unsigned i = 0; i < ROLLOUT_FUSION_COUNT; i++)
        names[i] = rollout_fusion_name((enum rollout_fusion)i);
    if (!choice_read(r, "head_fusion", names, ROLLOUT_FUSION_COUNT, &fusion, error))
        return false;
    decoding->request->fusion = (enum rollout_fusion)fusion;
    return true;
}

static bool read_per_head(struct json_reader *r, void *context, struct error *error)
{
    struct rollout_decoding *decoding = context;
    return json_read_bool(r, &decoding->request->per_head, error);
}

/* clang-format off */
static const struct request_member MEMBERS[] = {
    FORWARD_MEMBER_ENTRIES
    {"attention", analysis_read_attention, analysis_read_raw_attention},
    {"renormalize", analysis_read_renormalize, NULL},
    {"decimals", forward_read_decimals, NULL},
    {"encoding", forward_read_encoding, NULL},
    {"head_fusion", read_head_fusion, NULL},
    {"per_head", read_per_head, NULL},
};
/* clang-format on */

bool rollout_request_decode(const struct request_body *body, struct arena *arena, struct rollout_request *request,
                            struct error *error)
{
    struct rollout_request made = {.analysis.forward = FORWARD_REQUEST_DEFAULTS};
    struct rollout_decoding decoding = {{{&made.analysis.forward, arena}, &made.analysis}, &made};
    bool right = analysis_read_body(body, MEMBERS, sizeof MEMBERS / sizeof *MEMBERS, &decoding.analysis, error);
    *request = right ? made : (struct rollout_request){0};
    return right;
}

bool rollout_request_check_maps(const struct rollout_request *request, struct forward_input *rule,
                                struct maps_extent *extent, struct error *error)
{
    const struct tensor *maps = &request->analysis.attention;
    const struct forward_request *forward = &request->analysis.forward;
    char shape[TENSOR_SHAPE_TEXT_BYTES];
    tensor_shape_text(maps->shape, maps->rank, shape, sizeof shape);
    if (maps->rank != 4 && maps->rank != 5)
        return error_set_at(error, ERROR_INVALID, "/attention",
                            "the rank is %u (shape %s), expected 4 ([layers, heads, tokens, tokens]) or 5 ([batch, "
                            "layers, heads, tokens, tokens])",
                            maps->rank, shape);
    const size_t *extents = maps->shape + (maps->rank - 4); /* [layers, heads, queries, keys] */
    if (extents[2] != extents[3])
        return error_set_at(error, ERROR_INVALID, "/attention",
                            "the shape is %s, and rollout goes from token to token: expected as many queries as keys",
                            shape);
    struct forward_input made = {.batch = maps->rank == 5 ? maps->shape[0] : 1,
                                 .query_length = extents[2],
                                 .key_length = extents[3],
                                 .rank2 = maps->rank == 4,
                                 .self_attention = true,
                                 .causal = forward->causal};
    if (!forward_check_mask(&forward->attention_mask, &made, error))
        return false;
    *rule = made;
    *extent = (struct maps_extent){extents[0], extents[1]};
    return true;
}

bool rollout_request_check_input(const struct forward_input *input, struct error *error)
{
    return input->self_attention ||
           error_set_at(error, ERROR_INVALID, "/query",
                        "rollout goes from token to token, layer by layer, and the keys are other tokens than the "
                        "queries: send input");
}
