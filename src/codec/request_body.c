/* From a whole body to the readers of its members. What is not in the body's form is said here; what is wrong with a
 * member, by its reader. Entered by the thread that decodes. */
#include "codec/request_body.h"

#include "codec/safetensors.h"
#include "json/reader.h"

#include <string.h>

_Static_assert(SAFETENSORS_MAX_RANK <= RAW_TENSOR_MAX_RANK, "every shape of a file has room");

/* A header is no longer: room for the tokens of a long text, and little to parse. */
#define MAX_HEADER ((size_t)1 << 20)

/* What jansson takes for a byte of text at most, which is for a list of empty objects. */
#define HEAP_BYTES_PER_BYTE 100

static bool read_json(const struct request_body *body, struct request_members *members, struct error *error)
{
    struct json_reader r;
    json_reader_init(&r, body->data, body->length);
    enum json_type type = json_peek(&r);
    if (type != JSON_OBJECT && type != JSON_END) { /* text that is not JSON is that fault first */
        const char *at = r.at;
        if (!json_skip(&r, NULL, NULL, error) || !json_finish(&r, error))
            return false;
        r.at = at;
        return json_type_error(&r, error, "an object");
    }
    return request_members_read_object(members, &r, error) && json_finish(&r, error);
}

/* What libraries write for themselves: the tensors' framework. */
static bool is_ignored(const struct request_members *members, const char *key)
{
    return strcmp(key, "format") == 0 && request_members_find(members, key) == members->count;
}

static bool read_entries(const struct safetensors *file, struct request_members *members, struct error *error)
{
    for (size_t i = 0; i < file->metadata_count; i++) {
        const struct safetensors_metadata *entry = &file->metadata[i];
        if (!is_ignored(members, entry->key) && !request_members_read_text(members, entry->key, entry->value, error))
            return false;
    }
    for (size_t i = 0; i < file->count; i++) {
        const struct safetensors_entry *entry = &file->entries[i];
        struct raw_tensor raw = {.dtype = entry->dtype,
                                 .dtype_name = entry->dtype_name,
                                 .rank = entry->rank,
                                 .count = entry->count,
                                 .data = entry->data,
                                 .bytes = entry->bytes};
        memcpy(raw.shape, entry->shape, entry->rank * sizeof *entry->shape);
        if (!request_members_read_raw(members, entry->name, &raw, "in __metadata__, its value as JSON text", error))
            return false;
    }
    return true;
}

static bool read_safetensors(const struct request_body *body, struct request_members *members, struct error *error)
{
    struct safetensors file;
    size_t length;
    if (!safetensors_header_length(body->data, body->length, &length, error))
        return false;
    if (length > MAX_HEADER)
        return error_set(error, ERROR_TOO_LARGE,
                         "the safetensors header has %zu bytes, more than the %zu that a request's may have", length,
                         MAX_HEADER);
    if (!safetensors_open(body->data, body->length, &file, error))
        return false;
    bool right = read_entries(&file, members, error);
    safetensors_close(&file);
    return right;
}

size_t request_body_heap_bytes(const struct request_body *body)
{
    struct error error;
    size_t length;
    if (body->form != BODY_SAFETENSORS || !safetensors_header_length(body->data, body->length, &length, &error) ||
        length > MAX_HEADER)
        return 0;
    return length * HEAP_BYTES_PER_BYTE;
}

static bool begins_with(const struct request_body *body, size_t offset, const char *bytes, size_t count)
{
    return body->length >= offset + count && memcmp(body->data + offset, bytes, count) == 0;
}

/* What the body plainly is, where its headers say that it is something else; NULL: nothing that is known here. */
static const char *other_form(const struct request_body *body)
{
    if (begins_with(body, 0, "\x1f\x8b", 2))
        return "the body is gzip: send Content-Encoding: gzip beside it";
    if (body->form == BODY_JSON && begins_with(body, 8, "{\"", 2) && !begins_with(body, 0, "{", 1))
        return "the body is safetensors: send Content-Type: application/x-safetensors beside it";
    if (body->form == BODY_SAFETENSORS && begins_with(body, 0, "{", 1))
        return "the body is JSON: send Content-Type: application/json beside it";
    return NULL;
}

bool request_body_read(const struct request_body *body, struct request_members *members, struct error *error)
{
    const bool json = body->form == BODY_JSON;
    if (json ? read_json(body, members, error) : read_safetensors(body, members, error))
        return true;
    /* Looked at now only: the length at the beginning of a safetensors file may be any bytes. */
    const char *other = other_form(body);
    if (other && error->code == (json ? ERROR_NOT_JSON : ERROR_BAD_ENCODING))
        error_set(error, error->code, "%s", other);
    return false;
}
