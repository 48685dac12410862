/* Walks the configuration file: the keys of keys.h by section, and the list of weight sets. One thread. */
#include "config/config_file.h"

#include "base/file.h"
#include "config/document.h"
#include "config/excerpt.h"
#include "config/keys.h"
#include "config/weights_entry.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_KNOWN CONFIG_MAX_KEYS /* of one object */

struct reading {
    struct document document;
    struct config *config;
    struct config_file *found;
    bool unnamed; /* `weights`, or the name of one, could not be read */
};

/* The names that an object may have: the keys of a section; at the top also the sections and `weights`. */
static size_t known_names(const char *section, const char *names[MAX_KNOWN])
{
    size_t count, known = 0;
    const struct config_key *keys = config_keys(&count);
    bool top = !*section;
    for (size_t i = 0; i < count; i++) {
        if (strcmp(keys[i].section, section) == 0)
            names[known++] = keys[i].name;
        else if (top && strcmp(keys[i].section, keys[i - 1].section) != 0)
            names[known++] = keys[i].section;
    }
    if (top)
        names[known++] = "weights";
    return known;
}

/* Whether the member's value can be gone on behind: adds the fault of a value that was refused. */
static bool refused(struct document *document, const char *place, const struct error *error)
{
    if (error->code == ERROR_OUT_OF_MEMORY)
        return document_stop(document, error);
    document_fault(document, place, NULL, "%s", error->message);
    return true;
}

static bool read_list(struct reading *reading, const struct config_key *key, const char *place)
{
    struct document *document = &reading->document;
    struct string_list items = {0};
    struct error error;
    enum json_step step;
    bool stopped, right = true, going_on = false;
    char *item = NULL;

    if (!document_expect(document, JSON_ARRAY, place, &stopped))
        return !stopped;
    if (!json_enter_array(&document->reader, &error))
        return document_stop(document, &error);
    while ((step = json_next_element(&document->reader, &error)) == JSON_ITEM) {
        json_peek(&document->reader); /* to the value itself, behind any line ends */
        const char *item_place = document->reader.at;
        if (!document_string(document, item_place, &item))
            goto done;
        if (!item || !config_list_add(key, &items, item, strlen(item), &error)) {
            if (item && !refused(document, item_place, &error))
                goto done;
            right = false;
        }
        free(item);
        item = NULL;
    }
    if (step == JSON_FAILED)
        document_stop(document, &error);
    else
        going_on = !right || config_list_set(key, reading->config, &items, &error) || refused(document, place, &error);
done:
    free(item);
    string_list_free(&items);
    return going_on;
}

static bool read_key(struct reading *reading, const struct config_key *key, const char *place)
{
    struct document *document = &reading->document;
    char shown[EXCERPT_BYTES], quoted[EXCERPT_BYTES + 2];
    const char *begin, *end;
    struct error error;
    bool set;

    size_t count;
    reading->config->given[key - config_keys(&count)] = document_line(document, place);
    if (key->type == CONFIG_LIST)
        return read_list(reading, key, place);
    bool may_be_string = key->type == CONFIG_STRING || key->type == CONFIG_CHOICE;
    enum json_type type = json_peek(&document->reader);
    if (may_be_string && type == JSON_STRING) {
        char *string;
        if (!document_string(document, place, &string))
            return false;
        if (!string)
            return true;
        excerpt_write(shown, string, strlen(string));
        snprintf(quoted, sizeof quoted, "\"%s\"", shown);
        set = config_key_set(key, reading->config, string, strlen(string), quoted, &error);
        free(string);
        return set || refused(document, place, &error);
    }
    if (!document_skip(document, &begin, &end))
        return false;
    document_shown(shown, begin, end);
    if (key->type != CONFIG_STRING) {
        set = config_key_set(key, reading->config, begin, (size_t)(end - begin), shown, &error);
    } else if (type == JSON_NULL) {
        set = config_key_set(key, reading->config, NULL, 0, shown, &error);
    } else {
        document_fault(document, place, NULL, "expected a string or null, got %s", shown);
        return true;
    }
    return set || refused(document, place, &error);
}

static bool read_section(struct reading *reading, const char *section, const char *place)
{
    struct document *document = &reading->document;
    const char *known[MAX_KNOWN], *begin, *end;
    struct error error;
    struct json_key name;
    enum json_step step;
    bool stopped;
    size_t count;
    const struct config_key *keys = config_keys(&count);

    if (!document_expect(document, JSON_OBJECT, place, &stopped))
        return !stopped;
    if (!json_enter_object(&document->reader, &error))
        return document_stop(document, &error);
    while ((step = document_next_member(document, &name)) == JSON_ITEM) {
        size_t row = 0;
        while (row < count && !(strcmp(keys[row].section, section) == 0 && json_key_is(&name, keys[row].name)))
            row++;
        if (row < count ? !read_key(reading, &keys[row], name.raw)
                        : !document_unknown_key(document, &name, known, known_names(section, known)) ||
                              !document_skip(document, &begin, &end))
            return false;
    }
    return step == JSON_DONE;
}

