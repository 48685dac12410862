/* Counters are the server's; any polling thread or worker adds to them. */
#include "server/usage.h"

#include "base/clock.h"

#include <stdlib.h>
#include <string.h>

struct usage *usage_create(size_t count)
{
    const size_t bytes = (count + 1) * sizeof(struct usage); /* count: as many as there are weight sets in memory */
    struct usage *usage = aligned_alloc(_Alignof(struct usage), bytes);
    if (usage)
        memset(usage, 0, bytes);
    return usage;
}

void usage_free(struct usage *usage)
{
    free(usage);
}

void usage_begin(struct request *request, const struct weight_set *set)
{
    const struct weights_registry *registry = request->server->parts.registry;
    request->weights = set->name;
    for (size_t i = 0; i < registry->count; i++)
        if (registry->sets[i] == set)
            request->usage = &request->server->usage[i];
}

static void add(_Atomic uint64_t *sum, uint64_t more)
{
    atomic_fetch_add_explicit(sum, more, memory_order_relaxed);
}

static uint64_t nanoseconds(double us)
{
    return us > 0 ? (uint64_t)(us * 1e3) : 0;
}

void usage_end(const struct request *request, uint64_t ended)
{
    const struct timing *timing = &request->timing;
    struct usage *usage = request->usage;
    struct timespec now;
    if (!usage)
        return;
    const uint64_t total = ended - request->arrived;
    if (timing->leads_batch)
        add(&usage->executions, 1);
    if (request->answer.status == 200) {
        const double encode_us = request->answer.pieces ? answer_written_us(&request->answer) : timing->encode_us;
        add(&usage->succeeded, 1);
        add(&usage->succeeded_ns, total);
        add(&usage->queue_ns, nanoseconds(timing->queue_us));
        add(&usage->parse_ns, nanoseconds(timing->parse_us));
        add(&usage->compute_ns, nanoseconds(timing->compute_us));
        add(&usage->encode_ns, nanoseconds(encode_us));
        add(&usage->sequences, timing->sequences);
    } else {
        add(&usage->failed, 1);
        add(&usage->failed_ns, total);
    }
    clock_gettime(CLOCK_REALTIME, &now);
    atomic_store_explicit(&usage->last_ms, (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000,
                          memory_order_relaxed);
}
