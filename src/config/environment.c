/* Reads the environment with the table of keys. One thread, before any other reads or changes it. */
#include "config/environment.h"

#include "base/nearest.h"
#include "config/excerpt.h"
#include "config/keys.h"

#include <string.h>

#define PREFIX      "ATTND_"
#define MODELS_NAME "MODELS" /* no key's: weight sets */
#define MODELS      PREFIX MODELS_NAME
#define MAX_KNOWN   CONFIG_MAX_KEYS

static const struct config_key *find(const char *name, size_t length)
{
    char variable[CONFIG_VARIABLE_BYTES];
    size_t count;
    const struct config_key *keys = config_keys(&count);
    for (size_t i = 0; i < count; i++) {
        config_key_variable(&keys[i], variable);
        if (strlen(variable) == length && memcmp(variable, name, length) == 0)
            return &keys[i];
    }
    return NULL;
}

static bool set(const struct config_key *key, struct config *config, const char *value, struct error *error)
{
    char shown[EXCERPT_BYTES];
    if (key->type == CONFIG_LIST) {
        struct string_list items = {0};
        bool done = config_list_split(key, &items, value, error) && config_list_set(key, config, &items, error);
        string_list_free(&items);
        return done;
    }
    excerpt_write(shown, value, strlen(value));
    const char *text = key->type == CONFIG_STRING && !*value ? NULL : value;
    return config_key_set(key, config, text, strlen(value), shown, error);
}

static void warn(struct faults *warnings, const char *name)
{
    char variables[MAX_KNOWN][CONFIG_VARIABLE_BYTES];
    const char *known[MAX_KNOWN + 1];
    const char *own = name + strlen(PREFIX);
    size_t count;
    const struct config_key *keys = config_keys(&count);

    if (strncmp(own, "SERVICE_", 8) == 0 || strncmp(own, "PORT_", 5) == 0 || strcmp(own, "PORT") == 0) {
        faults_add(warnings, name, 0, NULL,
                   "is no setting of attnd and is ignored; Kubernetes sets it for a Service of that name "
                   "(enableServiceLinks: false "
                   "keeps it out)");
        return;
    }
    for (size_t i = 0; i < count; i++) {
        config_key_variable(&keys[i], variables[i]);
        known[i] = variables[i] + strlen(PREFIX);
    }
    known[count] = MODELS_NAME;
    const char *near = nearest_name(own, known, count + 1);
    faults_add(warnings, name, 0, NULL, "is no setting of attnd and is ignored%s%s%s",
               near ? "; did you mean " PREFIX : "", near ? near : "", near ? "?" : "");
}

void environment_read(const char *const *environment, struct config *config, bool *default_weights, const char **models,
                      struct faults *faults, struct faults *warnings)
{
    *default_weights = false;
    *models = NULL;
    for (; *environment; environment++) {
        const char *equals = strchr(*environment, '=');
        if (strncmp(*environment, PREFIX, strlen(PREFIX)) != 0 || !equals)
            continue;
        size_t length = (size_t)(equals - *environment);
        char name[EXCERPT_BYTES];
        excerpt_write(name, *environment, length);
        const struct config_key *key = find(*environment, length);
        struct error error;
        if (strcmp(name, MODELS) == 0) {
            *models = equals + 1;
            continue;
        }
        if (!key) {
            if (strcmp(name, "ATTND_ISA") != 0) /* the engine's */
                warn(warnings, name);
            continue;
        }
        size_t count;
        config->given[key - config_keys(&count)] = CONFIG_GIVEN_BY_VARIABLE;
        if (set(key, config, equals + 1, &error)) {
            *default_weights |= strcmp(name, "ATTND_DEFAULT_WEIGHTS") == 0;
        } else if (error.code == ERROR_OUT_OF_MEMORY) {
            faults->out_of_memory = true;
        } else {
            faults_add(faults, name, 0, NULL, "%s", error.message);
        }
    }
}
