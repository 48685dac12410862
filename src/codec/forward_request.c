/* The members of a /v1/forward request, one reader each.
 *
 * Owns the request while it is decoded. Entered by whichever thread decodes it; forward_check.c has what needs the
 * weights' shape. */
#include "codec/forward_request.h"

#include "base/nearest.h"
#include "codec/forward_members.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ID_CHARACTERS 256

static const char *const RETURN_NAMES[FORWARD_RETURN_COUNT] = {
#define RETURN_NAME(bit, name) name,
    FORWARD_RETURNS(RETURN_NAME)
#undef RETURN_NAME
};

bool forward_read_weights(struct json_reader *r, void *context, struct error *error)
{
    struct forward_request *request = context;
    return json_read_string(r, &request->weights, NULL, error);
}

static char *copy(const char *begin, const char *end)
{
    size_t length = (size_t)(end - begin);
    char *text = malloc(length + 1);
    if (text) {
        memcpy(text, begin, length);
        text[length] = '\0';
    }
    return text;
}

/* Characters of valid UTF-8. */
static size_t count_characters(const char *text, size_t length)
{
    size_t count = 0;
    for (size_t i = 0; i < length; i++)
        count += ((unsigned char)text[i] & 0xC0) != 0x80;
    return count;
}

bool forward_read_id(struct json_reader *r, void *context, struct error *error)
{
    struct forward_request *request = context;
    enum json_type type = json_peek(r);
    const char *begin = r->at, *end;
    if (type == JSON_STRING) {
        char *string;
        size_t length;
        if (!json_read_string(r, &string, &length, error))
            return false;
        size_t characters = count_characters(string, length);
        free(string);
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
    request->id = copy(begin, end);
    return request->id || error_out_of_memory(error);
}

/* X(member, most axes): the tensors of a request. */
#define TENSORS(X) \
    X(input, 3)    \
    X(query, 3)    \
    X(key, 3)      \
    X(value, 3)    \
    X(bias, 4)     \
    X(head_mask, 1)

#define READ_TENSOR(member, axes)                                                         \
    bool forward_read_##member(struct json_reader *r, void *context, struct error *error) \
    {                                                                                     \
        struct forward_request *request = context;                                        \
        return tensor_read_json(r, &request->member, axes, error);                        \
    }
TENSORS(READ_TENSOR)
#undef READ_TENSOR

bool forward_read_attention_mask(struct json_reader *r, void *context, struct error *error)
{
    struct forward_request *request = context;
    return mask_read_json(r, &request->attention_mask, 3, error);
}

bool forward_read_causal(struct json_reader *r, void *context, struct error *error)
{
    struct forward_request *request = context;
    return json_read_bool(r, &request->causal, error);
}

/* One name of `return`: its bit is added to *returned. */
static bool read_return_name(struct json_reader *r, unsigned *returned, struct error *error)
{
    char *name;
    if (!json_read_string(r, &name, NULL, error))
        return false;
    unsigned i = 0;
    while (i < FORWARD_RETURN_COUNT && strcmp(RETURN_NAMES[i], name) != 0)
        i++;
    if (i == FORWARD_RETURN_COUNT) {
        const char *meant = nearest_name(name, RETURN_NAMES, FORWARD_RETURN_COUNT);
        json_error(r, error, ERROR_INVALID,
                   "\"%.64s\" cannot be returned, only output, attention, heads, query, key and value%s%s%s", name,
                   meant ? "; did you mean \"" : "", meant ? meant : "", meant ? "\"?" : "");
        free(name);
        return false;
    }
    free(name);
    if (*returned & 1u << i)
        return json_error(r, error, ERROR_INVALID, "\"%s\" is there twice; name each once", RETURN_NAMES[i]);
    *returned |= 1u << i;
    return true;
}

static bool read_return(struct json_reader *r, void *context, struct error *error)
{
    struct forward_request *request = context;
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
                          "nothing to return: name at least one of output, attention, heads, query, key and value");
    request->returned = returned;
    return true;
}

static bool add_head(struct json_reader *r, struct forward_request *request, size_t *capacity, int64_t head,
                     struct error *error)
{
    if (request->n_include_heads == FORWARD_MAX_INCLUDE_HEADS)
        return json_error(r, error, ERROR_INVALID, "more than %d heads are listed", FORWARD_MAX_INCLUDE_HEADS);
    if (request->n_include_heads == *capacity) {
        size_t larger = size_max(16, 2 * *capacity);
        uint32_t *heads = realloc(request->include_heads, larger * sizeof *heads);
        if (!heads)
            return error_out_of_memory(error);
        request->include_heads = heads;
        *capacity = larger;
    }
    uint32_t entry = head < 0 || head >= FORWARD_NO_HEAD ? FORWARD_NO_HEAD : (uint32_t)head;
    if (entry == FORWARD_NO_HEAD && request->no_head == 0)
        request->no_head = head;
    request->include_heads[request->n_include_heads++] = entry;
    return true;
}

