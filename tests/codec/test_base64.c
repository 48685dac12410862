#include "base/isa.h"
#include "codec/base64.h"
#include "suite.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *bytes, *text;
} RFC_4648_VECTORS[] = {{"", ""},
                        {"f", "Zg=="},
                        {"fo", "Zm8="},
                        {"foo", "Zm9v"},
                        {"foob", "Zm9vYg=="},
                        {"fooba", "Zm9vYmE="},
                        {"foobar", "Zm9vYmFy"}};

START_TEST(test_vectors)
{
    const char *bytes = RFC_4648_VECTORS[_i].bytes, *text = RFC_4648_VECTORS[_i].text;
    char encoded[16] = "";
    unsigned char decoded[16] = "";
    size_t length = 99;
    ck_assert_uint_eq(base64_encoded_length(strlen(bytes)), strlen(text));
    ck_assert_ptr_eq(base64_encode(encoded, bytes, strlen(bytes)), encoded + strlen(text));
    ck_assert_str_eq(encoded, text);
    ck_assert(base64_decoded_length(text, strlen(text), &length));
    ck_assert_uint_eq(length, strlen(bytes));
    ck_assert_uint_eq(base64_decode(text, strlen(text), decoded), SIZE_MAX);
    ck_assert_mem_eq(decoded, bytes, length);
}
END_TEST

/* One character at a time, bit by bit: slow, and written without a table. */
static void decode_slowly(const char *text, size_t length, unsigned char *to)
{
    unsigned bits = 0, held = 0;
    for (size_t i = 0; i < length && text[i] != '='; i++) {
        char c = text[i];
        unsigned value = c >= 'A' && c <= 'Z'   ? (unsigned)(c - 'A')
                         : c >= 'a' && c <= 'z' ? (unsigned)(c - 'a' + 26)
                         : c >= '0' && c <= '9' ? (unsigned)(c - '0' + 52)
                         : c == '+'             ? 62
                                                : 63;
        bits = bits << 6 | value;
        held += 6;
        if (held >= 8) {
            held -= 8;
            *to++ = (unsigned char)(bits >> held);
        }
    }
}

/* Chooses instruction set `isa`; false where it cannot run here. */
static bool choose(int isa)
{
    struct error error;
    return isa_choose(isa_name((enum isa)isa), &error);
}

/* Every length, from and to memory that ends with it, so that a sanitizer sees what is beside. */
START_TEST(test_round_trip)
{
    srand(7);
    if (!choose(_i))
        return;
    for (size_t length = 0; length <= 500; length++) {
        size_t characters = base64_encoded_length(length), back;
        unsigned char *bytes = malloc(length + !length), *decoded = malloc(length + 8), *slowly = malloc(length + 3);
        char *text = malloc(characters + 8);
        for (size_t i = 0; i < length; i++)
            bytes[i] = (unsigned char)rand();
        memset(text, '!', characters + 8);
        memset(decoded, '!', length + 8);
        ck_assert_ptr_eq(base64_encode(text, bytes, length), text + characters);
        ck_assert(memcmp(text + characters, "!!!!!!!!", 8) == 0);
        ck_assert(base64_decoded_length(text, characters, &back));
        ck_assert_uint_eq(back, length);
        char *exact = malloc(characters + !characters);
        memcpy(exact, text, characters);
        ck_assert_uint_eq(base64_decode(exact, characters, decoded), SIZE_MAX);
        ck_assert(memcmp(decoded + length, "!!!!!!!!", 8) == 0);
        decode_slowly(text, characters, slowly);
        ck_assert(memcmp(decoded, bytes, length) == 0);
        ck_assert(memcmp(slowly, bytes, length) == 0);
        free(bytes);
        free(decoded);
        free(slowly);
        free(text);
        free(exact);
    }
}
END_TEST

