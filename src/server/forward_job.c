/* The course of a job that runs a forward: see forward_job.h. forward_job_begin is entered by polling threads; from the
 * queue on a worker has the job. What can never fit the budget is 413, what does not fit now 429. */
#include "server/forward_job.h"

#include "base/clock.h"
#include "base/size.h"
#include "server/answer_stream.h"
#include "server/forward_batch.h"
#include "server/usage.h"

#include <math.h>
#include <string.h>

/* Larger bodies are decoded by a worker: this much text takes a polling thread, which has other connections too, about
 * 0.1 ms. */
#define DECODE_AT_ONCE_BYTES ((size_t)64 << 10)

/* The same for tensors given as bytes, and for what their header may take, which is 5 KiB of text. */
#define DECODE_AT_ONCE_RAW_BYTES    ((size_t)512 << 10)
#define DECODE_AT_ONCE_HEADER_BYTES ((size_t)512 << 10)

/* What a byte of answer is worth beside the computation: text is written at about 2 ns a byte, base64 at a fifth of
 * that, and what stays as it is at the speed of memory. */
#define FLOP_PER_TEXT_BYTE   200.0
#define FLOP_PER_BASE64_BYTE 40.0
#define FLOP_PER_RAW_BYTE    10.0 /* where it is copied once */

/* Weights are read once for any number of rows, at some 25 GB/s from memory. */
#define FLOP_PER_WEIGHT_BYTE 4.0

/* About 0.1 ms: to suspend a connection, wake a worker and come back costs a third of that, and a polling thread has
 * other connections to serve. */
#define AT_ONCE_FLOP 1e7

/* Live sums of up to 16 heads, which lie behind what was decoded. */
#define LIVE_ROOM_BYTES ((size_t)8 << 10)

/* Up to this the text lies beside what it is composed of. */
#define SHORT_ANSWER_BYTES ((size_t)1 << 20)

double forward_job_stage_us(struct forward_job *job, uint64_t now)
{
    const uint64_t began = job->stage_began;
    job->stage_began = now;
    return (double)(now - began) / 1e3;
}

void forward_job_leave_dropout_out(struct forward_job *job, struct attention_rules *rules)
{
    if (!job->input.rules || job->input.rules->dropout.samples == 0)
        return;
    *rules = *job->input.rules;
    rules->dropout.samples = 0;
    job->input.rules = rules;
}

bool forward_job_too_large(struct error *error)
{
    return error_set(error, ERROR_TOO_LARGE, "the working memory of this request is larger than any memory");
}

bool forward_job_take_results(struct forward_job *job, size_t bytes, struct error *error)
{
    if (!request_take_memory(job->request, bytes, true, &job->results, error))
        return false;
    job->results_charged = bytes;
    return true;
}

bool forward_job_take_scratch(struct forward_job *job, bool counted, struct forward_scratch *scratch,
                              struct error *error)
{
    return counted ? request_take_memory(job->request, scratch->bytes, true, &scratch->arena, error)
                   : forward_job_too_large(error);
}

void forward_job_give_scratch(struct forward_job *job, struct forward_scratch *scratch)
{
    request_give_memory(job->request, scratch->bytes, &scratch->arena);
}

bool forward_job_check_flop(const struct forward_job *job, struct error *error)
{
    const double limit = job->request->generation->config->limits.max_request_gflop, gflop = job->flop / 1e9;
    if (gflop > limit)
        return error_set(error, ERROR_TOO_LARGE,
                         "this is %.6g Gflop of work, over limits.max_request_gflop (%g); ask for less at once", gflop,
                         limit);
    return true;
}

bool forward_job_check_answer(const struct forward_job *job, bool counted, const char *remedy, struct error *error)
{
    const struct config *config = job->request->generation->config;
    if (!counted)
        return error_set(error, ERROR_TOO_LARGE, "the answer is larger than any memory");
    if (job->answer_bytes > (size_t)config->limits.max_response_bytes)
        return error_set(error, ERROR_TOO_LARGE,
                         "the answer would take up to %zu bytes, over limits.max_response_bytes (%lld); %s",
                         job->answer_bytes, (long long)config->limits.max_response_bytes, remedy);
    return true;
}

