/* The members of a /v1/heads/importance request beside those of a forward. The request's memory is the caller's
 * arena; entered by whichever thread decodes it. */
#include "codec/importance_request.h"

#include "codec/choice.h"
#include "codec/forward_members.h"
#include "json/reader.h"

struct importance_decoding {
    struct forward_decoding forward;
    struct importance_request *request;
};

static bool read_method(struct json_reader *r, void *context, struct error *error)
{
    struct importance_decoding *decoding = context;
    const char *names[IMPORTANCE_METHOD_COUNT];
    unsigned method;
    for (unsigned i = 0; i < IMPORTANCE_METHOD_COUNT; i++)
        names[i] = importance_method_name((enum importance_method)i);
    if (!choice_read(r, "method", names, IMPORTANCE_METHOD_COUNT, &method, error))
        return false;
    decoding->request->method = (enum importance_method)method;
    return true;
}

static bool read_at(struct json_reader *r, void *context, struct error *error)
{
    static const char *const names[] = {[IMPORTANCE_AT_LAYER] = "layer", [IMPORTANCE_AT_MODEL] = "model"};
    struct importance_decoding *decoding = context;
    unsigned at;
    if (!choice_read(r, "at", names, 2, &at, error))
        return false;
    decoding->request->at = (enum importance_at)at;
    return true;
}

static bool read_prune_plan(struct json_reader *r, void *context, struct error *error)
{
    struct importance_decoding *decoding = context;
    return json_read_bool(r, &decoding->request->prune_plan, error);
}

static bool read_tolerance(struct json_reader *r, void *context, struct error *error)
{
    struct importance_decoding *decoding = context;
    struct importance_request *request = decoding->request;
    if (!json_read_double(r, &request->tolerance, error))
        return false;
    if (request->tolerance < 0)
        return json_error(r, error, ERROR_INVALID,
                          "the tolerance is %g, expected a number of at least 0: the relative change of the output",
                          request->tolerance);
    request->has_tolerance = true;
    return true;
}

#define NO_MAPS                                                                                                        \
    "attention maps do not say what a head adds to the output: importance needs an input (or query and key) in place " \
    "of attention"

static bool read_attention(struct json_reader *r, void *context, struct error *error)
{
    (void)context;
    return json_error(r, error, ERROR_INVALID, NO_MAPS);
}

static bool read_raw_attention(const struct raw_tensor *raw, const char *pointer, void *context, struct error *error)
{
    (void)raw;
    (void)context;
    return error_set_at(error, ERROR_INVALID, pointer, NO_MAPS);
}

/* clang-format off */
static const struct request_member MEMBERS[] = {
    FORWARD_MEMBER_ENTRIES
    {"include_layers", forward_read_include_layers, NULL},
    {"method", read_method, NULL},
    {"at", read_at, NULL},
    {"prune_plan", read_prune_plan, NULL},
    {"tolerance", read_tolerance, NULL},
    {"attention", read_attention, read_raw_attention},
};
/* clang-format on */

bool importance_request_decode(const struct request_body *body, struct arena *arena, struct importance_request *request,
                               struct error *error)
{
    const size_t used = arena->used;
    struct importance_request made = {.method = IMPORTANCE_ZERO};
    struct importance_decoding decoding = {{&made.forward, arena}, &made};
    if (!forward_read_body(body, MEMBERS, sizeof MEMBERS / sizeof *MEMBERS, &decoding.forward, error))
        goto fail;
    if (made.at == IMPORTANCE_AT_MODEL && made.method != IMPORTANCE_ZERO) {
        error_set_at(error, ERROR_INVALID, "/method",
                     "the contribution to the model's output is measured by method zero only, and the method is %s: "
                     "leave one of the two out",
                     importance_method_name(made.method));
        goto fail;
    }
    if (made.at == IMPORTANCE_AT_MODEL && made.prune_plan) {
        error_set_at(error, ERROR_INVALID, "/prune_plan",
                     "what heads of several layers change together does not follow from what each changes: a prune "
                     "plan is of the heads of a layer, leave out at, or the plan");
        goto fail;
    }
    if (made.prune_plan && made.method != IMPORTANCE_ZERO) {
        error_set_at(error, ERROR_INVALID, "/prune_plan",
                     "a prune plan is of method zero only, and the method is %s: leave one of the two out",
                     importance_method_name(made.method));
        goto fail;
    }
    if (made.has_tolerance && !made.prune_plan) {
        error_set_at(error, ERROR_INVALID, "/tolerance",
                     "a tolerance says how much of the prune plan can go: send \"prune_plan\": true beside it");
        goto fail;
    }
    *request = made;
    return true;
fail:
    arena_rewind(arena, used);
    *request = (struct importance_request){0};
    return false;
}
