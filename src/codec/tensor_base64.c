/* Base64 text to tensors, block by block, so that nothing is held but the text and the result. Pure functions: any
 * thread. */
#include "codec/tensor_base64.h"

#include "base/size.h"
#include "codec/base64.h"
#include "codec/raw_tensor.h"
#include "json/escape.h"
#include "json/reader.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* A block of text and the bytes it becomes: numbers of every format, whole. */
#define BLOCK_TEXT  4096
#define BLOCK_BYTES (BLOCK_TEXT / 4 * 3)

_Static_assert(BLOCK_BYTES % 8 == 0, "a number never stands across two blocks");

/* A walk over the text: as it stands in the body or, where it has escapes (\/ is one), resolved block by block. */
struct blocks {
    const char *next, *end; /* in the body */
    bool escaped;
    size_t at, length;             /* characters that are passed, and all of them, as resolved */
    char resolved[BLOCK_TEXT + 3]; /* an escape may stand for four bytes */
};

static void begin_walk(struct blocks *b, const struct json_key *string)
{
    b->next = string->raw;
    b->end = string->raw + string->length;
    b->escaped = string->escaped;
    b->at = 0;
    b->length = string->length;
    if (b->escaped) {
        b->length = 0;
        for (const char *at = b->next; at < b->end;)
            b->length += escape_next(&at, b->resolved);
    }
}

/* The characters of the next block. What goes over its end is no base64, and its first byte in the block tells so. */
static const char *next_text(struct blocks *b, size_t *length)
{
    const char *text = b->next;
    *length = size_min((size_t)(b->end - b->next), BLOCK_TEXT);
    if (!b->escaped) {
        b->next += *length;
        return text;
    }
    size_t resolved = 0;
    while (resolved < BLOCK_TEXT && b->next < b->end)
        resolved += escape_next(&b->next, b->resolved + resolved);
    *length = size_min(resolved, BLOCK_TEXT);
    return b->resolved;
}

/* Decodes the next block into `raw`, *bytes that are at most BLOCK_BYTES and what is left of the text. SIZE_MAX, or the
 * index of the character that is wrong. */
static size_t next_block(struct blocks *b, unsigned char *raw, size_t *bytes)
{
    size_t length;
    const char *text = next_text(b, &length);
    size_t fault = base64_decode(text, length, raw);
    if (fault != SIZE_MAX)
        return b->at + fault;
    if (!base64_decoded_length(text, length, bytes))
        return b->at + length;
    b->at += length;
    if (*bytes < BLOCK_BYTES && b->at < b->length) /* padding in the middle of the text */
        return b->at - (BLOCK_BYTES - *bytes);
    return SIZE_MAX;
}

static bool encoding_error(const struct blocks *b, size_t fault, const char *pointer, struct error *error)
{
    char place[sizeof error->pointer + sizeof "/base64"];
    snprintf(place, sizeof place, "%s/base64", pointer);
    if (fault >= b->length)
        return error_set_at(
            error, ERROR_BAD_ENCODING, place,
            "the base64 text ends at index %zu within a group of four characters; it must be padded with '='",
            b->length);
    return error_set_at(error, ERROR_BAD_ENCODING, place,
                        "not base64 at index %zu of %zu: expected the standard alphabet (A-Z a-z 0-9 + /) with '=' "
                        "only as padding at the end",
                        fault, b->length);
}

/* The text must be as many bytes as `count` numbers are. Otherwise wrong characters come first: they are why, more
 * often than not. */
static bool check_length(const struct json_key *string, enum dtype dtype, size_t count, const char *pointer,
                         struct error *error)
{
    size_t expected, bytes, found;
    if (!size_multiply(count, dtype_bytes(dtype), &expected))
        return error_set_at(error, ERROR_INVALID, pointer, "the shape makes more bytes than a computer can address");
    if (!string->escaped && base64_decoded_length(string->raw, string->length, &bytes) && bytes == expected)
        return true;
    struct blocks b;
    unsigned char raw[BLOCK_BYTES];
    begin_walk(&b, string);
    for (bytes = 0; b.at < b.length; bytes += found) {
        size_t fault = next_block(&b, raw, &found);
        if (fault != SIZE_MAX)
            return encoding_error(&b, fault, pointer, error);
    }
    if (bytes == expected)
        return true;
    return error_set_at(error, ERROR_INVALID, pointer, "expected %zu bytes in base64 (%zu numbers of %s), found %zu",
                        expected, count, dtype_json_name(dtype), bytes);
}

