/* A generation that was replaced can be in use by whoever had entered before: it is freed once each turn was seen
 * without users, since nobody who enters later finds it. */
#include "server/generation.h"

#include "server/tls.h"
#include "server/usage.h"

#include <stdlib.h>
#include <string.h>

struct settings *settings_create(const struct config *config, struct config *own, struct error *error)
{
    struct settings *settings = calloc(1, sizeof *settings);
    if (!settings) {
        error_out_of_memory(error);
        return NULL;
    }
    atomic_init(&settings->holders, 1);
    const struct config *read = config ? config : own;
    if (!admin_load(&settings->admin, read, error) || !tls_load(&settings->tls, read, error)) {
        settings_free(settings);
        return NULL;
    }
    if (!config) {
        settings->own = *own;
        *own = (struct config){0};
    }
    settings->config = config ? config : &settings->own;
    return settings;
}

struct settings *settings_hold(struct settings *settings)
{
    atomic_fetch_add(&settings->holders, 1);
    return settings;
}

void settings_free(struct settings *settings)
{
    if (!settings || atomic_fetch_sub(&settings->holders, 1) > 1)
        return;
    tls_release(settings->tls);
    admin_free(&settings->admin);
    config_free(&settings->own);
    free(settings);
}

/* The counters of the set of that name in `previous`, or new ones. */
static struct usage *usage_of(const struct generation *previous, const char *name)
{
    for (size_t i = 0; previous && i < previous->registry.count; i++)
        if (strcmp(previous->registry.sets[i]->name, name) == 0)
            return usage_hold(previous->usage[i]);
    return usage_create();
}

static void free_usage(struct usage **usage, size_t count)
{
    for (size_t i = 0; usage && i < count; i++)
        usage_release(usage[i]);
    free(usage);
}

struct generation *generation_create(struct settings *settings, struct weights_registry *registry,
                                     const struct generation *previous)
{
    struct generation *generation = calloc(1, sizeof *generation);
    struct usage **usage = calloc(registry->count + 1, sizeof *usage);
    bool complete = generation && usage;
    for (size_t i = 0; i < registry->count && complete; i++) {
        usage[i] = usage_of(previous, registry->sets[i]->name);
        complete = usage[i] != NULL;
    }
    if (!complete) {
        free_usage(usage, registry->count);
        free(generation);
        return NULL;
    }
    generation->settings = settings;
    generation->config = settings->config;
    generation->usage = usage;
    generation->registry = *registry;
    *registry = (struct weights_registry){0};
    return generation;
}

void generation_free(struct generation *generation)
{
    if (!generation)
        return;
    free_usage(generation->usage, generation->registry.count);
    registry_free(&generation->registry);
    settings_free(generation->settings);
    free(generation);
}

void generations_init(struct generations *generations, struct memory_budget *budget, struct generation *first)
{
    memset(generations, 0, sizeof *generations);
    pthread_mutex_init(&generations->lock, NULL);
    generations->budget = budget;
    atomic_init(&generations->current, first);
}

static void end(struct generations *generations, struct generation *generation)
{
    budget_give_all(generations->budget, &generation->charge);
    generation_free(generation);
}

void generations_destroy(struct generations *generations)
{
    while (generations->retired) {
        struct generation *retired = generations->retired;
        generations->retired = retired->next;
        end(generations, retired);
    }
    if (generations->current)
        end(generations, generations->current);
    pthread_mutex_destroy(&generations->lock);
}

const struct generation *generations_enter(struct generations *generations, unsigned *turn)
{
    *turn = atomic_load(&generations->turn) & 1;
    atomic_fetch_add(&generations->users[*turn], 1);
    return atomic_load(&generations->current);
}

/* With the lock held: what nobody uses any more, as a list. */
static struct generation *take_unused(struct generations *generations)
{
    struct generation *first = generations->retired, **at = &first, *unused = NULL;
    while (*at) {
        struct generation *retired = *at;
        for (size_t turn = 0; turn < 2; turn++)
            retired->unused[turn] |= atomic_load(&generations->users[turn]) == 0;
        if (retired->unused[0] && retired->unused[1]) {
            *at = retired->next;
            retired->next = unused;
            unused = retired;
        } else {
            at = &retired->next;
        }
    }
    generations->retired = first;
    /* Those who come now leave the other turn to empty. */
    if (first && atomic_load(&generations->users[(generations->turn & 1) ^ 1]) == 0)
        generations->turn ^= 1;
    return unused;
}

/* The lock is held, and let go of: freeing weights takes a while. */
static void free_unused(struct generations *generations)
{
    struct generation *unused = take_unused(generations);
    pthread_mutex_unlock(&generations->lock);
    while (unused) {
        struct generation *generation = unused;
        unused = generation->next;
        end(generations, generation);
    }
}

void generations_leave(struct generations *generations, unsigned turn)
{
    if (atomic_fetch_sub(&generations->users[turn], 1) > 1 || !generations->retired)
        return;
    pthread_mutex_lock(&generations->lock);
    free_unused(generations);
}

void generations_replace(struct generations *generations, struct generation *next, struct budget_share *charge)
{
    pthread_mutex_lock(&generations->lock);
    struct generation *before = atomic_load(&generations->current);
    before->charge = *charge;
    *charge = (struct budget_share){0};
    before->next = generations->retired;
    atomic_store(&generations->current, next);
    generations->retired = before;
    free_unused(generations);
}
