/* Base64: most of it in vectors where the processor has them, the ends and whatever is wrong by table, four characters
 * at a step. Pure functions: any thread. */
#include "codec/base64.h"

#include "base/isa.h"
#include "codec/base64_bulk/bulk.h"

#include <stdint.h>

static const char ALPHABET[64] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/* The bit that the value of every character of the alphabet has beside its six, and no other entry. */
#define KNOWN 0x40

static const uint8_t VALUE[256] = {
    ['A'] = KNOWN | 0,  ['B'] = KNOWN | 1,  ['C'] = KNOWN | 2,  ['D'] = KNOWN | 3,  ['E'] = KNOWN | 4,
    ['F'] = KNOWN | 5,  ['G'] = KNOWN | 6,  ['H'] = KNOWN | 7,  ['I'] = KNOWN | 8,  ['J'] = KNOWN | 9,
    ['K'] = KNOWN | 10, ['L'] = KNOWN | 11, ['M'] = KNOWN | 12, ['N'] = KNOWN | 13, ['O'] = KNOWN | 14,
    ['P'] = KNOWN | 15, ['Q'] = KNOWN | 16, ['R'] = KNOWN | 17, ['S'] = KNOWN | 18, ['T'] = KNOWN | 19,
    ['U'] = KNOWN | 20, ['V'] = KNOWN | 21, ['W'] = KNOWN | 22, ['X'] = KNOWN | 23, ['Y'] = KNOWN | 24,
    ['Z'] = KNOWN | 25, ['a'] = KNOWN | 26, ['b'] = KNOWN | 27, ['c'] = KNOWN | 28, ['d'] = KNOWN | 29,
    ['e'] = KNOWN | 30, ['f'] = KNOWN | 31, ['g'] = KNOWN | 32, ['h'] = KNOWN | 33, ['i'] = KNOWN | 34,
    ['j'] = KNOWN | 35, ['k'] = KNOWN | 36, ['l'] = KNOWN | 37, ['m'] = KNOWN | 38, ['n'] = KNOWN | 39,
    ['o'] = KNOWN | 40, ['p'] = KNOWN | 41, ['q'] = KNOWN | 42, ['r'] = KNOWN | 43, ['s'] = KNOWN | 44,
    ['t'] = KNOWN | 45, ['u'] = KNOWN | 46, ['v'] = KNOWN | 47, ['w'] = KNOWN | 48, ['x'] = KNOWN | 49,
    ['y'] = KNOWN | 50, ['z'] = KNOWN | 51, ['0'] = KNOWN | 52, ['1'] = KNOWN | 53, ['2'] = KNOWN | 54,
    ['3'] = KNOWN | 55, ['4'] = KNOWN | 56, ['5'] = KNOWN | 57, ['6'] = KNOWN | 58, ['7'] = KNOWN | 59,
    ['8'] = KNOWN | 60, ['9'] = KNOWN | 61, ['+'] = KNOWN | 62, ['/'] = KNOWN | 63,
};

/* How many '=' end the text: 0, 1 or 2. */
static size_t padding(const char *text, size_t length)
{
    if (length == 0 || text[length - 1] != '=')
        return 0;
    return length >= 2 && text[length - 2] == '=' ? 2 : 1;
}

bool base64_decoded_length(const char *text, size_t length, size_t *decoded)
{
    if (length % 4)
        return false;
    *decoded = length / 4 * 3 - padding(text, length);
    return true;
}

/* The first of `count` characters that is not of the alphabet; `count` when all are. */
static size_t first_unknown(const unsigned char *in, size_t count)
{
    size_t i = 0;
    while (i < count && VALUE[in[i]])
        i++;
    return i;
}

size_t base64_decode(const char *text, size_t length, unsigned char *to)
{
    const unsigned char *in = (const unsigned char *)text;
    size_t whole = (length - padding(text, length)) / 4 * 4, i = 0;
    const struct base64_bulk *bulk = base64_bulk_of(isa_chosen());
    if (bulk) {
        i = bulk->decode(text, whole, to);
        to += i / 4 * 3;
    }
    for (; i < whole; i += 4, to += 3) {
        uint32_t a = VALUE[in[i]], b = VALUE[in[i + 1]], c = VALUE[in[i + 2]], d = VALUE[in[i + 3]];
        if (!(a & b & c & d & KNOWN))
            return i + first_unknown(in + i, 4);
        uint32_t bits = (a & 63) << 18 | (b & 63) << 12 | (c & 63) << 6 | (d & 63);
        to[0] = (unsigned char)(bits >> 16);
        to[1] = (unsigned char)(bits >> 8);
        to[2] = (unsigned char)bits;
    }
    if (i == length)
        return SIZE_MAX;

    size_t left = length - padding(text, length) - i, unknown = first_unknown(in + i, left);
    if (unknown < left)
        return i + unknown;
    if (left < 2 || length - i != 4) /* a letter too few, or padding where letters belong */
        return i + left;
    uint32_t a = VALUE[in[i]] & 63, b = VALUE[in[i + 1]] & 63, c = left == 3 ? VALUE[in[i + 2]] & 63 : 0;
    if (left == 2 ? b & 15 : c & 3)
        return i + left - 1;
    to[0] = (unsigned char)(a << 2 | b >> 4);
    if (left == 3)
        to[1] = (unsigned char)(b << 4 | c >> 2);
    return SIZE_MAX;
}

char *base64_encode(char *to, const void *data, size_t length)
{
    const unsigned char *in = data;
    size_t i = 0;
    const struct base64_bulk *bulk = base64_bulk_of(isa_chosen());
    if (bulk) {
        i = bulk->encode(to, in, length);
        to += i / 3 * 4;
    }
    for (; i + 3 <= length; i += 3, to += 4) {
        uint32_t bits = (uint32_t)in[i] << 16 | (uint32_t)in[i + 1] << 8 | in[i + 2];
        to[0] = ALPHABET[bits >> 18];
        to[1] = ALPHABET[bits >> 12 & 63];
        to[2] = ALPHABET[bits >> 6 & 63];
        to[3] = ALPHABET[bits & 63];
    }
    if (i < length) {
        uint32_t bits = (uint32_t)in[i] << 16 | (i + 1 < length ? (uint32_t)in[i + 1] << 8 : 0);
        to[0] = ALPHABET[bits >> 18];
        to[1] = ALPHABET[bits >> 12 & 63];
        to[2] = i + 1 < length ? ALPHABET[bits >> 6 & 63] : '=';
        to[3] = '=';
        to += 4;
    }
    return to;
}
