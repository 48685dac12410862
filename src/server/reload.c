/* Requests and signals leave word, one thread reads, and puts a new generation in front. */
#include "server/reload.h"

#include "base/clock.h"
#include "base/text.h"
#include "config/changes.h"
#include "server/context.h"
#include "server/json_answer.h"
#include "server/live_sets.h"
#include "server/request.h"
#include "server/usage.h"
#include "server/weights.h"
#include "telemetry/log.h"
#include "telemetry/tracer.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- what both kinds of reload do */

/* One of them, under way. */
struct reading {
    struct server *server;
    const struct generation *running; /* this thread alone replaces it, so that it stays */
    struct faults faults, warnings;
    struct weights_registry registry;
    struct budget_share charge;
    struct registry_reload options;
};

/* Weights have no share of the budget but while there are two of them. */
static bool take(void *context, size_t bytes, struct error *error)
{
    struct reading *reading = context;
    struct memory_budget *budget = reading->server->parts.budget;
    struct error told;
    if (budget_take(budget, &reading->charge, bytes, &told))
        return true;
    return error_set(error, told.code,
                     "loading it beside what is in memory needs %zu bytes, and of the %zu that "
                     "limits.memory_budget_bytes allows requests and other sets hold %zu; %s",
                     bytes, budget->total, atomic_load(&budget->used),
                     told.code == ERROR_BUDGET_FULL ? "try again when there is less to do, or raise the limit"
                                                    : "raise the limit, or restart the server, which needs no copy");
}

static void give(void *context, size_t bytes)
{
    struct reading *reading = context;
    budget_give(reading->server->parts.budget, &reading->charge, bytes);
}

static void tried(void *context, const char *name, bool succeeded)
{
    const struct reading *reading = context;
    const struct generation *running = reading->running;
    for (size_t i = 0; i < running->registry.count; i++) {
        struct usage *usage = running->usage[i];
        if (strcmp(running->registry.sets[i]->name, name) == 0)
            atomic_fetch_add(succeeded ? &usage->reloads : &usage->reload_failures, 1);
    }
}

static void begin(struct reading *reading, struct server *server, const char *only)
{
    *reading = (struct reading){.server = server, .running = atomic_load(&server->generations.current)};
    reading->options =
        (struct registry_reload){.only = only, .take = take, .give = give, .tried = tried, .context = reading};
}

static void end(struct reading *reading)
{
    registry_free(&reading->registry);
    budget_give_all(reading->server->parts.budget, &reading->charge);
    faults_free(&reading->faults);
    faults_free(&reading->warnings);
}

static void count(struct server *server, bool succeeded)
{
    struct reload_counts *counts = &server->reload.counts;
    atomic_fetch_add(succeeded ? &counts->succeeded : &counts->failed, 1);
    if (succeeded)
        atomic_store(&counts->succeeded_ms, clock_wall_ns() / CLOCK_MILLISECOND);
}

/* Loads what the configuration names and checks that it can be served. */
static bool load(struct reading *reading, const struct config *config)
{
    const struct server *server = reading->server;
    if (!registry_reload(config, &reading->running->registry, &reading->options, &reading->registry, &reading->faults,
                         &reading->warnings))
        return false;
    if (registry_check_memory(&reading->registry, config, pool_state(server->parts.pool).workers,
                              server->parts.budget->total, &reading->faults, &reading->warnings))
        return true;
    return error_set(
        &reading->options.error, ERROR_INVALID,
        "a single token would need more working memory than limits.memory_budget_bytes (%zu) allows; raise "
        "it, or lower server.workers",
        server->parts.budget->total);
}

/* Puts what was read in front; takes over the hold on `settings` when it succeeds. False when memory ran out. */
static bool publish(struct reading *reading, struct settings *settings)
{
    struct server *server = reading->server;
    struct generation *next = generation_create(settings, &reading->registry, reading->running);
    if (!next)
        return false;
    if (!live_sets_update(server->live, settings->config, &next->registry)) {
        next->settings = NULL; /* the caller's still */
        generation_free(next);
        return false;
    }
    generations_replace(&server->generations, next, &reading->charge);
    return true;
}

/* ---- everything */

static void log_faults(const struct faults *faults, enum log_level level, const char *event)
{
    for (size_t i = 0; i < faults->count; i++) {
        char *text = fault_text(&faults->items[i]);
        log_event(level, event, LOG_STRING("message", text ? text : "memory ran out"));
        free(text);
    }
}

