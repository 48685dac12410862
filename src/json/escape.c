/* Strings of RFC 8259: no control characters, valid UTF-8, known escapes, surrogates only in pairs. Any thread. */
#include "json/escape.h"

#include "base/utf8.h"

#include <stdint.h>
#include <string.h>

/* Which byte of eight is the first that is a quote, a backslash, a control character or not ASCII; 8: none. */
static unsigned first_special(const char *at)
{
    const uint64_t ones = 0x0101010101010101, high_bits = 0x8080808080808080;
    uint64_t bytes, quote, backslash, special;
    memcpy(&bytes, at, sizeof bytes);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    bytes = __builtin_bswap64(bytes);
#endif
    quote = bytes ^ ones * '"';
    backslash = bytes ^ ones * '\\';
    /* A byte below n, in bytes that are ASCII, borrows its high bit when n is taken from it; a borrow that goes on to
     * the next byte can only report too much, and only behind one that is reported rightly. */
    special = ((bytes - ones * 0x20) | (quote - ones) | (backslash - ones) | bytes) & high_bits;
    return special ? (unsigned)__builtin_ctzll(special) / 8 : 8;
}

typedef signed char chars __attribute__((vector_size(16)));
typedef uint64_t words __attribute__((vector_size(16)));

/* Those of 16 bytes. Signed, what is not ASCII is below the space too. */
static chars special_16(const char *at)
{
    chars text;
    memcpy(&text, at, sizeof text);
    return (chars)(text < ' ') | (chars)(text == '"') | (chars)(text == '\\');
}

static bool any_special_64(const char *at)
{
    const words any = (words)(special_16(at) | special_16(at + 16) | special_16(at + 32) | special_16(at + 48));
    return any[0] | any[1];
}

/* The value of four hexadecimal digits, or -1. */
static int hex_4(const char *at, const char *end)
{
    int value = 0;
    if (end - at < 4)
        return -1;
    for (int i = 0; i < 4; i++) {
        char c = at[i];
        int digit = c >= '0' && c <= '9'   ? c - '0'
                    : c >= 'a' && c <= 'f' ? c - 'a' + 10
                    : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                           : -1;
        if (digit < 0)
            return -1;
        value = value << 4 | digit;
    }
    return value;
}

static bool is_high_surrogate(int unit)
{
    return unit >= 0xD800 && unit <= 0xDBFF;
}

static bool is_low_surrogate(int unit)
{
    return unit >= 0xDC00 && unit <= 0xDFFF;
}

/* Passes one escape at its backslash; as escape_check. */
static const char *check_escape(const char **at, const char *end)
{
    const char *p = *at + 1;
    if (p == end || !memchr("\"\\/bfnrtu", *p, 9))
        return "one of \\\" \\\\ \\/ \\b \\f \\n \\r \\t \\u";
    if (*p++ != 'u') {
        *at = p;
        return NULL;
    }
    int unit = hex_4(p, end);
    if (unit < 0)
        return "four hexadecimal digits behind \\u";
    p += 4;
    if (is_low_surrogate(unit))
        return "the high half of this surrogate pair before its low half";
    if (is_high_surrogate(unit)) {
        if (end - p < 2 || p[0] != '\\' || p[1] != 'u' || !is_low_surrogate(hex_4(p + 2, end)))
            return "a surrogate pair";
        p += 6;
    }
    *at = p;
    return NULL;
}

const char *escape_check(const char **at, const char *end, bool *escaped)
{
    const char *p = *at, *expected = NULL;
    *escaped = false;
    while (!expected) {
        while (end - p >= 64 && !any_special_64(p))
            p += 64;
        for (unsigned plain = 8; plain == 8 && end - p >= 8; p += plain)
            plain = first_special(p);
        if (p == end) {
            expected = "the string's closing quote";
        } else if (*p == '"') {
            break;
        } else if (*p == '\\') {
            *escaped = true;
            expected = check_escape(&p, end);
        } else if ((unsigned char)*p < 0x20) {
            expected = "an escape (\\n, \\t, \\u00XX) instead of a control character";
        } else {
            size_t bytes = utf8_sequence(p, (size_t)(end - p));
            if (bytes == 0)
                expected = "valid UTF-8";
            p += bytes;
        }
    }
    *at = p;
    return expected;
}

static size_t write_utf8(unsigned code, char utf8[4])
{
    if (code < 0x80) {
        utf8[0] = (char)code;
        return 1;
    }
    size_t bytes = code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    for (size_t i = bytes; i-- > 1; code >>= 6)
        utf8[i] = (char)(0x80 | (code & 0x3F));
    utf8[0] = (char)((0xF00 >> bytes & 0xF0) | code);
    return bytes;
}

size_t escape_next(const char **at, char utf8[4])
{
    const char *p = *at;
    if (*p != '\\') {
        unsigned char lead = (unsigned char)*p;
        size_t bytes = lead < 0x80 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
        memcpy(utf8, p, bytes);
        *at = p + bytes;
        return bytes;
    }
    if (p[1] != 'u') {
        const char *letters = "bfnrt", *meant = "\b\f\n\r\t", *found = memchr(letters, p[1], 5);
        utf8[0] = found ? meant[found - letters] : p[1];
        *at = p + 2;
        return 1;
    }
    int unit = hex_4(p + 2, p + 6);
    *at = p + 6;
    if (!is_high_surrogate(unit))
        return write_utf8((unsigned)unit, utf8);
    int low = hex_4(p + 8, p + 12);
    *at = p + 12;
    return write_utf8(0x10000 + ((unsigned)(unit - 0xD800) << 10) + (unsigned)(low - 0xDC00), utf8);
}
