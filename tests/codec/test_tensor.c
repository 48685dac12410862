/* The three forms of tensors and masks. */
#include "codec/expect.h"
#include "codec/tensor.h"
#include "json/reader.h"

#include <stdio.h>
#include <stdlib.h>

/* What a test's tensors are read into. */
static struct arena arena;

static void free_memory(void)
{
    arena_free(&arena);
}

/* The value as the member `input` of an object, which is read to its end. */
static bool read_member(const char *value, bool as_mask, unsigned max_rank, struct tensor *tensor, struct mask *mask,
                        struct error *error)
{
    char *text = malloc(strlen(value) + 16);
    size_t length = (size_t)sprintf(text, "{\"input\":%s}", value);
    struct json_reader r;
    struct json_key key;
    ck_assert(arena_reserve(&arena, 1 << 16));
    const size_t used = arena.used;
    json_reader_init(&r, text, length);
    bool right = json_enter_object(&r, error) && json_next_member(&r, &key, error) == JSON_ITEM &&
                 (as_mask ? mask_read_json(&r, &arena, mask, max_rank, error)
                          : tensor_read_json(&r, &arena, tensor, max_rank, error));
    /* It holds what it keeps, or nothing. */
    const size_t kept = !right ? 0 : as_mask ? mask->count : tensor->count * sizeof(float);
    ck_assert_uint_eq(arena.used - used, (kept + 63) / 64 * 64);
    if (right)
        ck_assert_ptr_eq(as_mask ? (char *)mask->data : (char *)tensor->data, arena.base + used);
    if (right && (json_next_member(&r, &key, error) != JSON_DONE || !json_finish(&r, error)))
        right = false;
    free(text);
    return right;
}

/* All of them are [2, 3] of 1, -2, 0.5, 0, 3, 65536. The base64 texts are Python's: base64.b64encode(struct.pack("<6f",
 * ...)) and so on. */
static const char *const RIGHT[] = {
    "[[1,-2,0.5],[0,3,65536]]",
    "{\"shape\":[2,3],\"data\":[1,-2,0.5,0,3,65536]}",
    "{\"data\":[1,-2,0.5,0,3,65536],\"shape\":[2,3]}",
    "{\"shape\":[2,3],\"data\":[[1,-2,0.5],[0,3,65536]]}",
    "{ \"shape\" : [ 2 , 3 ] , \"dtype\" : \"f32\" , \"data\" : [ [ 1 , -2 , 0.5 ] , [ 0 , 3 , 65536 ] ] } ",
    "{\"shape\":[2.0,3e0],\"data\":[1,-2,0.5,0,3,65536]}",
    "{\"sh\\u0061pe\":[2,3],\"data\":[1,-2,0.5,0,3,65536]}",
    "{\"shape\":[2,3],\"dtype\":\"f32\",\"base64\":\"AACAPwAAAMAAAAA/AAAAAAAAQEAAAIBH\"}",
    "{\"shape\":[2,3],\"base64\":\"AACAPwAAAMAAAAA/AAAAAAAAQEAAAIBH\"}",
    "{\"base64\":\"AACAPwAAAMAAAAA\\/AAAAAAAAQEAAAIBH\",\"dtype\":\"f32\",\"shape\":[2,3]}",
    "{\"shape\":[2,3],\"dtype\":\"bf16\",\"base64\":\"gD8AwAA/AABAQIBH\"}",
    "{\"shape\":[2,3],\"dtype\":\"f64\",\"base64\":\"AAAAAAAA8D8AAAAAAAAAwAAAAAAAAOA/"
    "AAAAAAAAAAAAAAAAAAAIQAAAAAAAAPBA\"}",
    "{\"shape\":[2,3],\"dtype\":\"f64\",\"base64\":"
    "\"\\u0041AAAAAAA8D8AAAAAAAAAwAAAAAAAAOA\\u002fAAAAAAAAAAAAAAAAAAAIQAAAAAAAAPBA\"}",
};

