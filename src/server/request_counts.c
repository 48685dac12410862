/* Shards, one more than there are threads that count, each under a lock of its own that is only ever tried: whoever
 * counts takes a free one, and readers hold one at a time. Within the lock numbers are plain, so that what is read of a
 * shard belongs together: a histogram has as many values in its buckets as in its sum. */
#include "server/request_counts.h"

#include "base/clock.h"
#include "server/request.h"
#include "server/request_trace.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#define STATUS_LEAST 100
#define STATUS_MOST  599

struct shard {
    _Alignas(64) pthread_mutex_t lock;
    struct request_totals totals;
    duration_exemplars exemplars[ROUTES_MOST + 1]; /* their times are of clock_ns */
};

struct request_counts {
    struct shard *shards;
    size_t n_shards;
    unsigned char first_of_pattern[ROUTES_MOST];
    unsigned char status_places[STATUS_MOST - STATUS_LEAST + 1];
};

static const unsigned short STATUSES[] = {
#define COUNTED_STATUS(status) status,
    COUNTED_STATUSES(COUNTED_STATUS)
#undef COUNTED_STATUS
};

const char *counted_status_name(size_t status)
{
    static const char *const names[] = {
#define COUNTED_STATUS(status) #status,
        COUNTED_STATUSES(COUNTED_STATUS)
#undef COUNTED_STATUS
            "other"};
    return names[status];
}

static void fill_places(struct request_counts *counts)
{
    const struct route *route;
    memset(counts->status_places, COUNTED_STATUS_COUNT - 1, sizeof counts->status_places);
    for (unsigned i = 0; i < sizeof STATUSES / sizeof *STATUSES; i++)
        counts->status_places[STATUSES[i] - STATUS_LEAST] = (unsigned char)i;
    for (size_t i = 0; (route = route_at(i)); i++) {
        size_t first = 0;
        while (strcmp(route_pattern(route_at(first)), route_pattern(route)) != 0)
            first++;
        counts->first_of_pattern[i] = (unsigned char)first;
    }
}

struct request_counts *request_counts_create(unsigned threads)
{
    struct request_counts *counts = calloc(1, sizeof *counts);
    if (!counts)
        return NULL;
    counts->n_shards = (size_t)threads + 1;
    counts->shards = aligned_alloc(_Alignof(struct shard), counts->n_shards * sizeof *counts->shards);
    if (!counts->shards) {
        free(counts);
        return NULL;
    }
    memset(counts->shards, 0, counts->n_shards * sizeof *counts->shards);
    for (size_t i = 0; i < counts->n_shards; i++)
        pthread_mutex_init(&counts->shards[i].lock, NULL);
    fill_places(counts);
    return counts;
}

void request_counts_free(struct request_counts *counts)
{
    if (!counts)
        return;
    for (size_t i = 0; i < counts->n_shards; i++)
        pthread_mutex_destroy(&counts->shards[i].lock);
    free(counts->shards);
    free(counts);
}

/* A shard that nobody is at. Threads begin at different ones. */
static struct shard *take_shard(struct request_counts *counts)
{
    size_t at = (size_t)((uintptr_t)pthread_self() >> 12) % counts->n_shards;
    for (size_t tried = 1; pthread_mutex_trylock(&counts->shards[at].lock) != 0; tried++) {
        at = at + 1 == counts->n_shards ? 0 : at + 1;
        if (tried % counts->n_shards == 0)
            sched_yield(); /* two readers at once, and every thread counting */
    }
    return &counts->shards[at];
}

size_t request_counts_place(const struct request_counts *counts, const struct route *route)
{
    return counts->first_of_pattern[route_index(route)];
}

enum counted_method counted_method_of(const char *method)
{
    static const char *const names[] = {
#define COUNTED_METHOD_NAME(code, name) [code] = name,
        COUNTED_METHODS(COUNTED_METHOD_NAME)
#undef COUNTED_METHOD_NAME
    };
    static const enum counted_method usual[] = {COUNTED_POST, COUNTED_GET};
    for (unsigned i = 0; i < sizeof usual / sizeof *usual; i++)
        if (strcmp(method, names[usual[i]]) == 0)
            return usual[i];
    unsigned found = 0;
    while (found < COUNTED_OTHER_METHOD && strcmp(method, names[found]) != 0)
        found++;
    return (enum counted_method)found;
}

static uint64_t nanoseconds(double us)
{
    return us > 0 ? (uint64_t)(us * 1e3) : 0;
}

