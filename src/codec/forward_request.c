/* The members of a /v1/forward request, one reader each.
 *
 * The request's memory is the caller's arena. Entered by whichever thread decodes it; forward_check.c has what needs
 * the weights' shape. */
#include "codec/forward_request.h"

#include "base/nearest.h"
#include "codec/choice.h"
#include "codec/forward_members.h"
#include "json/escape.h"
#include "json/names.h"
#include "json/reader.h"

#include <stdio.h>
#include <string.h>

#define ID_CHARACTERS 256

static const char *const RETURN_NAMES[FORWARD_RETURN_COUNT] = {
#define RETURN_NAME(bit, name) name,
    FORWARD_RETURNS(RETURN_NAME)
#undef RETURN_NAME
};

bool forward_read_weights(struct json_reader *r, void *context, struct error *error)
{
    struct forward_decoding *decoding = context;
    struct json_key name;
    if (!json_read_in_place(r, &name, error))
        return false;
    char *weights = arena_take(decoding->arena, name.length + 1);
    if (!weights)
        return error_out_of_memory(error);
    size_t length = json_key_write(&name, weights);
    if (memchr(weights, '\0', length))
        return json_error(r, error, ERROR_INVALID, "expected a string without the character U+0000");
    arena_shorten(decoding->arena, weights, length + 1);
    decoding->request->weights = weights;
    return true;
}

/* Escapes count as what they stand for. */
static size_t count_characters(const struct json_key *string)
{
    char utf8[4];
    size_t count = 0;
    for (const char *at = string->raw, *end = at + string->length; at < end; count++)
        escape_next(&at, utf8);
    return count;
}

bool forward_read_id(struct json_reader *r, void *context, struct error *error)
{
    struct forward_decoding *decoding = context;
    enum json_type type = json_peek(r);
    const char *begin = r->at, *end;
    if (type == JSON_STRING) {
        struct json_key string;
        if (!json_read_in_place(r, &string, error))
            return false;
        size_t characters = count_characters(&string);
        if (characters > ID_CHARACTERS)
            return json_error(r, error, ERROR_INVALID, "an id has at most %d characters, got %zu", ID_CHARACTERS,
                              characters);
        end = r->at;
    } else if (type == JSON_NUMBER) {
        if (!json_skip(r, &begin, &end, error))
            return false;
        size_t digits = *begin == '-';
        while (digits < (size_t)(end - begin) && begin[digits] >= '0' && begin[digits] <= '9')
            digits++;
        if (digits < (size_t)(end - begin))
            return json_error(r, error, ERROR_INVALID,
                              "an id is a string or an integer, got a number with a fraction or an exponent");
        if (digits > ID_CHARACTERS)
            return json_error(r, error, ERROR_INVALID, "an id has at most %d characters, got %zu", ID_CHARACTERS,
                              digits);
    } else {
        return json_type_error(r, error, "a string or an integer");
    }
    size_t length = (size_t)(end - begin);
    char *id = arena_take(decoding->arena, length + 1);
    if (!id)
        return error_out_of_memory(error);
    memcpy(id, begin, length);
    id[length] = '\0';
    decoding->request->id = id;
    return true;
}

static bool read_raw(const struct raw_tensor *raw, const char *pointer, unsigned max_rank,
                     struct forward_decoding *decoding, struct tensor *tensor, struct error *error)
{
    if (!raw_tensor_read(raw, pointer, max_rank, decoding->arena, tensor, error))
        return false;
    decoding->request->points_into_body |= (const void *)tensor->data == raw->data;
    return true;
}

/* X(member, most axes): the tensors of a request. */
#define TENSORS(X)      \
    X(input, 3)         \
    X(query, 3)         \
    X(key, 3)           \
    X(value, 3)         \
    X(inputs_embeds, 3) \
    X(pixel_values, 4)  \
    X(bias, 4)          \
    X(head_mask, 2)

#define READ_TENSOR(member, axes)                                                                                    \
    bool forward_read_##member(struct json_reader *r, void *context, struct error *error)                            \
    {                                                                                                                \
        struct forward_decoding *decoding = context;                                                                 \
        return tensor_read_json(r, decoding->arena, &decoding->request->member, axes, error);                        \
    }                                                                                                                \
    bool forward_read_raw_##member(const struct raw_tensor *raw, const char *pointer, void *context,                 \
                                   struct error *error)                                                              \
    {                                                                                                                \
        return read_raw(raw, pointer, axes, context, &((struct forward_decoding *)context)->request->member, error); \
    }