START_TEST(test_right)
{
    const float expected[] = {1, -2, 0.5f, 0, 3, 65536};
    struct tensor tensor = {0};
    struct error error;
    ck_assert_msg(read_member(RIGHT[_i], false, 3, &tensor, NULL, &error), "%s: %s", RIGHT[_i], error.message);
    ck_assert_uint_eq(tensor.rank, 2);
    ck_assert_uint_eq(tensor.shape[0], 2);
    ck_assert_uint_eq(tensor.shape[1], 3);
    ck_assert_uint_eq(tensor.count, 6);
    ck_assert_mem_eq(tensor.data, expected, sizeof expected);
}
END_TEST

START_TEST(test_f16)
{
    const float expected[] = {1, -2, 65504};
    struct tensor tensor = {0};
    struct error error;
    ck_assert(
        read_member("{\"shape\":[3],\"dtype\":\"f16\",\"base64\":\"ADwAwP97\"}", false, 1, &tensor, NULL, &error));
    ck_assert_mem_eq(tensor.data, expected, sizeof expected);
}
END_TEST

/* All of them are [2, 2] of 1, 0, 0, 1. */
static const char *const RIGHT_MASKS[] = {
    "[[1,0],[0,1]]",
    "[[true,false],[false,true]]",
    "[[1.0,-0],[false,1e0]]",
    "{\"shape\":[2,2],\"data\":[true,0,0,1]}",
    "{\"shape\":[2,2],\"data\":[[1,0],[0,true]]}",
    "{\"shape\":[2,2],\"dtype\":\"bool\",\"base64\":\"AQAAAQ==\"}",
    "{\"shape\":[2,2],\"dtype\":\"u8\",\"base64\":\"AQAAAQ==\"}",
    "{\"shape\":[2,2],\"dtype\":\"i32\",\"base64\":\"AQAAAAAAAAAAAAAAAQAAAA==\"}",
    "{\"shape\":[2,2],\"dtype\":\"i64\",\"base64\":\"AQAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAQAAAAAAAAA=\"}",
    "{\"shape\":[2,2],\"dtype\":\"f32\",\"base64\":\"AACAPwAAAIAAAAAAAACAPw==\"}",
    "{\"shape\":[2,2],\"base64\":\"AACAPwAAAIAAAAAAAACAPw==\"}",
    "{\"shape\":[2,2],\"dtype\":\"f16\",\"base64\":\"ADwAAAAAADw=\"}",
    "{\"shape\":[2,2],\"dtype\":\"bf16\",\"base64\":\"gD8AAAAAgD8=\"}",
    "{\"shape\":[2,2],\"dtype\":\"f64\",\"base64\":\"AAAAAAAA8D8AAAAAAAAAAAAAAAAAAAAAAAAAAAAA8D8=\"}",
};

START_TEST(test_right_masks)
{
    const uint8_t expected[] = {1, 0, 0, 1};
    struct mask mask = {0};
    struct error error;
    ck_assert_msg(read_member(RIGHT_MASKS[_i], true, 3, NULL, &mask, &error), "%s: %s", RIGHT_MASKS[_i], error.message);
    ck_assert_uint_eq(mask.rank, 2);
    ck_assert_uint_eq(mask.shape[0], 2);
    ck_assert_uint_eq(mask.shape[1], 2);
    ck_assert_uint_eq(mask.count, 4);
    ck_assert_mem_eq(mask.data, expected, sizeof expected);
}
END_TEST

#define ZEROS_9 "0,0,0,0,0,0,0,0,0"

