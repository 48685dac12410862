/* Whole numbers are read one by one: there are few of them beside the tensors of a request. Entered by whichever thread
 * decodes. */
#include "codec/integers.h"

#include "codec/tensor.h"
#include "codec/tensor_base64.h"
#include "json/names.h"
#include "json/reader.h"

#include <stdio.h>
#include <string.h>

/* Nested arrays while they are read into a piece that is as large as the arena. */
struct walk {
    struct arena *arena;
    uint32_t *data;
    size_t count, room;
};

static bool read_number(struct json_reader *r, struct walk *walk, struct error *error)
{
    int64_t value;
    if (!json_read_integer(r, 0, UINT32_MAX, &value, error))
        return false;
    if (walk->count == walk->room)
        return error_out_of_memory(error);
    walk->data[walk->count++] = (uint32_t)value;
    return true;
}

/* One array of numbers. *extent: how many. */
static bool read_row(struct json_reader *r, struct walk *walk, size_t *extent, struct error *error)
{
    const size_t before = walk->count;
    enum json_step step;
    if (!json_enter_array(r, error))
        return false;
    while ((step = json_next_element(r, error)) == JSON_ITEM)
        if (!read_number(r, walk, error))
            return false;
    if (step == JSON_FAILED)
        return false;
    *extent = walk->count - before;
    return *extent > 0 || json_error(r, error, ERROR_INVALID, "an empty array: every axis of a tensor has an element");
}

/* Arrays of numbers, all as long as the first. */
static bool read_rows(struct json_reader *r, struct walk *walk, size_t shape[INTEGERS_MAX_RANK], struct error *error)
{
    enum json_step step;
    size_t extent;
    shape[0] = 0;
    if (!json_enter_array(r, error))
        return false;
    while ((step = json_next_element(r, error)) == JSON_ITEM) {
        if (!read_row(r, walk, &extent, error))
            return false;
        if (shape[0]++ == 0)
            shape[1] = extent;
        else if (extent != shape[1])
            return json_error(r, error, ERROR_INVALID,
                              "ragged: the length is %zu, that of the arrays before it at its depth is %zu", extent,
                              shape[1]);
    }
    return step == JSON_DONE;
}

static bool read_nested(struct json_reader *r, struct arena *arena, struct integers *integers, struct error *error)
{
    const size_t used = arena->used;
    const bool nested = json_peek_nested(r);
    struct integers made = {.rank = nested ? 2 : 1};
    struct walk walk = {.arena = arena};
    walk.data = arena_take_rest(arena, &walk.room);
    walk.room = walk.data ? walk.room / sizeof *walk.data : 0;
    if (!(nested ? read_rows(r, &walk, made.shape, error) : read_row(r, &walk, &made.shape[0], error))) {
        arena_rewind(arena, used);
        return false;
    }
    arena_shorten(arena, walk.data, walk.count * sizeof *walk.data);
    made.count = walk.count;
    made.data = walk.data;
    *integers = made;
    return true;
}

/* ---- the object forms */

struct object_form {
    struct arena *arena;
    struct integers stated, nested; /* `shape`, without data; `data` */
    enum dtype dtype;               /* DTYPE_COUNT: not there */
    struct json_key base64;
};

static bool read_shape(struct json_reader *r, void *context, struct error *error)
{
    struct object_form *form = context;
    struct integers stated = {0};
    if (!tensor_read_shape(r, INTEGERS_MAX_RANK, sizeof(uint32_t), stated.shape, &stated.rank, &stated.count, error))
        return false;
    form->stated = stated;
    return true;
}

static bool read_data(struct json_reader *r, void *context, struct error *error)
{
    struct object_form *form = context;
    if (json_peek(r) != JSON_ARRAY)
        return json_type_error(r, error, "an array of integers, flat or nested as the shape is");
    return read_nested(r, form->arena, &form->nested, error);
}

static bool read_dtype(struct json_reader *r, void *context, struct error *error)
{
    struct object_form *form = context;
    char shown[NAMES_SHOWN_BYTES];
    struct json_key name;
    if (!json_read_in_place(r, &name, error))
        return false;
    names_show(&name, shown); /* what is cut or replaced in it is no dtype's name */
    form->dtype = dtype_from_json_name(shown, strlen(shown));
    return form->dtype == DTYPE_I32 || form->dtype == DTYPE_I64 ||
           json_error(r, error, ERROR_INVALID, "dtype \"%s\" is not one of i32 and i64", shown);
}

