/* Nested arrays of numbers, from the request's bytes straight into float memory: one pass, no recursion, no object a
 * number.
 *
 * How many numbers there are is known when they have been read, so they grow over all that is left of the arena, of
 * which the tensor then keeps what it fills: nothing is counted beforehand or moved. Entered by whichever thread
 * decodes the request. */
#include "codec/tensor_text.h"

#include "base/arena.h"
#include "base/isa.h"
#include "base/size.h"
#include "json/number.h"
#include "json/read_row/read_row.h"
#include "json/reader.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

struct scan {
    struct json_reader *r;
    const char *at, *end;        /* `end` is the body's */
    read_row_function *read_row; /* or NULL */
    unsigned max_rank;
    bool booleans;
    unsigned depth;                /* of arrays that are open */
    unsigned rank;                 /* 0 until the first number is met */
    size_t shape[TENSOR_MAX_RANK]; /* an extent is 0 until its first array closes */
    size_t index[TENSOR_MAX_RANK]; /* of the element being read in each open array */
    float *data;                   /* [count], room for `capacity` */
    size_t count, capacity;
};

static void pass_space(struct scan *s)
{
    while (s->at < s->end && (*s->at == ' ' || *s->at == '\n' || *s->at == '\r' || *s->at == '\t'))
        s->at++;
}

static bool next_is(struct scan *s, char c)
{
    return s->at < s->end && *s->at == c;
}

bool tensor_text_error(const struct json_reader *r, const size_t *index, unsigned depth, struct error *error,
                       enum error_code code, const char *format, ...)
{
    char pointer[sizeof error->pointer], message[sizeof error->message];
    json_pointer(r, pointer, sizeof pointer);
    for (unsigned i = 0; i < depth; i++) {
        size_t length = strlen(pointer);
        snprintf(pointer + length, sizeof pointer - length, "/%zu", index[i]);
    }
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    return error_set_at(error, code, pointer, "%s", message);
}

static bool syntax_error(struct scan *s, struct error *error, const char *expected)
{
    return json_syntax_error(s->r, error, s->at, expected);
}

/* What stands here is no `wanted`. Text that is not JSON at all (NaN, .5) is a fault of another kind, so the value is
 * passed to see. An array is not: however deep it is, it is an array in the wrong place. */
static bool wrong_value(struct scan *s, struct error *error, const char *wanted)
{
    s->r->at = s->at;
    enum json_type type = json_peek(s->r);
    if (type != JSON_ARRAY && !json_skip(s->r, NULL, NULL, error))
        return false;
    return tensor_text_error(s->r, s->index, s->depth, error, ERROR_INVALID, "expected %s, got %s", wanted,
                             json_type_name(type));
}

static bool too_deep(struct scan *s, struct error *error)
{
    size_t found = s->depth;
    for (; next_is(s, '['); pass_space(s)) {
        found++;
        s->at++;
    }
    return tensor_text_error(s->r, NULL, 0, error, ERROR_INVALID,
                             "the arrays are nested %zu deep, so the rank is %zu; here it may be at most %u", found,
                             found, s->max_rank);
}

/* An array of `extent` elements closed; `s->depth` counts it. */
static bool close_array(struct scan *s, size_t extent, struct error *error)
{
    size_t *expected = &s->shape[s->depth - 1];
    if (*expected == 0)
        *expected = extent;
    if (*expected == extent)
        return true;
    return tensor_text_error(s->r, s->index, s->depth - 1, error, ERROR_INVALID,
                             "ragged: the length is %zu, that of the arrays before it at its depth is %zu", extent,
                             *expected);
}

static bool empty_array(struct scan *s, struct error *error)
{
    if (s->shape[s->depth - 1])
        return close_array(s, 0, error);
    return tensor_text_error(s->r, NULL, 0, error, ERROR_INVALID,
                             "an empty array: every axis of a tensor has at least one element");
}

static bool starts_with(const struct scan *s, const char *word, size_t length)
{
    return (size_t)(s->end - s->at) >= length && memcmp(s->at, word, length) == 0;
}