/* ---- from the body to a job that can be computed */

/* The form of the body is what its Content-Type said. */
static struct request_body body_of(const struct request *request)
{
    const enum body_form form = request->content == MEDIA_SAFETENSORS ? BODY_SAFETENSORS : BODY_JSON;
    return (struct request_body){form, request->body.base, request->body_length};
}

/* So short that all it can decode to is little. */
static bool is_short(const struct request_body *body)
{
    return body->length <= DECODE_AT_ONCE_BYTES;
}

static bool decoded_at_once(const struct request *request)
{
    const struct request_body body = body_of(request);
    if (body.form == BODY_SAFETENSORS)
        return body.length <= DECODE_AT_ONCE_RAW_BYTES && request_body_heap_bytes(&body) <= DECODE_AT_ONCE_HEADER_BYTES;
    const size_t json = size_min(request->json_length, body.length);
    return json <= DECODE_AT_ONCE_BYTES && body.length - json <= DECODE_AT_ONCE_RAW_BYTES;
}

/* What a long body may decode to is far more than most do: it is decoded into what its kind lets expect first. Text has
 * a number for each comma, as its middle shows; what has few is base64; and bytes stay where they are. */
static size_t expected_decoded_bytes(const struct request_body *body, size_t json_length)
{
    enum { SAMPLE = 4096 };
    if (body->form == BODY_SAFETENSORS || json_length < body->length)
        return body->length / 64 + DECODE_AT_ONCE_BYTES;
    const char *sample = body->data + (body->length - SAMPLE) / 2;
    size_t commas = 0;
    for (size_t i = 0; i < SAMPLE; i++)
        commas += sample[i] == ',';
    const size_t per_sample = commas > SAMPLE / 64 ? (commas + commas / 8) * sizeof(float) : SAMPLE - SAMPLE / 4;
    return body->length / SAMPLE * per_sample + DECODE_AT_ONCE_BYTES;
}

/* The job, with memory for all that a short body can decode to. */
static struct forward_job *create(struct request *request, const struct forward_route *route, struct error *error)
{
    const struct request_body body = body_of(request);
    size_t bytes = 0;
    if (!arena_need(&bytes, route->job_bytes) ||
        (is_short(&body) && (!size_add(bytes, forward_request_decoded_bytes(body.length), &bytes) ||
                             !size_add(bytes, LIVE_ROOM_BYTES, &bytes))) ||
        !size_add(bytes, request_body_heap_bytes(&body), &bytes)) /* charged, though it is taken elsewhere */
        bytes = SIZE_MAX;
    if (!request_take_memory(request, bytes, false, &request->work, error))
        return NULL;
    struct forward_job *job = arena_take(&request->work, route->job_bytes);
    memset(job, 0, route->job_bytes);
    job->route = route;
    job->request = request;
    job->work_charged = bytes;
    job->stage_began = request->body_came;
    return job;
}

/* Decodes the body with `bytes` of memory. */
static bool decode_into(struct forward_job *job, const struct request_body *body, size_t bytes, struct error *error)
{
    struct request *request = job->request;
    if (!request_take_memory(request, bytes, false, &request->decoded, error))
        return false;
    if (!job->route->decode(job, body, &request->decoded, error)) {
        request_give_memory(request, bytes, &request->decoded);
        return false;
    }
    request_discharge(request, bytes - size_min(bytes, request->decoded.used));
    job->work_charged += size_min(bytes, request->decoded.used);
    return true;
}

static bool decode_body(struct forward_job *job, struct error *error)
{
    struct request *request = job->request;
    const struct request_body body = body_of(request);
    if (is_short(&body)) {
        if (!job->route->decode(job, &body, &request->work, error))
            return false;
        request_discharge(request, job->work_charged - request->work.used); /* what is not touched takes no memory */
        job->work_charged = request->work.used;
        return true;
    }
    const size_t most = forward_request_decoded_bytes(body.length),
                 expected = size_min(expected_decoded_bytes(&body, request->json_length), most);
    if (decode_into(job, &body, expected, error))
        return true;
    return error->code == ERROR_OUT_OF_MEMORY && expected < most && decode_into(job, &body, most, error);
}