static const struct {
    bool mask;
    const char *text;
    enum error_code code;
    const char *pointer, *words;
} WRONG[] = {
    {false, "1.5", ERROR_INVALID, "/input", "number tensor"},
    {false, "null", ERROR_INVALID, "/input", "null"},
    {false, "true", ERROR_INVALID, "/input", "true"},
    {false, "\"1\"", ERROR_INVALID, "/input", "string"},
    {false, "\"\xff\xfe\"", ERROR_NOT_JSON, NULL, ""},
    {false, "NaN", ERROR_NOT_JSON, NULL, ""},
    {false, "{}", ERROR_INVALID, "/input", "shape"},
    {false, "{\"data\":[1]}", ERROR_INVALID, "/input", "shape"},
    {false, "{\"shape\":[1]}", ERROR_INVALID, "/input", "data base64"},
    {false, "{\"shape\":[1],\"data\":[1],\"base64\":\"AAAAAA==\"}", ERROR_INVALID, "/input", "data base64 both"},
    {false, "{\"shape\":[1,10],\"data\":[" ZEROS_9 ",false]}", ERROR_INVALID, "/input/data/9", "number"},
    {false, "{\"shape\":[1,10],\"data\":[[" ZEROS_9 ",\"0\"]]}", ERROR_INVALID, "/input/data/0/9", "string"},
    {false, "{\"shape\":[1,10],\"data\":[" ZEROS_9 "]}", ERROR_INVALID, "/input/data", "10 9"},
    {false, "{\"shape\":[2,4],\"data\":[" ZEROS_9 "]}", ERROR_INVALID, "/input/data", "8 9"},
    {false, "{\"shape\":[2,3],\"data\":[[0,0],[0,0],[0,0]]}", ERROR_INVALID, "/input/data", "nested"},
    {false, "{\"shape\":[2,3],\"data\":[[[0,0,0],[0,0,0]]]}", ERROR_INVALID, "/input/data", "nested"},
    {false, "{\"shape\":[4],\"data\":[[0,0],[0,0]]}", ERROR_INVALID, "/input/data", "nested"},
    {false, "{\"shape\":[2,3],\"data\":[[0,0,0],[0,0]]}", ERROR_INVALID, "/input/data/1", "3 2"},
    {false, "{\"shape\":[2,3],\"data\":[[[[[[0]]]]]]}", ERROR_INVALID, "/input/data", "6 5"},
    {false, "{\"shape\":[2],\"data\":[0,1e39]}", ERROR_NOT_FINITE, "/input/data/1", "1e39"},
    {false, "{\"shape\":[2],\"data\":\"00\"}", ERROR_INVALID, "/input/data", "string"},
    {false, "{\"shape\":[1,64],\"data\":[0],\"dta\":1}", ERROR_UNKNOWN_MEMBER, "/input/dta", "dta data"},
    {false, "{\"shape\":[1],\"shape\":[1],\"data\":[0]}", ERROR_DUPLICATE_MEMBER, NULL, "shape"},
    {false, "{\"shape\":[1],\"data\":[0],\"data\":[0]}", ERROR_DUPLICATE_MEMBER, NULL, "data"},
    {false, "{\"shape\":[1,0,64],\"data\":[]}", ERROR_INVALID, "/input/shape/1", "0 1"},
    {false, "{\"data\":[],\"shape\":[1,0,64]}", ERROR_INVALID, "/input/data", "empty"},
    {false, "{\"shape\":[1,-4,64],\"data\":[]}", ERROR_INVALID, "/input/shape/1", "1"},
    {false, "{\"shape\":[1,1.5,64],\"data\":[]}", ERROR_INVALID, "/input/shape/1", ""},
    {false, "{\"shape\":[1,\"4\"],\"data\":[0]}", ERROR_INVALID, "/input/shape/1", "string"},
    {false, "{\"shape\":[],\"data\":[0]}", ERROR_INVALID, "/input/shape", "empty"},
    {false, "{\"shape\":1,\"data\":[0]}", ERROR_INVALID, "/input/shape", "number"},
    {false, "{\"shape\":[1,1,1,1],\"data\":[0]}", ERROR_INVALID, "/input/shape/3", "3"},
    {false, "{\"shape\":[4294967296,4294967296,64],\"data\":[0]}", ERROR_INVALID, "/input/shape", "memory"},
    {false, "{\"shape\":[4611686018427387904,4611686018427387904,4611686018427387904],\"data\":[0]}", ERROR_INVALID,
     "/input/shape", "memory"},
    {false, "{\"shape\":[1,288230376151711744,64],\"data\":[0]}", ERROR_INVALID, "/input/shape", "memory"},
    {false, "{\"shape\":[9223372036854775808],\"data\":[0]}", ERROR_INVALID, "/input/shape/0", ""},
    {false, "{\"shape\":[1000000000000],\"data\":[0]}", ERROR_INVALID, "/input/data", "1000000000000 1"},
    {false, "{\"shape\":[1000000000000],\"base64\":\"AAAAAA==\"}", ERROR_INVALID, "/input", "4000000000000 4"},
    {false, "{\"shape\":[1],\"dtype\":\"f8\",\"base64\":\"AAAA\"}", ERROR_INVALID, "/input/dtype",
     "f8 f32 f16 bf16 f64"},
    {false, "{\"shape\":[1],\"dtype\":\"i32\",\"base64\":\"AAAAAA==\"}", ERROR_INVALID, "/input/dtype", "i32 f32"},
    {false, "{\"shape\":[1],\"dtype\":32,\"base64\":\"AAAAAA==\"}", ERROR_INVALID, "/input/dtype", "string"},
    {false, "{\"shape\":[1],\"dtype\":\"f16\",\"data\":[1]}", ERROR_INVALID, "/input/dtype", "f16 f32"},
    {false, "{\"shape\":[1],\"base64\":\"@@@@\"}", ERROR_BAD_ENCODING, "/input/base64", "0 4"},
    {false, "{\"shape\":[1],\"base64\":\"AAAA@A==\"}", ERROR_BAD_ENCODING, "/input/base64", "4"},
    {false, "{\"shape\":[1],\"base64\":\"AAAAAA\"}", ERROR_BAD_ENCODING, "/input/base64", "6 padded"},
    {false, "{\"shape\":[1],\"base64\":\"AAAA__==\"}", ERROR_BAD_ENCODING, "/input/base64", "4"},
    {false, "{\"shape\":[1],\"base64\":\"AAAAAB==\"}", ERROR_BAD_ENCODING, "/input/base64", "5"},
    {false, "{\"shape\":[1],\"base64\":\"AAAA\\nAA==\"}", ERROR_BAD_ENCODING, "/input/base64", "4"},
    {false, "{\"shape\":[1],\"base64\":\"\"}", ERROR_INVALID, "/input", "4 0"},
    {false, "{\"shape\":[2,1],\"base64\":\"AAAAAA==\"}", ERROR_INVALID, "/input", "8 4 bytes"},
    {false, "{\"shape\":[1],\"dtype\":\"f64\",\"base64\":\"AAAAAA==\"}", ERROR_INVALID, "/input", "8 4 f64"},
    {false, "{\"shape\":[1],\"base64\":[0]}", ERROR_INVALID, "/input/base64", "string"},
    {false, "{\"shape\":[2],\"base64\":\"AAAAAAAAgH8=\"}", ERROR_NOT_FINITE, "/input", "1 2"},
    {false, "{\"shape\":[2],\"base64\":\"AAAAAAAAwH8=\"}", ERROR_NOT_FINITE, "/input", "1 2"},
    {false, "{\"shape\":[1],\"dtype\":\"f64\",\"base64\":\"AAAAAAAA8H4=\"}", ERROR_NOT_FINITE, "/input", "0 1 float32"},
    {false, "{\"shape\":[1],\"data\":[1],}", ERROR_NOT_JSON, NULL, ""},
    {true, "[[1,1,2,1]]", ERROR_INVALID, "/input/0/2", "2 0 1"},
    {true, "[[1,1],[0,0.5]]", ERROR_INVALID, "/input/1/1", "0 1"},
    {true, "[[1,-1]]", ERROR_INVALID, "/input/0/1", "0 1"},
    {true, "[[1,null]]", ERROR_INVALID, "/input/0/1", "null"},
    {true, "{\"shape\":[1,4],\"data\":[1,1,true,3]}", ERROR_INVALID, "/input/data/3", "3"},
    {true, "{\"shape\":[1,2],\"dtype\":\"bool\",\"base64\":\"AQI=\"}", ERROR_INVALID, "/input", "1 2"},
    {true, "{\"shape\":[1],\"dtype\":\"f32\",\"base64\":\"AADAfw==\"}", ERROR_INVALID, "/input", "0 1"},
    {true, "{\"shape\":[1],\"dtype\":\"i32\",\"base64\":\"AQAAAQ==\"}", ERROR_INVALID, "/input", "0 1"},
    {true, "{\"shape\":[1],\"dtype\":\"i64\",\"base64\":\"AQAAAAEAAAA=\"}", ERROR_INVALID, "/input", "0 1"},
    {true, "{\"shape\":[1],\"dtype\":\"boolean\",\"base64\":\"AQ==\"}", ERROR_INVALID, "/input/dtype",
     "boolean bool u8 i32 i64"},
    {true, "{\"shape\":[3],\"dtype\":\"u8\",\"base64\":\"AQ==\"}", ERROR_INVALID, "/input", "3 1"},
    {true, "true", ERROR_INVALID, "/input", "true"},
};

