/* Prints the loader's tables of keys as JSON, for the tests of the schema and of the documentation. */
#include "base/text.h"
#include "config/keys.h"
#include "config/weights_keys.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void append_string(struct text *text, const char *string)
{
    text_append_json(text, string, strlen(string));
}

static void append_names(struct text *text, const char *member, const char *const *names, unsigned chosen)
{
    const char *comma = "";
    text_append_format(text, ", \"%s\": [", member);
    for (size_t i = 0; names[i]; i++) {
        if (!(chosen & 1U << i))
            continue;
        text_append_string(text, comma);
        append_string(text, names[i]);
        comma = ", ";
    }
    text_append_string(text, "]");
}

static void append_key(struct text *text, const struct config_key *key)
{
    static const char *const types[] = {"bool", "integer", "number", "choice", "string", "list"};
    char variable[CONFIG_VARIABLE_BYTES];
    config_key_variable(key, variable);
    text_append_format(text, "{\"section\": \"%s\", \"name\": \"%s\", \"type\": \"%s\", \"variable\": \"%s\"",
                       key->section, key->name, types[key->type], variable);
    if (key->type == CONFIG_INTEGER || key->type == CONFIG_NUMBER || key->type == CONFIG_LIST)
        text_append_format(text, ", \"minimum\": %.16g, \"maximum\": %.16g", key->minimum, key->maximum);
    if (key->choices)
        append_names(text, "choices", key->choices, ~0U);
    text_append_string(text, ", \"default\": ");
    if (key->type == CONFIG_LIST)
        text_append_string(text, "[");
    if (!key->fallback)
        text_append_string(text, "null");
    else if (key->type == CONFIG_BOOL || key->type == CONFIG_INTEGER || key->type == CONFIG_NUMBER)
        text_append_string(text, key->fallback);
    else if (key->type != CONFIG_LIST || *key->fallback)
        append_string(text, key->fallback);
    text_append_string(text, key->type == CONFIG_LIST ? "]}" : "}");
}

static void append_weights_key(struct text *text, const struct weights_key *key)
{
    static const char *const types[] = {"name",   "source", "bool",   "integer", "integer",
                                        "number", "path",   "layout", "precision", "tensors", "rule",   "numbers", "object", "objects"};
    text_append_format(text,
                       "{\"name\": \"%s\", \"type\": \"%s\", \"minimum\": %.16g, \"maximum\": %.16g, \"default\": %s",
                       key->name, types[key->type], key->minimum, key->maximum, key->fallback ? key->fallback : "null");
    append_names(text, "sources", weights_source_names, key->sources);
    append_names(text, "required", weights_source_names, key->required);
    text_append_string(text, "}");
}

int main(void)
{
    struct text text = {0};
    size_t count;
    const struct config_key *keys = config_keys(&count);
    text_append_string(&text, "{\"keys\": [\n");
    for (size_t i = 0; i < count; i++) {
        append_key(&text, &keys[i]);
        text_append_string(&text, i + 1 < count ? ",\n" : "],\n\"weights\": [\n");
    }
    const struct weights_key *weights = weights_keys(&count);
    for (size_t i = 0; i < count; i++) {
        append_weights_key(&text, &weights[i]);
        text_append_string(&text, i + 1 < count ? ",\n" : "]");
    }
    append_names(&text, "tensors", weight_tensor_names, ~0U);
    append_names(&text, "layouts", weights_layout_names, ~0U);
    append_names(&text, "precisions", weights_precision_names, ~0U);
    text_append_string(&text, "}\n");
    const char *printed = text_terminate(&text);
    bool done = printed && fputs(printed, stdout) >= 0 && fflush(stdout) == 0;
    text_free(&text);
    return done ? EXIT_SUCCESS : EXIT_FAILURE;
}
