/* A plain inflate that counts bytes in place of writing them: see deflate_fault.h. Any thread; no memory but its own
 * frame. */
#include "codec/deflate_fault.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

static const char CUT_SHORT[] = "is cut short";

/* RFC 1951, section 3.2.5 and 3.2.7. */
#define LONGEST_CODE     15
#define MOST_SYMBOLS     288
#define MOST_DISTANCES   30
#define LENGTHS_OF_CODES 19
#define END_OF_BLOCK     256

struct stream {
    const unsigned char *data;
    size_t length, at; /* bytes taken into `held` */
    uint32_t held;     /* bits of them that are not used, the first one lowest */
    unsigned n_held;
    size_t written;    /* bytes that the data so far stands for; it stops at SIZE_MAX */
    const char *fault; /* the first one; NULL: none */
};

/* A canonical Huffman code (section 3.2.2): how many codes of each length, and their symbols in order. */
struct code {
    uint16_t counts[LONGEST_CODE + 1], symbols[MOST_SYMBOLS];
};

static bool fail(struct stream *s, const char *fault)
{
    s->fault = fault;
    return false;
}

/* The next `count` (at most 16) bits. */
static bool take_bits(struct stream *s, unsigned count, unsigned *bits)
{
    while (s->n_held < count) {
        if (s->at == s->length)
            return fail(s, CUT_SHORT);
        s->held |= (uint32_t)s->data[s->at++] << s->n_held;
        s->n_held += 8;
    }
    *bits = s->held & ((1u << count) - 1);
    s->held >>= count;
    s->n_held -= count;
    return true;
}

static void count_written(struct stream *s, size_t bytes)
{
    s->written = bytes < SIZE_MAX - s->written ? s->written + bytes : SIZE_MAX;
}

/* False where more codes of some length are asked for than there are, or fewer than all, but for one code of one bit
 * and for none at all, which encoders write where there is but one distance or none. */
static bool make_code(struct code *code, const uint8_t *lengths /* [n] */, unsigned n)
{
    unsigned offsets[LONGEST_CODE + 2] = {0};
    int left = 1;
    memset(code->counts, 0, sizeof code->counts);
    for (unsigned symbol = 0; symbol < n; symbol++)
        code->counts[lengths[symbol]]++;
    for (unsigned length = 1; length <= LONGEST_CODE; length++) {
        left = left * 2 - code->counts[length];
        if (left < 0)
            return false;
        offsets[length + 1] = offsets[length] + code->counts[length];
    }
    for (unsigned symbol = 0; symbol < n; symbol++)
        if (lengths[symbol])
            code->symbols[offsets[lengths[symbol]]++] = (uint16_t)symbol;
    const unsigned used = n - code->counts[0];
    return left == 0 || used == 0 || (used == 1 && code->counts[1] == 1);
}

static bool take_symbol(struct stream *s, const struct code *code, unsigned *symbol)
{
    unsigned bits = 0, first = 0, index = 0, bit;
    for (unsigned length = 1; length <= LONGEST_CODE; length++) {
        if (!take_bits(s, 1, &bit))
            return false;
        bits |= bit;
        if (bits - first < code->counts[length]) {
            *symbol = code->symbols[index + (bits - first)];
            return true;
        }
        index += code->counts[length];
        first = (first + code->counts[length]) << 1;
        bits <<= 1;
    }
    return fail(s, "has bits that are no code");
}

static bool pass_stored(struct stream *s)
{
    s->held = s->n_held = 0; /* never more than a byte's rest */
    if (s->length - s->at < 4) {
        s->at = s->length;
        return fail(s, CUT_SHORT);
    }
    const unsigned char *head = s->data + s->at;
    const unsigned length = head[0] | head[1] << 8, check = head[2] | head[3] << 8;
    if (length != (~check & 0xFFFF))
        return fail(s, "has a stored block whose two lengths differ");
    s->at += 4;
    if (s->length - s->at < length) {
        s->at = s->length;
        return fail(s, CUT_SHORT);
    }
    s->at += length;
    count_written(s, length);
    return true;
}

