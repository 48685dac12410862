#include "codec/answer_pieces.h"

#include "base/clock.h"
#include "base/size.h"
#include "codec/base64.h"
#include "json/number.h"

#include <math.h>
#include <string.h>

enum piece_kind { PIECE_BYTES, PIECE_ROWS, PIECE_BASE64, PIECE_WRITTEN_US };

/* A time of up to eleven days to a tenth of a microsecond. */
#define WRITTEN_US_BYTES 16

#define BASE64_UNIT 3

struct answer_piece {
    enum piece_kind kind;
    const char *data; /* bytes and base64: [length] */
    size_t length;
    size_t units;
    struct tensor_rows rows;
    size_t shape[TENSOR_MAX_RANK]; /* rows.shape */
};

bool answer_pieces_need(size_t *total, size_t pieces, size_t literal_bytes)
{
    size_t list;
    return size_multiply(pieces, sizeof(struct answer_piece), &list) && arena_need(total, list) &&
           arena_need(total, literal_bytes);
}

bool answer_pieces_init(struct answer_pieces *pieces, struct arena *arena, size_t capacity, size_t literal_bytes)
{
    struct answer_piece *list = arena_take(arena, capacity * sizeof *list);
    char *literal = arena_take(arena, literal_bytes);
    if (!list || !literal)
        return false;
    *pieces = (struct answer_pieces){.list = list, .capacity = capacity, .exact = true, .raw = true};
    text_init_fixed(&pieces->literal, literal, literal_bytes);
    return true;
}

/* ---- building */

/* A piece of these units, which takes between `least` and `most` bytes. */
static struct answer_piece *add(struct answer_pieces *pieces, enum piece_kind kind, size_t units, size_t unit_bytes,
                                size_t least, size_t most)
{
    if (pieces->count == pieces->capacity || !size_add(pieces->most, most, &pieces->most)) {
        pieces->failed = true;
        return NULL;
    }
    pieces->least += least; /* no more than `most` */
    pieces->widest = size_max(pieces->widest, unit_bytes);
    pieces->raw &= kind == PIECE_BYTES;
    struct answer_piece *piece = &pieces->list[pieces->count++];
    piece->kind = kind;
    piece->units = units;
    return piece;
}

/* The text that was appended since the last piece becomes one. */
static void close_literal(struct answer_pieces *pieces)
{
    const size_t begun = pieces->literal_begun, length = pieces->literal.length - begun;
    pieces->literal_begun = pieces->literal.length;
    if (length) /* which comes here again, and finds none */
        answer_pieces_add_bytes(pieces, pieces->literal.data + begun, length);
}

void answer_pieces_add_bytes(struct answer_pieces *pieces, const void *data, size_t length)
{
    close_literal(pieces);
    struct answer_piece *piece = length ? add(pieces, PIECE_BYTES, length, 1, length, length) : NULL;
    if (piece) {
        piece->data = data;
        piece->length = length;
    }
}

/* "0,", "0.0," or "0." and the decimals: no number has a shorter text. */
static size_t least_number_bytes(const struct tensor_rows *rows)
{
    if (rows->integers || rows->decimals == 0)
        return 2;
    return rows->decimals < 0 ? 4 : 3 + (size_t)rows->decimals;
}

void answer_pieces_add_rows(struct answer_pieces *pieces, const struct tensor_rows *rows)
{
    size_t least, most;
    close_literal(pieces);
    if (!tensor_rows_text_bytes(rows, rows->number_bytes, &most) ||
        !tensor_rows_text_bytes(rows, least_number_bytes(rows), &least)) {
        pieces->failed = true;
        return;
    }
    pieces->exact = false;
    struct answer_piece *piece = add(pieces, PIECE_ROWS, tensor_rows_count(rows), tensor_rows_bytes(rows), least, most);
    if (piece) {
        piece->rows = *rows;
        memcpy(piece->shape, rows->shape, rows->rank * sizeof *rows->shape);
        piece->rows.shape = piece->shape;
    }
}

void answer_pieces_add_base64(struct answer_pieces *pieces, const void *data, size_t length)
{
    const size_t bytes = length > SIZE_MAX / 2 ? SIZE_MAX : base64_encoded_length(length);
    close_literal(pieces);
    struct answer_piece *piece =
        add(pieces, PIECE_BASE64, length / BASE64_UNIT + (length % BASE64_UNIT != 0), 4, bytes, bytes);
    if (piece) {
        piece->data = data;
        piece->length = length;
    }
}

