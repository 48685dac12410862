/* POST /v2/models/{model}/infer: a forward as the Open Inference Protocol asks for it. Its jobs are as those of
 * /v1/forward, and computed together with them. */
#include "server/endpoints.h"

#include "codec/oip_answer.h"
#include "codec/oip_request.h"
#include "server/forward.h"
#include "server/oip_model.h"
#include "server/usage.h"

#include <stdlib.h>
#include <string.h>

struct oip_call {
    struct forward_job job;
    struct oip_request asked;
};

static struct oip_call *call_of(struct forward_job *job)
{
    return (struct oip_call *)job; /* its first member */
}

static bool decode(struct forward_job *job, const struct request_body *body, struct arena *arena, struct error *error)
{
    struct oip_request *asked = &call_of(job)->asked;
    job->asked = &asked->forward;
    if (!oip_request_decode(body->data, body->length, job->request->json_length, arena, asked, error))
        return false;
    asked->forward.weights = job->request->parameters[0];
    return true;
}

static void place(const struct forward_job *job, struct error *error)
{
    oip_request_place(&((const struct oip_call *)job)->asked, error);
}

static bool within_limits(struct forward_job *job, struct error *error)
{
    struct oip_request *asked = &call_of(job)->asked;
    if (!oip_request_settle(asked, &job->input, error))
        return false;
    job->flop = forward_job_flop(job);
    job->raw_answer = oip_answer_is_raw(asked);
    return forward_job_check_flop(job, error) &&
           oip_answer_bytes(asked, job->shape, &job->input, &job->answer_bytes, error) &&
           forward_job_check_answer(
               job, true,
               "ask for less with outputs, include_layers, include_heads or top_k, take them as binary_data, or "
               "raise the setting",
               error);
}

static size_t compose_bytes(const struct forward_job *job)
{
    return oip_answer_memory(&((const struct oip_call *)job)->asked, job->shape, &job->input);
}

static bool compose(struct forward_job *job, const struct parallel *parallel, struct arena *arena,
                    struct answer_pieces *pieces, struct error *error)
{
    const struct oip_model model = {job->set->name, OIP_MODEL_VERSION, job->set->digest};
    return oip_answer_compose(&call_of(job)->asked, job->shape, &job->input, &job->result,
                              forward_job_approximation(job), &model, parallel, arena, pieces, &job->json_length,
                              error);
}

/* Before the body is read: which model, and where the JSON ends. */
bool oip_infer_accept(struct request *request, struct error *error)
{
    const struct header_lines *lines = &request->headers.lines[HEADER_INFERENCE_CONTENT_LENGTH];
    const char *sent = lines->first;
    if (!oip_model_find(request, error))
        return false;
    if (!sent)
        return true;
    if (lines->count > 1)
        return error_set(error, ERROR_BAD_FRAMING,
                         "%u Inference-Header-Content-Length headers; send one, so that it is certain where the JSON "
                         "ends",
                         lines->count);
    const size_t digits = strspn(sent, "0123456789");
    if (digits == 0 || digits > 18 || sent[digits + strspn(sent + digits, " \t")])
        return error_set(error, ERROR_INVALID,
                         "Inference-Header-Content-Length is \"%.40s\", expected how many bytes of the body are JSON",
                         sent);
    request->json_length = (size_t)strtoull(sent, NULL, 10);
    return true;
}

void oip_infer_handle(struct request *request)
{
    static const struct forward_route route = {
        .job_bytes = sizeof(struct oip_call),
        .decode = decode,
        .place = place,
        .within_limits = within_limits,
        .reserve = forward_reserve,
        .compose_bytes = compose_bytes,
        .compose = compose,
    };
    struct error error;
    const struct weight_set *set = oip_model_find(request, &error);
    if (!set) {
        request_fail(request, &error);
        return;
    }
    usage_begin(request, set); /* what cannot be decoded counts as well */
    forward_job_begin(request, &route);
}
