/* UTF-8 as RFC 3629 has it: shortest forms only, no surrogates, nothing above U+10FFFF. */
#ifndef ATTND_BASE_UTF8_H
#define ATTND_BASE_UTF8_H

#include <stddef.h>
#include <string.h>

/* Bytes (1..4) of the valid sequence at `text`, or 0 when none starts there within `length` bytes. */
static inline size_t utf8_sequence(const char *text, size_t length)
{
    const unsigned char *s = (const unsigned char *)text;
    if (length == 0)
        return 0;
    if (s[0] < 0x80)
        return 1;
    if (s[0] < 0xC2 || s[0] > 0xF4)
        return 0;
    size_t bytes = s[0] < 0xE0 ? 2 : s[0] < 0xF0 ? 3 : 4;
    if (length < bytes)
        return 0;
    for (size_t i = 1; i < bytes; i++)
        if ((s[i] & 0xC0) != 0x80)
            return 0;
    if ((s[0] == 0xE0 && s[1] < 0xA0) || (s[0] == 0xED && s[1] > 0x9F) || (s[0] == 0xF0 && s[1] < 0x90) ||
        (s[0] == 0xF4 && s[1] > 0x8F))
        return 0;
    return bytes;
}

/* Puts '?' in place of each byte that belongs to no valid sequence. */
static inline void utf8_mend(char *text)
{
    const size_t length = strlen(text);
    for (size_t i = 0, bytes; i < length; i += bytes ? bytes : 1)
        if ((bytes = utf8_sequence(text + i, length - i)) == 0)
            text[i] = '?';
}

#endif