/* Every byte that is no letter, at every place of texts that are long enough for vectors. */
START_TEST(test_wrong_characters_among_many)
{
    const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    static const size_t lengths[] = {64, 100, 128, 200, 204};
    if (!choose(_i))
        return;
    for (size_t n = 0; n < sizeof lengths / sizeof *lengths; n++) {
        size_t length = lengths[n];
        char *text = malloc(length);
        unsigned char *decoded = malloc(length / 4 * 3);
        for (size_t i = 0; i < length; i++)
            text[i] = alphabet[i * 7 % 64];
        ck_assert_uint_eq(base64_decode(text, length, decoded), SIZE_MAX);
        for (size_t at = 0; at < length; at++) {
            const char right = text[at];
            for (int c = 0; c < 256; c++) {
                text[at] = (char)c;
                const bool known = c && strchr(alphabet, c);
                size_t fault = base64_decode(text, length, decoded);
                if (known || (c == '=' && at == length - 1)) /* padding there may leave bits behind the last byte */
                    ck_assert(fault == SIZE_MAX || (!known && fault == length - 2));
                else
                    ck_assert_uint_eq(fault, at);
            }
            text[at] = right;
        }
        free(text);
        free(decoded);
    }
}
END_TEST

/* Every character that is none of the alphabet, at every place. */
START_TEST(test_wrong_characters)
{
    const char right[] = "AAAAbbbb9999+/+/Zm8=";
    const size_t length = sizeof right - 1;
    unsigned char decoded[16];
    for (size_t at = 0; at < length; at++)
        for (int c = 0; c < 256; c++) {
            char text[sizeof right];
            memcpy(text, right, sizeof right);
            text[at] = (char)c;
            bool known = c && strchr("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/", c);
            size_t fault = base64_decode(text, length, decoded);
            if (at == length - 1 && known) /* a letter in place of the padding */
                ck_assert_uint_eq(fault, SIZE_MAX);
            else if (at == length - 2 && known) /* the bits behind the last byte */
                ck_assert_uint_eq(fault, strchr("AEIMQUYcgkosw048", c) ? SIZE_MAX : at);
            else if (at == length - 2 && c == '=') /* Zm==: the last letter has bits behind the byte */
                ck_assert_uint_eq(fault, length - 3);
            else
                ck_assert_uint_eq(fault, known || c == right[at] ? SIZE_MAX : at);
        }
}
END_TEST

static const struct {
    const char *text;
    size_t fault;
} WRONG[] = {{"A", 1},          {"AA", 2},    {"AAA", 3},  {"=", 0},        {"==", 0},     {"====", 0},
             {"A===", 1},       {"AAA==", 3}, {"AA=", 2},  {"AAAA=", 4},    {"AAAA==", 4}, {"AAAAA", 5},
             {"AA==AAAA", 2},   {"AA=A", 2},  {"=AAA", 0}, {"AAAA====", 4}, {"AB==", 1},   {"AAB=", 2},
             {"AAAA\nAAAA", 4}, {"__-_", 0},  {"AA A", 2}};

START_TEST(test_wrong_texts)
{
    unsigned char decoded[16];
    size_t length;
    ck_assert_uint_eq(base64_decode(WRONG[_i].text, strlen(WRONG[_i].text), decoded), WRONG[_i].fault);
    if (strlen(WRONG[_i].text) % 4)
        ck_assert(!base64_decoded_length(WRONG[_i].text, strlen(WRONG[_i].text), &length));
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("base64");
    TCase *c = tcase_create("base64");
    tcase_add_loop_test(c, test_vectors, 0, sizeof RFC_4648_VECTORS / sizeof *RFC_4648_VECTORS);
    tcase_add_loop_test(c, test_round_trip, 0, ISA_COUNT);
    tcase_add_loop_test(c, test_wrong_characters_among_many, 0, ISA_COUNT);
    tcase_add_test(c, test_wrong_characters);
    tcase_add_loop_test(c, test_wrong_texts, 0, sizeof WRONG / sizeof *WRONG);
    suite_add_tcase(s, c);
    return s;
}
