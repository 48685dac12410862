/* Counters are the server's; any polling thread or worker adds to them. */
#include "server/usage.h"

#include "base/clock.h"

#include <stdlib.h>
#include <string.h>

struct usage *usage_create(void)
{
    struct usage *usage = aligned_alloc(_Alignof(struct usage), sizeof *usage);
    if (usage) {
        memset(usage, 0, sizeof *usage);
        atomic_init(&usage->holders, 1);
    }
    return usage;
}

struct usage *usage_hold(struct usage *usage)
{
    atomic_fetch_add(&usage->holders, 1);
    return usage;
}

void usage_release(struct usage *usage)
{
    if (usage && atomic_fetch_sub(&usage->holders, 1) == 1)
        free(usage);
}

void usage_begin(struct request *request, const struct weight_set *set)
{
    const struct generation *generation = request->generation;
    request->weights = set->name;
    for (size_t i = 0; i < generation->registry.count; i++)
        if (generation->registry.sets[i] == set)
            request->usage = generation->usage[i];
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
    if (!usage)
        return;
    const uint64_t total = ended - request->arrived;
    if (timing->leads_batch)
        add(&usage->executions, 1);
    if (request->answer.status == 200) {
        add(&usage->succeeded, 1);
        add(&usage->succeeded_ns, total);
        add(&usage->queue_ns, nanoseconds(timing->queue_us));
        add(&usage->parse_ns, nanoseconds(timing->parse_us));
        add(&usage->compute_ns, nanoseconds(timing->compute_us));
        add(&usage->encode_ns, nanoseconds(request_encode_us(request)));
        add(&usage->sequences, timing->sequences);
    } else {
        add(&usage->failed, 1);
        add(&usage->failed_ns, total);
    }
    atomic_store_explicit(&usage->last_ms, clock_wall_ns() / CLOCK_MILLISECOND, memory_order_relaxed);
}
