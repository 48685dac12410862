/* Puts the configuration together: defaults, file, environment, flags, and the checks that need all of it. One thread.
 */
#include "config/config.h"

#include "base/text.h"
#include "config/checks.h"
#include "config/config_file.h"
#include "config/environment.h"
#include "config/excerpt.h"
#include "config/keys.h"
#include "config/models.h"
#include "config/string_list.h"
#include "config/weights_entry.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What is served where no file says: the demo set, drawn by NumPy's generator from WEIGHTS_NUMPY_SEED. */
static const char built_in_name[] = "demo";
#define BUILT_IN_D_MODEL   64
#define BUILT_IN_NUM_HEADS 8

static const struct config_key *find_key(const char *name)
{
    size_t count;
    const struct config_key *keys = config_keys(&count);
    for (size_t i = 0; i < count; i++)
        if (!*keys[i].section && strcmp(keys[i].name, name) == 0)
            return &keys[i];
    abort(); /* the names asked for are in the table */
}

static void read_flags(const struct config_flags *flags, struct config *config, struct faults *faults)
{
    const struct config_key *key = find_key("listen");
    struct string_list items = {0};
    struct error error;
    bool right = true;

    for (size_t i = 0; i < flags->listen_count; i++) {
        if (config_list_add(key, &items, flags->listen[i], strlen(flags->listen[i]), &error))
            continue;
        right = false;
        if (error.code == ERROR_OUT_OF_MEMORY)
            faults->out_of_memory = true;
        else
            faults_add(faults, "--listen", 0, NULL, "%s", error.message);
    }
    if (right && items.count && !config_list_set(key, config, &items, &error))
        faults_add(faults, "--listen", 0, NULL, "%s", error.message);
    string_list_free(&items);
}

/* Those of the flags, or else of the environment (NULL: none). */
static void add_models(const struct config_flags *flags, const char *environment, struct config *config,
                       struct faults *faults)
{
    if (flags->model_count)
        models_add(config, flags->models, flags->model_count, "--model", faults);
    else if (environment)
        models_add_text(config, environment, "ATTND_MODELS", faults);
}

static bool add_built_in(struct config *config)
{
    struct weights_config *set = calloc(1, sizeof *set);
    char *name = strdup(built_in_name);
    if (!set || !name) {
        free(set);
        free(name);
        return false;
    }
    *set = (struct weights_config){.name = name,
                                   .source = WEIGHTS_NUMPY,
                                   .required = true,
                                   .d_model = BUILT_IN_D_MODEL,
                                   .num_heads = BUILT_IN_NUM_HEADS,
                                   .scale = WEIGHTS_NUMPY_SCALE,
                                   .seed = WEIGHTS_NUMPY_SEED};
    config->weights = set;
    config->weights_count = 1;
    return true;
}

/* default_weights names one of the sets, which all have names. The fault belongs to the variable, or to the file's
 * line, before the faults behind it. */
static void check_default_weights(const struct config *config, const struct config_file *found, bool from_environment,
                                  struct faults *faults)
{
    char shown[EXCERPT_BYTES];
    struct text names = {0};
    size_t before = faults->count;

    for (size_t i = 0; i < config->weights_count; i++)
        if (strcmp(config->weights[i].name, config->default_weights) == 0)
            return;
    for (size_t i = 0; i < config->weights_count; i++)
        text_append_format(&names, "%s\"%s\"", i ? ", " : "", config->weights[i].name);
    excerpt_write(shown, config->default_weights, strlen(config->default_weights));
    const char *known = text_terminate(&names);
    if (!known)
        faults->out_of_memory = true;
    else
        faults_add(faults, from_environment ? "ATTND_DEFAULT_WEIGHTS" : config->file,
                   from_environment ? 0 : found->default_weights_line, from_environment ? NULL : "/default_weights",
                   "there is no weight set \"%s\"; %s%s", shown, *known ? "there is " : "`weights` is empty", known);
    if (!from_environment && faults->count > before)
        faults_move_last(faults, found->default_weights_fault);
    text_free(&names);
}

static void load(const struct config_flags *flags, const char *const *environment, struct config *config,
                 struct faults *faults, struct faults *warnings)
{
    struct config_file found = {.weights_known = true};
    bool default_from_environment;
    const char *models;

    if (!config_set_defaults(config) || (flags->file && !(config->file = strdup(flags->file)))) {
        faults->out_of_memory = true;
        return;
    }
    if (flags->file)
        config_file_read(flags->file, config, &found, faults);
    if (faults->out_of_memory)
        return;
    environment_read(environment, config, &default_from_environment, &models, faults, warnings);
    read_flags(flags, config, faults);
    add_models(flags, models, config, faults);
    if (!found.has_weights) { /* the first there is serves requests that name none */
        const bool says = found.has_default_weights || default_from_environment;
        if ((config->weights_count == 0 && !add_built_in(config)) ||
            (!says && !(config->default_weights = strdup(config->weights[0].name))))
            faults->out_of_memory = true;
    }
    if (config->default_weights && found.weights_known && !faults->out_of_memory)
        check_default_weights(config, &found, default_from_environment, faults);
    config_check(config, faults);
}

bool config_load(const struct config_flags *flags, const char *const *environment, struct config *config,
                 struct faults *faults, struct faults *warnings)
{
    size_t before = faults->count;
    *config = (struct config){0};
    load(flags, environment, config, faults, warnings);
    return faults->count == before && !faults->out_of_memory;
}

void config_fault(const struct config *config, const char *pointer, const char *message, struct faults *faults)
{
    char variable[CONFIG_VARIABLE_BYTES], own[CONFIG_VARIABLE_BYTES];
    const char *file = config->file ? config->file : "configuration";
    size_t count, i = 0;
    const struct config_key *keys = config_keys(&count);
    for (; pointer && i < count; i++) {
        snprintf(own, sizeof own, "/%s%s%s", keys[i].section, *keys[i].section ? "/" : "", keys[i].name);
        if (strcmp(own, pointer) == 0)
            break;
    }
    if (!pointer || i == count) {
        faults_add(faults, file, 0, pointer, "%s", message);
    } else if (config->given[i] == CONFIG_GIVEN_BY_VARIABLE) {
        config_key_variable(&keys[i], variable);
        faults_add(faults, variable, 0, NULL, "%s", message);
    } else {
        faults_add(faults, file, config->given[i], pointer, "%s", message);
    }
}

char *config_path(const struct config *config, const char *path)
{
    const char *slash = config->file ? strrchr(config->file, '/') : NULL;
    char *joined;
    if (path[0] == '/' || !slash)
        return strdup(path);
    return asprintf(&joined, "%.*s%s", (int)(slash + 1 - config->file), config->file, path) < 0 ? NULL : joined;
}

void config_free(struct config *config)
{
    size_t count;
    const struct config_key *keys = config_keys(&count);
    for (size_t i = 0; i < count; i++) {
        char *place = (char *)config + keys[i].offset;
        if (keys[i].type == CONFIG_STRING || keys[i].type == CONFIG_CHOICE)
            free(*(char **)place);
        if (keys[i].type == CONFIG_LIST) {
            struct string_list items = {.items = *(char ***)place,
                                        .count = *(size_t *)((char *)config + keys[i].count_offset)};
            string_list_free(&items);
        }
    }
    for (size_t i = 0; i < config->weights_count; i++)
        weights_entry_free(&config->weights[i]);
    free(config->weights);
    free(config->file);
    *config = (struct config){0};
}
