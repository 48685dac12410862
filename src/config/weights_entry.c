/* Reads one weight set's entry: which keys its source takes, their values, and whether they agree. One thread. */
#include "config/weights_entry.h"

#include "base/text.h"
#include "config/excerpt.h"
#include "config/value.h"
#include "config/weights_keys.h"
#include "config/weights_tensors.h"

#include <assert.h>
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_KEYS      32
#define POINTER_BYTES 64 /* "/weights/", 20 digits, "/num_kv_heads" */

struct entry {
    struct document *document;
    size_t index;
    struct weights_config *set;
    const char *place;               /* of its opening brace */
    const char *key_place[MAX_KEYS]; /* of each key that was given, by its row in the table */
    unsigned sources;                /* the bit of its source, or all while that is unknown */
};

static const char *pointer_to(const struct entry *entry, const char *key, char *buffer)
{
    snprintf(buffer, POINTER_BYTES, "/weights/%zu%s%s", entry->index, *key ? "/" : "", key);
    return buffer;
}

/* Looks ahead for `source`, which decides what the other keys may be, wherever it stands. The reader is left where it
 * was. */
static bool find_source(struct entry *entry)
{
    struct document *document = entry->document;
    struct json_reader before = document->reader;
    struct json_key key;
    struct error error;
    enum json_step step;
    size_t source;

    if (!json_enter_object(&document->reader, &error))
        return document_stop(document, &error);
    while ((step = json_next_member(&document->reader, &key, &error)) != JSON_DONE) {
        const char *begin, *end;
        /* A member given twice is a fault of the reading that follows; the first one counts. */
        if (step == JSON_FAILED && error.code != ERROR_DUPLICATE_MEMBER)
            return document_stop(document, &error);
        if (step == JSON_ITEM && json_key_is(&key, "source") && json_peek(&document->reader) == JSON_STRING) {
            size_t length;
            char *name;
            if (!json_read_string(&document->reader, &name, &length, &error))
                return document_stop(document, &error);
            if (value_choice(name, length, weights_source_names, "", &source, &error)) {
                entry->set->source = (enum weights_source)source;
                entry->sources = WEIGHTS_OF(source);
            }
            free(name);
        } else if (!document_skip(document, &begin, &end)) {
            return false;
        }
    }
    document->reader = before;
    return true;
}

bool weights_entry_is_name(const char *name)
{
    size_t length = strlen(name);
    if (length == 0 || length > WEIGHTS_NAME_BYTES)
        return false;
    for (size_t i = 0; i < length; i++) {
        unsigned char c = (unsigned char)name[i];
        if (c >= 0x80 || (!isalnum(c) && c != '.' && c != '_' && c != '-'))
            return false;
    }
    return true;
}

/* A relative path is relative to the folder of the configuration file. Takes `path` (fresh memory) and returns what it
 * is to be; NULL when memory ran out. */
static char *beside(const char *file, char *path)
{
    const char *slash = strrchr(file, '/');
    if (path[0] == '/' || !slash)
        return path;
    char *joined;
    if (asprintf(&joined, "%.*s%s", (int)(slash + 1 - file), file, path) < 0)
        joined = NULL;
    free(path);
    return joined;
}

