/* Entered by whoever runs the job. */
#include "server/live_feed.h"

#include "base/clock.h"
#include "server/context.h"
#include "server/forward_job.h"
#include "server/live_sets.h"

/* The causal order is the set's, in every layer. */
static bool own_causal(const struct forward_job *job)
{
    const struct model_shape *model = forward_job_model(job);
    struct forward_input own = job->input;
    struct attention_rules rules;
    own.causal = job->set->rules.defaults.causal;
    own.causal_given = false;
    if (!model)
        return job->input.causal == own.causal;
    for (size_t n = 0; n < model->num_layers && job->input.causal_given; n++)
        if (model_layer_input(model, n, &own, &rules).causal != job->input.causal)
            return false;
    return true;
}

/* Under the set's own rule: what was asked of the heads is what the set always does. Its maps are weights of keys, and
 * nothing is compared beside it. */
static bool own_rule(const struct forward_job *job)
{
    const struct forward_input *in = &job->input;
    return in->self_attention && own_causal(job) && !in->bias && !in->head_mask && !job->asked->rules &&
           !job->asked->compare && !rules_shrink_keys(in->rules);
}

static void give_memory(struct forward_job *job)
{
    struct live_feed *feed = &job->live;
    request_give_memory(job->request, feed->charged, &feed->memory);
    feed->charged = 0;
}

/* What is left of the job's own memory, which goes back with it. NULL where that, or the budget, is too small. */
static void *take_rest(struct forward_job *job, size_t bytes)
{
    struct request *request = job->request;
    struct error ignored;
    if (arena_left(&request->work) < bytes ||
        !budget_take(request->server->parts.budget, &request->share, bytes, &ignored))
        return NULL;
    job->work_charged += bytes;
    return arena_take(&request->work, bytes);
}

static bool take_memory(struct forward_job *job)
{
    struct live_feed *feed = &job->live;
    struct error ignored;
    const struct live_shape shape = live_store_shape(feed->store);
    size_t bytes = 0, sums;
    if (!live_sums_bytes(shape, &sums) || !arena_need(&bytes, sums))
        return false;
    void *memory = take_rest(job, bytes);
    if (!memory) {
        if (!request_take_memory(job->request, bytes, true, &feed->memory, &ignored))
            return false;
        feed->charged = bytes;
        memory = feed->memory.base;
    }
    live_sums_lay(&feed->sums, shape, memory);
    return true;
}

/* Whether the job is to be observed. A job may be computed twice: first with others, and then alone. */
static bool choose(struct forward_job *job)
{
    struct server *server = job->request->server;
    struct live_feed *feed = &job->live;
    if (job->route->compute) /* an analysis */
        return false;
    if (!feed->store) {
        feed->store = live_sets_find(server->live, job->set, NULL);
        if (feed->store && !live_store_sample(feed->store, job->request->generation->config->live.sample_rate)) {
            live_store_release(feed->store);
            feed->store = NULL;
        }
    }
    feed->summed = false;
    if (feed->charged)
        give_memory(job);
    return feed->store && own_rule(job) && take_memory(job);
}

bool live_feed_choose(struct forward_job *const *jobs, size_t count)
{
    bool any = false;
    for (size_t i = 0; i < count; i++) {
        jobs[i]->input.observed = choose(jobs[i]);
        any |= jobs[i]->input.observed;
    }
    return any;
}

void live_feed_give_up(struct forward_job *const *jobs, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        jobs[i]->input.observed = false;
        jobs[i]->live.summed = false;
        if (jobs[i]->live.charged)
            give_memory(jobs[i]);
    }
}

void live_feed_take(struct forward_job *const *jobs, size_t count, struct live_observer *observer)
{
    for (size_t i = 0; i < count; i++)
        if (jobs[i]->input.observed)
            jobs[i]->live.summed = live_observer_finish(observer, i);
}

void live_feed_end(struct forward_job *job, bool succeeded)
{
    struct live_feed *feed = &job->live;
    if (succeeded && feed->store) {
        if (feed->summed)
            live_store_add(feed->store, &feed->sums, clock_ns());
        else
            live_store_skip(feed->store, job->input.batch, clock_ns());
    }
    if (feed->charged)
        give_memory(job);
    live_store_release(feed->store);
    feed->store = NULL;
}