/* Converts `count` numbers of a block into what is kept of them at `to`, where float32 may stand already; returns how
 * many come before the first that is refused. */
typedef size_t block_converter(enum dtype dtype, const unsigned char *raw, size_t count, void *to);

static size_t float_values(enum dtype dtype, const unsigned char *raw, size_t count, void *to)
{
    return dtype_to_f32(dtype, raw, to, count);
}

/* Decodes the whole text into a piece of the arena, `kept_bytes` for each of its `count` numbers. *converted: the index
 * of the first that was refused, or `count`. NULL with an error when the text is wrong or the arena is full. */
static void *decode(const struct json_key *string, enum dtype dtype, size_t count, size_t kept_bytes,
                    block_converter *convert, size_t *converted, struct arena *arena, const char *pointer,
                    struct error *error)
{
    struct blocks b;
    unsigned char raw[BLOCK_BYTES];
    size_t bytes, fault, done = 0;
    bool as_it_is = dtype == DTYPE_F32 && convert == float_values;
    if (!check_length(string, dtype, count, pointer, error))
        return NULL;
    char *data = arena_take(arena, count * kept_bytes); /* no overflow: the text is as long */
    if (!data) {
        error_out_of_memory(error);
        return NULL;
    }
    begin_walk(&b, string);
    while (done < count) {
        /* What stays as it is goes to its place at once: the bytes of the whole text are `count` numbers. */
        unsigned char *to = as_it_is ? (unsigned char *)data + done * kept_bytes : raw;
        if ((fault = next_block(&b, to, &bytes)) != SIZE_MAX) {
            encoding_error(&b, fault, pointer, error);
            arena_shorten(arena, data, 0);
            return NULL;
        }
        size_t numbers = bytes / dtype_bytes(dtype), right = convert(dtype, to, numbers, data + done * kept_bytes);
        done += right;
        if (right < numbers)
            break;
    }
    *converted = done;
    return data;
}

float *tensor_base64_numbers(const struct json_key *string, enum dtype dtype, size_t count, struct arena *arena,
                             const char *pointer, struct error *error)
{
    size_t converted;
    float *data = decode(string, dtype, count, sizeof *data, float_values, &converted, arena, pointer, error);
    if (!data || converted == count)
        return data;
    arena_shorten(arena, data, 0);
    tensor_not_finite_error(pointer, converted, count, error);
    return NULL;
}

static size_t mask_values(enum dtype dtype, const unsigned char *raw, size_t count, void *to)
{
    return dtype_to_mask(dtype, raw, to, count);
}

uint8_t *tensor_base64_mask(const struct json_key *string, enum dtype dtype, size_t count, struct arena *arena,
                            const char *pointer, struct error *error)
{
    size_t converted;
    uint8_t *data = decode(string, dtype, count, sizeof *data, mask_values, &converted, arena, pointer, error);
    if (!data || converted == count)
        return data;
    arena_shorten(arena, data, 0);
    tensor_mask_error(pointer, converted, count, error);
    return NULL;
}

static size_t integer_values(enum dtype dtype, const unsigned char *raw, size_t count, void *to)
{
    return dtype_to_u32(dtype, raw, to, count);
}

uint32_t *tensor_base64_integers(const struct json_key *string, enum dtype dtype, const size_t *shape, unsigned rank,
                                 struct arena *arena, const char *pointer, struct error *error)
{
    size_t converted, count = 1;
    for (unsigned axis = 0; axis < rank; axis++)
        count *= shape[axis];
    uint32_t *data = decode(string, dtype, count, sizeof *data, integer_values, &converted, arena, pointer, error);
    if (!data || converted == count)
        return data;
    arena_shorten(arena, data, 0);
    tensor_integer_error(pointer, converted, shape, rank, error);
    return NULL;
}