static bool read_string_key(struct entry *entry, const struct weights_key *key, const char *place)
{
    struct document *document = entry->document;
    char *string, shown[EXCERPT_BYTES], quoted[EXCERPT_BYTES + 2];
    struct error error;
    size_t choice;

    if (!document_string(document, place, &string))
        return false;
    if (!string)
        return true;
    excerpt_write(shown, string, strlen(string));
    snprintf(quoted, sizeof quoted, "\"%s\"", shown);
    switch (key->type) {
    case WEIGHTS_NAME:
        if (!weights_entry_is_name(string))
            document_fault(document, place, NULL, "expected 1 to %d letters, digits, '.', '_' and '-', got %s",
                           WEIGHTS_NAME_BYTES, quoted);
        entry->set->name = string;
        return true;
    case WEIGHTS_PATH:
        if (!*string)
            document_fault(document, place, NULL,
                           "expected the path of a safetensors file or of a model's folder, got \"\"");
        entry->set->path = beside(document->file, string);
        if (!entry->set->path)
            document->faults->out_of_memory = true;
        return entry->set->path != NULL;
    case WEIGHTS_SOURCE:
        if (!value_choice(string, strlen(string), weights_source_names, quoted, &choice, &error))
            document_fault(document, place, NULL, "%s", error.message);
        break;
    case WEIGHTS_LAYOUT:
        if (value_choice(string, strlen(string), weights_layout_names, quoted, &choice, &error))
            entry->set->layout = (enum weights_layout)choice;
        else
            document_fault(document, place, NULL, "%s", error.message);
        break;
    case WEIGHTS_PRECISION:
        if (value_choice(string, strlen(string), weights_precision_names, quoted, &choice, &error))
            entry->set->precision = (enum weights_precision)choice;
        else
            document_fault(document, place, NULL, "%s", error.message);
        break;
    default:
        break;
    }
    free(string);
    return true;
}

static bool read_plain_key(struct entry *entry, const struct weights_key *key, const char *place)
{
    struct document *document = entry->document;
    char shown[EXCERPT_BYTES];
    const char *begin, *end;
    struct error error;
    double number;
    bool fits;

    if (!document_skip(document, &begin, &end))
        return false;
    document_shown(shown, begin, end);
    char *member = (char *)entry->set + key->offset;
    if (key->type == WEIGHTS_BOOL) {
        fits = value_bool(begin, (size_t)(end - begin), shown, (bool *)member, &error);
    } else {
        fits = value_number(begin, (size_t)(end - begin), key->type != WEIGHTS_SCALE, key->minimum, key->maximum, shown,
                            &number, &error);
        if (fits && key->type == WEIGHTS_SIZE)
            *(size_t *)member = (size_t)number;
        if (fits && key->type == WEIGHTS_SEED)
            *(uint32_t *)member = (uint32_t)number;
        if (fits && key->type == WEIGHTS_SCALE) {
            *(double *)member = number;
            entry->set->has_scale = true;
        }
    }
    if (!fits)
        document_fault(document, place, NULL, "%s", error.message);
    return true;
}

static bool is_object(const struct weights_key *key)
{
    return key->type == WEIGHTS_RULE || key->type == WEIGHTS_OBJECT;
}

static bool is_text(const struct weights_key *key)
{
    return is_object(key) || key->type == WEIGHTS_LIST || key->type == WEIGHTS_OBJECTS;
}

/* A value that is kept as it was written, null as nothing. */
static bool read_text_key(struct entry *entry, const struct weights_key *key, const char *place)
{
    struct document *document = entry->document;
    struct weights_text *member = (struct weights_text *)((char *)entry->set + key->offset);
    const enum json_type wanted = is_object(key) ? JSON_OBJECT : JSON_ARRAY;
    const char *begin, *end;
    bool stopped;

    if (json_peek(&document->reader) == JSON_NULL && is_object(key))
        return document_skip(document, &begin, &end);
    if (!document_expect(document, wanted, place, &stopped))
        return !stopped;
    if (!document_skip(document, &begin, &end))
        return false;
    *member = (struct weights_text){.text = text_copy(begin, (size_t)(end - begin)),
                                    .length = (size_t)(end - begin),
                                    .line = document_line(document, begin)};
    if (!member->text)
        document->faults->out_of_memory = true;
    return member->text != NULL;
}

/* The key's sources in words: "numpy", "numpy or identity". */
static void name_sources(unsigned sources, char *to, size_t size)
{
    size_t written = 0;
    for (size_t i = 0; weights_source_names[i]; i++)
        if (sources & WEIGHTS_OF(i) && written < size)
            written +=
                (size_t)snprintf(to + written, size - written, "%s%s", written ? " or " : "", weights_source_names[i]);
}

