/* The members of a /v1/heads/stats request beside those of every analysis. Entered by whichever thread decodes it. */
#include "codec/stats_request.h"

#include "codec/analysis_members.h"
#include "json/reader.h"

struct stats_decoding {
    struct analysis_decoding analysis;
    struct stats_request *request;
};

static bool read_per_position(struct json_reader *r, void *context, struct error *error)
{
    struct stats_decoding *decoding = context;
    return json_read_bool(r, &decoding->request->per_position, error);
}

static bool read_stderr(struct json_reader *r, void *context, struct error *error)
{
    struct stats_decoding *decoding = context;
    return json_read_bool(r, &decoding->request->with_stderr, error);
}

/* clang-format off */
static const struct request_member MEMBERS[] = {
    ANALYSIS_MEMBER_ENTRIES
    {"include_layers", forward_read_include_layers, NULL},
    {"include_heads", forward_read_include_heads, NULL},
    {"per_position", read_per_position, NULL},
    {"stderr", read_stderr, NULL},
};
/* clang-format on */

bool stats_request_decode(const struct request_body *body, struct arena *arena, struct stats_request *request,
                          struct error *error)
{
    struct stats_request made = {0};
    struct stats_decoding decoding = {{{&made.analysis.forward, arena}, &made.analysis}, &made};
    bool right = analysis_read_body(body, MEMBERS, sizeof MEMBERS / sizeof *MEMBERS, &decoding.analysis, error);
    *request = right ? made : (struct stats_request){0};
    return right;
}
