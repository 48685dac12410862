/* Pure: any thread. */
#include "codec/state_members.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

void state_describe(const json_t *value, char *to, size_t capacity)
{
    if (!value)
        snprintf(to, capacity, "nothing: the member is missing");
    else if (json_is_string(value))
        snprintf(to, capacity, "\"%.70s\"", json_string_value(value));
    else if (json_is_number(value))
        snprintf(to, capacity, "%.10g", json_number_value(value));
    else if (json_is_array(value))
        snprintf(to, capacity, "a list of %zu", json_array_size(value));
    else
        snprintf(to, capacity, "%s",
                 json_is_object(value) ? "an object"
                 : json_is_null(value) ? "null"
                 : json_is_true(value) ? "true"
                                       : "false");
}

bool state_wrong(const struct state_reading *r, const char *member, const json_t *found, const char *expected)
{
    char pointer[128], got[96];
    state_describe(found, got, sizeof got);
    snprintf(pointer, sizeof pointer, "/states/%zu%s%s", r->index, *member ? "/" : "", member);
    return error_set_at(r->error, ERROR_INVALID, pointer, "state document %zu: %s%sexpected %s, got %s", r->index,
                        member, *member ? ": " : "", expected, got);
}

bool state_impossible(const struct state_reading *r, const char *member, const char *found)
{
    char pointer[128];
    snprintf(pointer, sizeof pointer, "/states/%zu/%s", r->index, member);
    return error_set_at(r->error, ERROR_INVALID, pointer,
                        "state document %zu: %s: no traffic has these sums: %s; send the document as GET "
                        "/v1/heads/state gave it",
                        r->index, member, found);
}

const char *state_text(const struct state_reading *r, const char *name)
{
    return json_string_value(json_object_get(r->document, name));
}

bool state_take_text(const struct state_reading *r, const char *name, char *to, size_t capacity)
{
    const char *text = state_text(r, name);
    char expected[48];
    if (!text || strlen(text) >= capacity) {
        snprintf(expected, sizeof expected, "a string of up to %zu bytes", capacity - 1);
        return state_wrong(r, name, json_object_get(r->document, name), expected);
    }
    strcpy(to, text);
    return true;
}

bool state_take_since(const struct state_reading *r, char *to, size_t capacity)
{
    static const char form[] = "0000-00-00T00:00:00.000Z";
    if (!state_take_text(r, "since", to, capacity))
        return false;
    bool right = strlen(to) == sizeof form - 1;
    for (size_t i = 0; right && form[i]; i++)
        right = form[i] == '0' ? to[i] >= '0' && to[i] <= '9' : to[i] == form[i];
    return right ||
           state_wrong(r, "since", json_object_get(r->document, "since"), "a time as 2026-01-31T12:00:00.000Z");
}

/* `within` is the path to the object. */
static void path_of(const char *within, const char *name, char *path, size_t capacity)
{
    snprintf(path, capacity, "%s%s%s", within, *within ? "/" : "", name);
}

static bool is_number(const json_t *value, double least)
{
    return json_is_number(value) && isfinite(json_number_value(value)) && json_number_value(value) >= least;
}

bool state_take_number(const struct state_reading *r, const json_t *object, const char *within, const char *name,
                       double least, double *to)
{
    const json_t *value = json_object_get(object, name);
    char path[96];
    path_of(within, name, path, sizeof path);
    if (!is_number(value, least))
        return state_wrong(r, path, value, least == 0 ? "a finite number from 0 up" : "a finite number");
    *to = json_number_value(value);
    return true;
}

bool state_is_count(double number)
{
    return number >= 0 && number == floor(number) && number <= STATE_COUNT_MOST;
}

bool state_take_count(const struct state_reading *r, const char *name, double *to)
{
    return state_take_number(r, r->document, "", name, 0, to) &&
           (state_is_count(*to) || state_wrong(r, name, json_object_get(r->document, name), STATE_COUNT_WORDS));
}

bool state_take_list(const struct state_reading *r, const json_t *object, const char *within, const char *name,
                     struct state_numbers to)
{
    const json_t *list = json_object_get(object, name);
    const size_t count = to.parts * to.count;
    char path[96], place[128], expected[48];
    path_of(within, name, path, sizeof path);
    if (!json_is_array(list) || json_array_size(list) != count) {
        snprintf(expected, sizeof expected, "a list of %zu numbers", count);
        return state_wrong(r, path, list, expected);
    }
    for (size_t i = 0; i < count; i++) {
        const json_t *value = json_array_get(list, i);
        if (!is_number(value, -INFINITY)) {
            snprintf(place, sizeof place, "%s/%zu", path, i);
            return state_wrong(r, place, value, "a finite number");
        }
        to.first[i / to.count * to.stride + i % to.count] = json_number_value(value);
    }
    return true;
}

bool state_take_parts(const struct state_reading *r, const json_t *object, const char *within, const char *name,
                      double *first, size_t parts, size_t stride)
{
    char path[96];
    if (parts == 1)
        return state_take_number(r, object, within, name, 0, first);
    if (!state_take_list(r, object, within, name, (struct state_numbers){first, parts, stride, 1}))
        return false;
    path_of(within, name, path, sizeof path);
    for (size_t part = 0; part < parts; part++)
        if (!(first[part * stride] >= 0))
            return state_wrong(r, path, json_array_get(json_object_get(object, name), part),
                               "finite numbers from 0 up");
    return true;
}
