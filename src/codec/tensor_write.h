/* Tensors as JSON text: nested arrays of numbers. */
#ifndef ATTND_CODEC_TENSOR_WRITE_H
#define ATTND_CODEC_TENSOR_WRITE_H

#include "base/text.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Bytes that nested arrays of this shape take at most, `number_bytes` for a number with its comma. False when that
 * overflows. */
bool tensor_write_bytes(const size_t *shape, unsigned rank, size_t number_bytes, size_t *bytes);

/* Bytes of a number with its comma at most: `decimals` -1 for the shortest text. */
size_t tensor_write_number_bytes(int decimals);

/* The same where every number is in [0, 2): weights of attention. */
size_t tensor_write_weight_bytes(int decimals);

/* A tensor as text, of which any rows can be written by themselves: a row is the numbers of the last axis. All extents
 * are at least 1, and every number is finite. */
struct tensor_rows {
    const float *data /* [shape] */;
    const size_t *shape /* [rank] */;
    unsigned rank;            /* 1 .. TENSOR_MAX_RANK */
    int decimals;             /* -1 for the shortest text */
    size_t number_bytes;      /* one of the above; of integers a comma and the digits of the greatest */
    const uint32_t *integers; /* [shape]; in place of `data` where it is not NULL */
    bool flat;                /* one array of all numbers, whatever the shape */
};

size_t tensor_rows_count(const struct tensor_rows *tensor);

/* Bytes of the whole text where each number with its comma takes `number_bytes`. False when that overflows. */
bool tensor_rows_text_bytes(const struct tensor_rows *tensor, size_t number_bytes, size_t *bytes);

/* Bytes that any one row takes at most, with its brackets and commas: number_bytes a number and 2 * rank. That times
 * the rows may exceed SIZE_MAX, where tensor_write_bytes tells so. */
size_t tensor_rows_bytes(const struct tensor_rows *tensor);

/* Writes the rows begin .. end - 1 with the brackets and commas that stand before and behind them: texts of ranges that
 * follow each other are, one after the other, the text of the tensor. Returns the byte behind. Nothing is written
 * behind to + (end - begin) * tensor_rows_bytes. A pure function: threads may write rows of one tensor side by side. */
char *tensor_rows_write(char *to, const struct tensor_rows *tensor, size_t begin, size_t end);

/* Digits of `value`. */
size_t tensor_write_digits(size_t value);

/* Appends the extents as an array: [1,4,64]. */
void tensor_write_shape(struct text *text, const size_t *shape, unsigned rank);

#endif
