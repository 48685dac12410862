/* Owns all weight sets of the process. Built by the starting thread; afterwards any thread looks sets up. A set that
 * was replaced can be in use by whoever had entered before: it is freed once each turn was seen without users, since
 * nobody who enters later finds it. */
#include "weights/registry.h"

#include "base/nearest.h"
#include "base/text.h"
#include "engine/forward.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* "/weights/2/tensors/W_K" from the entry's index and the pointer within it; room for an error's pointer and 30 more.
 */
#define POINTER_BYTES (sizeof((struct error *)0)->pointer + 30)

/* Says where the entry is and which file it meant: the error itself, which answers may show, knows only the file's
 * name. */
static void add_fault(struct faults *faults, const struct config *config, size_t index, const struct error *error)
{
    const struct weights_config *entry = &config->weights[index];
    char pointer[POINTER_BYTES];
    bool has_folder = entry->source == WEIGHTS_SAFETENSORS && entry->path && strchr(entry->path, '/');
    snprintf(pointer, sizeof pointer, "/weights/%zu%s", index, error->has_pointer ? error->pointer : "");
    faults_add(faults, config->file ? config->file : "configuration", config->file ? entry->line : 0, pointer,
               "weight set \"%s\": %s%s%s%s", entry->name, error->message, has_folder ? " (the file is " : "",
               has_folder ? entry->path : "", has_folder ? ")" : "");
}

/* A set that was replaced. */
struct retired_set {
    struct weight_set *set;
    bool unused[2]; /* the turn was seen without users */
    struct retired_set *next;
};

bool registry_load(const struct config *config, struct weights_registry *registry, struct faults *faults,
                   struct faults *warnings)
{
    bool complete = true;
    *registry = (struct weights_registry){.sets = calloc(config->weights_count + 1, sizeof *registry->sets),
                                          .lock = PTHREAD_MUTEX_INITIALIZER};
    if (!registry->sets) {
        faults->out_of_memory = true;
        return false;
    }
    for (size_t i = 0; i < config->weights_count; i++) {
        const struct weights_config *entry = &config->weights[i];
        struct error error;
        struct weight_set *set = weight_set_load(entry, &error);
        if (!set) {
            add_fault(entry->required ? faults : warnings, config, i, &error);
            complete = complete && !entry->required;
            set = weight_set_failed(entry, error.message);
        }
        if (!set) {
            faults->out_of_memory = true;
            return false;
        }
        registry->sets[registry->count++] = set;
        if (config->default_weights && strcmp(config->default_weights, set->name) == 0)
            registry->fallback = set;
    }
    return complete;
}

bool registry_check_memory(const struct weights_registry *registry, const struct config *config, unsigned lanes,
                           size_t budget_bytes, struct faults *faults, struct faults *warnings)
{
    const struct forward_input token = {.batch = 1, .query_length = 1, .key_length = 1, .self_attention = true};
    const struct forward_input *const inputs[] = {&token};
    bool fits = true;
    for (size_t i = 0; i < registry->count; i++) {
        const struct weight_set *set = registry->sets[i];
        const bool required = config->weights[i].required;
        struct error error;
        size_t bytes;
        if (!set->ready)
            continue;
        if (!forward_scratch_bytes(&set->shape, inputs, 1, lanes, &bytes))
            bytes = SIZE_MAX;
        if (bytes <= budget_bytes)
            continue;
        error_set(&error, ERROR_INVALID,
                  "a single token needs %zu bytes of working memory with %u workers, over the %zu that "
                  "limits.memory_budget_bytes allows; raise it, or lower server.workers",
                  bytes, lanes, budget_bytes);
        add_fault(required ? faults : warnings, config, i, &error);
        fits = fits && !required;
    }
    return fits;
}

/* The known names, with commas, into *text; "none" where there are none. NULL when memory ran out. */
static const char *known_names(const struct weights_registry *registry, struct text *text)
{
    for (size_t i = 0; i < registry->count; i++)
        text_append_format(text, "%s%s", i ? ", " : "", registry->sets[i]->name);
    if (registry->count == 0)
        text_append_string(text, "none");
    return text_terminate(text);
}

