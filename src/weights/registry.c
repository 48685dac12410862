/* Holds weight sets under their names. Built by one thread, the starting one or the one that reloads; afterwards any
 * thread looks sets up, and nothing in it changes. */
#include "weights/registry.h"

#include "base/nearest.h"
#include "base/text.h"
#include "config/weights_entry.h"
#include "engine/forward.h"
#include "engine/model_run.h"

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
    const bool has_folder = entry->path && strchr(entry->path, '/');
    const char *place = entry->given_by ? entry->given_by : config->file ? config->file : "configuration";
    snprintf(pointer, sizeof pointer, "/weights/%zu%s", index, error->has_pointer ? error->pointer : "");
    faults_add(faults, place, config->file ? weights_entry_line(entry, error->has_pointer ? error->pointer : "") : 0,
               entry->given_by ? NULL : pointer, "weight set \"%s\": %s%s%s%s", entry->name, error->message,
               !has_folder                            ? ""
               : entry->source == WEIGHTS_HUGGINGFACE ? " (the folder is "
                                                      : " (the file is ",
               has_folder ? entry->path : "", has_folder ? ")" : "");
}

struct weight_set *registry_named(const struct weights_registry *registry, const char *name)
{
    for (size_t i = 0; i < registry->count; i++)
        if (strcmp(registry->sets[i]->name, name) == 0)
            return registry->sets[i];
    return NULL;
}

/* One loading of all sets, the first or a later one. */
struct loading {
    const struct config *config;
    const struct weights_registry *running; /* the sets in memory beside which these are loaded */
    struct registry_reload *options;        /* NULL: the first loading */
    struct faults *faults, *warnings;
};

/* The entry's set, which takes its bytes from the charge where there is one, and has given back what it needs no more.
 */
static struct weight_set *load_charged(const struct loading *loading, const struct weights_config *entry, bool replaces,
                                       struct error *error)
{
    struct registry_reload *options = loading->options;
    struct weight_set_need need;
    if (!options)
        return weight_set_load(entry, error);
    if (!weight_set_need(entry, &need, error) || !options->take(options->context, need.loading, error)) {
        options->tried(options->context, entry->name, false);
        return NULL;
    }
    struct weight_set *set = weight_set_load(entry, error);
    options->tried(options->context, entry->name, set != NULL);
    options->give(options->context, set && replaces ? need.loading - need.loaded : need.loading);
    return set;
}

/* The same weights and rules under the same description: what is in memory is kept. What was put into it besides is
 * not: a reload brings back what the configuration says. */
static bool is_same(const struct weight_set *set, const struct weight_set *other)
{
    return other->ready && !importance_store_is_posted(other->rules.importance) &&
           strcmp(set->digest, other->digest) == 0 && strcmp(set->source, other->source) == 0;
}

/* The set of entry `index`; NULL for a fault that stops the loading, or when memory ran out. */
static struct weight_set *load_entry(const struct loading *loading, size_t index)
{
    const struct weights_config *entry = &loading->config->weights[index];
    struct weight_set *running = registry_named(loading->running, entry->name);
    const char *only = loading->options ? loading->options->only : NULL;
    struct error error;
    if (only && running && strcmp(only, entry->name) != 0)
        return weight_set_hold(running);
    struct weight_set *set = load_charged(loading, entry, running && running->ready, &error);
    if (set && running && !only && is_same(set, running)) {
        weight_set_free(set);
        return weight_set_hold(running);
    }
    if (set)
        return set;
    /* What works goes on working: a set that is in memory is not given up for a failed one. */
    const bool needed = entry->required || only || (running && running->ready);
    add_fault(needed ? loading->faults : loading->warnings, loading->config, index, &error);
    if (loading->options && needed)
        loading->options->error = error;
    set = needed ? NULL : weight_set_failed(entry, error.message);
    loading->faults->out_of_memory |= !set && !needed;
    return set;
}

/* Every fault is found, not the first alone. */
static bool load_all(const struct loading *loading, struct weights_registry *registry)
{
    const struct config *config = loading->config;
    bool complete = true;
    *registry = (struct weights_registry){.sets = calloc(config->weights_count + 1, sizeof *registry->sets)};
    if (!registry->sets) {
        loading->faults->out_of_memory = true;
        return false;
    }
    for (size_t i = 0; i < config->weights_count; i++) {
        struct weight_set *set = load_entry(loading, i);
        complete &= set != NULL;
        if (!set)
            continue;
        registry->sets[registry->count++] = set;
        if (config->default_weights && strcmp(config->default_weights, set->name) == 0)
            registry->fallback = set;
    }
    return complete;
}

bool registry_load(const struct config *config, struct weights_registry *registry, struct faults *faults,
                   struct faults *warnings)
{
    const struct weights_registry none = {0};
    return load_all(&(struct loading){config, &none, NULL, faults, warnings}, registry);
}

bool registry_reload(const struct config *config, const struct weights_registry *running,
                     struct registry_reload *options, struct weights_registry *registry, struct faults *faults,
                     struct faults *warnings)
{
    return load_all(&(struct loading){config, running, options, faults, warnings}, registry);
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
        const struct model *model = weight_set_model_under(set, set->rules.defaults.rules);
        if (!(model ? model_scratch_bytes(model_shape_of(model), inputs, 1, lanes, &bytes)
                    : forward_scratch_bytes(weight_set_default_shape(set), inputs, 1, lanes, &bytes)))
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
    const struct weight_set *set = name ? registry_named(registry, name) : registry->fallback;
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

bool registry_copy(const struct weights_registry *registry, struct weights_registry *copy)
{
    *copy = (struct weights_registry){.sets = calloc(registry->count + 1, sizeof *copy->sets)};
    if (!copy->sets)
        return false;
    copy->fallback = registry->fallback;
    for (; copy->count < registry->count; copy->count++)
        copy->sets[copy->count] = weight_set_hold(registry->sets[copy->count]);
    return true;
}

void registry_free(struct weights_registry *registry)
{
    for (size_t i = 0; i < registry->count; i++)
        weight_set_free(registry->sets[i]);
    free(registry->sets);
    *registry = (struct weights_registry){0};
}