static bool decode(struct forward_job *job, struct error *error)
{
    struct request *request = job->request;
    if (!decode_body(job, error))
        return false;
    if (!job->asked->points_into_body)
        request_drop_body(request);
    if (job->posted)
        return true;
    job->set = registry_find(&request->generation->registry, job->asked->weights, error);
    if (!job->set)
        return false;
    usage_begin(request, job->set);
    return true;
}

/* Whether stored numbers say which heads are kept. */
static bool goes_by_importance(const struct forward_job *job)
{
    const struct forward_rules *own = job->asked->rules;
    return rules_keep_heads_by(own && own->asked.named & RULE_KEEP_HEADS ? &own->asked.rules
                                                                         : job->set->rules.defaults.rules,
                               KEEP_BY_IMPORTANCE);
}

/* What the set does by default, as it is now: that stays the job's, whatever is stored meanwhile. */
static struct rules_defaults defaults_of(struct forward_job *job)
{
    struct rules_defaults defaults = job->set->rules.defaults;
    if (!goes_by_importance(job))
        return defaults;
    job->importance = importance_store_hold(job->set->rules.importance);
    if (!job->importance)
        return defaults;
    defaults.importance = job->importance->values;
    if (defaults.rules)
        defaults.rules = &job->importance->rules;
    return defaults;
}

static void release_importance(struct forward_job *job)
{
    head_importance_release(job->importance);
    job->importance = NULL;
}

static bool check(struct forward_job *job, struct error *error)
{
    if (job->posted)
        return true;
    const struct rules_defaults defaults = defaults_of(job);
    if (forward_request_check(job->asked, &job->set->shape, &defaults, &job->input, error) &&
        (!job->route->compute || forward_request_check_maps(&job->input, error))) {
        job->layer = weight_set_layer(job->set, job->input.rules);
        job->model = weight_set_model_under(job->set, job->input.rules);
        job->shape = job->model ? &model_shape_of(job->model)->attention : attention_layer_shape(job->layer);
        return true;
    }
    if (job->route->place)
        job->route->place(job, error);
    return false;
}

bool forward_job_prepare(struct forward_job *job, struct error *error)
{
    struct timing *timing = &job->request->timing;
    if (!timing->parse_began) /* decompressing may have come before */
        timing->parse_began = job->stage_began;
    job->prepared = decode(job, error) && check(job, error) && job->route->within_limits(job, error);
    if (!job->prepared)
        release_importance(job);
    timing->sequences = job->input.batch;
    timing->tokens = job->input.batch * job->input.query_length;
    timing->parse_us += forward_job_stage_us(job, clock_ns());
    return job->prepared;
}

/* A body that has not been looked into may hold anything. */
double forward_job_expected_flop(const struct forward_job *job)
{
    if (!job->prepared)
        return INFINITY;
    static const double by_encoding[] = {[ENCODING_JSON] = FLOP_PER_TEXT_BYTE,
                                         [ENCODING_BASE64] = FLOP_PER_BASE64_BYTE,
                                         [ENCODING_SAFETENSORS] = FLOP_PER_RAW_BYTE};
    const double per_byte = job->raw_answer ? FLOP_PER_RAW_BYTE : by_encoding[job->asked->encoding];
    const size_t weight_bytes = job->layer   ? attention_layer_bytes(job->layer)
                                : job->model ? model_bytes(job->model)
                                             : 0;
    return job->flop + per_byte * (double)job->answer_bytes + content_coding_flop(job->request, job->answer_bytes) +
           FLOP_PER_WEIGHT_BYTE * (double)weight_bytes;
}

/* What is computed together has one weight set, and the same rules: the set's own; of a model, tokens to embed or none.
 * A bare layer's hidden states are made another way. NULL: it is computed alone. */
static const void *batch_key_of(const struct forward_job *job)
{
    if (job->asked->rules || job->asked->compare)
        return NULL;
    if (!job->model && job->asked->returned & RETURN_HIDDEN_STATES)
        return NULL;
    if (job->input.embedding)
        return job->importance ? NULL : job->model;
    return job->input.rules ? (const void *)job->input.rules : job->set;
}

