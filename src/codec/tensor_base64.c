/* Base64 text to tensors, block by block, so that nothing is held but the text and the result. Pure functions: any
 * thread. */
#include "codec/tensor_base64.h"

#include "base/size.h"
#include "codec/base64.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A block of text and the bytes it becomes: numbers of every format, whole. */
#define BLOCK_TEXT  4096
#define BLOCK_BYTES (BLOCK_TEXT / 4 * 3)

_Static_assert(BLOCK_BYTES % 8 == 0, "a number never stands across two blocks");

/* Where a walk over the text is. */
struct blocks {
    const char *text;
    size_t length, at;
};

/* Decodes the next block into `raw` [BLOCK_BYTES]; *bytes: how many there are. SIZE_MAX, or the index of the character
 * that is wrong. */
static size_t next_block(struct blocks *b, unsigned char *raw, size_t *bytes)
{
    size_t length = size_min(b->length - b->at, BLOCK_TEXT), fault;
    fault = base64_decode(b->text + b->at, length, raw);
    if (fault != SIZE_MAX)
        return b->at + fault;
    if (!base64_decoded_length(b->text + b->at, length, bytes))
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
static bool check_length(const char *text, size_t length, enum dtype dtype, size_t count, const char *pointer,
                         struct error *error)
{
    size_t expected, bytes, found;
    if (!size_multiply(count, dtype_bytes(dtype), &expected))
        return error_set_at(error, ERROR_INVALID, pointer, "the shape makes more bytes than a computer can address");
    bool possible = base64_decoded_length(text, length, &bytes);
    if (possible && bytes == expected)
        return true;
    struct blocks b = {.text = text, .length = length};
    unsigned char raw[BLOCK_BYTES];
    while (b.at < b.length) {
        size_t fault = next_block(&b, raw, &found);
        if (fault != SIZE_MAX)
            return encoding_error(&b, fault, pointer, error);
    }
    return error_set_at(error, ERROR_INVALID, pointer, "expected %zu bytes in base64 (%zu numbers of %s), found %zu",
                        expected, count, dtype_json_name(dtype), bytes);
}

float *tensor_base64_numbers(const char *text, size_t length, enum dtype dtype, size_t count, const char *pointer,
                             struct error *error)
{
    struct blocks b = {.text = text, .length = length};
    unsigned char raw[BLOCK_BYTES];
    size_t bytes, fault;
    float *data = NULL;
    if (!check_length(text, length, dtype, count, pointer, error))
        return NULL;
    if (!(data = malloc(count * sizeof *data))) {
        error_out_of_memory(error);
        return NULL;
    }
    for (size_t done = 0; done < count;) {
        if ((fault = next_block(&b, raw, &bytes)) != SIZE_MAX) {
            encoding_error(&b, fault, pointer, error);
            goto fail;
        }
        size_t numbers = bytes / dtype_bytes(dtype), finite = dtype_to_f32(dtype, raw, data + done, numbers);
        if (finite < numbers) {
            error_set_at(error, ERROR_NOT_FINITE, pointer,
                         "the number at index %zu of %zu is not finite, or beyond float32", done + finite, count);
            goto fail;
        }
        done += numbers;
    }
    return data;
fail:
    free(data);
    return NULL;
}

/* How many of the `count` numbers at `raw` are 0 or 1 before the first that is not; these are written to `mask`. */
static size_t mask_values(enum dtype dtype, const unsigned char *raw, size_t count, uint8_t *mask)
{
    float floats[BLOCK_BYTES / 2];
    size_t known = dtype_is_float(dtype) ? dtype_to_f32(dtype, raw, floats, count) : count;
    for (size_t i = 0; i < known; i++) {
        int64_t wide;
        int32_t narrow;
        bool zero, one;
        switch (dtype) {
        case DTYPE_BOOL:
        case DTYPE_U8:
            zero = raw[i] == 0;
            one = raw[i] == 1;
            break;
        case DTYPE_I32:
            memcpy(&narrow, raw + sizeof narrow * i, sizeof narrow);
            zero = narrow == 0;
            one = narrow == 1;
            break;
        case DTYPE_I64:
            memcpy(&wide, raw + sizeof wide * i, sizeof wide);
            zero = wide == 0;
            one = wide == 1;
            break;
        default:
            zero = floats[i] == 0.0f;
            one = floats[i] == 1.0f;
        }
        if (!zero && !one)
            return i;
        mask[i] = one;
    }
    return known;
}

uint8_t *tensor_base64_mask(const char *text, size_t length, enum dtype dtype, size_t count, const char *pointer,
                            struct error *error)
{
    struct blocks b = {.text = text, .length = length};
    unsigned char raw[BLOCK_BYTES];
    size_t bytes, fault;
    uint8_t *data = NULL;
    if (!check_length(text, length, dtype, count, pointer, error))
        return NULL;
    if (!(data = malloc(count))) {
        error_out_of_memory(error);
        return NULL;
    }
    for (size_t done = 0; done < count;) {
        if ((fault = next_block(&b, raw, &bytes)) != SIZE_MAX) {
            encoding_error(&b, fault, pointer, error);
            goto fail;
        }
        size_t numbers = bytes / dtype_bytes(dtype), right = mask_values(dtype, raw, numbers, data + done);
        if (right < numbers) {
            error_set_at(error, ERROR_INVALID, pointer, "a mask holds 0 or 1; the value at index %zu of %zu is neither",
                         done + right, count);
            goto fail;
        }
        done += numbers;
    }
    return data;
fail:
    free(data);
    return NULL;
}