/* One number, or one boolean where they are allowed, into data[count]. */
static bool read_element(struct scan *s, struct error *error)
{
    const char *after = s->at;
    enum number_status status = number_read_f32(&after, s->end, s->data + s->count);
    if (__builtin_expect(status == NUMBER_OK, 1)) {
        s->at = after;
        s->count++;
        return true;
    }
    if (status == NUMBER_RANGE)
        return tensor_text_error(s->r, s->index, s->depth, error, ERROR_NOT_FINITE,
                                 "the number %.*s%s is beyond float32, whose largest is 3.4028235e38",
                                 (int)size_min((size_t)(after - s->at), 40), s->at, after - s->at > 40 ? "..." : "");
    bool truth = starts_with(s, "true", 4);
    if (s->booleans && (truth || starts_with(s, "false", 5))) {
        s->data[s->count++] = truth ? 1.0f : 0.0f;
        s->at += truth ? 4 : 5;
        return true;
    }
    return wrong_value(s, error, s->booleans ? "0, 1, true or false" : "a number");
}

/* The elements of an innermost array, whose bracket is open, and its closing bracket. */
static bool read_row(struct scan *s, struct error *error)
{
    size_t *index = &s->index[s->depth - 1];
    for (*index = 0;; ++*index) {
        if (s->count == s->capacity)
            return error_out_of_memory(error);
        size_t usual = 0;
        if (s->read_row && s->at < s->end && (unsigned char)*s->at <= '9') /* not for booleans */
            usual = s->read_row(&s->at, s->r->begin, s->end, s->data + s->count, s->capacity - s->count);
        if (usual) {
            s->count += usual;
            *index += usual - 1;
        } else if (!read_element(s, error)) {
            return false;
        }
        pass_space(s);
        if (next_is(s, ']'))
            break;
        if (!next_is(s, ','))
            return syntax_error(s, error, "',' or ']'");
        s->at++;
        pass_space(s);
    }
    s->at++;
    return close_array(s, *index + 1, error);
}

/* The next value is opened, down to the elements of an innermost array. */
static bool open_arrays(struct scan *s, struct error *error)
{
    while (s->rank == 0 || s->depth < s->rank) {
        if (!next_is(s, '[')) {
            if (s->rank)
                return wrong_value(s, error, "an array, as its neighbours are");
            s->rank = s->depth;
            return true;
        }
        if (s->depth == s->max_rank)
            return too_deep(s, error);
        s->index[s->depth++] = 0;
        s->at++;
        pass_space(s);
        if (next_is(s, ']'))
            return empty_array(s, error);
    }
    return true;
}

/* Behind an array that closed: the arrays that close with it, up to the comma before the next. `depth` is 0 when all
 * are closed. */
static bool close_arrays(struct scan *s, struct error *error)
{
    while (--s->depth) {
        pass_space(s);
        if (next_is(s, ',')) {
            s->at++;
            pass_space(s);
            s->index[s->depth - 1]++;
            return true;
        }
        if (!next_is(s, ']'))
            return syntax_error(s, error, "',' or ']'");
        s->at++;
        if (!close_array(s, s->index[s->depth - 1] + 1, error))
            return false;
    }
    return true;
}

float *tensor_text_read(struct json_reader *r, struct arena *arena, struct tensor *tensor, unsigned max_rank,
                        bool booleans, struct error *error)
{
    struct scan s = {.r = r,
                     .at = r->at,
                     .end = r->end,
                     .read_row = read_row_of(isa_chosen()),
                     .max_rank = max_rank,
                     .booleans = booleans};
    size_t used = arena->used, bytes;
    s.data = arena_take_rest(arena, &bytes);
    s.capacity = bytes / sizeof *s.data;
    do {
        if (!open_arrays(&s, error) || !read_row(&s, error) || !close_arrays(&s, error))
            goto fail;
    } while (s.depth);

    r->at = s.at;
    arena_shorten(arena, s.data, s.count * sizeof *s.data);
    *tensor = (struct tensor){.rank = s.rank, .count = s.count, .data = s.data};
    memcpy(tensor->shape, s.shape, s.rank * sizeof *s.shape);
    return s.data;
fail:
    arena_rewind(arena, used);
    return NULL;
}