TENSORS(READ_TENSOR)
#undef READ_TENSOR

#define MASK_AXES 3

bool forward_read_attention_mask(struct json_reader *r, void *context, struct error *error)
{
    struct forward_decoding *decoding = context;
    return mask_read_json(r, decoding->arena, &decoding->request->attention_mask, MASK_AXES, error);
}

bool forward_read_raw_attention_mask(const struct raw_tensor *raw, const char *pointer, void *context,
                                     struct error *error)
{
    struct forward_decoding *decoding = context;
    struct forward_request *request = decoding->request;
    if (!raw_tensor_mask(raw, pointer, MASK_AXES, decoding->arena, &request->attention_mask, error))
        return false;
    request->points_into_body |= request->attention_mask.data == raw->data;
    return true;
}

bool forward_read_causal(struct json_reader *r, void *context, struct error *error)
{
    struct forward_request *request = ((struct forward_decoding *)context)->request;
    request->has_causal = true;
    return json_peek(r) == JSON_NULL ? json_read_null(r, error) : json_read_bool(r, &request->causal, error);
}

/* Texts in place of ids are told apart from other faults: the reader stands at the one that it has refused. */
static bool read_integers(struct json_reader *r, struct forward_decoding *decoding, struct integers *integers,
                          struct error *error)
{
    const bool listed = json_peek(r) != JSON_OBJECT;
    if (integers_read_json(r, decoding->arena, integers, error))
        return true;
    if (listed && integers == &decoding->request->input_ids && error->code == ERROR_INVALID &&
        json_peek(r) == JSON_STRING)
        return json_error(r, error, ERROR_INVALID, "expected integers, got a string: " REQUEST_NO_TOKENIZER);
    return false;
}

/* X(member): the integers of a request. */
#define INTEGERS(X)   \
    X(input_ids)      \
    X(token_type_ids) \
    X(position_ids)

#define READ_INTEGERS(member)                                                                                    \
    bool forward_read_##member(struct json_reader *r, void *context, struct error *error)                        \
    {                                                                                                            \
        struct forward_decoding *decoding = context;                                                             \
        return read_integers(r, decoding, &decoding->request->member, error);                                    \
    }                                                                                                            \
    bool forward_read_raw_##member(const struct raw_tensor *raw, const char *pointer, void *context,             \
                                   struct error *error)                                                          \
    {                                                                                                            \
        struct forward_decoding *decoding = context;                                                             \
        return raw_tensor_integers(raw, pointer, INTEGERS_MAX_RANK, decoding->arena, &decoding->request->member, \
                                   error);                                                                       \
    }
INTEGERS(READ_INTEGERS)
#undef READ_INTEGERS