static const char *nearest_set(const struct weights_registry *registry, const char *name)
{
    const char **names = malloc((registry->count + 1) * sizeof *names);
    if (!names)
        return NULL;
    for (size_t i = 0; i < registry->count; i++)
        names[i] = registry->sets[i]->name;
    const char *nearest = nearest_name(name, names, registry->count);
    free(names);
    return nearest;
}

static void not_found(const struct weights_registry *registry, const char *name, struct error *error)
{
    struct text text = {0};
    const char *known = known_names(registry, &text);
    if (!known) {
        error_out_of_memory(error);
    } else if (!name) {
        error_set_at(error, ERROR_INVALID, "/weights", "there is no default weight set: name one of: %s", known);
    } else {
        const char *nearest = nearest_set(registry, name);
        error_set_at(error, ERROR_UNKNOWN_WEIGHTS, "/weights", "no weight set \"%.200s\"%s%s%s known: %s", name,
                     nearest ? "; did you mean \"" : ";", nearest ? nearest : "", nearest ? "\"? These are" : "",
                     known);
    }
    text_free(&text);
}

const struct weight_set *registry_find(const struct weights_registry *registry, const char *name, struct error *error)
{
    const struct weight_set *set = name ? NULL : registry->fallback;
    for (size_t i = 0; name && !set && i < registry->count; i++)
        if (strcmp(registry->sets[i]->name, name) == 0)
            set = registry->sets[i];
    if (!set) {
        not_found(registry, name, error);
        return NULL;
    }
    if (!set->ready) {
        error_set(error, ERROR_NOT_READY, "weight set \"%s\" is not loaded: %s", set->name, set->failure);
        return NULL;
    }
    return set;
}

unsigned registry_enter(struct weights_registry *registry)
{
    const unsigned turn = atomic_load(&registry->turn) & 1;
    atomic_fetch_add(&registry->users[turn], 1);
    return turn;
}

/* With the lock held: frees what nobody uses any more. */
static void free_unused(struct weights_registry *registry)
{
    struct retired_set *first = registry->retired, **at = &first;
    while (*at) {
        struct retired_set *retired = *at;
        for (size_t turn = 0; turn < 2; turn++)
            retired->unused[turn] |= atomic_load(&registry->users[turn]) == 0;
        if (retired->unused[0] && retired->unused[1]) {
            *at = retired->next;
            weight_set_free(retired->set);
            free(retired);
        } else {
            at = &retired->next;
        }
    }
    registry->retired = first;
    /* Those who come now leave the other turn to empty. */
    if (first && atomic_load(&registry->users[(registry->turn & 1) ^ 1]) == 0)
        registry->turn ^= 1;
}

void registry_leave(struct weights_registry *registry, unsigned turn)
{
    if (atomic_fetch_sub(&registry->users[turn], 1) > 1 || !registry->retired)
        return;
    pthread_mutex_lock(&registry->lock);
    free_unused(registry);
    pthread_mutex_unlock(&registry->lock);
}

bool registry_replace(struct weights_registry *registry, size_t index, struct weight_set *set, struct error *error)
{
    struct retired_set *retired = malloc(sizeof *retired);
    if (!retired)
        return error_out_of_memory(error);
    pthread_mutex_lock(&registry->lock);
    *retired = (struct retired_set){.set = registry->sets[index], .next = registry->retired};
    registry->sets[index] = set;
    if (registry->fallback == retired->set)
        registry->fallback = set;
    registry->retired = retired;
    free_unused(registry);
    pthread_mutex_unlock(&registry->lock);
    return true;
}

void registry_free(struct weights_registry *registry)
{
    while (registry->retired) {
        struct retired_set *retired = registry->retired;
        registry->retired = retired->next;
        weight_set_free(retired->set);
        free(retired);
    }
    for (size_t i = 0; i < registry->count; i++)
        weight_set_free(registry->sets[i]);
    free(registry->sets);
    *registry = (struct weights_registry){.lock = PTHREAD_MUTEX_INITIALIZER};
}
