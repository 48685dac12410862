/* Right files, and each way a header can lie. The words are those that a reader needs: what was found, what was
 * expected, which tensor. */
#include "codec/expect.h"
#include "codec/safetensors.h"

#include <stdint.h>
#include <stdlib.h>

/* A file in memory of exactly its size, so that a sanitizer sees every read behind the end. */
static unsigned char *make_file(const char *header, size_t stated, size_t data_bytes, size_t *size)
{
    size_t length = strlen(header);
    unsigned char *file = malloc(8 + length + data_bytes);
    for (int i = 0; i < 8; i++)
        file[i] = (unsigned char)((uint64_t)stated >> 8 * i);
    memcpy(file + 8, header, length);
    for (size_t i = 0; i < data_bytes; i++)
        file[8 + length + i] = (unsigned char)i;
    *size = 8 + length + data_bytes;
    return file;
}

START_TEST(test_right)
{
    const char *text = "{\"b\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[4,28]},"
                       "\"__metadata__\":{\"format\":\"pt\",\"empty\":\"\"},"
                       "\"a\":{\"dtype\":\"F16\",\"shape\":[1,2],\"data_offsets\":[0,4]},"
                       "\"scalar\":{\"dtype\":\"I64\",\"shape\":[],\"data_offsets\":[28,36]},"
                       "\"none\":{\"dtype\":\"F64\",\"shape\":[3,0,7],\"data_offsets\":[28,28]},"
                       "\"eight\":{\"dtype\":\"F8_E4M3\",\"shape\":[5],\"data_offsets\":[36,41]},"
                       "\"four\":{\"dtype\":\"F4\",\"shape\":[3,2],\"data_offsets\":[41,44]}}  ";
    size_t size;
    unsigned char *file = make_file(text, strlen(text), 44, &size);
    const unsigned char *data = file + 8 + strlen(text);
    struct safetensors header = {0};
    struct error error;
    ck_assert_msg(safetensors_open(file, size, &header, &error), "%s", error.message);
    static const struct {
        const char *name, *dtype_name;
        enum dtype dtype;
        unsigned rank;
        size_t shape[3], count, begin, bytes;
    } EXPECTED[] = {
        {"a", "F16", DTYPE_F16, 2, {1, 2}, 2, 0, 4},         {"b", "F32", DTYPE_F32, 2, {2, 3}, 6, 4, 24},
        {"none", "F64", DTYPE_F64, 3, {3, 0, 7}, 0, 28, 0},  {"scalar", "I64", DTYPE_I64, 0, {0}, 1, 28, 8},
        {"eight", "F8_E4M3", DTYPE_COUNT, 1, {5}, 5, 36, 5}, {"four", "F4", DTYPE_COUNT, 2, {3, 2}, 6, 41, 3},
    };
    ck_assert_uint_eq(header.count, 6);
    for (size_t i = 0; i < 6; i++) {
        const struct safetensors_entry *entry = &header.entries[i];
        ck_assert_str_eq(entry->name, EXPECTED[i].name);
        ck_assert_str_eq(entry->dtype_name, EXPECTED[i].dtype_name);
        ck_assert_int_eq(entry->dtype, EXPECTED[i].dtype);
        ck_assert_uint_eq(entry->rank, EXPECTED[i].rank);
        for (unsigned axis = 0; axis < entry->rank; axis++)
            ck_assert_uint_eq(entry->shape[axis], EXPECTED[i].shape[axis]);
        ck_assert_uint_eq(entry->count, EXPECTED[i].count);
        ck_assert_ptr_eq(entry->data, data + EXPECTED[i].begin);
        ck_assert_uint_eq(entry->bytes, EXPECTED[i].bytes);
        ck_assert_ptr_eq(safetensors_find(&header, EXPECTED[i].name), entry);
    }
    ck_assert_ptr_null(safetensors_find(&header, "__metadata__"));
    ck_assert_ptr_null(safetensors_find(&header, "c"));
    ck_assert_uint_eq(header.metadata_count, 2);
    for (size_t i = 0; i < 2; i++)
        ck_assert_str_eq(header.metadata[i].value, strcmp(header.metadata[i].key, "format") == 0 ? "pt" : "");
    safetensors_close(&header);
    ck_assert(!header.entries && !header.owned);
    safetensors_close(&header);
    free(file);
}
END_TEST