static bool read_member(struct entry *entry, const struct json_key *name)
{
    struct document *document = entry->document;
    const char *known[MAX_KEYS], *begin, *end;
    size_t count, known_count = 0, row = 0;
    const struct weights_key *keys = weights_keys(&count);
    char sources[64];

    while (row < count && !json_key_is(name, keys[row].name))
        row++;
    if (row == count) {
        for (size_t i = 0; i < count; i++)
            if (keys[i].sources & entry->sources)
                known[known_count++] = keys[i].name;
        return document_unknown_key(document, name, known, known_count) && document_skip(document, &begin, &end);
    }
    const struct weights_key *key = &keys[row];
    entry->key_place[row] = name->raw;
    if (!(key->sources & entry->sources)) {
        name_sources(key->sources, sources, sizeof sources);
        document_fault(document, name->raw, NULL, "belongs to source %s; this set's source is %s", sources,
                       weights_source_names[entry->set->source]);
        return document_skip(document, &begin, &end);
    }
    switch (key->type) {
    case WEIGHTS_NAME:
    case WEIGHTS_SOURCE:
    case WEIGHTS_PATH:
    case WEIGHTS_LAYOUT:
    case WEIGHTS_PRECISION:
        return read_string_key(entry, key, name->raw);
    case WEIGHTS_TENSORS:
        return weights_tensors_read(document, name->raw, entry->set->tensors);
    case WEIGHTS_RULE:
    case WEIGHTS_LIST:
    case WEIGHTS_OBJECT:
    case WEIGHTS_OBJECTS:
        return read_text_key(entry, key, name->raw);
    case WEIGHTS_BOOL:
    case WEIGHTS_SIZE:
    case WEIGHTS_SEED:
    case WEIGHTS_SCALE:
        break;
    }
    return read_plain_key(entry, key, name->raw);
}

/* Where the key was given, else the entry's own place. */
static const char *place_of(const struct entry *entry, const char *name)
{
    size_t count;
    const struct weights_key *keys = weights_keys(&count);
    for (size_t i = 0; i < count; i++)
        if (strcmp(keys[i].name, name) == 0 && entry->key_place[i])
            return entry->key_place[i];
    return entry->place;
}

static void check_missing(struct entry *entry)
{
    char pointer[POINTER_BYTES];
    size_t count;
    const struct weights_key *keys = weights_keys(&count);
    for (size_t i = 0; i < count; i++) {
        /* While the source is not known, only what every source needs is known to be missing. */
        if (entry->key_place[i] || (keys[i].required & entry->sources) != entry->sources)
            continue;
        if (keys[i].type == WEIGHTS_SOURCE)
            document_fault(
                entry->document, entry->place, pointer_to(entry, "", pointer),
                "missing \"source\": \"numpy\", \"identity\", \"safetensors\", \"blocks\" or \"huggingface\"");
        else if (keys[i].type == WEIGHTS_TENSORS)
            document_fault(entry->document, entry->place, pointer_to(entry, "", pointer),
                           "missing \"tensors\": the file's names of W_Q, W_K and W_V (or W_QKV) and of W_O");
        else
            document_fault(entry->document, entry->place, pointer_to(entry, "", pointer), "missing \"%s\"",
                           keys[i].name);
    }
}

static void check_shape(struct entry *entry)
{
    const struct weights_config *set = entry->set;
    char pointer[POINTER_BYTES];
    if (set->d_model && set->num_heads && !set->d_k && set->d_model % set->num_heads != 0)
        document_fault(entry->document, place_of(entry, "num_heads"), pointer_to(entry, "num_heads", pointer),
                       "d_model %zu is not a multiple of num_heads %zu%s", set->d_model, set->num_heads,
                       set->source >= WEIGHTS_SAFETENSORS ? " and no d_k is given" : "");
    if (set->num_kv_heads && set->num_heads && set->num_heads % set->num_kv_heads != 0)
        document_fault(entry->document, place_of(entry, "num_kv_heads"), pointer_to(entry, "num_kv_heads", pointer),
                       "num_heads %zu is not a multiple of num_kv_heads %zu", set->num_heads, set->num_kv_heads);
}