/* A set that has the name of an earlier one. */
static void check_name(struct reading *reading, const char *place)
{
    const struct config *config = reading->config;
    size_t last = config->weights_count - 1;
    const char *name = config->weights[last].name;
    char pointer[64];
    if (!name) {
        reading->unnamed = true;
        return;
    }
    for (size_t i = 0; i < last; i++) {
        if (!config->weights[i].name || strcmp(config->weights[i].name, name) != 0)
            continue;
        char shown[EXCERPT_BYTES];
        excerpt_write(shown, name, strlen(name));
        snprintf(pointer, sizeof pointer, "/weights/%zu/name", last);
        document_fault(&reading->document, place, pointer, "the name \"%s\" is taken by /weights/%zu", shown, i);
        return;
    }
}

static bool read_weights(struct reading *reading, const char *place)
{
    struct document *document = &reading->document;
    struct config *config = reading->config;
    struct error error;
    enum json_step step;
    bool stopped;
    size_t capacity = 0;

    reading->found->has_weights = true;
    if (!document_expect(document, JSON_ARRAY, place, &stopped)) {
        reading->unnamed = true;
        return !stopped;
    }
    if (!json_enter_array(&document->reader, &error))
        return document_stop(document, &error);
    while ((step = json_next_element(&document->reader, &error)) == JSON_ITEM) {
        if (config->weights_count == capacity) {
            capacity = capacity ? 2 * capacity : 4;
            struct weights_config *more = reallocarray(config->weights, capacity, sizeof *more);
            if (!more) {
                error_out_of_memory(&error);
                return document_stop(document, &error);
            }
            config->weights = more;
        }
        struct weights_config *set = &config->weights[config->weights_count];
        *set = (struct weights_config){0};
        config->weights_count++;
        json_peek(&document->reader);
        const char *set_place = document->reader.at;
        if (!weights_entry_read(document, config->weights_count - 1, set))
            return false;
        check_name(reading, set_place);
    }
    return step == JSON_DONE || document_stop(document, &error);
}

static bool read_top_member(struct reading *reading, const struct json_key *name)
{
    struct document *document = &reading->document;
    const char *known[MAX_KNOWN], *begin, *end;
    size_t count, known_count = known_names("", known);
    const struct config_key *keys = config_keys(&count);

    if (json_key_is(name, "weights"))
        return read_weights(reading, name->raw);
    if (json_key_is(name, "default_weights")) {
        reading->found->has_default_weights = true;
        reading->found->default_weights_line = document_line(document, name->raw);
        reading->found->default_weights_fault = document->faults->count;
    }
    for (size_t i = 0; i < count; i++) {
        if (!*keys[i].section && json_key_is(name, keys[i].name))
            return read_key(reading, &keys[i], name->raw);
        if (*keys[i].section && json_key_is(name, keys[i].section))
            return read_section(reading, keys[i].section, name->raw);
    }
    return document_unknown_key(document, name, known, known_count) && document_skip(document, &begin, &end);
}

void config_file_read_text(const char *file, const char *text, size_t length, struct config *config,
                           struct config_file *found, struct faults *faults)
{
    struct reading reading = {.config = config, .found = found};
    struct document *document = &reading.document;
    struct error error;
    struct json_key name;
    enum json_step step;
    bool stopped;

    *found = (struct config_file){0};
    document_init(document, file, text, length, faults);
    json_peek(&document->reader);
    if (!document_expect(document, JSON_OBJECT, document->reader.at, &stopped))
        return;
    if (!json_enter_object(&document->reader, &error)) {
        document_stop(document, &error);
        return;
    }
    while ((step = document_next_member(document, &name)) == JSON_ITEM)
        if (!read_top_member(&reading, &name))
            return;
    if (step == JSON_FAILED)
        return;
    if (json_finish(&document->reader, &error))
        found->weights_known = !reading.unnamed;
    else
        document_stop(document, &error);
}

void config_file_read(const char *file, struct config *config, struct config_file *found, struct faults *faults)
{
    struct text text = {0};
    *found = (struct config_file){0};
    const int failed = file_read(file, CONFIG_FILE_BYTES, &text);
    if (failed == ENOMEM)
        faults->out_of_memory = true;
    else if (failed == EFBIG)
        faults_add(faults, file, 0, NULL, "is longer than %zu bytes, the most that is read", CONFIG_FILE_BYTES);
    else if (failed)
        faults_add(faults, file, 0, NULL, "cannot be read: %s", strerror(failed));
    else
        config_file_read_text(file, text.data, text.length, config, found, faults);
    text_free(&text);
}