START_TEST(test_empty)
{
    const char *texts[] = {"{}", "{\"__metadata__\":{}}", "{\"__metadata__\":{\"a\":\"b\"}}"};
    for (size_t i = 0; i < 3; i++) {
        size_t size;
        unsigned char *file = make_file(texts[i], strlen(texts[i]), 0, &size);
        struct safetensors header = {0};
        struct error error;
        ck_assert_msg(safetensors_open(file, size, &header, &error), "%s", error.message);
        ck_assert_uint_eq(header.count, 0);
        ck_assert_uint_eq(header.metadata_count, i == 2);
        ck_assert_ptr_null(safetensors_find(&header, "a"));
        safetensors_close(&header);
        free(file);
    }
}
END_TEST

#define A          "\"A\":{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[0,16]}"
#define B(entries) "{" A ",\"B\":{" entries "}}"

static const struct {
    const char *header;
    size_t data_bytes;
    const char *words;
} WRONG[] = {
    {"[1, 2]", 0, "array object"},
    {"{\"A\": [}", 0, "JSON"},
    {"", 0, "JSON"},
    {"{" A "} x", 16, "JSON"},
    {"{" A "," A "}", 16, "A"},
    {"{\"A\":{\"dtype\":\"F32\",\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[0,16]}}", 16, "dtype"},
    {"{" A "}", 15, "A 16 15"},
    {"{" A "}", 0, "A 16 0"},
    {"{" A "}", 20, "A 4"},
    {"{}", 3, "3"},
    {B("\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[8,24]"), 24, "A B 8 16 overlap"},
    {B("\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[0,16]"), 16, "A B overlap"},
    {B("\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[8,8]"), 16, "A B overlap"},
    {B("\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[20,36]"), 36, "A B 20 4 hole"},
    {"{\"B\":{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[4,20]}}", 20, "B 4 hole"},
    {B("\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[32,16]"), 32, "B 32 16"},
    {B("\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[-16,0]"), 16, "B data_offsets"},
    {B("\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[16,32.0]"), 32, "B data_offsets"},
    {B("\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[16]"), 32, "B data_offsets"},
    {B("\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[16,32,48]"), 32, "B data_offsets"},
    {B("\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":\"16\""), 32, "B data_offsets"},
    {B("\"dtype\":\"F32\",\"shape\":[4]"), 32, "B data_offsets"},
    {B("\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[9223372036854775807,9223372036854775807]"), 32, "B"},
    {B("\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[0,9223372036854775808]"), 32, "JSON"},
    {B("\"dtype\":\"F32\",\"shape\":[3],\"data_offsets\":[16,32]"), 32, "B 16 12"},
    {B("\"dtype\":\"F32\",\"shape\":[-4],\"data_offsets\":[16,32]"), 32, "B shape"},
    {B("\"dtype\":\"F32\",\"shape\":[4.0],\"data_offsets\":[16,32]"), 32, "B shape"},
    {B("\"dtype\":\"F32\",\"shape\":[\"4\"],\"data_offsets\":[16,32]"), 32, "B shape"},
    {B("\"dtype\":\"F32\",\"shape\":4,\"data_offsets\":[16,32]"), 32, "B shape"},
    {B("\"dtype\":\"F32\",\"data_offsets\":[16,32]"), 32, "B shape"},
    {B("\"dtype\":\"F32\",\"shape\":[1,1,1,1,1,1,1,1,4],\"data_offsets\":[16,32]"), 32, "B 9 8"},
    {B("\"dtype\":\"F32\",\"shape\":[4294967296,4294967296],\"data_offsets\":[16,16]"), 16, "B overflows"},
    {B("\"dtype\":\"F64\",\"shape\":[4611686018427387904],\"data_offsets\":[16,16]"), 16, "B overflow"},
    {B("\"dtype\":\"Q4\",\"shape\":[4],\"data_offsets\":[16,32]"), 32, "B Q4 F32"},
    {B("\"dtype\":7,\"shape\":[4],\"data_offsets\":[16,32]"), 32, "B dtype"},
    {B("\"shape\":[4],\"data_offsets\":[16,32]"), 32, "B dtype"},
    {B("\"dtype\":\"F4\",\"shape\":[3],\"data_offsets\":[16,18]"), 18, "B 3 F4"},
    {"{\"A\":[]}", 0, "A object"},
    {"{\"__metadata__\":[]}", 0, "object"},
    {"{\"__metadata__\":{\"format\":1}}", 0, "format string"},
    {"{\"\\u0000\":{}}", 0, "JSON"},
    {"{\"\xff\":{}}", 0, "JSON"},
};

