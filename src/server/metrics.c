/* GET /metrics: what is counted and measured, for Prometheus and what reads the same. A worker composes the text, so
 * that the polling threads go on; where none can be had, the polling thread that was asked does: who watches a server
 * wants to know most when its queue or its memory is full. */
#include "server/context.h"
#include "server/endpoints.h"
#include "server/live_sets.h"
#include "server/metrics_accept.h"
#include "server/metrics_live.h"
#include "server/request_counts.h"
#include "server/tls.h"
#include "server/usage.h"
#include "telemetry/log.h"
#include "telemetry/process_facts.h"
#include "version.h"

#include <stdio.h>
#include <string.h>

/* A light job. */
#define SCRAPE_FLOP 1e8

/* In request->work. */
struct scrape {
    enum exposition_format format;
    struct request_totals totals;
    duration_exemplars exemplars[ROUTES_MOST + 1];
};

static const char *const METHODS[] = {
#define METHOD_NAME(code, name) [code] = name,
    COUNTED_METHODS(METHOD_NAME)
#undef METHOD_NAME
};

static const char *const STAGES[] = {
#define STAGE_NAME(code, name) [code] = name,
    COUNTED_STAGES(STAGE_NAME)
#undef STAGE_NAME
};

static const char *route_label(size_t place)
{
    return place == ROUTES_MOST ? "other" : route_pattern(route_at(place));
}

static uint64_t load(const _Atomic uint64_t *counter)
{
    return atomic_load_explicit(counter, memory_order_relaxed);
}

/* A family of one sample without labels. */
static void write_integer(struct exposition *exposition, enum metric metric, uint64_t value)
{
    exposition_family(exposition, metric);
    exposition_integer(exposition, NULL, value);
}

static void write_number(struct exposition *exposition, enum metric metric, double value)
{
    exposition_family(exposition, metric);
    exposition_number(exposition, NULL, value);
}

/* ---- requests */

/* What has come, and for each route its own method with 200 from the beginning: the first request is an increase. */
static void write_requests(struct exposition *exposition, const struct request_counts *counts,
                           const struct request_totals *totals)
{
    bool own[ROUTES_MOST + 1][COUNTED_METHOD_COUNT] = {{false}};
    const struct route *route;
    for (size_t i = 0; (route = route_at(i)); i++)
        own[request_counts_place(counts, route)][counted_method_of(route_method(route))] = true;
    exposition_family(exposition, METRIC_REQUESTS);
    for (size_t place = 0; place <= ROUTES_MOST; place++)
        for (size_t method = 0; method < COUNTED_METHOD_COUNT; method++)
            for (size_t status = 0; status < COUNTED_STATUS_COUNT; status++) {
                const uint64_t value = totals->requests[place][method][status];
                if (value || (own[place][method] && status == 0))
                    exposition_integer(
                        exposition,
                        (const char *const[]){route_label(place), METHODS[method], counted_status_name(status)}, value);
            }
}

static void write_durations(struct exposition *exposition, const struct scrape *scrape)
{
    const struct request_totals *totals = &scrape->totals;
    exposition_family(exposition, METRIC_REQUEST_DURATION);
    for (size_t place = 0; place <= ROUTES_MOST; place++)
        if (histogram_total(&totals->durations[place]))
            exposition_histogram(exposition, (const char *const[]){route_label(place)}, &duration_scale,
                                 &totals->durations[place], scrape->exemplars[place]);
    exposition_family(exposition, METRIC_REQUEST_STAGE);
    for (size_t stage = 0; stage < COUNTED_STAGE_COUNT; stage++)
        exposition_histogram(exposition, &STAGES[stage], &duration_scale, &totals->stages[stage], NULL);
    exposition_family(exposition, METRIC_COMPUTE);
    exposition_histogram(exposition, NULL, &duration_scale, &totals->stages[STAGE_COMPUTE], NULL);
}

static void write_rejected(struct exposition *exposition, const struct server *server,
                           const struct request_totals *totals)
{
    exposition_family(exposition, METRIC_REJECTED);
    for (unsigned code = ERROR_NONE + 1; code < ERROR_CODE_COUNT; code++)
        if (code != ERROR_CLIENT_GONE)
            exposition_integer(exposition, (const char *const[]){error_slug((enum error_code)code)},
                               totals->rejected[code]);
    exposition_integer(exposition, (const char *const[]){"max-connections"}, load(&server->acceptor.refused));
    exposition_integer(exposition, (const char *const[]){"max-connections-per-address"},
                       load(&server->acceptor.refused_from));
}

/* ---- the pool */

