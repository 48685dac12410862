/* Tensors as JSON text, a row at a time into memory that is reserved before. Owns nothing; the text is the caller's,
 * one thread at a time. */
#include "codec/tensor_write.h"

#include "base/size.h"
#include "codec/base64.h"
#include "codec/tensor.h"
#include "json/number.h"

#include <string.h>

size_t tensor_write_digits(size_t value)
{
    size_t digits = 1;
    for (; value >= 10; value /= 10)
        digits++;
    return digits;
}

size_t tensor_write_number_bytes(int decimals)
{
    return 1 + (size_t)(decimals < 0 ? NUMBER_F32_BYTES : NUMBER_FIXED_BYTES(decimals));
}

size_t tensor_write_weight_bytes(int decimals)
{
    return decimals < 0 ? tensor_write_number_bytes(decimals)
                        : 3 + (size_t)decimals; /* a digit, a point, the decimals, a comma */
}

/* An array has an opening bracket, and behind each element a comma or the closing bracket. So a number costs its own
 * bytes and one (in `number_bytes`), an inner array two, the outermost one. */
bool tensor_write_bytes(const size_t *shape, unsigned rank, size_t number_bytes, size_t *bytes)
{
    size_t arrays = 1, total = 1, count, numbers;
    for (unsigned axis = 0; axis + 1 < rank; axis++)
        if (!size_multiply(arrays, shape[axis], &arrays) || !size_add(total, arrays, &total) ||
            !size_add(total, arrays, &total))
            return false;
    return size_multiply(arrays, shape[rank - 1], &count) && size_multiply(count, number_bytes, &numbers) &&
           size_add(total, numbers, bytes);
}

/* A number may be written in more bytes than its text keeps: behind a row there is room for that. */
#define LAST_NUMBER_BYTES NUMBER_FIXED_BYTES(9)

/* What a tensor's rows are written from. */
struct rows {
    const float *floats;      /* [rows, width], or */
    const uint32_t *integers; /* [rows, width] */
    size_t width;
    int decimals;
    size_t number_bytes;
};

static char *write_u32(char *to, uint32_t value)
{
    char digits[10];
    size_t n = 0;
    do
        digits[n++] = (char)('0' + value % 10);
    while (value /= 10);
    while (n)
        *to++ = digits[--n];
    return to;
}

/* The numbers of one row, a comma behind each. */
static char *write_row(char *to, const struct rows *rows, size_t row)
{
    size_t begin = row * rows->width, end = begin + rows->width;
    if (rows->integers)
        for (size_t i = begin; i < end; i++) {
            to = write_u32(to, rows->integers[i]);
            *to++ = ',';
        }
    else if (rows->decimals < 0)
        for (size_t i = begin; i < end; i++) {
            to = number_write_f32(to, rows->floats[i]);
            *to++ = ',';
        }
    else
        for (size_t i = begin; i < end; i++) {
            to = number_write_fixed(to, rows->floats[i], (unsigned)rows->decimals);
            *to++ = ',';
        }
    return to;
}

static void write_nested(struct text *text, const struct rows *rows, const size_t *shape, unsigned rank)
{
    size_t index[TENSOR_MAX_RANK] = {0}, row = 0;
    unsigned opened = rank; /* brackets before this row */
    while (opened) {
        char *to = text_reserve(text, rows->width * rows->number_bytes + 2 * rank + LAST_NUMBER_BYTES);
        if (!to)
            return;
        char *begin = to;
        memset(to, '[', opened);
        to = write_row(to + opened, rows, row++);
        to[-1] = ']';
        opened = 1;
        unsigned axis = rank - 1; /* the last axis is the row itself; count up those before it */
        while (axis-- > 0 && ++index[axis] == shape[axis]) {
            index[axis] = 0;
            *to++ = ']';
            opened++;
        }
        if (opened < rank)
            *to++ = ',';
        else
            opened = 0;
        text->length += (size_t)(to - begin);
    }
}

void tensor_write_f32(struct text *text, const float *data, const size_t *shape, unsigned rank, int decimals,
                      size_t number_bytes)
{
    const struct rows rows = {
        .floats = data, .width = shape[rank - 1], .decimals = decimals, .number_bytes = number_bytes};
    write_nested(text, &rows, shape, rank);
}

void tensor_write_u32(struct text *text, const uint32_t *data, const size_t *shape, unsigned rank, size_t number_bytes)
{
    const struct rows rows = {.integers = data, .width = shape[rank - 1], .number_bytes = number_bytes};
    write_nested(text, &rows, shape, rank);
}

void tensor_write_shape(struct text *text, const size_t *shape, unsigned rank)
{
    for (unsigned axis = 0; axis < rank; axis++)
        text_append_format(text, "%s%zu", axis ? "," : "[", shape[axis]);
    text_append(text, "]", 1);
}

void tensor_write_base64(struct text *text, const void *data, enum dtype dtype, const size_t *shape, unsigned rank)
{
    size_t bytes;
    if (!tensor_bytes(shape, rank, dtype_bytes(dtype), &bytes)) {
        text->failed = true;
        return;
    }
    text_append_string(text, "{\"shape\":");
    tensor_write_shape(text, shape, rank);
    text_append_format(text, ",\"dtype\":\"%s\",\"base64\":\"", dtype_json_name(dtype));
    char *to = text_reserve(text, base64_encoded_length(bytes));
    if (to)
        text->length += (size_t)(base64_encode(to, data, bytes) - to);
    text_append_string(text, "\"}");
}
