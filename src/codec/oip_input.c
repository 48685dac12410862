/* The inputs of an infer request: each a tensor whose numbers stand in the JSON, flat or nested, or as bytes behind it.
 *
 * Numbers are read as they are met where name, shape and datatype stand before them, as nearly all clients write it;
 * else they are passed over and read when the input's end has shown what they are. Entered by whichever thread decodes.
 */
#include "codec/oip_decoding.h"

#include "base/size.h"
#include "json/names.h"

#include <stdio.h>
#include <string.h>

/* What its values are. */
enum input_kind { INPUT_NUMBERS, INPUT_MASK, INPUT_INTEGERS };

/* One input, while its members arrive in any order. */
struct input {
    struct oip_decoding *decoding;
    size_t member; /* its index among the request's members */
    struct raw_tensor raw;
    enum input_kind kind;
    bool has_name, has_datatype, has_binary_size;
    size_t binary_size;
    bool is_later;            /* `data` was passed over */
    struct json_reader later; /* stands before it */
    void *numbers; /* [raw.count] float, uint8_t for a mask, uint32_t for integers, of the arena; NULL: `data` was not
                      read */
};

static const struct request_member *member_of(const struct input *input)
{
    return &input->decoding->members.list[input->member];
}

/* The index of the request's member that the name is; their count where there is none. */
static size_t find_member(const struct request_members *members, const struct json_key *name)
{
    size_t i = 0;
    while (i < members->count && !json_key_is(name, members->list[i].name))
        i++;
    return i;
}

static bool unknown_input(const struct json_reader *r, const struct request_members *members,
                          const struct json_key *name, struct error *error)
{
    const char *known[REQUEST_MAX_MEMBERS];
    char shown[NAMES_SHOWN_BYTES], text[sizeof error->message];
    size_t count = 0;
    for (size_t i = 0; i < members->count; i++)
        if (members->list[i].read_raw)
            known[count++] = members->list[i].name;
    names_show(name, shown);
    names_unknown("input", shown, known, count, text, sizeof text);
    return json_error(r, error, ERROR_UNKNOWN_MEMBER, "%s", text);
}

static bool read_name(struct json_reader *r, void *context, struct error *error)
{
    struct input *input = context;
    struct oip_decoding *decoding = input->decoding;
    struct json_key name;
    if (!json_read_in_place(r, &name, error))
        return false;
    const size_t i = find_member(&decoding->members, &name);
    if (i == decoding->members.count)
        return unknown_input(r, &decoding->members, &name, error);
    if (!decoding->members.list[i].read_raw)
        return json_error(r, error, ERROR_INVALID, "\"%s\" is not an input: it belongs to the request's parameters",
                          decoding->members.list[i].name);
    if (decoding->members.seen >> i & 1)
        return json_error(r, error, ERROR_DUPLICATE_MEMBER, "the input \"%s\" is there twice; remove one",
                          decoding->members.list[i].name);
    decoding->members.seen |= UINT64_C(1) << i;
    decoding->request->input_at[i] = (uint8_t)decoding->n_inputs;
    input->member = i;
    input->kind = decoding->members.list[i].read_raw == forward_read_raw_attention_mask             ? INPUT_MASK
                  : forward_integers(decoding->forward.request, decoding->members.list[i].read_raw) ? INPUT_INTEGERS
                                                                                                    : INPUT_NUMBERS;
    input->has_name = true;
    return true;
}

static bool read_shape(struct json_reader *r, void *context, struct error *error)
{
    struct raw_tensor *raw = &((struct input *)context)->raw;
    return tensor_read_shape(r, TENSOR_MAX_RANK, sizeof(double), raw->shape, &raw->rank, &raw->count, error);
}

static bool read_datatype(struct json_reader *r, void *context, struct error *error)
{
    struct input *input = context;
    char shown[NAMES_SHOWN_BYTES], known[64] = "";
    struct json_key name;
    if (!json_read_in_place(r, &name, error))
        return false;
    names_show(&name, shown); /* what is cut or replaced in it is no datatype's name */
    input->raw.dtype = dtype_from_oip_name(shown, strlen(shown));
    input->has_datatype = true;
    if (input->raw.dtype != DTYPE_COUNT)
        return true;
    for (int d = 0; d < DTYPE_COUNT; d++)
        snprintf(known + strlen(known), sizeof known - strlen(known), "%s%s", d ? ", " : "",
                 dtype_oip_name((enum dtype)d));
    return json_error(r, error, ERROR_INVALID, "datatype \"%s\" is not one of %s", shown, known);
}

/* Whether such numbers can be this input. */
static bool check_datatype(const struct json_reader *r, const struct input *input, struct error *error)
{
    if (input->kind == INPUT_MASK ||
        (input->kind == INPUT_INTEGERS ? dtype_is_integer(input->raw.dtype) : dtype_is_float(input->raw.dtype)))
        return true;
    if (input->kind == INPUT_INTEGERS)
        return json_error(r, error, ERROR_INVALID, "the input \"%s\" is %s, expected INT32 or INT64",
                          member_of(input)->name, dtype_oip_name(input->raw.dtype));
    return json_error(r, error, ERROR_INVALID, "the input \"%s\" is %s, expected FP32, FP16, BF16 or FP64",
                      member_of(input)->name, dtype_oip_name(input->raw.dtype));
}

