/* The walk through a JSON text: values, objects, arrays. Entered by whichever thread decodes; one thread at a time for
 * a reader.
 *
 * Levels are kept in the reader, so the depth of a text costs no stack. A function that fails on a value of the wrong
 * type or range leaves the reader before it. */
#include "json/reader.h"

#include "json/escape.h"
#include "json/names.h"
#include "json/number.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A number that is shown in a message is cut to this. */
#define SHOWN_BYTES 40

void json_reader_init(struct json_reader *r, const char *text, size_t length)
{
    r->begin = r->at = text;
    r->end = text + length;
    r->depth = 0;
    r->num_names = 0;
}

void json_reader_init_member(struct json_reader *r, const char *name, const char *text, size_t length)
{
    json_reader_init(r, text, length);
    r->level[0] = (struct json_level){
        .key = {.raw = name, .length = strlen(name)}, .is_object = true, .started = true, .inside = true};
    r->depth = 1;
}

static void pass_space(struct json_reader *r)
{
    while (r->at < r->end && (*r->at == ' ' || *r->at == '\n' || *r->at == '\r' || *r->at == '\t'))
        r->at++;
}

static bool next_is(const struct json_reader *r, char c)
{
    return r->at < r->end && *r->at == c;
}

enum json_type json_peek(struct json_reader *r)
{
    pass_space(r);
    if (r->at == r->end)
        return JSON_END;
    switch (*r->at) {
    case '{':
        return JSON_OBJECT;
    case '[':
        return JSON_ARRAY;
    case '"':
        return JSON_STRING;
    case 't':
        return JSON_TRUE;
    case 'f':
        return JSON_FALSE;
    case 'n':
        return JSON_NULL;
    case '-':
        return JSON_NUMBER;
    default:
        return *r->at >= '0' && *r->at <= '9' ? JSON_NUMBER : JSON_INVALID;
    }
}

const char *json_type_name(enum json_type type)
{
    static const char *const names[] = {
        [JSON_END] = "the end of the text",
        [JSON_OBJECT] = "an object",
        [JSON_ARRAY] = "an array",
        [JSON_STRING] = "a string",
        [JSON_NUMBER] = "a number",
        [JSON_TRUE] = "true",
        [JSON_FALSE] = "false",
        [JSON_NULL] = "null",
        [JSON_INVALID] = "something that is not JSON",
    };
    return names[type];
}

/* Passes the string at r->at, at its opening quote; *key is its inside. */
static bool pass_string(struct json_reader *r, struct json_key *key, struct error *error)
{
    const char *at = r->at + 1;
    bool escaped;
    const char *expected = escape_check(&at, r->end, &escaped);
    if (expected)
        return json_syntax_error(r, error, at, expected);
    *key = (struct json_key){.raw = r->at + 1, .length = (size_t)(at - r->at - 1), .escaped = escaped};
    r->at = at + 1;
    return true;
}

/* The fault of what stands at r->at and begins like a number. */
static bool number_syntax_error(const struct json_reader *r, const char *place, struct error *error)
{
    if (place > r->at && place[-1] == '0' && place < r->end && *place >= '0' && *place <= '9')
        return json_syntax_error(r, error, place, "no digit behind a leading zero");
    return json_syntax_error(r, error, place, "a digit");
}

/* Passes a value that is neither an object nor an array. */
static bool pass_scalar(struct json_reader *r, struct error *error)
{
    enum json_type type = json_peek(r);
    struct json_key string;
    const char *at = r->at, *word;
    switch (type) {
    case JSON_STRING:
        return pass_string(r, &string, error);
    case JSON_NUMBER:
        if (!number_skip(&at, r->end))
            return number_syntax_error(r, at, error);
        r->at = at;
        return true;
    case JSON_TRUE:
    case JSON_FALSE:
    case JSON_NULL:
        word = json_type_name(type);
        if ((size_t)(r->end - at) < strlen(word) || memcmp(at, word, strlen(word)) != 0)
            return json_syntax_error(r, error, at, "a value");
        r->at += strlen(word);
        return true;
    default:
        return json_syntax_error(r, error, at, "a value");
    }
}

bool json_type_error(struct json_reader *r, struct error *error, const char *wanted)
{
    enum json_type type = json_peek(r);
    const char *at = r->at;
    if (type != JSON_OBJECT && type != JSON_ARRAY && !pass_scalar(r, error))
        return false;
    r->at = at;
    return json_error(r, error, ERROR_INVALID, "expected %s, got %s", wanted, json_type_name(type));
}

