/* GET /v1/heads/similarity, stats, drift and state: what live sums say. A tag is compared where the request was read;
 * the sums are merged and written by a worker, unless that takes no time. */
#include "server/endpoints.h"

#include "base/clock.h"
#include "base/size.h"
#include "codec/live_state.h"
#include "server/context.h"
#include "server/live_query.h"
#include "server/live_sets.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Up to this a polling thread answers by itself, as for forwards. */
#define AT_ONCE_FLOP 1e7
/* A number printed, in the sense of forward_flop; and one merged, of which there are some ten for each. */
#define FLOP_PER_NUMBER 6000.0

#define ANY_PARAMETERS (1u << LIVE_PARAMETER_WEIGHTS | 1u << LIVE_PARAMETER_FORMAT)
#define NARROWING      (1u << LIVE_PARAMETER_HEADS | 1u << LIVE_PARAMETER_STATISTICS)

/* A GET on its way; in request->work. */
struct live_call {
    const struct live_document *document;
    struct live_query query;
    const struct weight_set *set;
    struct live_store *store; /* held while it is looked at; NULL: nothing is kept, and nothing has come */
};

/* What there is to read: the sums, and for drift those before the window. */
struct live_reading {
    const struct live_call *call;
    const char *instance;
    struct live_view view;
    const struct live_sums *baseline;
};

struct live_document {
    unsigned parameters; /* bits of live_parameter */
    bool drift;          /* it reads the window, and what was before it */
    /* How many bytes `write` may write, and the scratch that it needs. */
    bool (*bytes)(const struct live_reading *reading, size_t *bytes, size_t *scratch);
    void (*write)(const struct live_reading *reading, void *scratch, struct text *text);
};

/* ---- the documents */

static bool stats_bytes(const struct live_reading *r, size_t *bytes, size_t *scratch)
{
    *scratch = 0;
    return live_stats_bytes(&r->view, bytes);
}

static void stats_write(const struct live_reading *r, void *scratch, struct text *text)
{
    (void)scratch;
    live_stats_write(&r->view, text);
}

static bool similarity_bytes(const struct live_reading *r, size_t *bytes, size_t *scratch)
{
    return live_similarity_bytes(&r->view, &r->call->query.similarity, bytes, scratch);
}

static void similarity_write(const struct live_reading *r, void *scratch, struct text *text)
{
    live_similarity_write(&r->view, &r->call->query.similarity, scratch, text);
}

static bool drift_bytes(const struct live_reading *r, size_t *bytes, size_t *scratch)
{
    *scratch = 0;
    return live_drift_bytes(&r->view, bytes);
}

static void drift_write(const struct live_reading *r, void *scratch, struct text *text)
{
    (void)scratch;
    live_drift_write(&r->view, r->baseline, &r->call->query.drift, text);
}

static struct live_state state_of(const struct live_reading *r)
{
    const struct live_call *call = r->call;
    const struct live_view *view = &r->view;
    struct live_state state = {.weights = call->set->name, .window_s = view->window_s, .sums = *view->sums};
    snprintf(state.instance, sizeof state.instance, "%s", r->instance);
    snprintf(state.digest, sizeof state.digest, "%s", view->digest);
    live_date(view->since_ms, state.since);
    return state;
}

static bool state_bytes(const struct live_reading *r, size_t *bytes, size_t *scratch)
{
    const struct live_state state = state_of(r);
    *scratch = 0;
    return live_state_bytes(&state, bytes);
}

static void state_write(const struct live_reading *r, void *scratch, struct text *text)
{
    struct live_state state = state_of(r);
    (void)scratch;
    state.sample_rate = r->view.sample_rate;
    live_state_write(&state, text);
}

/* ---- tags */

static uint64_t mix(uint64_t hash, const void *bytes, size_t length)
{
    for (const unsigned char *at = bytes, *end = at + length; at < end; at++)
        hash = (hash ^ *at) * 1099511628211u; /* FNV-1a */
    return hash;
}

/* Of one server's run, one request target, one set of weights, and one state of the sums. */
static void tag_of(const struct request *request, const struct live_call *call, const struct live_stamp *stamp,
                   char etag[32])
{
    const char *instance = live_sets_instance(request->server->live);
    uint64_t hash = mix(14695981039346656037u, instance, strlen(instance));
    hash = mix(hash, request->target, strlen(request->target));
    hash = mix(hash, call->set->digest, strlen(call->set->digest));
    snprintf(etag, 32, "%016" PRIx64 "%04" PRIx64, mix(hash, stamp, sizeof *stamp), stamp->added & 0xffff);
}