START_TEST(test_wrong)
{
    struct tensor tensor = {0};
    struct mask mask = {0};
    struct error error;
    ck_assert_msg(!read_member(WRONG[_i].text, WRONG[_i].mask, 3, &tensor, &mask, &error), "%s was accepted",
                  WRONG[_i].text);
    expect_error(&error, WRONG[_i].code, WRONG[_i].pointer, WRONG[_i].words, WRONG[_i].text);
    ck_assert(!tensor.data && !mask.data);
}
END_TEST

/* Longer than the blocks that base64 is decoded in, with every format, and with a fault in a later block. */
START_TEST(test_base64_blocks)
{
    const size_t count = 4000;
    char *text = malloc(60000);
    size_t head = (size_t)sprintf(text, "{\"shape\":[4,1000],\"base64\":\""), at = head;
    for (size_t i = 0; i < count * 4 / 3 + 1; i++) /* 16000 bytes are 5333 groups and one byte */
        at += (size_t)sprintf(text + at, "%s", i % 3 == 0 ? "AACA" : i % 3 == 1 ? "PwAA" : "gD8A");
    at -= 4;
    at += (size_t)sprintf(text + at, "Pw==\"}");
    struct tensor tensor = {0};
    struct error error;
    /* AACA PwAA gD8A is 00 00 80 | 3f 00 00 | 80 3f 00: of nine bytes, the pattern does not repeat in numbers; only the
     * faults are looked at */
    text[head + 4096 + 4095] = '=';
    ck_assert(!read_member(text, false, 3, &tensor, NULL, &error));
    expect_error(&error, ERROR_BAD_ENCODING, "/input/base64", "8191", "padding within");
    text[head + 4096 + 4095] = '%';
    ck_assert(!read_member(text, false, 3, &tensor, NULL, &error));
    expect_error(&error, ERROR_BAD_ENCODING, "/input/base64", "8191", "a wrong character");
    free(text);
}
END_TEST

