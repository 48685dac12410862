/* Tensors of whole numbers from 0 up, as positions are, in the forms that tensors take in JSON. */
#ifndef ATTND_CODEC_INTEGERS_H
#define ATTND_CODEC_INTEGERS_H

#include "base/arena.h"
#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* json/reader.h has it; not included here, because its names and jansson's cannot stand in one file. */
struct json_reader;

#define INTEGERS_MAX_RANK 2

/* Row-major. rank 0: none. */
struct integers {
    unsigned rank;
    size_t shape[INTEGERS_MAX_RANK];
    size_t count;         /* product of the shape */
    const uint32_t *data; /* [count], a piece of the arena that they were read into */
};

/* Reads nested arrays; {"shape", "data"}; or {"shape", "dtype", "base64"} with dtype i32 or i64, which has no default.
 * Beside `data` a dtype says nothing. Each number is whole and from 0 to UINT32_MAX, else ERROR_INVALID at its
 * place; other errors as tensor_read_json has them, and its memory: at most two bytes for a byte
 * of text. On failure *integers is as it was, and so is the arena. */
bool integers_read_json(struct json_reader *r, struct arena *arena, struct integers *integers, struct error *error);

/* Only the nested arrays, flat or nested as `shape` [rank] is, whose product fits. NULL with an error as above. */
uint32_t *integers_read_data(struct json_reader *r, struct arena *arena, const size_t *shape, unsigned rank,
                             struct error *error);

#endif