void answer_pieces_add_tensor(struct answer_pieces *pieces, bool base64, const struct tensor_rows *rows)
{
    const void *data = rows->integers ? (const void *)rows->integers : rows->data;
    size_t bytes;
    if (!base64) {
        answer_pieces_add_rows(pieces, rows);
        return;
    }
    if (!tensor_bytes(rows->shape, rows->rank, sizeof(float), &bytes)) {
        pieces->failed = true;
        return;
    }
    text_append_string(&pieces->literal, "{\"shape\":");
    tensor_write_shape(&pieces->literal, rows->shape, rows->rank);
    text_append_string(&pieces->literal, ",\"dtype\":\"");
    text_append_string(&pieces->literal, dtype_json_name(rows->integers ? DTYPE_I32 : DTYPE_F32));
    text_append_string(&pieces->literal, "\",\"base64\":\"");
    answer_pieces_add_base64(pieces, data, bytes);
    text_append_string(&pieces->literal, "\"}");
}

void answer_pieces_add_written_us(struct answer_pieces *pieces)
{
    close_literal(pieces);
    add(pieces, PIECE_WRITTEN_US, 1, WRITTEN_US_BYTES, WRITTEN_US_BYTES, WRITTEN_US_BYTES);
}

bool answer_pieces_end(struct answer_pieces *pieces)
{
    close_literal(pieces);
    pieces->failed |= pieces->literal.failed;
    return !pieces->failed;
}

/* ---- sharing out */

static size_t unit_bytes(const struct answer_piece *piece)
{
    switch (piece->kind) {
    case PIECE_ROWS:
        return tensor_rows_bytes(&piece->rows);
    case PIECE_BASE64:
        return 4;
    case PIECE_WRITTEN_US:
        return WRITTEN_US_BYTES;
    case PIECE_BYTES:
        break;
    }
    return 1;
}

size_t answer_pieces_advance(const struct answer_pieces *pieces, struct answer_cursor *cursor, size_t capacity)
{
    const size_t whole = capacity;
    while (cursor->piece < pieces->count) {
        const struct answer_piece *piece = &pieces->list[cursor->piece];
        const size_t each = unit_bytes(piece), left = piece->units - cursor->unit,
                     taken = size_min(left, capacity / each);
        capacity -= taken * each;
        if (taken < left) {
            cursor->unit += taken;
            break;
        }
        cursor->piece++;
        cursor->unit = 0;
    }
    return whole - capacity;
}

/* ---- writing */

static char *write_base64(char *text, const struct answer_piece *piece, size_t begin, size_t end)
{
    const size_t from = begin * BASE64_UNIT, to = size_min(end * BASE64_UNIT, piece->length);
    return base64_encode(text, piece->data + from, to - from);
}

static char *write_us(char *text, uint64_t ns)
{
    char digits[NUMBER_FIXED_BYTES(1)];
    const float us = fminf((float)((double)ns / 1e3), 1e12f);
    const size_t length = (size_t)(number_write_fixed(digits, us, 1) - digits);
    memset(text, ' ', WRITTEN_US_BYTES - length);
    memcpy(text + WRITTEN_US_BYTES - length, digits, length);
    return text + WRITTEN_US_BYTES;
}

/* `began`: from when on the time counts that it takes. */
static char *write_range(struct answer_pieces *pieces, uint64_t began, struct answer_cursor from,
                         struct answer_cursor to, char *text)
{
    uint64_t now = 0;
    for (; from.piece < to.piece || (from.piece == to.piece && from.unit < to.unit);
         from = (struct answer_cursor){from.piece + 1, 0}) {
        const struct answer_piece *piece = &pieces->list[from.piece];
        const size_t end = from.piece < to.piece ? piece->units : to.unit;
        switch (piece->kind) {
        case PIECE_BYTES:
            memcpy(text, piece->data + from.unit, end - from.unit);
            text += end - from.unit;
            break;
        case PIECE_ROWS:
            text = tensor_rows_write(text, &piece->rows, from.unit, end);
            break;
        case PIECE_BASE64:
            text = write_base64(text, piece, from.unit, end);
            break;
        case PIECE_WRITTEN_US:
            now = clock_ns();
            text = write_us(text, atomic_load_explicit(&pieces->written_ns, memory_order_relaxed) + now - began);
            break;
        }
    }
    if (!now)
        now = clock_ns();
    atomic_fetch_add_explicit(&pieces->written_ns, now - began, memory_order_relaxed);
    return text;
}

char *answer_pieces_write(struct answer_pieces *pieces, struct answer_cursor from, struct answer_cursor to, char *text)
{
    return write_range(pieces, clock_ns(), from, to, text);
}

char *answer_pieces_write_whole(struct answer_pieces *pieces, uint64_t began, char *text)
{
    return write_range(pieces, began, answer_pieces_begin(), answer_pieces_behind(pieces), text);
}

const void *answer_pieces_bytes(const struct answer_pieces *pieces, size_t index, size_t *length)
{
    *length = pieces->list[index].length;
    return pieces->list[index].data;
}