START_TEST(test_base64_long)
{
    const size_t count = 3 * 1024; /* 12288 bytes: four whole blocks of 3072 */
    char *text = malloc(40000);
    size_t at = (size_t)sprintf(text, "{\"shape\":[3,1024],\"dtype\":\"f32\",\"base64\":\"");
    for (size_t i = 0; i < count / 3; i++)
        at += (size_t)sprintf(text + at, "AACAPwAAAMAAAEBA"); /* 1, -2, 3 */
    sprintf(text + at, "\"}");
    struct tensor tensor = {0};
    struct error error;
    ck_assert_msg(read_member(text, false, 3, &tensor, NULL, &error), "%s", error.message);
    size_t wrong = 0;
    for (size_t i = 0; i < count; i++)
        wrong += tensor.data[i] != (i % 3 == 0 ? 1.0f : i % 3 == 1 ? -2.0f : 3.0f);
    ck_assert_uint_eq(wrong, 0);
    free(text);
}
END_TEST

START_TEST(test_shape_text)
{
    const size_t shape[] = {1, 4, 64}, wide[] = {SIZE_MAX, SIZE_MAX, SIZE_MAX, SIZE_MAX, SIZE_MAX};
    char buffer[TENSOR_SHAPE_TEXT_BYTES], small[8];
    ck_assert_str_eq(tensor_shape_text(shape, 3, buffer, sizeof buffer), "[1, 4, 64]");
    ck_assert_str_eq(tensor_shape_text(shape, 1, buffer, sizeof buffer), "[1]");
    ck_assert_str_eq(tensor_shape_text(shape, 0, buffer, sizeof buffer), "[]");
    ck_assert_str_eq(tensor_shape_text(shape, 3, small, sizeof small), "[1, 4, ");
    tensor_shape_text(wide, 5, buffer, sizeof buffer);
    ck_assert(buffer[strlen(buffer) - 1] == ']');
}
END_TEST