static bool pass_match(struct stream *s, unsigned length_symbol, const struct code *distances)
{
    static const uint16_t length_base[] = {3,  4,  5,  6,  7,  8,  9,  10, 11,  13,  15,  17,  19,  23, 27,
                                           31, 35, 43, 51, 59, 67, 83, 99, 115, 131, 163, 195, 227, 258};
    static const uint8_t length_bits[] = {0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2,
                                          2, 3, 3, 3, 3, 4, 4, 4, 4, 5, 5, 5, 5, 0};
    static const uint16_t distance_base[] = {1,    2,    3,    4,    5,    7,    9,    13,    17,    25,
                                             33,   49,   65,   97,   129,  193,  257,  385,   513,   769,
                                             1025, 1537, 2049, 3073, 4097, 6145, 8193, 12289, 16385, 24577};
    unsigned more, symbol, distance;
    if (length_symbol >= sizeof length_bits)
        return fail(s, "has a length that there is not");
    if (!take_bits(s, length_bits[length_symbol], &more))
        return false;
    const size_t length = length_base[length_symbol] + more;
    if (!take_symbol(s, distances, &symbol))
        return false;
    if (symbol >= MOST_DISTANCES)
        return fail(s, "has a distance that there is not");
    if (!take_bits(s, symbol < 4 ? 0 : symbol / 2 - 1, &more))
        return false;
    distance = distance_base[symbol] + more;
    if (distance > s->written)
        return fail(s, "refers to bytes before its beginning");
    count_written(s, length);
    return true;
}

static bool pass_symbols(struct stream *s, const struct code *literals, const struct code *distances)
{
    for (unsigned symbol; take_symbol(s, literals, &symbol);) {
        if (symbol == END_OF_BLOCK)
            return true;
        if (symbol < END_OF_BLOCK)
            count_written(s, 1);
        else if (!pass_match(s, symbol - END_OF_BLOCK - 1, distances))
            return false;
    }
    return false;
}

static bool pass_fixed(struct stream *s)
{
    struct code literals, distances;
    uint8_t lengths[MOST_SYMBOLS];
    memset(lengths, 8, 144);
    memset(lengths + 144, 9, 112);
    memset(lengths + 256, 7, 24);
    memset(lengths + 280, 8, 8);
    make_code(&literals, lengths, MOST_SYMBOLS);
    memset(lengths, 5, 32);
    make_code(&distances, lengths, 32);
    return pass_symbols(s, &literals, &distances);
}

/* The lengths of both codes, packed themselves (section 3.2.7). */
static bool take_lengths(struct stream *s, const struct code *packing, uint8_t *lengths /* [count] */, unsigned count)
{
    for (unsigned done = 0; done < count;) {
        unsigned symbol, more = 0, repeat = 1;
        uint8_t length = 0;
        if (!take_symbol(s, packing, &symbol))
            return false;
        if (symbol < 16)
            length = (uint8_t)symbol;
        else if (symbol == 16 && done == 0)
            return fail(s, "repeats a code length before the first");
        else if (!take_bits(s, symbol == 16 ? 2 : symbol == 17 ? 3 : 7, &more))
            return false;
        else
            repeat = more + (symbol == 18 ? 11 : 3);
        if (symbol == 16)
            length = lengths[done - 1];
        if (repeat > count - done)
            return fail(s, "has more code lengths than it announces");
        memset(lengths + done, length, repeat);
        done += repeat;
    }
    return true;
}

static bool pass_dynamic(struct stream *s)
{
    static const uint8_t order[LENGTHS_OF_CODES] = {16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15};
    struct code literals, distances;
    uint8_t lengths[MOST_SYMBOLS + 32] = {0};
    unsigned n_literals, n_distances, n_packing, length;
    if (!take_bits(s, 5, &n_literals) || !take_bits(s, 5, &n_distances) || !take_bits(s, 4, &n_packing))
        return false;
    n_literals += 257;
    n_distances += 1;
    for (unsigned i = 0; i < n_packing + 4; i++) {
        if (!take_bits(s, 3, &length))
            return false;
        lengths[order[i]] = (uint8_t)length;
    }
    if (!make_code(&literals, lengths, LENGTHS_OF_CODES))
        return fail(s, "has code lengths that make no code");
    memset(lengths, 0, sizeof lengths);
    if (!take_lengths(s, &literals, lengths, n_literals + n_distances))
        return false;
    if (!make_code(&literals, lengths, n_literals) || !make_code(&distances, lengths + n_literals, n_distances))
        return fail(s, "has code lengths that make no code");
    return pass_symbols(s, &literals, &distances);
}

const char *deflate_fault(const void *data, size_t length, size_t *at)
{
    struct stream s = {.data = data, .length = length};
    unsigned last, kind;
    bool passed;
    do {
        passed = take_bits(&s, 1, &last) && take_bits(&s, 2, &kind) &&
                 (kind == 0   ? pass_stored(&s)
                  : kind == 1 ? pass_fixed(&s)
                  : kind == 2 ? pass_dynamic(&s)
                              : fail(&s, "has a block of a kind that there is not"));
    } while (passed && !last);
    if (passed)
        return NULL;
    *at = s.fault == CUT_SHORT ? length : s.at - 1;
    return s.fault;
}