/* Those that it came to. */
static void add_stages(struct request_totals *totals, const struct request *request, uint64_t ended, bool succeeded)
{
    const struct timing *timing = &request->timing;
    const bool computed = timing->batch > 0;
    const uint64_t compute = nanoseconds(timing->compute_us), encode = nanoseconds(request_encode_us(request));
    if (computed || timing->parse_us > 0)
        histogram_add_duration(&totals->stages[STAGE_PARSE], nanoseconds(timing->parse_us));
    if (computed || timing->queue_us > 0)
        histogram_add_duration(&totals->stages[STAGE_QUEUE], nanoseconds(timing->queue_us));
    if (computed)
        histogram_add_duration(&totals->stages[STAGE_COMPUTE], compute);
    if (computed && succeeded)
        histogram_add_duration(&totals->stages[STAGE_ENCODE], encode);
    if (request->answered)
        histogram_add_duration(&totals->stages[STAGE_SEND], ended - request->answered);
    if (!request->submitted)
        totals->worked_here_ns += compute + encode;
    if (timing->leads_batch)
        histogram_add_count(&totals->batches, timing->batch);
}

static void take_exemplar(struct exemplar *exemplar, const struct request *request, uint64_t ended)
{
    memcpy(exemplar->trace_id, request->trace.trace_id, sizeof exemplar->trace_id);
    exemplar->value = ended - request->arrived;
    exemplar->at = ended;
}

void request_counts_add(struct request_counts *counts, const struct request *request, uint64_t ended, bool sent)
{
    const struct answer *answer = &request->answer;
    const bool gone = !answer->status || !sent, succeeded = answer->status >= 200 && answer->status < 300;
    const unsigned status = answer->status ? answer->status : problem_status(ERROR_CLIENT_GONE, request->problem_form);
    const size_t place = status >= STATUS_LEAST && status <= STATUS_MOST ? counts->status_places[status - STATUS_LEAST]
                                                                         : COUNTED_STATUS_COUNT - 1,
                 route = request->route ? request_counts_place(counts, request->route) : ROUTES_MOST;
    const enum counted_method method = request->method ? counted_method_of(request->method) : COUNTED_OTHER_METHOD;
    struct shard *shard = take_shard(counts);
    struct request_totals *totals = &shard->totals;
    totals->requests[route][method][place]++;
    const unsigned bucket = histogram_add_duration(&totals->durations[route], ended - request->arrived);
    if ((request->trace.flags & TRACE_SAMPLED) && request_is_traced(request))
        take_exemplar(&shard->exemplars[route][bucket], request, ended);
    add_stages(totals, request, ended, succeeded);
    totals->body_bytes += request->bytes_in;
    if (!gone && method != COUNTED_HEAD)
        totals->answer_bytes += answer->length;
    if (gone)
        totals->client_gone++;
    if (answer->error != ERROR_NONE && answer->error != ERROR_CLIENT_GONE)
        totals->rejected[answer->error]++;
    if (succeeded && request->timing.batch) {
        totals->tokens += request->timing.tokens;
        totals->sequences += request->timing.sequences;
    }
    pthread_mutex_unlock(&shard->lock);
}

void request_counts_read(struct request_counts *counts, struct request_totals *totals)
{
    _Static_assert(sizeof *totals % sizeof(uint64_t) == 0, "it is numbers, one after the other");
    uint64_t *to = (uint64_t *)totals;
    memset(totals, 0, sizeof *totals);
    for (size_t i = 0; i < counts->n_shards; i++) {
        struct shard *shard = &counts->shards[i];
        const uint64_t *from = (const uint64_t *)&shard->totals;
        pthread_mutex_lock(&shard->lock);
        for (size_t n = 0; n < sizeof *totals / sizeof *to; n++)
            to[n] += from[n];
        pthread_mutex_unlock(&shard->lock);
    }
}

void request_counts_read_exemplars(struct request_counts *counts, duration_exemplars exemplars[ROUTES_MOST + 1])
{
    struct exemplar *to = exemplars[0];
    const uint64_t epoch = clock_wall_ns() - clock_ns();
    memset(exemplars, 0, (ROUTES_MOST + 1) * sizeof *exemplars);
    for (size_t i = 0; i < counts->n_shards; i++) {
        struct shard *shard = &counts->shards[i];
        const struct exemplar *from = shard->exemplars[0];
        pthread_mutex_lock(&shard->lock);
        for (size_t n = 0; n < (ROUTES_MOST + 1) * (size_t)HISTOGRAM_BUCKETS; n++)
            if (from[n].at > to[n].at)
                to[n] = from[n];
        pthread_mutex_unlock(&shard->lock);
    }
    for (size_t n = 0; n < (ROUTES_MOST + 1) * (size_t)HISTOGRAM_BUCKETS; n++)
        to[n].at += epoch;
}
