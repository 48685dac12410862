/* An answer as pieces in order: bytes that are there, and tensors that are still numbers. It is written as a whole, or
 * a range at a time into little memory, by several threads side by side.
 *
 * A piece is made of units: a byte of bytes, a row of numbers, three bytes of what becomes base64. A cursor stands
 * before a unit; a range is two cursors. What a unit takes at most is known beforehand, so that threads can share the
 * answer out before any of it is written. */
#ifndef ATTND_CODEC_ANSWER_PIECES_H
#define ATTND_CODEC_ANSWER_PIECES_H

#include "base/arena.h"
#include "base/text.h"
#include "codec/tensor.h"
#include "codec/tensor_write.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct answer_piece;

struct answer_cursor {
    size_t piece, unit;
};

/* Built by one thread; from answer_pieces_end on all that is here but `written_ns` is constant. */
struct answer_pieces {
    struct answer_piece *list; /* [count], room for `capacity` */
    size_t count, capacity;
    struct text literal;         /* the text between tensors: appended to directly */
    size_t literal_begun;        /* from here on it is in no piece yet */
    size_t least, most;          /* bytes of the whole, between these */
    size_t widest;               /* bytes of one unit at most */
    bool exact;                  /* the whole takes just `most` bytes, which is `least` then */
    bool raw;                    /* all pieces are bytes: nothing is left to be written */
    bool failed;                 /* of the building: sizes overflowed, or there were more pieces than said */
    _Atomic uint64_t written_ns; /* the time that threads have spent in writing it, all together */
};

/* Memory that answer_pieces_init takes, as arena_need counts it; false when that overflows. `pieces`: texts between two
 * tensors count too. */
bool answer_pieces_need(size_t *total, size_t pieces, size_t literal_bytes);

/* No pieces yet, with room for these; false when the arena has not enough. */
bool answer_pieces_init(struct answer_pieces *pieces, struct arena *arena, size_t capacity, size_t literal_bytes);

/* The next piece is `data` [length] where it lies. */
void answer_pieces_add_bytes(struct answer_pieces *pieces, const void *data, size_t length);
/* The next piece is a tensor as text; its shape is copied. */
void answer_pieces_add_rows(struct answer_pieces *pieces, const struct tensor_rows *rows);
/* The next piece is `data` [length] as base64, without quotes. */
void answer_pieces_add_base64(struct answer_pieces *pieces, const void *data, size_t length);
/* The next pieces are a tensor as JSON has it: nested arrays, or {"shape", "dtype", "base64"}. */
void answer_pieces_add_tensor(struct answer_pieces *pieces, bool base64, const struct tensor_rows *rows);
/* The next piece is a number, blanks before it: the microseconds that the writing has taken when it is written. Only a
 * few bytes come behind it, and their writing counts for nothing. */
void answer_pieces_add_written_us(struct answer_pieces *pieces);

/* Nothing more is added. False when the building failed. */
bool answer_pieces_end(struct answer_pieces *pieces);

static inline struct answer_cursor answer_pieces_begin(void)
{
    return (struct answer_cursor){0, 0};
}

static inline struct answer_cursor answer_pieces_behind(const struct answer_pieces *pieces)
{
    return (struct answer_cursor){pieces->count, 0};
}

static inline bool answer_pieces_at_end(const struct answer_pieces *pieces, struct answer_cursor cursor)
{
    return cursor.piece == pieces->count;
}

/* Moves the cursor past what certainly fits in `capacity` bytes, which is at least `widest`, and returns the bytes that
 * it takes at most. */
size_t answer_pieces_advance(const struct answer_pieces *pieces, struct answer_cursor *cursor, size_t capacity);

/* Writes the range, in order, and returns the byte behind. A range takes what answer_pieces_advance said, the whole
 * answer takes `most`, and nothing is written behind that. Any thread. */
char *answer_pieces_write(struct answer_pieces *pieces, struct answer_cursor from, struct answer_cursor to, char *text);

/* Writes all of it. Its time counts from `began` (clock_ns) on, when the pieces' making began. */
char *answer_pieces_write_whole(struct answer_pieces *pieces, uint64_t began, char *text);

/* The pieces' bytes, of an answer that is `raw`: how many there are, and each. */
static inline size_t answer_pieces_count(const struct answer_pieces *pieces)
{
    return pieces->count;
}
const void *answer_pieces_bytes(const struct answer_pieces *pieces, size_t index, size_t *length);

#endif
