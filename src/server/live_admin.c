/* POST /v1/heads/reset, which empties live sums, and POST /v1/heads/merge, which adds up documents of them: that needs
 * no set of this server. */
#include "server/endpoints.h"

#include "base/clock.h"
#include "base/size.h"
#include "codec/json_document.h"
#include "codec/live_answer.h"
#include "codec/live_state.h"
#include "server/context.h"
#include "server/live_query.h"
#include "server/live_sets.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

void live_reset_handle(struct request *request)
{
    static const char body[] = "{\"reset\":true}";
    struct live_query query;
    struct error error;
    const struct weight_set *set = NULL;
    if (live_query_read(request->target, 1u << LIVE_PARAMETER_WEIGHTS, request->generation->config, NULL, &query,
                        &error)) {
        set = registry_find(&request->generation->registry, *query.weights ? query.weights : NULL, &error);
        error.has_pointer = false;
    }
    if (!set) {
        request_fail(request, &error);
        return;
    }
    struct live_store *store = live_sets_find(request->server->live, set, NULL);
    request->weights = set->name;
    if (store)
        live_store_reset(store, clock_ns());
    live_store_release(store);
    request_succeed(request, "application/json", body, sizeof body - 1);
}

/* ---- merge */

#define FLOP_PER_BYTE 500.0

/* The moment that a document names, since the epoch; 0 when it is no date. */
static uint64_t date_ms(const char *text)
{
    struct tm utc = {0};
    unsigned ms = 0;
    const char *rest = strptime(text, "%Y-%m-%dT%H:%M:%S", &utc);
    if (!rest)
        return 0;
    if (*rest == '.')
        sscanf(rest, ".%3u", &ms);
    const time_t seconds = timegm(&utc);
    return seconds < 0 ? 0 : (uint64_t)seconds * 1000 + ms;
}

static const enum similarity_metric metrics[] = {[LIVE_MERGE_COSINE] = SIMILARITY_COSINE,
                                                 [LIVE_MERGE_PEARSON] = SIMILARITY_PEARSON,
                                                 [LIVE_MERGE_CENTERED] = SIMILARITY_CENTERED};

static bool is_wanted(void *context, struct error *error)
{
    return request_lapsed(context, clock_ns(), false, error) == ERROR_NONE;
}

static bool write_sum(struct request *request, const struct live_merge *merge, struct error *error)
{
    struct live_view view = live_view_of(merge->sum.weights, merge->sum.digest, &merge->sum.sums);
    const struct live_similarity_question question = {metrics[merge->metric], merge->threshold, 100};
    size_t similarity, scratch, stats, state, answer, bytes;
    struct arena memory = {0};
    struct text text = {0};
    view.since_ms = date_ms(merge->sum.since);
    if (!live_similarity_bytes(&view, &question, &similarity, &scratch) || !live_stats_bytes(&view, &stats) ||
        !live_state_bytes(&merge->sum, &state) || !size_add(similarity, stats, &answer) ||
        !size_add(answer, state, &answer) || !size_add(answer, scratch, &bytes))
        return error_out_of_memory(error);
    if (!live_query_check_answer(request->generation->config, answer, error))
        return false;
    if (!budget_take(request->server->parts.budget, &request->share, bytes, error))
        return false; /* what is charged here is given back when the request ends */
    if (!arena_reserve(&memory, scratch))
        return error_out_of_memory(error);
    text_append_string(&text, "{\"similarity\":");
    live_similarity_write(&view, &question, arena_take(&memory, scratch), &text);
    text_append_string(&text, ",\"stats\":");
    live_stats_write(&view, &text);
    if (!is_wanted(request, error)) {
        arena_free(&memory);
        text_free(&text);
        return false;
    }
    text_append_string(&text, ",\"state\":");
    live_state_write(&merge->sum, &text);
    text_append_format(&text, ",\"documents\":%zu,\"duplicates\":%zu}", merge->documents, merge->duplicates);
    arena_free(&memory);
    if (text.failed) {
        text_free(&text);
        return error_out_of_memory(error);
    }
    request_succeed_owned(request, "application/json", text.data, text.length);
    return true;
}

static bool merge_body(struct request *request, struct error *error)
{
    struct live_merge merge = {0};
    const char *body = request->body.base ? request->body.base : "";
    struct json_watch watch = {.goes_on = is_wanted, .context = request, .error = error};
    const size_t tree = json_document_bytes(body, request->body_length);
    if (!budget_take(request->server->parts.budget, &request->share, tree, error))
        return false;
    const bool read = live_merge_read(body, request->body_length, &watch, &merge, error);
    request_discharge(request, tree);
    request_drop_body(request);
    const bool written = read && write_sum(request, &merge, error);
    live_merge_free(&merge);
    return written;
}

static void run_merge(struct job *job, enum job_end end)
{
    struct request *request = request_of_job(job);
    struct error error;
    if (!request_job_begins(request, end, &error) || !merge_body(request, &error))
        request_fail(request, &error);
    content_coding_shorten_answer(request);
    request_resume(request);
}

void live_merge_handle(struct request *request)
{
    request_seen(request);
    request->job.run = run_merge;
    request->job.flop = FLOP_PER_BYTE * (double)request->body_length;
    request_submit(request);
}