static void write_pool(struct exposition *exposition, struct request *request, const struct request_totals *totals)
{
    const struct server_parts *parts = &request->server->parts;
    const struct pool_state state = pool_state(parts->pool);
    const unsigned self = request->job.worker && !request->job.nested;
    exposition_family(exposition, METRIC_BATCH_REQUESTS);
    exposition_histogram(exposition, NULL, &count_scale, &totals->batches, NULL);
    write_integer(exposition, METRIC_QUEUE_DEPTH, state.queued);
    write_integer(exposition, METRIC_QUEUE_CAPACITY, (uint64_t)parts->config->limits.queue_depth);
    write_integer(exposition, METRIC_WORKERS, state.workers);
    write_integer(exposition, METRIC_WORKERS_BUSY, state.busy - self);
    write_number(exposition, METRIC_WORKER_BUSY, (double)(state.busy_ns + totals->worked_here_ns) / 1e9);
    write_integer(exposition, METRIC_MEMORY_BUDGET, parts->budget->total);
    write_integer(exposition, METRIC_MEMORY_BUDGET_USED,
                  atomic_load_explicit(&parts->budget->used, memory_order_relaxed));
}

/* ---- weight sets */

static void write_reloads(struct exposition *exposition, const struct reload_counts *counts)
{
    write_integer(exposition, METRIC_RELOADS, load(&counts->succeeded));
    write_integer(exposition, METRIC_RELOAD_FAILURES, load(&counts->failed));
    write_number(exposition, METRIC_RELOAD_SUCCEEDED, (double)load(&counts->succeeded_ms) / 1e3);
}

static void write_certificate(struct exposition *exposition, const struct tls *tls)
{
    if (tls)
        write_number(exposition, METRIC_CERTIFICATE_EXPIRY, (double)tls_expiry(tls));
}

static void write_weights_info(struct exposition *exposition, const struct weights_registry *registry)
{
    exposition_family(exposition, METRIC_WEIGHTS);
    for (size_t i = 0; i < registry->count; i++) {
        const struct weight_set *set = registry->sets[i];
        char d_model[24], num_heads[24];
        snprintf(d_model, sizeof d_model, "%zu", set->shape.d_model);
        snprintf(num_heads, sizeof num_heads, "%zu", set->shape.num_heads);
        exposition_integer(exposition,
                           (const char *const[]){set->name, set->ready ? "ready" : "failed", set->source, set->digest,
                                                 d_model, num_heads},
                           1);
    }
}

static void write_weights(struct exposition *exposition, const struct generation *generation)
{
    const struct weights_registry *registry = &generation->registry;
    write_weights_info(exposition, registry);
    exposition_family(exposition, METRIC_WEIGHTS_BYTES);
    for (size_t i = 0; i < registry->count; i++)
        if (registry->sets[i]->ready)
            exposition_integer(exposition, (const char *const[]){registry->sets[i]->name},
                               weight_set_bytes(registry->sets[i]));
    exposition_family(exposition, METRIC_WEIGHTS_LOADED);
    for (size_t i = 0; i < registry->count; i++) {
        const struct weight_set *set = registry->sets[i];
        if (set->ready)
            exposition_number(exposition, (const char *const[]){set->name},
                              (double)set->loaded_at.tv_sec + (double)set->loaded_at.tv_nsec / 1e9);
    }
    exposition_family(exposition, METRIC_WEIGHTS_RELOADS);
    for (size_t i = 0; i < registry->count; i++)
        exposition_integer(exposition, (const char *const[]){registry->sets[i]->name},
                           load(&generation->usage[i]->reloads));
    exposition_family(exposition, METRIC_WEIGHTS_RELOAD_FAILURES);
    for (size_t i = 0; i < registry->count; i++)
        exposition_integer(exposition, (const char *const[]){registry->sets[i]->name},
                           load(&generation->usage[i]->reload_failures));
}

/* ---- traces and the process */

static void write_tracing(struct exposition *exposition, const struct tracer *tracer)
{
    if (!tracer)
        return;
    const struct trace_counters *counters = tracer_counters(tracer);
    write_integer(exposition, METRIC_SPANS_SENT, load(&counters->sent));
    exposition_family(exposition, METRIC_SPANS_DROPPED);
    exposition_integer(exposition, (const char *const[]){"full"}, load(&counters->full));
    exposition_integer(exposition, (const char *const[]){"failed"}, load(&counters->failed));
    exposition_integer(exposition, (const char *const[]){"rejected"}, load(&counters->rejected));
    write_integer(exposition, METRIC_EXPORTS, load(&counters->requests));
    write_integer(exposition, METRIC_EXPORT_FAILURES, load(&counters->failed_requests));
}

