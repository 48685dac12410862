/* The header of a safetensors file. Nothing in it is believed: every number is checked against the file before it
 * becomes a pointer.
 *
 * Owns the parsed header and the arrays of entries and metadata. Pure functions: any thread. */
#include "codec/safetensors.h"

#include "base/size.h"
#include "codec/json_document.h"

#include <jansson.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define LENGTH_BYTES 8
#define METADATA     "__metadata__"

/* Every dtype of the format and its bits; those narrower than a byte are packed. */
static const struct {
    const char *name;
    unsigned bits;
} KNOWN[] = {
    {"BOOL", 8},    {"F4", 4},      {"F6_E2M3", 6}, {"F6_E3M2", 6}, {"U8", 8},   {"I8", 8},    {"F8_E5M2", 8},
    {"F8_E4M3", 8}, {"F8_E8M0", 8}, {"I16", 16},    {"U16", 16},    {"F16", 16}, {"BF16", 16}, {"I32", 32},
    {"U32", 32},    {"F32", 32},    {"C64", 64},    {"F64", 64},    {"I64", 64}, {"U64", 64},
};

/* Jansson's integers are signed; what fits is a size. */
static bool read_size(const json_t *value, size_t *size)
{
    if (!json_is_integer(value) || json_integer_value(value) < 0)
        return false;
    *size = (size_t)json_integer_value(value);
    return true;
}

/* Names come from the file and may be long. */
#define NAMED "tensor \"%.200s\": "

static bool read_shape(struct safetensors_entry *entry, const json_t *shape, struct error *error)
{
    if (!json_is_array(shape))
        return error_set(error, ERROR_BAD_ENCODING, NAMED "its shape is not an array", entry->name);
    if (json_array_size(shape) > SAFETENSORS_MAX_RANK)
        return error_set(error, ERROR_BAD_ENCODING, NAMED "its shape has %zu axes; at most %d can be read", entry->name,
                         json_array_size(shape), SAFETENSORS_MAX_RANK);
    entry->rank = (unsigned)json_array_size(shape);
    for (unsigned i = 0; i < entry->rank; i++)
        if (!read_size(json_array_get(shape, i), &entry->shape[i]))
            return error_set(error, ERROR_BAD_ENCODING, NAMED "extent %u of its shape is not an integer from 0 up",
                             entry->name, i);
    if (!tensor_bytes(entry->shape, entry->rank, 1, &entry->count))
        return error_set(error, ERROR_BAD_ENCODING, NAMED "the product of its shape overflows", entry->name);
    return true;
}

/* The dtype, and with the shape the bytes the tensor must have. */
static bool read_dtype(struct safetensors_entry *entry, const json_t *dtype, size_t *expected, struct error *error)
{
    const char *name = json_string_value(dtype);
    unsigned bits = 0;
    if (!name)
        return error_set(error, ERROR_BAD_ENCODING, NAMED "its dtype is not a string", entry->name);
    for (size_t i = 0; i < sizeof KNOWN / sizeof *KNOWN; i++)
        if (strcmp(KNOWN[i].name, name) == 0)
            bits = KNOWN[i].bits;
    if (bits == 0)
        return error_set(error, ERROR_BAD_ENCODING,
                         NAMED "dtype \"%.64s\" is none that the format knows (F32, F16, BF16, F64 ...)", entry->name,
                         name);
    entry->dtype_name = name;
    entry->dtype = dtype_from_safetensors_name(name, strlen(name));
    size_t all_bits;
    if (!size_multiply(entry->count, bits, &all_bits))
        return error_set(error, ERROR_BAD_ENCODING, NAMED "the bytes of its shape overflow", entry->name);
    if (all_bits % 8)
        return error_set(error, ERROR_BAD_ENCODING, NAMED "%zu numbers of %s do not end at a byte", entry->name,
                         entry->count, name);
    *expected = all_bits / 8;
    return true;
}