static bool enter(struct json_reader *r, bool is_object, struct error *error)
{
    if (r->depth == JSON_MAX_DEPTH)
        return json_error(r, error, ERROR_NOT_JSON, "objects and arrays are nested deeper than %d, at byte %zu",
                          JSON_MAX_DEPTH, (size_t)(r->at - r->begin));
    r->at++;
    r->level[r->depth++] = (struct json_level){.is_object = is_object, .first_name = r->num_names};
    return true;
}

static enum json_step leave(struct json_reader *r)
{
    r->at++;
    r->depth--;
    r->num_names = r->level[r->depth].first_name;
    return JSON_DONE;
}

bool json_enter_object(struct json_reader *r, struct error *error)
{
    if (json_peek(r) != JSON_OBJECT)
        return json_type_error(r, error, "an object");
    return enter(r, true, error);
}

bool json_enter_array(struct json_reader *r, struct error *error)
{
    if (json_peek(r) != JSON_ARRAY)
        return json_type_error(r, error, "an array");
    return enter(r, false, error);
}

static enum json_step failed(bool always_false)
{
    (void)always_false;
    return JSON_FAILED;
}

/* Behind an item, or the opening bracket: to the next item (JSON_ITEM), or out of the level. */
static enum json_step next_item(struct json_reader *r, char closing, const char *expected, struct error *error)
{
    struct json_level *level = &r->level[r->depth - 1];
    level->inside = false;
    pass_space(r);
    if (next_is(r, closing))
        return leave(r);
    if (level->started) {
        if (!next_is(r, ','))
            return failed(json_syntax_error(r, error, r->at, expected));
        r->at++;
        pass_space(r);
    }
    level->started = true;
    return JSON_ITEM;
}

enum json_step names_next_unremembered(struct json_reader *r, struct json_key *key, struct error *error)
{
    struct json_level *level = &r->level[r->depth - 1];
    bool first = !level->started;
    enum json_step step = next_item(r, '}', "',' or '}'", error);
    if (step != JSON_ITEM)
        return step;
    if (!next_is(r, '"'))
        return failed(json_syntax_error(
            r, error, r->at, first ? "a member's name in double quotes or '}'" : "a member's name in double quotes"));
    struct json_key name;
    if (!pass_string(r, &name, error))
        return JSON_FAILED;
    pass_space(r);
    if (!next_is(r, ':'))
        return failed(json_syntax_error(r, error, r->at, "':'"));
    r->at++;
    level->key = name;
    level->inside = true;
    *key = name;
    return JSON_ITEM;
}

enum json_step json_next_member(struct json_reader *r, struct json_key *key, struct error *error)
{
    struct json_key name;
    enum json_step step = names_next_unremembered(r, &name, error);
    if (step != JSON_ITEM)
        return step;
    if (!names_add(r, &name, error))
        return JSON_FAILED;
    *key = name;
    return JSON_ITEM;
}

enum json_step json_next_element(struct json_reader *r, struct error *error)
{
    struct json_level *level = &r->level[r->depth - 1];
    bool first = !level->started;
    enum json_step step = next_item(r, ']', "',' or ']'", error);
    if (step != JSON_ITEM)
        return step;
    level->index = first ? 0 : level->index + 1;
    level->inside = true;
    return JSON_ITEM;
}

bool json_peek_nested(const struct json_reader *r)
{
    struct json_reader ahead = *r;
    struct error error;
    return json_enter_array(&ahead, &error) && json_next_element(&ahead, &error) == JSON_ITEM &&
           json_peek(&ahead) == JSON_ARRAY;
}

bool json_read_in_place(struct json_reader *r, struct json_key *string, struct error *error)
{
    if (json_peek(r) != JSON_STRING)
        return json_type_error(r, error, "a string");
    return pass_string(r, string, error);
}

bool json_read_string(struct json_reader *r, char **string, size_t *length, struct error *error)
{
    struct json_key inside;
    size_t bytes;
    if (!json_read_in_place(r, &inside, error))
        return false;
    const char *at = inside.raw - 1; /* its opening quote */
    char *copy = json_key_copy(&inside, &bytes);
    if (!copy)
        return error_out_of_memory(error);
    if (!length && strlen(copy) != bytes) {
        free(copy);
        r->at = at;
        return json_error(r, error, ERROR_INVALID, "expected a string without the character U+0000");
    }
    if (length)
        *length = bytes;
    *string = copy;
    return true;
}

