/* An infer request of the Open Inference Protocol, turned into what /v1/forward would be asked: inputs are its tensors
 * (oip_input.c), outputs what it is to return (oip_output.c), and its other members stand under `parameters`.
 *
 * The request's memory is the caller's arena. Entered by whichever thread decodes. */
#include "codec/oip_request.h"

#include "base/size.h"
#include "codec/oip_decoding.h"

#include <stdio.h>
#include <string.h>

static bool read_id(struct json_reader *r, void *context, struct error *error)
{
    return json_peek(r) == JSON_NULL ? json_read_null(r, error) : forward_read_id(r, context, error);
}

/* The path says which model it is; clients repeat it here. */
static bool read_nothing(struct json_reader *r, void *context, struct error *error)
{
    (void)context;
    return json_skip(r, NULL, NULL, error);
}

/* What may stand under `parameters` of the members of /v1/forward. */
static const char *const PARAMETERS[] = {"causal",   "include_heads", "include_layers", "top_k",
                                         "decimals", "return",        "position",       "pattern",
                                         "low_rank", "keep_heads",    "dropout",        "compare"};

/* Clients whose parameters are strings and numbers send an object as its JSON text, up to this. */
#define OBJECT_TEXT_BYTES ((size_t)16 << 10)

static bool is_rule(const char *name)
{
    for (unsigned i = 0; i < RULE_COUNT; i++)
        if (strcmp(name, rules_name((enum rule_index)i)) == 0)
            return true;
    return false;
}

static bool read_object_text(struct json_reader *r, const char *name, struct oip_decoding *decoding,
                             struct error *error)
{
    char text[OBJECT_TEXT_BYTES], pointer[sizeof error->pointer];
    struct json_key string;
    if (!json_read_in_place(r, &string, error))
        return false;
    if (string.length >= sizeof text)
        return json_error(r, error, ERROR_INVALID,
                          "the text has %zu bytes, of %zu at most; send an object in its place", string.length,
                          sizeof text - 1);
    const size_t length = json_key_write(&string, text);
    if (strlen(text) != length)
        return json_error(r, error, ERROR_INVALID, "expected a string without the character U+0000");
    if (request_members_read_text(&decoding->members, name, text, error))
        return true;
    if (error->has_pointer) {
        snprintf(pointer, sizeof pointer, "/parameters%.400s", error->pointer);
        memcpy(error->pointer, pointer, sizeof pointer);
    }
    return false;
}

static bool read_parameter(struct json_reader *r, const struct json_key *name, struct oip_decoding *decoding,
                           struct error *error)
{
    if (json_key_is(name, "binary_data_output"))
        return json_read_bool(r, &decoding->request->binary_data_output, error);
    decoding->has_return |= json_key_is(name, "return");
    for (size_t i = 0; i < sizeof PARAMETERS / sizeof *PARAMETERS; i++)
        if (json_key_is(name, PARAMETERS[i])) {
            if (json_peek(r) == JSON_STRING && is_rule(PARAMETERS[i]))
                return read_object_text(r, PARAMETERS[i], decoding, error);
            const size_t member = request_members_find(&decoding->members, PARAMETERS[i]);
            return decoding->members.list[member].read_json(r, decoding, error);
        }
    return json_skip(r, NULL, NULL, error);
}

static bool read_parameters(struct json_reader *r, void *context, struct error *error)
{
    struct json_key name;
    enum json_step step;
    if (json_peek(r) == JSON_NULL)
        return json_read_null(r, error);
    if (!json_enter_object(r, error))
        return false;
    while ((step = json_next_member(r, &name, error)) == JSON_ITEM)
        if (!read_parameter(r, &name, context, error))
            return false;
    return step != JSON_FAILED;
}

static const struct json_member MEMBERS[] = {
    {"id", read_id},
    {"inputs", oip_read_inputs},
    {"outputs", oip_read_outputs},
    {"parameters", read_parameters},
    {"model_name", read_nothing},
    {"model_version", read_nothing},
};

static bool read_object(struct json_reader *r, struct oip_decoding *decoding, struct error *error)
{
    return json_read_object(r, MEMBERS, sizeof MEMBERS / sizeof *MEMBERS, decoding, NULL, error) &&
           json_finish(r, error);
}

/* What is wrong with inputs that are not one of the two sets, in this protocol's words. */
static bool check_inputs(const struct oip_decoding *decoding, struct error *error)
{
    if (decoding->n_inputs == 0)
        return error_set_at(error, ERROR_INVALID, "/inputs",
                            "there are no inputs: send input, or query and key, or what the model embeds");
    if (forward_request_complete(decoding->forward.request, error))
        return true;
    oip_request_place(decoding->request, error);
    return false;
}

static bool check_bytes_left(const struct oip_decoding *decoding, struct error *error)
{
    if (decoding->n_binary == 0)
        return true;
    return error_set_at(error, ERROR_INVALID, "/inputs",
                        "%zu bytes at the end of the body belong to no input; binary_data_size and "
                        "Inference-Header-Content-Length have to add up to the body's length",
                        decoding->n_binary);
}

bool oip_request_decode(const char *body, size_t length, size_t json_length, struct arena *arena,
                        struct oip_request *request, struct error *error)
{
    const size_t used = arena->used;
    struct oip_request made = {.forward = FORWARD_REQUEST_DEFAULTS};
    struct oip_decoding decoding = {.forward = {&made.forward, arena}, .request = &made};
    struct json_reader r;
    *request = (struct oip_request){0};
    decoding.members = forward_request_members(&decoding.forward);
    if (json_length != SIZE_MAX) {
        if (json_length > length)
            return error_set(error, ERROR_INVALID,
                             "Inference-Header-Content-Length is %zu, but the body has only %zu bytes", json_length,
                             length);
        decoding.has_binary = true;
        decoding.binary = (const unsigned char *)body + json_length;
        decoding.n_binary = length - json_length;
    }
    json_reader_init(&r, body, size_min(length, json_length));
    if (read_object(&r, &decoding, error) && check_inputs(&decoding, error) && check_bytes_left(&decoding, error) &&
        oip_settle_outputs(&decoding, error)) {
        *request = made;
        return true;
    }
    arena_rewind(arena, used);
    return false;
}

/* Of a place in a tensor, "/1/3", only its numbers are told, for `data` may be flat, nested or bytes behind the JSON.
 */
static void tell_element(const char *place, struct error *error)
{
    char numbers[64];
    size_t length = 0;
    for (; *place && length < sizeof numbers - 2; place++) {
        if (*place != '/')
            numbers[length++] = *place;
        else if (length > 0)
            numbers[length++] = ',';
    }
    numbers[length] = '\0';
    error_precede(error, "element [%s]: ", numbers);
}

void oip_request_place(const struct oip_request *request, struct error *error)
{
    const struct request_members members = forward_request_members(NULL);
    char name[sizeof error->pointer], rest[sizeof error->pointer];
    if (!error->has_pointer || error->pointer[0] != '/')
        return;
    const size_t length = strcspn(error->pointer + 1, "/");
    snprintf(name, sizeof name, "%.*s", (int)length, error->pointer + 1);
    snprintf(rest, sizeof rest, "%s", error->pointer + 1 + length);
    const size_t i = request_members_find(&members, name);
    if (i == members.count)
        return;
    if (!members.list[i].read_raw) {
        snprintf(error->pointer, sizeof error->pointer, "/parameters/%s%.400s", members.list[i].name, rest);
        return;
    }
    snprintf(error->pointer, sizeof error->pointer, "/inputs/%u", request->input_at[i]);
    if (*rest)
        tell_element(rest, error);
}