/* What is no part of a generation. */
static void apply(struct server *server, const struct config *config)
{
    enum log_level level;
    if (log_level_from_name(config->log.level, &level))
        log_set_level(level);
    gzip_store_set_level(&server->gzip, (int)config->compression.level);
    if (server->parts.tracer)
        tracer_set_sample_rate(server->parts.tracer, config->tracing.sample_rate);
}

static void log_success(const struct reading *reading, const struct weights_registry *before, const char *const *fixed,
                        size_t n_fixed)
{
    const struct generation *now = atomic_load(&reading->server->generations.current);
    const char **names = calloc(now->registry.count + 1, sizeof *names);
    size_t n_names = 0;
    for (size_t i = 0; i < now->registry.count && names; i++) {
        const struct weight_set *set = now->registry.sets[i], *old = registry_named(before, set->name);
        if (!set->ready || set == old)
            continue;
        names[n_names++] = set->name;
        weights_log_unused(set);
    }
    if (n_fixed)
        log_event(LOG_WARNING, "reload", LOG_STRINGS("unchanged", fixed, n_fixed),
                  LOG_STRING("remedy", "restart the server: these keep the values that it started with"));
    log_event(LOG_INFO, "reload", LOG_INTEGER("weight_sets", now->registry.count),
              LOG_STRINGS("loaded", names, n_names));
    free(names);
}

/* The configuration's own part: settings, held once; NULL with faults. */
static struct settings *read_settings(struct reading *reading, const char *fixed[CONFIG_MAX_FIXED], size_t *n_fixed)
{
    const struct server_parts *parts = &reading->server->parts;
    struct settings *settings = NULL;
    struct config config;
    struct error error;
    if (config_load(parts->flags, (const char *const *)environ, &config, &reading->faults, &reading->warnings)) {
        if (!config_keep_fixed(reading->running->config, &config, fixed, n_fixed))
            reading->faults.out_of_memory = true;
        else if (server_check(&config, &reading->faults, &reading->warnings) &&
                 !(settings = settings_create(NULL, &config, &error)))
            config_fault(&config, error.has_pointer ? error.pointer : NULL, error.message, &reading->faults);
    }
    config_free(&config);
    return settings;
}

static void reload_everything(struct server *server)
{
    struct reading reading;
    const char *fixed[CONFIG_MAX_FIXED];
    size_t n_fixed = 0;
    begin(&reading, server, NULL);
    if (server->parts.reloading)
        server->parts.reloading(true);
    struct settings *settings = read_settings(&reading, fixed, &n_fixed);
    bool done = settings && load(&reading, settings->config);
    /* The generation before may be freed as soon as it is replaced: its names are compared while it is held. */
    unsigned turn;
    const struct generation *before = generations_enter(&server->generations, &turn);
    if (done && !publish(&reading, settings)) {
        reading.faults.out_of_memory = true;
        done = false;
    }
    log_faults(&reading.warnings, LOG_WARNING, "configuration");
    if (done) {
        apply(server, settings->config);
        log_success(&reading, &before->registry, fixed, n_fixed);
    } else {
        log_faults(&reading.faults, LOG_ERROR, "reload");
        log_event(LOG_ERROR, "reload",
                  LOG_STRING("message", reading.faults.out_of_memory ? "memory ran out"
                                                                     : "nothing was changed; mend the faults above and "
                                                                       "send SIGHUP again"));
        settings_free(settings);
    }
    generations_leave(&server->generations, turn);
    count(server, done);
    if (server->parts.reloading)
        server->parts.reloading(false);
    end(&reading);
}

/* ---- one weight set */

