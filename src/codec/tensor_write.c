/* Tensors as JSON text, a row at a time into memory that is reserved before. Owns nothing; any thread. */
#include "codec/tensor_write.h"

#include "base/size.h"
#include "codec/tensor.h"
#include "json/number.h"
#include "json/number_rows.h"

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

static char *write_unsigned(char *to, uint64_t value)
{
    char digits[20];
    size_t n = 0;
    do
        digits[n++] = (char)('0' + value % 10);
    while (value /= 10);
    while (n)
        *to++ = digits[--n];
    return to;
}

static size_t count_rows(const size_t *shape, unsigned rank)
{
    size_t rows = 1;
    for (unsigned axis = 0; axis + 1 < rank; axis++)
        rows *= shape[axis];
    return rows;
}

/* Arrays, the row itself among them, that begin with this row; the other way round, of those that are left from it on,
 * that end with it. */
static unsigned arrays_beginning(const size_t *shape, unsigned rank, size_t row)
{
    unsigned arrays = 1;
    for (unsigned axis = rank - 1; axis-- > 0 && row % shape[axis] == 0; arrays++)
        row /= shape[axis];
    return arrays;
}

static char *open_row(char *to, const size_t *shape, unsigned rank, size_t row)
{
    const unsigned arrays = arrays_beginning(shape, rank, row);
    memset(to, '[', arrays);
    return to + arrays;
}

/* `to`: behind the comma of the row's last number. */
static char *close_row(char *to, const size_t *shape, unsigned rank, size_t row)
{
    const unsigned arrays = arrays_beginning(shape, rank, row + 1); /* as many end as begin with the next */
    memset(to - 1, ']', arrays);
    to += arrays - 1;
    if (row + 1 < count_rows(shape, rank))
        *to++ = ',';
    return to;
}

size_t tensor_rows_count(const struct tensor_rows *tensor)
{
    return count_rows(tensor->shape, tensor->rank);
}

bool tensor_rows_text_bytes(const struct tensor_rows *tensor, size_t number_bytes, size_t *bytes)
{
    size_t count;
    if (!tensor->flat)
        return tensor_write_bytes(tensor->shape, tensor->rank, number_bytes, bytes);
    return tensor_bytes(tensor->shape, tensor->rank, 1, &count) && tensor_write_bytes(&count, 1, number_bytes, bytes);
}

size_t tensor_rows_bytes(const struct tensor_rows *tensor)
{
    return tensor->shape[tensor->rank - 1] * tensor->number_bytes + 2 * (size_t)tensor->rank;
}

/* Vectors write numbers in blocks, which a short row fills only in part: rows of up to NARROW_WIDTH numbers are written
 * TOGETHER numbers at a time, and their texts then moved between their brackets. */
#define NARROW_WIDTH 12
#define TOGETHER     64

/* The byte behind the `count`-th comma. */
static const char *behind_commas(const char *text, size_t count)
{
    while (count > 0)
        count -= *text++ == ',';
    return text;
}

static char *write_narrow_rows(char *to, const struct tensor_rows *tensor, size_t begin, size_t end)
{
    const size_t width = tensor->shape[tensor->rank - 1];
    char texts[TOGETHER * (NUMBER_F32_BYTES + 1)];
    for (size_t row = begin, next; row < end; row = next) {
        const char *from = texts;
        next = row + size_min(TOGETHER / width, end - row);
        number_rows_chosen()->shortest(texts, tensor->data + row * width, (next - row) * width);
        for (; row < next; row++) {
            const char *behind = behind_commas(from, width);
            to = open_row(to, tensor->shape, tensor->rank, row);
            memcpy(to, from, (size_t)(behind - from));
            to = close_row(to + (behind - from), tensor->shape, tensor->rank, row);
            from = behind;
        }
    }
    return to;
}

static char *write_integers(char *to, const uint32_t *integers, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        to = write_unsigned(to, integers[i]);
        *to++ = ',';
    }
    return to;
}

static char *write_integer_rows(char *to, const struct tensor_rows *tensor, size_t begin, size_t end)
{
    const size_t width = tensor->shape[tensor->rank - 1];
    for (size_t row = begin; row < end; row++) {
        to = open_row(to, tensor->shape, tensor->rank, row);
        to = write_integers(to, tensor->integers + row * width, width);
        to = close_row(to, tensor->shape, tensor->rank, row);
    }
    return to;
}

/* Rows of a flat array are as one. */
static char *write_flat_rows(char *to, const struct tensor_rows *tensor, size_t begin, size_t end)
{
    const struct number_rows *numbers = number_rows_chosen();
    const size_t width = tensor->shape[tensor->rank - 1], first = begin * width, count = (end - begin) * width;
    if (begin == 0)
        *to++ = '[';
    if (tensor->integers)
        to = write_integers(to, tensor->integers + first, count);
    else if (tensor->decimals < 0)
        to = numbers->shortest(to, tensor->data + first, count);
    else
        to = numbers->fixed(to, tensor->data + first, count, (unsigned)tensor->decimals);
    if (end == count_rows(tensor->shape, tensor->rank))
        to[-1] = ']';
    return to;
}

char *tensor_rows_write(char *to, const struct tensor_rows *tensor, size_t begin, size_t end)
{
    const struct number_rows *numbers = number_rows_chosen();
    const size_t width = tensor->shape[tensor->rank - 1];
    if (begin == end)
        return to;
    if (tensor->flat)
        return write_flat_rows(to, tensor, begin, end);
    if (tensor->integers)
        return write_integer_rows(to, tensor, begin, end);
    if (tensor->decimals < 0 && width <= NARROW_WIDTH)
        return write_narrow_rows(to, tensor, begin, end);
    for (size_t row = begin; row < end; row++) {
        const float *data = tensor->data + row * width;
        to = open_row(to, tensor->shape, tensor->rank, row);
        to = tensor->decimals < 0 ? numbers->shortest(to, data, width)
                                  : numbers->fixed(to, data, width, (unsigned)tensor->decimals);
        to = close_row(to, tensor->shape, tensor->rank, row);
    }
    return to;
}

void tensor_write_shape(struct text *text, const size_t *shape, unsigned rank)
{
    for (unsigned axis = 0; axis < rank; axis++) {
        text_append(text, axis ? "," : "[", 1);
        text_append_size(text, shape[axis]);
    }
    text_append(text, "]", 1);
}