START_TEST(test_wrong)
{
    size_t size;
    unsigned char *file = make_file(WRONG[_i].header, strlen(WRONG[_i].header), WRONG[_i].data_bytes, &size);
    struct safetensors header = {0};
    struct error error;
    ck_assert_msg(!safetensors_open(file, size, &header, &error), "%s was accepted", WRONG[_i].header);
    expect_error(&error, ERROR_BAD_ENCODING, NULL, WRONG[_i].words, WRONG[_i].header);
    ck_assert(!header.entries && !header.owned);
    free(file);
}
END_TEST

START_TEST(test_wrong_lengths)
{
    static const struct {
        size_t stated, size;
        const char *words;
    } CASES[] = {
        {2, 0, "0 8"},
        {2, 5, "5 8"},
        {2, 7, "7 8"},
        {2, 8, "2 0"},
        {3, 10, "3 2 10"},
        {5000, 10, "5000 2 10"},
        {(size_t)1 << 62, 10, "4611686018427387904"},
        {SIZE_MAX, 10, "18446744073709551615"},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        size_t size;
        unsigned char *whole = make_file("{}", CASES[i].stated, 0, &size), *file = malloc(CASES[i].size + 1);
        memcpy(file, whole, CASES[i].size);
        struct safetensors header = {0};
        struct error error;
        ck_assert(!safetensors_open(file, CASES[i].size, &header, &error));
        expect_error(&error, ERROR_BAD_ENCODING, NULL, CASES[i].words, "length");
        free(whole);
        free(file);
    }
}
END_TEST

START_TEST(test_very_deep)
{
    const size_t depth = 100000;
    char *text = malloc(depth + 8);
    strcpy(text, "{\"a\":");
    memset(text + 5, '[', depth);
    text[depth + 5] = '\0';
    size_t size;
    unsigned char *file = make_file(text, depth + 5, 0, &size);
    struct safetensors header = {0};
    struct error error;
    ck_assert(!safetensors_open(file, size, &header, &error));
    expect_error(&error, ERROR_BAD_ENCODING, NULL, "JSON", "deep");
    free(file);
    free(text);
}
END_TEST

/* Every file cut short, and every byte changed: refused or whole, never read beyond. */
START_TEST(test_cut_and_changed)
{
    const char *text = B("\"dtype\":\"F16\",\"shape\":[2,4],\"data_offsets\":[16,32]");
    size_t size;
    unsigned char *file = make_file(text, strlen(text), 32, &size);
    struct safetensors header = {0};
    struct error error;
    for (size_t length = 0; length < size; length++) {
        unsigned char *cut = malloc(length + 1);
        memcpy(cut, file, length);
        ck_assert(!safetensors_open(cut, length, &header, &error));
        ck_assert_int_eq(error.code, ERROR_BAD_ENCODING);
        free(cut);
    }
    for (size_t at = 0; at < size - 32; at++)
        for (int value = 0; value < 256; value++) {
            unsigned char kept = file[at];
            file[at] = (unsigned char)value;
            if (safetensors_open(file, size, &header, &error)) {
                for (size_t i = 0; i < header.count; i++)
                    ck_assert(header.entries[i].data >= file &&
                              header.entries[i].data + header.entries[i].bytes <= file + size);
                safetensors_close(&header);
            }
            file[at] = kept;
        }
    free(file);
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("safetensors");
    TCase *c = tcase_create("safetensors");
    tcase_add_test(c, test_right);
    tcase_add_test(c, test_empty);
    tcase_add_loop_test(c, test_wrong, 0, sizeof WRONG / sizeof *WRONG);
    tcase_add_test(c, test_wrong_lengths);
    tcase_add_test(c, test_very_deep);
    tcase_add_test(c, test_cut_and_changed);
    suite_add_tcase(s, c);
    return s;
}