static struct live_stamp stamp_now(const struct live_call *call)
{
    return call->store ? live_store_stamp(call->store, clock_ns()) : (struct live_stamp){0};
}

/* ---- the job */

/* The memory of a reading: the sums, those of the baseline, and what writing needs. */
static bool take_sums(const struct live_call *call, struct arena *arena, struct live_sums *sums)
{
    const struct live_shape shape = live_sets_shape(call->set);
    size_t bytes;
    live_sums_bytes(shape, &bytes); /* it did not overflow when it was counted */
    void *memory = arena_take(arena, bytes);
    if (memory)
        live_sums_init(sums, shape, memory);
    return memory;
}

static void read_part(const struct request *request, const struct live_call *call, const struct live_part *part,
                      struct live_sums *sums, struct live_stamp *stamp, uint64_t *since_ms)
{
    uint64_t since = 0;
    *stamp = (struct live_stamp){0};
    if (call->store)
        live_store_read(call->store, part, clock_ns(), sums, stamp, &since);
    *since_ms = live_sets_epoch_ms(request->server->live, since);
}

static bool write_document(struct request *request, const struct live_reading *reading, struct live_stamp stamp,
                           struct error *error)
{
    const struct live_document *document = reading->call->document;
    struct memory_budget *budget = request->server->parts.budget;
    struct arena memory = {0};
    struct text text = {0};
    size_t bytes, scratch;
    char etag[32];
    if (!document->bytes(reading, &bytes, &scratch))
        return error_out_of_memory(error);
    if (!live_query_check_answer(request->generation->config, bytes, error) ||
        !request_take_memory(request, scratch, true, &memory, error))
        return false;
    if (!budget_take(budget, &request->share, bytes, error)) { /* until the request ends, or more is not needed */
        request_give_memory(request, scratch, &memory);
        return false;
    }
    document->write(reading, memory.base, &text);
    request_give_memory(request, scratch, &memory);
    if (text.failed) {
        text_free(&text);
        return error_out_of_memory(error);
    }
    request_discharge(request, bytes - size_min(bytes, text.length));
    tag_of(request, reading->call, &stamp, etag);
    request_succeed_tagged(request, "application/json", text.data, text.length, etag);
    return true;
}

static bool answer(struct request *request, const struct live_call *call, struct error *error)
{
    const struct live_query *query = &call->query;
    const struct config *config = request->generation->config;
    struct live_sums sums, baseline;
    struct live_stamp stamp, later;
    struct arena memory = {0};
    size_t one, bytes = 0;
    uint64_t ignored;
    const unsigned slices = call->document->drift ? LIVE_SLICES : query->slices;
    const struct live_part part = {slices ? LIVE_WINDOW : LIVE_ALL, slices}, before = {LIVE_BASELINE, 0};
    if (!live_sums_bytes(live_sets_shape(call->set), &one) || !arena_need(&bytes, one) || !arena_need(&bytes, one))
        return error_out_of_memory(error);
    if (!request_take_memory(request, bytes, false, &memory, error))
        return false;
    bool done = take_sums(call, &memory, &sums) && take_sums(call, &memory, &baseline);
    if (!done) {
        error_out_of_memory(error);
    } else {
        struct live_reading reading = {.call = call,
                                       .instance = live_sets_instance(request->server->live),
                                       .view = live_view_of(call->set->name, call->set->digest, &sums),
                                       .baseline = &baseline};
        struct live_view *view = &reading.view;
        do { /* both sides of a drift are of the same moment */
            live_sums_clear(&sums);
            live_sums_clear(&baseline);
            read_part(request, call, &part, &sums, &stamp, &view->since_ms);
            later = stamp;
            if (call->document->drift)
                read_part(request, call, &before, &baseline, &later, &ignored);
        } while (later.slice != stamp.slice || later.resets != stamp.resets);
        view->sample_rate = config->live.sample_rate;
        view->window_s = slices ? config->live.window_s / LIVE_SLICES * slices : 0;
        view->rows = query->rows;
        memcpy(view->statistics, query->statistics, sizeof view->statistics);
        if (query->heads) {
            view->heads = query->heads;
            view->n_heads = query->n_heads;
        }
        done = write_document(request, &reading, stamp, error);
    }
    request_give_memory(request, bytes, &memory);
    return done;
}

static bool find_and_answer(struct request *request, struct live_call *call, struct error *error)
{
    call->store = live_sets_find(request->server->live, call->set, NULL);
    const bool answered = answer(request, call, error);
    live_store_release(call->store);
    return answered;
}