static bool reload_one(struct server *server, struct request *request, struct error *error)
{
    const char *name = request->parameters[0];
    struct reading reading;
    begin(&reading, server, name);
    const struct generation *running = reading.running;
    json_t *document = NULL;
    char *body = NULL;
    bool done = false;
    if (!registry_named(&running->registry, name)) {
        registry_find(&running->registry, name, error);
        error->has_pointer = false; /* the name stands in the path, not in a document */
        goto done;
    }
    error_out_of_memory(&reading.options.error);
    if (!load(&reading, running->config)) {
        *error = reading.options.error;
        /* The fault is the source's: what was loaded before stays. */
        if (error->code != ERROR_OUT_OF_MEMORY && error->code != ERROR_BUDGET_FULL)
            error->code = ERROR_INVALID;
        goto done;
    }
    const struct weight_set *loaded = registry_named(&reading.registry, name);
    document = weights_describe(loaded);
    body = document ? json_dumps(document, JSON_COMPACT) : NULL; /* before anything has changed */
    struct settings *settings = settings_hold(running->settings);
    if (!body || !publish(&reading, settings)) {
        settings_free(settings);
        error_out_of_memory(error);
        goto done;
    }
    request_succeed_owned(request, "application/json", body, strlen(body));
    weights_log_unused(loaded);
    body = NULL;
    done = true;
done:
    free(body);
    json_decref(document);
    end(&reading);
    return done;
}

static void answer(struct server *server, struct request *request)
{
    const char *name = request->parameters[0];
    struct error error;
    const bool done = reload_one(server, request, &error);
    if (done) {
        log_event(LOG_INFO, "reload", LOG_STRING("weights", name), LOG_STRING("request_id", request->id));
    } else {
        log_event(LOG_WARNING, "reload", LOG_STRING("weights", name), LOG_STRING("request_id", request->id),
                  LOG_STRING("message", error.message));
        request_fail(request, &error);
    }
    count(server, done);
    request_resume(request);
}

static void refuse(struct request *request)
{
    struct error error;
    error_set(&error, ERROR_DRAINING, "the server is stopping; nothing was loaded");
    request_fail(request, &error);
    request_resume(request);
}

/* ---- the thread */

static void *reload_main(void *argument)
{
    struct server *server = argument;
    struct reload *reload = &server->reload;
    pthread_mutex_lock(&reload->lock);
    for (;;) {
        while (!reload->stop && !reload->wanted && !reload->first)
            pthread_cond_wait(&reload->changed, &reload->lock);
        struct job *job = reload->first;
        if (job) {
            reload->first = job->next;
            const bool stop = reload->stop;
            pthread_mutex_unlock(&reload->lock);
            if (stop)
                refuse(request_of_job(job));
            else
                answer(server, request_of_job(job));
        } else if (reload->stop) {
            break;
        } else {
            reload->wanted = false;
            pthread_mutex_unlock(&reload->lock);
            reload_everything(server);
        }
        pthread_mutex_lock(&reload->lock);
    }
    pthread_mutex_unlock(&reload->lock);
    return NULL;
}

bool reload_start(struct server *server, struct error *error)
{
    struct reload *reload = &server->reload;
    pthread_mutex_init(&reload->lock, NULL);
    pthread_cond_init(&reload->changed, NULL);
    atomic_store(&reload->counts.succeeded_ms, clock_wall_ns() / CLOCK_MILLISECOND);
    int failed = pthread_create(&reload->thread, NULL, reload_main, server);
    if (failed)
        return error_set(error, ERROR_IO, "cannot start the thread that reloads: %s", strerror(failed));
    reload->started = true;
    return true;
}

static void tell(struct reload *reload, bool stop)
{
    pthread_mutex_lock(&reload->lock);
    reload->stop |= stop;
    reload->wanted |= !stop;
    pthread_cond_broadcast(&reload->changed);
    pthread_mutex_unlock(&reload->lock);
}

void reload_all(struct server *server)
{
    tell(&server->reload, false);
}

void reload_weights(struct request *request)
{
    struct server *server = request->server;
    struct reload *reload = &server->reload;
    request_suspend(request);
    pthread_mutex_lock(&reload->lock);
    const bool stop = reload->stop;
    request->job.next = NULL;
    if (!stop) {
        *(reload->first ? &reload->last->next : &reload->first) = &request->job;
        reload->last = &request->job;
        pthread_cond_broadcast(&reload->changed);
    }
    pthread_mutex_unlock(&reload->lock);
    if (stop)
        refuse(request);
}

void reload_drop_waiting(struct server *server)
{
    tell(&server->reload, true);
}

void reload_stop(struct server *server)
{
    struct reload *reload = &server->reload;
    if (!reload->started)
        return;
    tell(reload, true);
    pthread_join(reload->thread, NULL);
    pthread_cond_destroy(&reload->changed);
    pthread_mutex_destroy(&reload->lock);
    reload->started = false;
}