/* Decoded once shape and dtype are known; until then its place in the body is enough. */
static bool read_base64(struct json_reader *r, void *context, struct error *error)
{
    return json_read_in_place(r, &((struct object_form *)context)->base64, error);
}

enum { MEMBER_SHAPE, MEMBER_DATA, MEMBER_DTYPE, MEMBER_BASE64, MEMBER_COUNT };

static const struct json_member MEMBERS[MEMBER_COUNT] = {
    [MEMBER_SHAPE] = {"shape", read_shape},
    [MEMBER_DATA] = {"data", read_data},
    [MEMBER_DTYPE] = {"dtype", read_dtype},
    [MEMBER_BASE64] = {"base64", read_base64},
};

/* Whether numbers that were read from `data` are laid out as `shape` says: flat, or nested so. */
static bool lay_out(const struct integers *stated, const struct integers *nested, const char *place,
                    struct error *error)
{
    char expected[TENSOR_SHAPE_TEXT_BYTES], found[TENSOR_SHAPE_TEXT_BYTES];
    const bool same =
        nested->rank == stated->rank && memcmp(nested->shape, stated->shape, stated->rank * sizeof *stated->shape) == 0;
    if (same || (nested->rank == 1 && nested->count == stated->count))
        return true;
    return error_set_at(error, ERROR_INVALID, place, "the data is %s, the shape is %s: nest it so, or send it flat",
                        tensor_shape_text(nested->shape, nested->rank, found, sizeof found),
                        tensor_shape_text(stated->shape, stated->rank, expected, sizeof expected));
}

static bool read_object(struct json_reader *r, struct arena *arena, struct integers *integers, struct error *error)
{
    struct object_form form = {.arena = arena, .dtype = DTYPE_COUNT};
    const size_t used = arena->used;
    uint64_t seen = 0;
    char pointer[sizeof error->pointer], place[sizeof pointer + sizeof "/data"];
    if (!json_read_object(r, MEMBERS, MEMBER_COUNT, &form, &seen, error))
        goto fail;
    json_pointer(r, pointer, sizeof pointer);
    const bool has_data = seen >> MEMBER_DATA & 1, has_base64 = seen >> MEMBER_BASE64 & 1;
    if (!tensor_check_members(r, seen >> MEMBER_SHAPE & 1, has_data, has_base64, error))
        goto fail;
    if (has_base64 && form.dtype == DTYPE_COUNT) {
        error_set_at(error, ERROR_INVALID, pointer, "integers in base64 need the member dtype, i32 or i64");
        goto fail;
    }
    snprintf(place, sizeof place, "%s/data", pointer);
    if (has_data ? !lay_out(&form.stated, &form.nested, place, error)
                 : !(form.nested.data = tensor_base64_integers(&form.base64, form.dtype, form.stated.shape,
                                                               form.stated.rank, arena, pointer, error)))
        goto fail;
    form.stated.data = form.nested.data;
    *integers = form.stated;
    return true;
fail:
    arena_rewind(arena, used);
    return false;
}

bool integers_read_json(struct json_reader *r, struct arena *arena, struct integers *integers, struct error *error)
{
    switch (json_peek(r)) {
    case JSON_ARRAY:
        return read_nested(r, arena, integers, error);
    case JSON_OBJECT:
        return read_object(r, arena, integers, error);
    default:
        return json_type_error(r, error, "integers: nested arrays of them, or an object of shape and data or base64");
    }
}

uint32_t *integers_read_data(struct json_reader *r, struct arena *arena, const size_t *shape, unsigned rank,
                             struct error *error)
{
    struct integers stated = {.rank = rank, .count = 1}, nested;
    char place[sizeof error->pointer];
    if (json_peek(r) != JSON_ARRAY) {
        json_type_error(r, error, "an array of integers, flat or nested as the shape is");
        return NULL;
    }
    if (rank > INTEGERS_MAX_RANK) {
        json_error(r, error, ERROR_INVALID, "the shape has %u axes, more than %d, the most there may be here", rank,
                   INTEGERS_MAX_RANK);
        return NULL;
    }
    if (!read_nested(r, arena, &nested, error))
        return NULL;
    for (unsigned axis = 0; axis < rank; axis++) {
        stated.shape[axis] = shape[axis];
        stated.count *= shape[axis];
    }
    if (lay_out(&stated, &nested, json_pointer(r, place, sizeof place), error))
        return (uint32_t *)nested.data;
    arena_shorten(arena, nested.data, 0);
    return NULL;
}