bool json_read_bool(struct json_reader *r, bool *value, struct error *error)
{
    enum json_type type = json_peek(r);
    if (type != JSON_TRUE && type != JSON_FALSE)
        return json_type_error(r, error, "true or false");
    if (!pass_scalar(r, error))
        return false;
    *value = type == JSON_TRUE;
    return true;
}

bool json_read_null(struct json_reader *r, struct error *error)
{
    if (json_peek(r) != JSON_NULL)
        return json_type_error(r, error, "null");
    return pass_scalar(r, error);
}

/* ERROR_INVALID for the number from r->at to `after`. */
static bool number_error(const struct json_reader *r, const char *after, struct error *error, const char *wanted)
{
    size_t length = (size_t)(after - r->at);
    return json_error(r, error, ERROR_INVALID, "expected %s, got %.*s%s", wanted,
                      (int)(length < SHOWN_BYTES ? length : SHOWN_BYTES), r->at, length > SHOWN_BYTES ? "..." : "");
}

bool json_read_double(struct json_reader *r, double *value, struct error *error)
{
    if (json_peek(r) != JSON_NUMBER)
        return json_type_error(r, error, "a number");
    const char *after = r->at;
    enum number_status status = number_read_f64(&after, r->end, value);
    if (status == NUMBER_SYNTAX)
        return number_syntax_error(r, after, error);
    if (status == NUMBER_RANGE)
        return number_error(r, after, error, "a number from -1.7976931348623157e308 to 1.7976931348623157e308");
    r->at = after;
    return true;
}

/* "an integer from ... to ...", two numbers of at most 20 characters. */
#define INTEGER_WANTED_BYTES 80

static const char *integer_wanted(int64_t minimum, int64_t maximum, char text[INTEGER_WANTED_BYTES])
{
    if (maximum == INT64_MAX && minimum == INT64_MIN)
        snprintf(text, INTEGER_WANTED_BYTES, "an integer");
    else if (maximum == INT64_MAX)
        snprintf(text, INTEGER_WANTED_BYTES, "an integer of at least %" PRId64, minimum);
    else
        snprintf(text, INTEGER_WANTED_BYTES, "an integer from %" PRId64 " to %" PRId64, minimum, maximum);
    return text;
}

bool json_read_integer(struct json_reader *r, int64_t minimum, int64_t maximum, int64_t *value, struct error *error)
{
    char wanted[INTEGER_WANTED_BYTES];
    if (json_peek(r) != JSON_NUMBER)
        return json_type_error(r, error, integer_wanted(minimum, maximum, wanted));
    const char *after = r->at;
    int64_t read;
    enum number_status status = number_read_i64(&after, r->end, &read);
    if (status == NUMBER_SYNTAX)
        return number_syntax_error(r, after, error);
    if (status == NUMBER_RANGE || read < minimum || read > maximum)
        return number_error(r, after, error, integer_wanted(minimum, maximum, wanted));
    r->at = after;
    *value = read;
    return true;
}

/* Passes one whole value; `remember`: finds the duplicates in its objects. */
static bool pass_value(struct json_reader *r, bool remember, struct error *error)
{
    unsigned outside = r->depth;
    struct json_key key;
    for (enum json_type type = json_peek(r);; type = json_peek(r)) {
        bool opens = type == JSON_OBJECT || type == JSON_ARRAY;
        if (!(opens ? enter(r, type == JSON_OBJECT, error) : pass_scalar(r, error)))
            return false;
        enum json_step step = JSON_DONE;
        while (step == JSON_DONE && r->depth > outside)
            step = !r->level[r->depth - 1].is_object ? json_next_element(r, error)
                   : remember                        ? json_next_member(r, &key, error)
                                                     : names_next_unremembered(r, &key, error);
        if (step != JSON_ITEM)
            return step == JSON_DONE;
    }
}

bool json_skip(struct json_reader *r, const char **begin, const char **end, struct error *error)
{
    json_peek(r);
    const char *first = r->at;
    if (!pass_value(r, true, error))
        return false;
    if (begin)
        *begin = first;
    if (end)
        *end = r->at;
    return true;
}

bool json_ignore(struct json_reader *r, struct error *error)
{
    return pass_value(r, false, error);
}

bool json_finish(struct json_reader *r, struct error *error)
{
    if (json_peek(r) != JSON_END)
        return json_syntax_error(r, error, r->at, "the end of the text behind the document");
    return true;
}