static bool read_numbers(struct json_reader *r, struct input *input, struct error *error)
{
    const struct raw_tensor *raw = &input->raw;
    if (!check_datatype(r, input, error))
        return false;
    struct arena *arena = input->decoding->forward.arena;
    input->numbers = input->kind == INPUT_INTEGERS
                         ? (void *)integers_read_data(r, arena, raw->shape, raw->rank, error)
                         : tensor_read_data(r, arena, raw->shape, raw->rank, input->kind == INPUT_MASK, error);
    return input->numbers != NULL;
}

static bool read_data(struct json_reader *r, void *context, struct error *error)
{
    struct input *input = context;
    if (input->has_name && input->has_datatype && input->raw.rank)
        return read_numbers(r, input, error);
    input->is_later = true;
    input->later = *r;
    return json_skip(r, NULL, NULL, error);
}

static bool read_parameters(struct json_reader *r, void *context, struct error *error)
{
    struct input *input = context;
    struct json_key name;
    enum json_step step;
    int64_t value;
    if (json_peek(r) == JSON_NULL)
        return json_read_null(r, error);
    if (!json_enter_object(r, error))
        return false;
    while ((step = json_next_member(r, &name, error)) == JSON_ITEM) {
        if (!oip_refuse_shared_memory(r, &name, error))
            return false;
        if (json_key_is(&name, "binary_data_size")) {
            if (!json_read_integer(r, 0, INT64_MAX, &value, error))
                return false;
            input->has_binary_size = true;
            input->binary_size = (size_t)value;
        } else if (!json_skip(r, NULL, NULL, error)) {
            return false;
        }
    }
    return step != JSON_FAILED;
}

static const struct json_member MEMBERS[] = {
    {"name", read_name}, {"shape", read_shape},           {"datatype", read_datatype},
    {"data", read_data}, {"parameters", read_parameters},
};

/* Its bytes are the next behind the JSON. */
static bool take_bytes(const struct json_reader *r, struct input *input, struct error *error)
{
    struct oip_decoding *decoding = input->decoding;
    char pointer[sizeof error->pointer], place[sizeof pointer + sizeof "/parameters/binary_data_size"];
    json_pointer(r, pointer, sizeof pointer);
    snprintf(place, sizeof place, "%s/parameters/binary_data_size", pointer);
    if (!decoding->has_binary)
        return error_set_at(
            error, ERROR_INVALID, place,
            "bytes behind the JSON need the header Inference-Header-Content-Length, which says how long "
            "the JSON is");
    if (input->binary_size > decoding->n_binary)
        return error_set_at(error, ERROR_INVALID, place,
                            "the input \"%s\" is to have %zu bytes behind the JSON, but %zu are left of the body",
                            member_of(input)->name, input->binary_size, decoding->n_binary);
    input->raw.data = decoding->binary;
    input->raw.bytes = input->binary_size;
    decoding->binary += input->binary_size;
    decoding->n_binary -= input->binary_size;
    return true;
}

/* All its members have been read. */
static bool take_input(const struct json_reader *r, struct input *input, struct error *error)
{
    struct oip_decoding *decoding = input->decoding;
    struct forward_request *request = decoding->forward.request;
    struct raw_tensor *raw = &input->raw;
    char pointer[sizeof error->pointer];
    const char *missing = !input->has_name      ? "name"
                          : raw->rank == 0      ? "shape"
                          : input->has_datatype ? NULL
                                                : "datatype";
    if (missing)
        return json_error(r, error, ERROR_INVALID, "the input has no member %s; it needs name, shape and datatype",
                          missing);
    if (input->is_later && !read_numbers(&input->later, input, error))
        return false;
    if ((input->numbers != NULL) == input->has_binary_size)
        return json_error(r, error, ERROR_INVALID,
                          "the input \"%s\" has %s: send its numbers as data, or as bytes behind the JSON with the "
                          "parameter binary_data_size",
                          member_of(input)->name, input->numbers ? "both data and binary_data_size" : "no data");
    if (!check_datatype(r, input, error))
        return false;
    json_pointer(r, pointer, sizeof pointer);
    raw->dtype_name = dtype_oip_name(raw->dtype);
    if (input->has_binary_size)
        return take_bytes(r, input, error) && member_of(input)->read_raw(raw, pointer, &decoding->forward, error);
    if (input->kind == INPUT_INTEGERS) {
        struct integers *integers = forward_integers(request, member_of(input)->read_raw);
        *integers = (struct integers){.rank = raw->rank, .count = raw->count, .data = input->numbers};
        memcpy(integers->shape, raw->shape, raw->rank * sizeof *raw->shape); /* INTEGERS_MAX_RANK at most */
        return true;
    }
    /* What was read from text is as bytes that need no conversion: it stays where it is, which is not the body. */
    const bool pointed = request->points_into_body;
    raw->dtype = input->kind == INPUT_MASK ? DTYPE_BOOL : DTYPE_F32;
    raw->data = input->numbers;
    raw->bytes = raw->count * dtype_bytes(raw->dtype);
    const bool right = member_of(input)->read_raw(raw, pointer, &decoding->forward, error);
    request->points_into_body = pointed;
    return right;
}

bool oip_read_inputs(struct json_reader *r, void *context, struct error *error)
{
    struct oip_decoding *decoding = context;
    enum json_step step;
    if (!json_enter_array(r, error))
        return false;
    while ((step = json_next_element(r, error)) == JSON_ITEM) {
        struct input input = {.decoding = decoding};
        if (!json_read_object(r, MEMBERS, sizeof MEMBERS / sizeof *MEMBERS, &input, NULL, error) ||
            !take_input(r, &input, error))
            return false;
        decoding->n_inputs++;
    }
    return step != JSON_FAILED;
}
