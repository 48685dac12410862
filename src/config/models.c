/* An item becomes an entry of source huggingface, as if it stood behind those of the file. One thread. */
#include "config/models.h"

#include "base/text.h"
#include "config/excerpt.h"
#include "config/weights_entry.h"
#include "config/weights_keys.h"

#include <stdlib.h>
#include <string.h>

static bool is_taken(const struct config *config, const char *name)
{
    bool taken = false;
    for (size_t i = 0; i < config->weights_count; i++)
        taken |= config->weights[i].name && strcmp(config->weights[i].name, name) == 0;
    return taken;
}

/* Room for one more. */
static bool grow(struct config *config)
{
    struct weights_config *more = reallocarray(config->weights, config->weights_count + 1, sizeof *more);
    if (more)
        config->weights = more;
    return more != NULL;
}

static void add(struct config *config, const char *item, size_t length, const char *given_by, struct faults *faults)
{
    const char *equals = memchr(item, '=', length);
    char shown[EXCERPT_BYTES];
    excerpt_write(shown, item, length);
    if (!equals || equals + 1 == item + length) {
        faults_add(faults, given_by, 0, NULL,
                   "expected NAME=PATH, the name of the set and the model's folder, got \"%s\"", shown);
        return;
    }
    struct weights_config set = {.name = text_copy(item, (size_t)(equals - item)),
                                 .source = WEIGHTS_HUGGINGFACE,
                                 .required = true,
                                 .path = text_copy(equals + 1, (size_t)(item + length - equals - 1)),
                                 .given_by = given_by};
    if (!set.name || !set.path) {
        faults->out_of_memory = true;
    } else if (!weights_entry_is_name(set.name)) {
        faults_add(faults, given_by, 0, NULL,
                   "expected NAME=PATH with a name of 1 to %d letters, digits, '.', '_' and '-', got \"%s\"",
                   WEIGHTS_NAME_BYTES, shown);
    } else if (is_taken(config, set.name)) {
        faults_add(faults, given_by, 0, NULL, "the name \"%s\" is taken by another weight set", set.name);
    } else if (!grow(config)) {
        faults->out_of_memory = true;
    } else {
        config->weights[config->weights_count++] = set;
        return;
    }
    weights_entry_free(&set);
}

void models_add(struct config *config, const char *const *items, size_t count, const char *given_by,
                struct faults *faults)
{
    for (size_t i = 0; i < count; i++)
        add(config, items[i], strlen(items[i]), given_by, faults);
}

void models_add_text(struct config *config, const char *text, const char *given_by, struct faults *faults)
{
    for (const char *at = text + strspn(text, " "); *at;) {
        const size_t to_comma = strcspn(at, ",");
        size_t length = to_comma;
        while (length && at[length - 1] == ' ')
            length--;
        add(config, at, length, given_by, faults);
        at += to_comma;
        at += *at == ',';
        at += strspn(at, " ");
    }
}