struct integers *forward_integers(struct forward_request *request, raw_tensor_reader *reader)
{
#define OF_READER(member)                    \
    if (reader == forward_read_raw_##member) \
        return &request->member;
    INTEGERS(OF_READER)
#undef OF_READER
    return NULL;
}

/* A tensor of a rule. */
static bool read_rule_tensor(struct json_reader *r, void *context, unsigned max_rank, struct tensor *tensor,
                             struct error *error)
{
    return tensor_read_json(r, context, tensor, max_rank, error);
}

static bool read_rule(struct json_reader *r, enum rule_index rule, struct forward_decoding *decoding,
                      struct error *error)
{
    struct forward_request *request = decoding->request;
    if (!request->rules) {
        request->rules = arena_take(decoding->arena, sizeof *request->rules);
        if (!request->rules)
            return error_out_of_memory(error);
        *request->rules = (struct forward_rules){0};
    }
    const struct rules_reading reading = {.asked = &request->rules->asked,
                                          .arena = decoding->arena,
                                          .read_tensor = read_rule_tensor,
                                          .context = decoding->arena};
    return rules_read(r, rule, &reading, error);
}

#define READ_RULE(bit, member)                                                            \
    bool forward_read_##member(struct json_reader *r, void *context, struct error *error) \
    {                                                                                     \
        return read_rule(r, bit##_INDEX, context, error);                                 \
    }
RULES(READ_RULE)
#undef READ_RULE

/* One name of `return`: its bit is added to *returned. */
static bool read_return_name(struct json_reader *r, unsigned *returned, struct error *error)
{
    struct json_key name;
    if (!json_read_in_place(r, &name, error))
        return false;
    unsigned i = 0;
    while (i < FORWARD_RETURN_COUNT && !json_key_is(&name, RETURN_NAMES[i]))
        i++;
    if (i == FORWARD_RETURN_COUNT) {
        char shown[NAMES_SHOWN_BYTES];
        names_show(&name, shown);
        const char *meant = nearest_name(shown, RETURN_NAMES, FORWARD_RETURN_COUNT);
        return json_error(
            r, error, ERROR_INVALID,
            "\"%s\" cannot be returned, only output, attention, heads, query, key, value and hidden_states%s%s%s",
            shown, meant ? "; did you mean \"" : "", meant ? meant : "", meant ? "\"?" : "");
    }
    if (*returned & 1u << i)
        return json_error(r, error, ERROR_INVALID, "\"%s\" is there twice; name each once", RETURN_NAMES[i]);
    *returned |= 1u << i;
    return true;
}

static bool read_return(struct json_reader *r, void *context, struct error *error)
{
    struct forward_decoding *decoding = context;
    unsigned returned = 0;
    enum json_step step;
    if (!json_enter_array(r, error))
        return false;
    while ((step = json_next_element(r, error)) == JSON_ITEM)
        if (!read_return_name(r, &returned, error))
            return false;
    if (step == JSON_FAILED)
        return false;
    if (returned == 0)
        return json_error(r, error, ERROR_INVALID,
                          "nothing to return: name at least one of output, attention, heads, query, key, value and "
                          "hidden_states");
    decoding->request->returned = returned;
    return true;
}

/* Numbers of heads or of layers, `what` each is; *unknown: the first that can be none. */
static bool read_numbers(struct json_reader *r, struct arena *arena, const char *what, uint32_t **list, size_t *length,
                         int64_t *unknown, struct error *error)
{
    size_t bytes, count = 0;
    uint32_t *numbers = arena_take_rest(arena, &bytes);
    enum json_step step;
    int64_t number;
    if (!json_enter_array(r, error))
        return false;
    while ((step = json_next_element(r, error)) == JSON_ITEM) {
        if (!json_read_integer(r, INT64_MIN, INT64_MAX, &number, error))
            return false;
        if (count == FORWARD_MAX_INCLUDE_HEADS)
            return json_error(r, error, ERROR_INVALID, "more than %d %ss are listed", FORWARD_MAX_INCLUDE_HEADS, what);
        if (count == bytes / sizeof *numbers)
            return error_out_of_memory(error);
        numbers[count] = number < 0 || number >= FORWARD_NO_HEAD ? FORWARD_NO_HEAD : (uint32_t)number;
        if (numbers[count++] == FORWARD_NO_HEAD && *unknown == 0)
            *unknown = number;
    }
    if (step == JSON_FAILED)
        return false;
    if (count == 0)
        return json_error(r, error, ERROR_INVALID,
                          "no %s is listed: name at least one, or leave the member out for all", what);
    arena_shorten(arena, numbers, count * sizeof *numbers);
    *list = numbers;
    *length = count;
    return true;
}

bool forward_read_include_heads(struct json_reader *r, void *context, struct error *error)
{
    struct forward_decoding *decoding = context;
    struct forward_request *request = decoding->request;
    return read_numbers(r, decoding->arena, "head", &request->include_heads, &request->n_include_heads,
                        &request->no_head, error);
}

bool forward_read_include_layers(struct json_reader *r, void *context, struct error *error)
{
    struct forward_decoding *decoding = context;
    struct forward_request *request = decoding->request;
    return read_numbers(r, decoding->arena, "layer", &request->include_layers, &request->n_include_layers,
                        &request->no_layer, error);
}

static bool read_top_k(struct json_reader *r, void *context, struct error *error)
{
    struct forward_decoding *decoding = context;
    int64_t value;
    if (!json_read_integer(r, 1, INT64_MAX, &value, error))
        return false;
    decoding->request->top_k = (size_t)value;
    return true;
}

bool forward_read_decimals(struct json_reader *r, void *context, struct error *error)
{
    struct forward_decoding *decoding = context;
    int64_t value;
    if (!json_read_integer(r, 0, 9, &value, error))
        return false;
    decoding->request->decimals = (int)value;
    return true;
}

static bool read_compare(struct json_reader *r, void *context, struct error *error)
{
    static const char *const names[] = {"full"};
    struct forward_decoding *decoding = context;
    unsigned choice;
    return decoding->request->compare = choice_read(r, "compare", names, 1, &choice, error);
}

bool forward_read_encoding(struct json_reader *r, void *context, struct error *error)
{
    struct forward_decoding *decoding = context;
    struct json_key name;
    if (!json_read_in_place(r, &name, error))
        return false;
    bool json = json_key_is(&name, "json");
    if (!json && !json_key_is(&name, "base64")) {
        char shown[NAMES_SHOWN_BYTES];
        names_show(&name, shown);
        return json_error(r, error, ERROR_INVALID, "encoding \"%s\" is not one of json and base64", shown);
    }
    decoding->request->encoding = json ? ENCODING_JSON : ENCODING_BASE64;
    return true;
}

/* clang-format off */
static const struct request_member MEMBERS[] = {
    FORWARD_MEMBER_ENTRIES
    {"return", read_return, NULL},
    {"include_heads", forward_read_include_heads, NULL},
    {"include_layers", forward_read_include_layers, NULL},
    {"top_k", read_top_k, NULL},
    {"decimals", forward_read_decimals, NULL},
    {"encoding", forward_read_encoding, NULL},
    {"compare", read_compare, NULL},
};
/* clang-format on */

struct request_members forward_request_members(struct forward_decoding *context)
{
    return (struct request_members){.list = MEMBERS, .count = sizeof MEMBERS / sizeof *MEMBERS, .context = context};
}

/* Whether each member is there that tokens may come as; the pair of query and key is one of them. */
enum { INPUT, INPUT_IDS, INPUTS_EMBEDS, PIXEL_VALUES, QUERY, INPUT_COUNT };
static const char *const INPUT_NAMES[INPUT_COUNT] = {"input", "input_ids", "inputs_embeds", "pixel_values", "query"};

static unsigned inputs_of(const struct forward_request *request)
{
    return (request->input.rank > 0) << INPUT | (request->input_ids.rank > 0) << INPUT_IDS |
           (request->inputs_embeds.rank > 0) << INPUTS_EMBEDS | (request->pixel_values.rank > 0) << PIXEL_VALUES |
           (request->query.rank > 0 && request->key.rank > 0) << QUERY;
}

const char *forward_request_input(const struct forward_request *request)
{
    const unsigned there = inputs_of(request);
    unsigned i = 0;
    while (i < QUERY && !(there >> i & 1))
        i++;
    return INPUT_NAMES[i];
}

bool forward_request_complete(struct forward_request *request, struct error *error)
{
    const bool query = request->query.rank > 0, key = request->key.rank > 0, value = request->value.rank > 0;
    const char *other = query ? "query" : key ? "key" : value ? "value" : NULL, *first;
    unsigned there = inputs_of(request) & ~(1u << QUERY);
    char pointer[24];
    first = there ? forward_request_input(request) : NULL;
    if (there & (there - 1)) { /* more than one */
        unsigned second = 0;
        for (there &= there - 1; !(there >> second & 1); second++)
            ;
        other = INPUT_NAMES[second];
    }
    if (first && other) {
        snprintf(pointer, sizeof pointer, "/%s", other);
        return error_set_at(error, ERROR_INVALID, pointer,
                            "%s and %s cannot stand together: send one of input, input_ids, inputs_embeds and "
                            "pixel_values, or query and key",
                            first, other);
    }
    request->embedding = (struct embedding_input){.ids = request->input_ids.data,
                                                  .embeds = request->inputs_embeds.data,
                                                  .pixels = request->pixel_values.data,
                                                  .type_ids = request->token_type_ids.data};
    if (first || (query && key))
        return true;
    if (!other)
        return error_set_at(error, ERROR_INVALID, "",
                            "an input is missing: send input, input_ids, inputs_embeds or pixel_values, or query and "
                            "key");
    return error_set_at(error, ERROR_INVALID, "", "%s without %s: attention needs query and key, or input", other,
                        query ? "key" : "query");
}

bool forward_read_body(const struct request_body *body, const struct request_member *list, size_t count,
                       struct forward_decoding *context, struct error *error)
{
    const size_t used = context->arena->used;
    struct request_members members = {.list = list, .count = count, .context = context};
    if (request_body_read(body, &members, error) && forward_request_complete(context->request, error))
        return true;
    arena_rewind(context->arena, used);
    return false;
}

bool forward_request_decode(const struct request_body *body, struct arena *arena, struct forward_request *request,
                            struct error *error)
{
    struct forward_request made = FORWARD_REQUEST_DEFAULTS;
    struct forward_decoding decoding = {&made, arena};
    bool right = forward_read_body(body, MEMBERS, sizeof MEMBERS / sizeof *MEMBERS, &decoding, error);
    *request = right ? made : (struct forward_request){0};
    return right;
}