/* Every form in an arena that is too small for it, by one piece. */
START_TEST(test_full_arena)
{
    static const char *const FORMS[] = {
        "[[0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0]]", "{\"shape\":[17],\"data\":[0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0]}",
        "{\"shape\":[17],\"dtype\":\"f16\",\"base64\":\"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA==\"}"};
    struct tensor tensor = {0};
    struct mask mask = {0};
    struct error error;
    ck_assert(arena_reserve(&arena, 1 << 16));
    ck_assert_ptr_nonnull(arena_take(&arena, arena_left(&arena) - 64));
    ck_assert(!read_member(FORMS[_i], false, 3, &tensor, NULL, &error));
    expect_error(&error, ERROR_OUT_OF_MEMORY, NULL, "", FORMS[_i]);
    ck_assert(!tensor.data);
    ck_assert_ptr_nonnull(arena_take(&arena, 64));
    ck_assert(!read_member(FORMS[_i], true, 3, NULL, &mask, &error));
    expect_error(&error, ERROR_OUT_OF_MEMORY, NULL, "", FORMS[_i]);
    ck_assert(!mask.data);
    arena_rewind(&arena, arena.used - 128);
    ck_assert(read_member(FORMS[_i], false, 3, &tensor, NULL, &error));
    ck_assert_uint_eq(arena_left(&arena), 0);
}
END_TEST

/* Escapes within and at the ends of blocks, a fault behind them, and characters that go over a block's end. */
START_TEST(test_base64_escaped)
{
    const size_t count = 3 * 1024;
    char *text = malloc(120000);
    for (int fault = 0; fault < 4; fault++) {
        size_t at = (size_t)sprintf(text, "{\"base64\":\"");
        for (size_t i = 0; i < 16 * 1024; i++) { /* the groups AACAPwAAAMAAAEBA are 1, -2, 3 */
            if (fault == 1 && i == 9000)
                at += (size_t)sprintf(text + at, "\\u003d"); /* = */
            else if (fault == 2 && i == 4095)
                at += (size_t)sprintf(text + at, "\\u20ac");
            else if (fault == 3 && i == 4094)
                at += (size_t)sprintf(text + at, "\xf0\x9f\x98\x80");
            else
                at += (size_t)sprintf(text + at, (i + i / 16) % 5 ? "%c" : "\\u00%02x", "AACAPwAAAMAAAEBA"[i % 16]);
        }
        sprintf(text + at, "\",\"shape\":[3,1024]}");
        struct tensor tensor = {0};
        struct error error;
        ck_assert_msg(read_member(text, false, 3, &tensor, NULL, &error) == (fault == 0), "%s", error.message);
        if (fault) {
            static const char *const WORDS[] = {"", "9000 16384", "4095 16386", "4094 16387"};
            expect_error(&error, ERROR_BAD_ENCODING, "/input/base64", WORDS[fault], "escaped");
            continue;
        }
        size_t wrong = 0;
        for (size_t i = 0; i < count; i++)
            wrong += tensor.data[i] != (i % 3 == 0 ? 1.0f : i % 3 == 1 ? -2.0f : 3.0f);
        ck_assert_uint_eq(tensor.count, count);
        ck_assert_uint_eq(wrong, 0);
    }
    free(text);
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("tensor");
    TCase *c = tcase_create("tensor");
    tcase_add_checked_fixture(c, NULL, free_memory);
    tcase_add_loop_test(c, test_right, 0, sizeof RIGHT / sizeof *RIGHT);
    tcase_add_test(c, test_f16);
    tcase_add_loop_test(c, test_right_masks, 0, sizeof RIGHT_MASKS / sizeof *RIGHT_MASKS);
    tcase_add_loop_test(c, test_wrong, 0, sizeof WRONG / sizeof *WRONG);
    tcase_add_test(c, test_base64_blocks);
    tcase_add_test(c, test_base64_long);
    tcase_add_test(c, test_shape_text);
    tcase_add_loop_test(c, test_full_arena, 0, 3);
    tcase_add_test(c, test_base64_escaped);
    suite_add_tcase(s, c);
    return s;
}