void forward_job_begin(struct request *request, const struct forward_route *route)
{
    struct error error;
    request_seen(request);
    struct forward_job *job = create(request, route, &error);
    if (!job || (decoded_at_once(request) && !forward_job_prepare(job, &error))) {
        request_fail(request, &error);
        return;
    }
    request->job.run = forward_batch_run;
    request->job.flop = forward_job_expected_flop(job);
    if (job->prepared && !route->compute && (request->job.batch_key = batch_key_of(job))) {
        request->job.batch_rows = job->input.batch * job->input.query_length;
    }
    if (request->job.flop > AT_ONCE_FLOP || !pool_run_here(request->server->parts.pool, &request->job))
        request_submit(request);
}

/* ---- the end */

/* Memory for the pieces, with room for the text where that is short. */
static bool composing_bytes(const struct forward_job *job, size_t *bytes)
{
    const size_t text = job->answer_bytes <= SHORT_ANSWER_BYTES ? job->answer_bytes : 0;
    *bytes = 0;
    if (job->route->compose)
        *bytes = job->route->compose_bytes(job);
    else if (!answer_pieces_need(bytes, 1, job->answer_bytes))
        return false;
    return size_add(*bytes, ARENA_ALIGNMENT, bytes) && arena_need(bytes, sizeof(struct answer_pieces)) &&
           arena_need(bytes, text);
}

/* Makes the answer of a route that encodes it as one text. */
static bool compose_text(const struct forward_job *job, struct arena *memory, struct answer_pieces *pieces,
                         struct error *error)
{
    return (answer_pieces_init(pieces, memory, 1, job->answer_bytes) || error_out_of_memory(error)) &&
           job->route->encode(job, &pieces->literal, error) &&
           (answer_pieces_end(pieces) || error_out_of_memory(error));
}

/* Fills request->answer, whose making begins at `now`. */
static bool compose(struct forward_job *job, uint64_t now, const struct parallel *parallel, struct error *error)
{
    struct request *request = job->request;
    struct arena memory = {0};
    struct answer_pieces *pieces;
    size_t bytes;
    bool keep;
    request->timing.encode_began = now;
    if (!composing_bytes(job, &bytes))
        return error_out_of_memory(error);
    if (!request_take_memory(request, bytes, false, &memory, error))
        return false;
    pieces = arena_take(&memory, sizeof *pieces);
    if (!(job->route->compose ? job->route->compose(job, parallel, &memory, pieces, error)
                              : compose_text(job, &memory, pieces, error)) ||
        !answer_from_pieces(request, pieces, now, &memory, parallel, &keep, error)) {
        request_give_memory(request, bytes, &memory);
        return false;
    }
    request->answer.content_type = job->json_length                               ? "application/octet-stream"
                                   : job->asked->encoding == ENCODING_SAFETENSORS ? media_type_name(MEDIA_SAFETENSORS)
                                                                                  : media_type_name(MEDIA_JSON);
    request->answer.json_length = job->json_length;
    if (request->answer.form == ANSWER_WHOLE) {
        request->timing.encode_us = answer_written_us(&request->answer);
        request->timing.encoded_whole = true;
    }
    request_discharge(request, bytes - memory.used);
    request_hold(request, &memory);
    if (keep) {
        request_hold(request, &job->results);
        job->results_charged = 0;
    }
    return true;
}

void forward_job_finish(struct forward_job *job, const struct parallel *parallel)
{
    struct request *request = job->request;
    struct error *error = &job->error;
    /* Not queued, it was alone, and its last stage ended just now. */
    const uint64_t now = request->submitted ? clock_ns() : job->stage_began;
    const bool succeeded = !job->failed && request_lapsed(request, now, request->submitted != 0, error) == ERROR_NONE &&
                           compose(job, now, parallel, error);
    if (!succeeded)
        request_fail(request, error);
    live_feed_end(job, succeeded);
    release_importance(job);
    /* Only the answer is held from here on. */
    request_give_memory(request, job->results_charged, &job->results);
    request_drop_body(request);
    request_discharge(request, job->work_charged);
    request_drop_work(request); /* and with it *job */
    content_coding_shorten_answer(request);
    struct answer_stream *stream = request->answer.stream;
    if (request->submitted)
        request_resume(request);
    if (stream)
        answer_stream_fill(stream, parallel);
}