static void run(struct job *job, enum job_end end)
{
    struct request *request = request_of_job(job);
    struct live_call *call = (struct live_call *)request->work.base;
    struct error error;
    if (!request_job_begins(request, end, &error) || !find_and_answer(request, call, &error))
        request_fail(request, &error);
    request_drop_work(request); /* and with it *call; what it was charged is given back when the request ends */
    content_coding_shorten_answer(request);
    if (request->submitted)
        request_resume(request);
}

/* ---- the request */

static bool find(struct request *request, struct live_call *call, struct error *error)
{
    const struct config *config = request->generation->config;
    const char *name = call->query.weights;
    bool replaced;
    call->set = registry_find(&request->generation->registry, *name ? name : NULL, error);
    error->has_pointer = false; /* the name stands in the query, not in a document */
    if (!call->set || !live_query_check_heads(&call->query, call->set->shape.num_heads, error))
        return false;
    request->weights = call->set->name;
    call->store = live_sets_find(request->server->live, call->set, &replaced);
    if (call->store || replaced || config->live.sample_rate == 0)
        return true;
    return error_set(error, ERROR_INVALID,
                     "weight set \"%s\" keeps no live statistics: with %zu heads it is over live.max_heads (%lld), or "
                     "limits.memory_budget_bytes has no room for them",
                     call->set->name, call->set->shape.num_heads, (long long)config->live.max_heads);
}

/* Answers 304 where that is right. */
static bool is_known(struct request *request, const struct live_call *call)
{
    const struct live_stamp stamp = stamp_now(call);
    char etag[32];
    tag_of(request, call, &stamp, etag);
    return request_not_modified(request, etag);
}

static struct live_call *create(struct request *request, const struct live_document *document, struct error *error)
{
    const size_t heads = live_query_heads(request->target) * sizeof(uint32_t);
    struct live_call *call;
    size_t bytes = 0;
    if (!arena_need(&bytes, sizeof *call) || !arena_need(&bytes, heads) ||
        !request_take_memory(request, bytes, false, &request->work, error))
        return NULL;
    call = arena_take(&request->work, sizeof *call);
    *call = (struct live_call){.document = document};
    return live_query_read(request->target, document->parameters, request->generation->config,
                           arena_take(&request->work, heads), &call->query, error)
               ? call
               : NULL;
}

static void handle(struct request *request, const struct live_document *document)
{
    struct error error;
    struct live_call *call = create(request, document, &error);
    if (!call || !find(request, call, &error)) {
        request_fail(request, &error);
        return;
    }
    const bool known = is_known(request, call);
    live_store_release(call->store);
    call->store = NULL; /* the job may never come to run */
    if (known)
        return;
    const double heads = (double)call->set->shape.num_heads;
    request->job.run = run;
    request->job.flop = FLOP_PER_NUMBER * (double)call->set->num_layers * heads * (heads + 32);
    if (request->job.flop > AT_ONCE_FLOP || !pool_run_here(request->server->parts.pool, &request->job))
        request_submit(request);
}

void live_stats_handle(struct request *request)
{
    static const struct live_document document = {ANY_PARAMETERS | 1u << LIVE_PARAMETER_WINDOW | NARROWING, false,
                                                  stats_bytes, stats_write};
    handle(request, &document);
}

void live_similarity_handle(struct request *request)
{
    static const struct live_document document = {ANY_PARAMETERS | 1u << LIVE_PARAMETER_WINDOW |
                                                      1u << LIVE_PARAMETER_METRIC | 1u << LIVE_PARAMETER_THRESHOLD |
                                                      1u << LIVE_PARAMETER_MAX_PAIRS,
                                                  false, similarity_bytes, similarity_write};
    handle(request, &document);
}

void live_drift_handle(struct request *request)
{
    static const struct live_document document = {ANY_PARAMETERS | NARROWING | 1u << LIVE_PARAMETER_THRESHOLD |
                                                      1u << LIVE_PARAMETER_MIN_EFFECT |
                                                      1u << LIVE_PARAMETER_MIN_SEQUENCES,
                                                  true, drift_bytes, drift_write};
    handle(request, &document);
}

void live_state_handle(struct request *request)
{
    static const struct live_document document = {1u << LIVE_PARAMETER_WEIGHTS | 1u << LIVE_PARAMETER_WINDOW, false,
                                                  state_bytes, state_write};
    handle(request, &document);
}