static bool read_range(struct safetensors_entry *entry, const json_t *range, const unsigned char *data,
                       size_t data_bytes, size_t expected, struct error *error)
{
    size_t begin, end;
    if (!json_is_array(range) || json_array_size(range) != 2 || !read_size(json_array_get(range, 0), &begin) ||
        !read_size(json_array_get(range, 1), &end))
        return error_set(error, ERROR_BAD_ENCODING, NAMED "its data_offsets are not two integers from 0 up",
                         entry->name);
    if (end < begin)
        return error_set(error, ERROR_BAD_ENCODING, NAMED "its data_offsets end at %zu, before they begin at %zu",
                         entry->name, end, begin);
    if (end > data_bytes)
        return error_set(error, ERROR_BAD_ENCODING,
                         NAMED "its data_offsets end at %zu, but only %zu bytes of data follow the header; the file is "
                               "cut short or the header wrong",
                         entry->name, end, data_bytes);
    if (end - begin != expected)
        return error_set(error, ERROR_BAD_ENCODING,
                         NAMED
                         "its data_offsets span %zu bytes, its shape makes %zu numbers of %s, which are %zu bytes",
                         entry->name, end - begin, entry->count, entry->dtype_name, expected);
    entry->data = data + begin;
    entry->bytes = expected;
    return true;
}

static bool read_metadata(struct safetensors *header, json_t *object, struct error *error)
{
    const char *key;
    json_t *value;
    if (!json_is_object(object))
        return error_set(error, ERROR_BAD_ENCODING, METADATA " is not an object");
    if (json_object_size(object) == 0)
        return true;
    header->metadata = calloc(json_object_size(object), sizeof *header->metadata);
    if (!header->metadata)
        return error_out_of_memory(error);
    json_object_foreach(object, key, value)
    {
        if (!json_is_string(value))
            return error_set(error, ERROR_BAD_ENCODING, METADATA " member \"%.200s\" is not a string", key);
        header->metadata[header->metadata_count++] = (struct safetensors_metadata){key, json_string_value(value)};
    }
    return true;
}

/* By the place of the data; empty tensors before those that begin where they stand. */
static int compare_entries(const void *left, const void *right)
{
    const struct safetensors_entry *a = left, *b = right;
    if (a->data != b->data)
        return a->data < b->data ? -1 : 1;
    if (a->bytes != b->bytes)
        return a->bytes < b->bytes ? -1 : 1;
    return strcmp(a->name, b->name);
}

/* The tensors lie side by side and cover the data: nothing can hide between or behind them. */
static bool check_cover(const struct safetensors *header, const unsigned char *data, size_t data_bytes, size_t size,
                        struct error *error)
{
    size_t at = 0;
    for (size_t i = 0; i < header->count; i++) {
        const struct safetensors_entry *entry = &header->entries[i];
        const char *before = i ? header->entries[i - 1].name : "the header";
        size_t begin = (size_t)(entry->data - data);
        if (begin < at)
            return error_set(error, ERROR_BAD_ENCODING,
                             NAMED "begins at %zu, within \"%.200s\", which ends at %zu: they overlap", entry->name,
                             begin, before, at);
        if (begin > at)
            return error_set(error, ERROR_BAD_ENCODING,
                             NAMED "begins at %zu and leaves a hole of %zu bytes behind \"%.200s\", which ends at %zu",
                             entry->name, begin, begin - at, before, at);
        at = begin + entry->bytes;
    }
    if (at == data_bytes)
        return true;
    return error_set(
        error, ERROR_BAD_ENCODING,
        "%zu bytes stand behind the end of the last tensor%s%.200s%s: the file has %zu bytes, expected %zu",
        data_bytes - at, header->count ? " (\"" : "", header->count ? header->entries[header->count - 1].name : "",
        header->count ? "\")" : "", size, size - (data_bytes - at));
}