bool weights_entry_read(struct document *document, size_t index, struct weights_config *set)
{
    struct entry entry = {.document = document, .index = index, .set = set, .sources = WEIGHTS_OF_ALL};
    struct json_key key;
    struct error error;
    enum json_step step;
    bool stopped;
    size_t count;

    weights_keys(&count);
    assert(count <= MAX_KEYS);
    enum json_type type = json_peek(&document->reader);
    entry.place = document->reader.at;
    set->required = true;
    if (type != JSON_OBJECT)
        return document_expect(document, JSON_OBJECT, entry.place, &stopped) || !stopped;
    set->line = document_line(document, entry.place);
    if (!find_source(&entry))
        return false;
    if (set->source == WEIGHTS_NUMPY) {
        set->seed = WEIGHTS_NUMPY_SEED;
        set->scale = WEIGHTS_NUMPY_SCALE;
    }
    if (!json_enter_object(&document->reader, &error))
        return document_stop(document, &error);
    while ((step = document_next_member(document, &key)) == JSON_ITEM)
        if (!read_member(&entry, &key))
            return false;
    if (step == JSON_FAILED)
        return false;
    check_missing(&entry);
    check_shape(&entry);
    return true;
}

/* The member that `pointer` begins with, "/pattern" of "/pattern/left"; *rest: what follows. NULL: none that is kept as
 * text. */
static const struct weights_text *text_of(const struct weights_config *set, const char *pointer, const char **rest)
{
    size_t count;
    const struct weights_key *keys = weights_keys(&count);
    for (size_t i = 0; i < count; i++) {
        const size_t length = strlen(keys[i].name);
        if (!is_text(&keys[i]) || *pointer != '/' || strncmp(pointer + 1, keys[i].name, length) != 0 ||
            (pointer[1 + length] && pointer[1 + length] != '/'))
            continue;
        *rest = pointer + 1 + length;
        return (const struct weights_text *)((const char *)set + keys[i].offset);
    }
    return NULL;
}

/* Goes on to the element of an array that the pointer names next. */
static bool find_element(struct json_reader *r, const char **pointer, const char **place)
{
    char *end;
    const unsigned long wanted = strtoul(*pointer + 1, &end, 10);
    struct error error;
    if (end == *pointer + 1 || (*end && *end != '/') || !json_enter_array(r, &error))
        return false;
    for (unsigned long i = 0; json_next_element(r, &error) == JSON_ITEM; i++) {
        json_peek(r);
        if (i == wanted) {
            *place = r->at;
            *pointer = end;
            return true;
        }
        if (!json_skip(r, NULL, NULL, &error))
            return false;
    }
    return false;
}

/* Goes on to the value of the member that the pointer names next. */
static bool find_member(struct json_reader *r, const char **pointer, const char **place)
{
    const size_t length = strcspn(*pointer + 1, "/");
    struct json_key key;
    struct error error;
    if (json_peek(r) == JSON_ARRAY)
        return find_element(r, pointer, place);
    if (json_peek(r) != JSON_OBJECT || !json_enter_object(r, &error))
        return false;
    while (json_next_member(r, &key, &error) == JSON_ITEM) {
        if (key.length == length && memcmp(key.raw, *pointer + 1, length) == 0) {
            *place = key.raw;
            *pointer += 1 + length;
            return true;
        }
        if (!json_skip(r, NULL, NULL, &error))
            return false;
    }
    return false;
}

size_t weights_entry_line(const struct weights_config *set, const char *pointer)
{
    const struct weights_text *member = text_of(set, pointer, &pointer);
    struct json_reader r;
    const char *place;
    if (!member || !member->text || !set->line)
        return set->line;
    json_reader_init(&r, member->text, member->length);
    place = member->text;
    while (*pointer == '/' && find_member(&r, &pointer, &place))
        ;
    return member->line + json_line(&r, place) - 1;
}

void weights_entry_free(struct weights_config *set)
{
    size_t count;
    const struct weights_key *keys = weights_keys(&count);
    for (size_t i = 0; i < count; i++)
        if (is_text(&keys[i]))
            free(((struct weights_text *)((char *)set + keys[i].offset))->text);
    free(set->name);
    free(set->path);
    for (size_t i = 0; i < WEIGHT_TENSOR_COUNT; i++)
        free(set->tensors[i]);
    *set = (struct weights_config){0};
}
