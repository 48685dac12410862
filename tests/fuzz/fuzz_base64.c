/* Fuzzes base64: what is accepted is what a decoder of one character a step accepts, and every text that was encoded
 * comes back; in every instruction set. */
#include "base/isa.h"
#include "codec/base64.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool holds)
{
    if (!holds)
        abort();
}

static int value_of(char c)
{
    static const char ALPHABET[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const char *at = c ? strchr(ALPHABET, c) : NULL;
    return at ? (int)(at - ALPHABET) : -1;
}

/* RFC 4648 as it reads: groups of four, padding only at the end, no bits behind the last byte. */
static bool decode_slowly(const char *text, size_t length, unsigned char *to, size_t *decoded)
{
    size_t letters = length, done = 0;
    unsigned bits = 0, held = 0;
    while (letters > 0 && length - letters < 2 && text[letters - 1] == '=')
        letters--;
    if (length % 4 || letters % 4 == 1)
        return false;
    for (size_t i = 0; i < letters; i++) {
        int value = value_of(text[i]);
        if (value < 0)
            return false;
        bits = (bits << 6 | (unsigned)value) & 0xFFFF;
        held += 6;
        if (held >= 8) {
            held -= 8;
            to[done++] = (unsigned char)(bits >> held);
        }
    }
    *decoded = done;
    return (bits & ((1u << held) - 1)) == 0 && (length - letters) == (4 - letters % 4) % 4;
}

static void try_one(const uint8_t *data, size_t size)
{
    const char *text = (const char *)data;
    unsigned char *slowly = malloc(size + 1);
    size_t expected = 0, length = 0;
    bool right = decode_slowly(text, size, slowly, &expected);
    if (base64_decoded_length(text, size, &length)) {
        unsigned char *decoded = malloc(length + !length);
        size_t fault = base64_decode(text, size, decoded);
        check(right == (fault == SIZE_MAX));
        check(fault == SIZE_MAX || fault <= size);
        check(!right || (length == expected && memcmp(decoded, slowly, length) == 0));
        free(decoded);
    } else {
        check(!right);
    }
    free(slowly);

    size_t characters = base64_encoded_length(size);
    char *encoded = malloc(characters + !characters);
    unsigned char *back = malloc(size + !size);
    check(base64_encode(encoded, data, size) == encoded + characters);
    check(base64_decoded_length(encoded, characters, &length) && length == size);
    check(base64_decode(encoded, characters, back) == SIZE_MAX && (size == 0 || memcmp(back, data, size) == 0));
    free(encoded);
    free(back);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct error error;
    for (int isa = 0; isa < ISA_COUNT; isa++)
        if (isa_choose(isa_name((enum isa)isa), &error))
            try_one(data, size);
    return 0;
}