static bool read_entries(struct safetensors *header, json_t *root, const unsigned char *data, size_t data_bytes,
                         struct error *error)
{
    const char *name;
    json_t *value;
    size_t expected = 0;
    if (json_object_size(root) == 0)
        return true;
    header->entries = calloc(json_object_size(root), sizeof *header->entries);
    if (!header->entries)
        return error_out_of_memory(error);
    json_object_foreach(root, name, value)
    {
        if (strcmp(name, METADATA) == 0) {
            if (!read_metadata(header, value, error))
                return false;
            continue;
        }
        struct safetensors_entry *entry = &header->entries[header->count];
        entry->name = name;
        if (!json_is_object(value))
            return error_set(error, ERROR_BAD_ENCODING, NAMED "it is not an object of dtype, shape and data_offsets",
                             name);
        if (!read_shape(entry, json_object_get(value, "shape"), error) ||
            !read_dtype(entry, json_object_get(value, "dtype"), &expected, error) ||
            !read_range(entry, json_object_get(value, "data_offsets"), data, data_bytes, expected, error))
            return false;
        header->count++;
    }
    qsort(header->entries, header->count, sizeof *header->entries, compare_entries);
    return true;
}

/* What stands in a large file's place after a clone without Git LFS begins so; no header is as long as that says. */
static const char LFS_POINTER[LENGTH_BYTES] = {'v', 'e', 'r', 's', 'i', 'o', 'n', ' '};

bool safetensors_header_length(const void *file, size_t size, size_t *header_length, struct error *error)
{
    const unsigned char *bytes = file;
    uint64_t length = 0;
    if (size < LENGTH_BYTES)
        return error_set(error, ERROR_BAD_ENCODING,
                         "not a safetensors file: it has %zu bytes, its header's length alone takes %d", size,
                         LENGTH_BYTES);
    if (memcmp(file, LFS_POINTER, LENGTH_BYTES) == 0)
        return error_set(
            error, ERROR_BAD_ENCODING,
            "not a safetensors file: it begins with \"version \", as a Git LFS pointer does, which stands in "
            "a file's place until git lfs pull fetches it");
    for (int i = LENGTH_BYTES; i-- > 0;)
        length = length << 8 | bytes[i];
    if (length > size - LENGTH_BYTES)
        return error_set(error, ERROR_BAD_ENCODING,
                         "the header should have %llu bytes, but only %zu follow its length; the file has %zu bytes",
                         (unsigned long long)length, size - LENGTH_BYTES, size);
    if (length > SAFETENSORS_MAX_HEADER)
        return error_set(error, ERROR_BAD_ENCODING, "the header has %llu bytes, more than the limit of %zu",
                         (unsigned long long)length, SAFETENSORS_MAX_HEADER);
    *header_length = (size_t)length;
    return true;
}

bool safetensors_open(const void *file, size_t size, struct safetensors *header, struct error *error)
{
    const unsigned char *bytes = file;
    struct safetensors made = {0};
    size_t length;
    json_error_t fault;
    if (!safetensors_header_length(file, size, &length, error))
        return false;
    bool out_of_memory;
    json_t *root = json_document_read((const char *)bytes + LENGTH_BYTES, length, NULL, &fault, &out_of_memory);
    made.owned = root;
    if (!root) {
        if (out_of_memory)
            error_out_of_memory(error);
        else
            error_set(error, ERROR_BAD_ENCODING, "the safetensors header is not right JSON at its byte %d: %s",
                      fault.position, fault.text);
        goto fail;
    }
    if (!json_is_object(root)) {
        error_set(error, ERROR_BAD_ENCODING, "the safetensors header is an array, expected an object");
        goto fail;
    }
    const unsigned char *data = bytes + LENGTH_BYTES + length;
    size_t data_bytes = size - LENGTH_BYTES - length;
    if (!read_entries(&made, root, data, data_bytes, error) || !check_cover(&made, data, data_bytes, size, error))
        goto fail;
    *header = made;
    return true;
fail:
    safetensors_close(&made);
    return false;
}

const struct safetensors_entry *safetensors_find(const struct safetensors *header, const char *name)
{
    for (size_t i = 0; i < header->count; i++)
        if (strcmp(header->entries[i].name, name) == 0)
            return &header->entries[i];
    return NULL;
}

void safetensors_close(struct safetensors *header)
{
    if (!header)
        return;
    free(header->entries);
    free(header->metadata);
    json_decref(header->owned);
    *header = (struct safetensors){0};
}
