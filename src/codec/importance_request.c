/* The members of a /v1/heads/importance request beside those of a forward. Owns the request while it is decoded;
 * entered by whichever thread decodes it. */
#include "codec/importance_request.h"

#include "base/nearest.h"
#include "codec/forward_members.h"

#include <stdlib.h>
#include <string.h>

static bool read_method(struct json_reader *r, void *context, struct error *error)
{
    struct importance_request *request = context;
    const char *names[IMPORTANCE_METHOD_COUNT];
    unsigned method = 0;
    char *name;
    for (unsigned i = 0; i < IMPORTANCE_METHOD_COUNT; i++)
        names[i] = importance_method_name((enum importance_method)i);
    if (!json_read_string(r, &name, NULL, error))
        return false;
    while (method < IMPORTANCE_METHOD_COUNT && strcmp(names[method], name) != 0)
        method++;
    const bool known = method < IMPORTANCE_METHOD_COUNT;
    if (known) {
        request->method = (enum importance_method)method;
    } else {
        const char *meant = nearest_name(name, names, IMPORTANCE_METHOD_COUNT);
        json_error(r, error, ERROR_INVALID, "method \"%.64s\" is not one of zero, uniform, mean and norm%s%s%s", name,
                   meant ? "; did you mean \"" : "", meant ? meant : "", meant ? "\"?" : "");
    }
    free(name);
    return known;
}

static bool read_prune_plan(struct json_reader *r, void *context, struct error *error)
{
    struct importance_request *request = context;
    return json_read_bool(r, &request->prune_plan, error);
}

static bool read_tolerance(struct json_reader *r, void *context, struct error *error)
{
    struct importance_request *request = context;
    if (!json_read_double(r, &request->tolerance, error))
        return false;
    if (request->tolerance < 0)
        return json_error(r, error, ERROR_INVALID,
                          "the tolerance is %g, expected a number of at least 0: the relative change of the output",
                          request->tolerance);
    request->has_tolerance = true;
    return true;
}

static bool read_attention(struct json_reader *r, void *context, struct error *error)
{
    (void)context;
    return json_error(r, error, ERROR_INVALID,
                      "attention maps do not say what a head adds to the output: importance needs an input (or query "
                      "and key) in place of attention");
}

/* clang-format off */
static const struct json_member MEMBERS[] = {
    FORWARD_MEMBERS(FORWARD_MEMBER_ENTRY)
    {"method", read_method},
    {"prune_plan", read_prune_plan},
    {"tolerance", read_tolerance},
    {"attention", read_attention},
};
/* clang-format on */

bool importance_request_decode(const char *body, size_t length, struct importance_request *request, struct error *error)
{
    struct importance_request made = {.method = IMPORTANCE_ZERO};
    if (!forward_read_body(body, length, MEMBERS, sizeof MEMBERS / sizeof *MEMBERS, &made.forward, error))
        goto fail;
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
    importance_request_free(&made);
    *request = made;
    return false;
}

void importance_request_free(struct importance_request *request)
{
    if (!request)
        return;
    forward_request_free(&request->forward);
    *request = (struct importance_request){0};
}
