/* Fuzzes the JSON reader. Two walks over the same text, json_skip's and one that reads each value by its type, must
 * agree; and jansson must agree on what is JSON, where the two do not differ on purpose. */
#include "jansson_accepts.h"
#include "json/reader.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool holds)
{
    if (!holds)
        abort();
}

/* What the walk met that jansson takes otherwise. */
struct met {
    bool zero_in_name, number_beyond;
};

static bool read_number(struct json_reader *r, struct met *met, struct error *error)
{
    const char *begin = r->at, *end;
    double number = 0;
    int64_t integer = 0;
    bool read = json_read_double(r, &number, error);
    if (!read && error->code != ERROR_INVALID)
        return false;
    const char *behind = r->at;
    r->at = begin;
    check(json_skip(r, NULL, &end, error));
    check(!read || behind == end);
    bool whole = !memchr(begin, '.', (size_t)(end - begin)) && !memchr(begin, 'e', (size_t)(end - begin)) &&
                 !memchr(begin, 'E', (size_t)(end - begin));
    r->at = begin;
    bool is_integer = json_read_integer(r, INT64_MIN, INT64_MAX, &integer, error);
    check(is_integer ? r->at == end && (double)integer == number : r->at == begin && error->code == ERROR_INVALID);
    met->number_beyond |= !read || (whole && !is_integer);
    r->at = end;
    return true;
}

/* A value that is no object or array. */
static bool read_scalar(struct json_reader *r, struct met *met, struct error *error)
{
    char *string;
    size_t length;
    bool truth;
    switch (json_peek(r)) {
    case JSON_STRING:
        if (!json_read_string(r, &string, &length, error))
            return false;
        check(string[length] == '\0');
        free(string);
        return true;
    case JSON_NUMBER:
        return read_number(r, met, error);
    case JSON_TRUE:
    case JSON_FALSE:
        return json_read_bool(r, &truth, error);
    case JSON_NULL:
        return json_read_null(r, error);
    default:
        return json_type_error(r, error, "a value");
    }
}

static bool walk(struct json_reader *r, struct met *met, struct error *error)
{
    enum json_step step;
    do {
        enum json_type type = json_peek(r);
        if (type == JSON_OBJECT  ? !json_enter_object(r, error)
            : type == JSON_ARRAY ? !json_enter_array(r, error)
                                 : !read_scalar(r, met, error))
            return false;
        step = JSON_DONE;
        while (step == JSON_DONE && r->depth) {
            struct json_key key;
            bool is_object = r->level[r->depth - 1].is_object;
            step = is_object ? json_next_member(r, &key, error) : json_next_element(r, error);
            if (is_object && step == JSON_ITEM) {
                size_t length;
                char *name = json_key_copy(&key, &length);
                check(name && json_key_is(&key, name) == (strlen(name) == length));
                met->zero_in_name |= strlen(name) != length;
                free(name);
            }
        }
        if (step == JSON_FAILED)
            return false;
    } while (step == JSON_ITEM);
    return json_finish(r, error);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *text = (const char *)data, *begin = NULL, *end = NULL;
    struct json_reader r;
    struct error skip_error = {0}, walk_error = {0};
    struct met met = {0};

    json_reader_init(&r, text, size);
    bool skipped = json_skip(&r, &begin, &end, &skip_error) && json_finish(&r, &skip_error);
    size_t line = json_line(&r, r.at);
    check(line >= 1 && line <= size + 1);
    check(!skipped || (begin >= text && end > begin && end <= text + size && r.depth == 0 && r.num_names == 0));

    json_reader_init(&r, text, size);
    bool walked = walk(&r, &met, &walk_error);
    check(skipped == walked);
    if (!walked) {
        check(walk_error.code == skip_error.code && strcmp(walk_error.message, skip_error.message) == 0);
        check(walk_error.has_pointer && strcmp(walk_error.pointer, skip_error.pointer) == 0);
        check(walk_error.code == ERROR_NOT_JSON || walk_error.code == ERROR_DUPLICATE_MEMBER);
    }

    bool limited = strstr(skip_error.message, "nested deeper") || strstr(skip_error.message, "more members");
    bool accepted = jansson_accepts(text, size);
    if (walked)
        check(accepted || met.zero_in_name || met.number_beyond);
    else
        check(!accepted || limited || memchr(text, '\0', size));
    return 0;
}