static void write_process(struct exposition *exposition, const struct server *server)
{
    struct process_facts facts;
    process_facts_read(&facts);
    write_number(exposition, METRIC_PROCESS_CPU, facts.cpu_s);
    if (facts.resident_bytes)
        write_integer(exposition, METRIC_PROCESS_RESIDENT_MEMORY, facts.resident_bytes);
    if (facts.virtual_bytes)
        write_integer(exposition, METRIC_PROCESS_VIRTUAL_MEMORY, facts.virtual_bytes);
    if (facts.open_descriptors)
        write_integer(exposition, METRIC_PROCESS_OPEN_FDS, facts.open_descriptors);
    write_integer(exposition, METRIC_PROCESS_MAX_FDS, facts.max_descriptors);
    if (server->started_s > 0)
        write_number(exposition, METRIC_PROCESS_START_TIME, server->started_s);
}

/* ---- the whole */

/* In the order of METRICS. */
static void write_all(struct request *request, const struct scrape *scrape, const struct metrics_live *live,
                      struct exposition *exposition)
{
    struct server *server = request->server;
    const struct request_totals *totals = &scrape->totals;
    const struct connections_count connections = connections_count(&server->connections);
    exposition_family(exposition, METRIC_BUILD);
    exposition_integer(exposition, (const char *const[]){ATTND_VERSION, engine_isa()}, 1);
    write_integer(exposition, METRIC_READY, atomic_load(&server->state) == SERVER_RUNNING);
    write_requests(exposition, server->counts, totals);
    write_durations(exposition, scrape);
    write_integer(exposition, METRIC_REQUEST_BODY, totals->body_bytes);
    write_integer(exposition, METRIC_RESPONSE_BODY, totals->answer_bytes);
    write_rejected(exposition, server, totals);
    write_integer(exposition, METRIC_CLIENT_GONE, totals->client_gone);
    write_integer(exposition, METRIC_IN_FLIGHT, connections.requests - 1);
    write_integer(exposition, METRIC_CONNECTIONS, connections.open);
    write_integer(exposition, METRIC_CONNECTIONS_LIMIT, (uint64_t)server->parts.config->server.max_connections);
    write_integer(exposition, METRIC_TOKENS, totals->tokens);
    write_integer(exposition, METRIC_SEQUENCES, totals->sequences);
    write_pool(exposition, request, totals);
    write_integer(exposition, METRIC_LOG_DROPPED, log_dropped());
    write_tracing(exposition, server->parts.tracer);
    write_reloads(exposition, &server->reload.counts);
    write_certificate(exposition, request->generation->settings->tls);
    write_weights(exposition, request->generation);
    metrics_live_write(live, exposition);
    write_process(exposition, server);
    exposition_end(exposition);
}

static void answer(struct request *request, struct scrape *scrape)
{
    struct text text = {0};
    struct exposition exposition = {.text = &text, .format = scrape->format};
    struct metrics_live live;
    struct error error;
    request_counts_read(request->server->counts, &scrape->totals);
    if (scrape->format == EXPOSITION_OPENMETRICS)
        request_counts_read_exemplars(request->server->counts, scrape->exemplars);
    metrics_live_read(request, &live);
    write_all(request, scrape, &live, &exposition);
    metrics_live_free(request, &live);
    if (!text.failed) {
        request_succeed_owned(request, exposition_media_type(scrape->format), text.data, text.length);
        return;
    }
    text_free(&text);
    error_out_of_memory(&error);
    request_fail(request, &error);
}

static void run(struct job *job, enum job_end end)
{
    struct request *request = request_of_job(job);
    struct scrape *scrape = (struct scrape *)request->work.base;
    (void)end; /* it computes nothing, and its reader may want the last word */
    answer(request, scrape);
    request_drop_work(request); /* and with it *scrape */
    content_coding_shorten_answer(request);
    request_resume(request);
}

static enum MHD_Result read_accept(void *context, enum MHD_ValueKind kind, const char *name, const char *value)
{
    (void)kind;
    if (value && strcasecmp(name, MHD_HTTP_HEADER_ACCEPT) == 0)
        metrics_accept_read(context, value);
    return MHD_YES;
}

void metrics_handle(struct request *request)
{
    struct metrics_accept accept = {0};
    struct error error;
    MHD_get_connection_values(request->mhd, MHD_HEADER_KIND, read_accept, &accept);
    /* Not charged to the budget: it is small, and has to be had when the budget is full. */
    if (!arena_store_take(request->server->parts.arenas, sizeof(struct scrape), &request->work)) {
        error_out_of_memory(&error);
        request_fail(request, &error);
        return;
    }
    struct scrape *scrape = (struct scrape *)request->work.base;
    scrape->format = metrics_accept_choose(&accept);
    request->job.run = run;
    request->job.flop = SCRAPE_FLOP;
    if (!request_try_submit(request, &error))
        run(&request->job, JOB_RUN);
}