static bool read_include_heads(struct json_reader *r, void *context, struct error *error)
{
    struct forward_request *request = context;
    size_t capacity = 0;
    enum json_step step;
    int64_t head;
    if (!json_enter_array(r, error))
        return false;
    while ((step = json_next_element(r, error)) == JSON_ITEM)
        if (!json_read_integer(r, INT64_MIN, INT64_MAX, &head, error) || !add_head(r, request, &capacity, head, error))
            return false;
    if (step == JSON_FAILED)
        return false;
    if (request->n_include_heads == 0)
        return json_error(r, error, ERROR_INVALID,
                          "no head is listed: name at least one, or leave the member out for all");
    return true;
}

static bool read_top_k(struct json_reader *r, void *context, struct error *error)
{
    struct forward_request *request = context;
    int64_t value;
    if (!json_read_integer(r, 1, INT64_MAX, &value, error))
        return false;
    request->top_k = (size_t)value;
    return true;
}

static bool read_decimals(struct json_reader *r, void *context, struct error *error)
{
    struct forward_request *request = context;
    int64_t value;
    if (!json_read_integer(r, 0, 9, &value, error))
        return false;
    request->decimals = (int)value;
    return true;
}

static bool read_encoding(struct json_reader *r, void *context, struct error *error)
{
    struct forward_request *request = context;
    char *name;
    if (!json_read_string(r, &name, NULL, error))
        return false;
    bool json = strcmp(name, "json") == 0, known = json || strcmp(name, "base64") == 0;
    if (known)
        request->encoding = json ? ENCODING_JSON : ENCODING_BASE64;
    else
        json_error(r, error, ERROR_INVALID, "encoding \"%.64s\" is not one of json and base64", name);
    free(name);
    return known;
}

/* clang-format off */
static const struct json_member MEMBERS[] = {
    FORWARD_MEMBERS(FORWARD_MEMBER_ENTRY)
    {"return", read_return},
    {"include_heads", read_include_heads},
    {"top_k", read_top_k},
    {"decimals", read_decimals},
    {"encoding", read_encoding},
};
/* clang-format on */

/* Either `input`, or `query` and `key`. */
static bool check_members(const struct forward_request *request, struct error *error)
{
    bool input = request->input.rank > 0, query = request->query.rank > 0, key = request->key.rank > 0,
         value = request->value.rank > 0;
    const char *other = query ? "query" : key ? "key" : value ? "value" : NULL;
    char pointer[8];
    if (input && other) {
        snprintf(pointer, sizeof pointer, "/%s", other);
        return error_set_at(error, ERROR_INVALID, pointer,
                            "input and %s cannot stand together: send input for self-attention, or query and key",
                            other);
    }
    if (input || (query && key))
        return true;
    if (!other)
        return error_set_at(error, ERROR_INVALID, "", "the member input is missing (or query and key)");
    return error_set_at(error, ERROR_INVALID, "", "%s without %s: attention needs query and key, or input", other,
                        query ? "key" : "query");
}

bool forward_read_body(const char *body, size_t length, const struct json_member *members, size_t count,
                       struct forward_request *context, struct error *error)
{
    struct json_reader r;
    json_reader_init(&r, body, length);
    enum json_type type = json_peek(&r);
    if (type != JSON_OBJECT && type != JSON_END) { /* text that is not JSON is that fault first */
        const char *at = r.at;
        if (!json_skip(&r, NULL, NULL, error) || !json_finish(&r, error))
            return false;
        r.at = at;
        return json_type_error(&r, error, "an object");
    }
    return json_read_object(&r, members, count, context, NULL, error) && json_finish(&r, error) &&
           check_members(context, error);
}

bool forward_request_decode(const char *body, size_t length, struct forward_request *request, struct error *error)
{
    struct forward_request made = {.returned = RETURN_OUTPUT | RETURN_ATTENTION, .decimals = -1};
    if (!forward_read_body(body, length, MEMBERS, sizeof MEMBERS / sizeof *MEMBERS, &made, error)) {
        forward_request_free(&made);
        *request = made;
        return false;
    }
    *request = made;
    return true;
}

void forward_request_free(struct forward_request *request)
{
    if (!request)
        return;
    free(request->weights);
    free(request->id);
    free(request->include_heads);
    mask_free(&request->attention_mask);
#define FREE_TENSOR(member, axes) tensor_free(&request->member);
    TENSORS(FREE_TENSOR)
#undef FREE_TENSOR
    *request = (struct forward_request){0};
}
