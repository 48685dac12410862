/* Tensors of whole numbers in each of their forms, and as bytes. */
#include "codec/expect.h"
#include "codec/integers.h"
#include "codec/raw_tensor.h"
#include "json/reader.h"

#include <string.h>

static struct arena arena;

static void make_arena(void)
{
    ck_assert(arena_reserve(&arena, 4096));
}

static void free_memory(void)
{
    arena_free(&arena);
}

static bool read(const char *text, struct integers *integers, struct error *error)
{
    struct json_reader r;
    arena_reset(&arena);
    json_reader_init_member(&r, "x", text, strlen(text));
    return integers_read_json(&r, &arena, integers, error) && json_finish(&r, error);
}

static const struct {
    const char *text;
    unsigned rank;
    size_t shape[2];
    uint32_t last;
} RIGHT[] = {
    {"[0]", 1, {1}, 0},
    {"[1,2, 4294967295]", 1, {3}, UINT32_MAX},
    {"[[1,2.0,1e1]]", 2, {1, 3}, 10},
    {"[[1],[2],[3]]", 2, {3, 1}, 3},
    {"{\"shape\":[2,2],\"data\":[1,2,3,4]}", 2, {2, 2}, 4},
    {"{\"data\":[[1,2],[3,5]],\"shape\":[2,2]}", 2, {2, 2}, 5},
    {"{\"shape\":[2],\"dtype\":\"i32\",\"base64\":\"AQAAAP///38=\"}", 1, {2}, INT32_MAX},
    {"{\"base64\":\"AQAAAAAAAAD/////AAAAAA==\",\"dtype\":\"i64\",\"shape\":[2,1]}", 2, {2, 1}, UINT32_MAX},
};

START_TEST(test_right)
{
    struct integers found = {0};
    struct error error;
    ck_assert_msg(read(RIGHT[_i].text, &found, &error), "%s: %s", RIGHT[_i].text, error.message);
    ck_assert_uint_eq(found.rank, RIGHT[_i].rank);
    ck_assert_mem_eq(found.shape, RIGHT[_i].shape, found.rank * sizeof *found.shape);
    ck_assert_uint_eq(found.count, found.rank == 2 ? found.shape[0] * found.shape[1] : found.shape[0]);
    ck_assert_uint_eq(found.data[found.count - 1], RIGHT[_i].last);
}
END_TEST

static const struct {
    const char *text;
    enum error_code code;
    const char *pointer, *words;
} WRONG[] = {
    {"[1.5]", ERROR_INVALID, "/x/0", "integer 1.5"},
    {"[[1,2],[3,-1]]", ERROR_INVALID, "/x/1/1", "0 4294967295"},
    {"[0,4294967296]", ERROR_INVALID, "/x/1", "4294967296"},
    {"[0,1e99]", ERROR_INVALID, "/x/1", "integer"},
    {"[0,null]", ERROR_INVALID, "/x/1", "null"},
    {"[true]", ERROR_INVALID, "/x/0", "true"},
    {"[]", ERROR_INVALID, "/x", "empty"},
    {"[[]]", ERROR_INVALID, "/x/0", "empty"},
    {"[[1,2],[3]]", ERROR_INVALID, "/x/1", "ragged 1 2"},
    {"[[1],2]", ERROR_INVALID, "/x/1", "array number"},
    {"[1,[2]]", ERROR_INVALID, "/x/1", "array"},
    {"[[[1]]]", ERROR_INVALID, "/x/0/0", "array"},
    {"7", ERROR_INVALID, "/x", "integers number"},
    {"{\"data\":[1]}", ERROR_INVALID, "/x", "shape"},
    {"{\"shape\":[1]}", ERROR_INVALID, "/x", "data base64"},
    {"{\"shape\":[2],\"data\":[1]}", ERROR_INVALID, "/x/data", "1 2"},
    {"{\"shape\":[1,2],\"data\":[[1],[2]]}", ERROR_INVALID, "/x/data", "2 1"},
    {"{\"shape\":[1,1,1],\"data\":[1]}", ERROR_INVALID, "/x/shape/2", "2"},
    {"{\"shape\":[],\"data\":[1]}", ERROR_INVALID, "/x/shape", "empty"},
    {"{\"shape\":[4294967296,4294967296],\"data\":[1]}", ERROR_INVALID, "/x/shape", "memory"},
    {"{\"shape\":[1],\"base64\":\"AQAAAA==\"}", ERROR_INVALID, "/x", "dtype i32 i64"},
    {"{\"shape\":[1],\"dtype\":\"f32\",\"base64\":\"AQAAAA==\"}", ERROR_INVALID, "/x/dtype", "f32 i32 i64"},
    {"{\"shape\":[1],\"dtype\":\"i32\",\"base64\":\"/////w==\"}", ERROR_INVALID, "/x/0", "0"},
    {"{\"shape\":[1],\"dtype\":\"i32\",\"base64\":\"AQAAAAAA\"}", ERROR_INVALID, "/x", "4 6"},
    {"{\"shape\":[1],\"dtype\":\"i32\",\"base64\":\"AQ!AAA==\"}", ERROR_BAD_ENCODING, "/x/base64", NULL},
    {"{\"shape\":[1],\"dtpye\":\"i32\"}", ERROR_UNKNOWN_MEMBER, "/x/dtpye", "dtype"},
    {"[1,", ERROR_NOT_JSON, NULL, NULL},
};

START_TEST(test_wrong)
{
    struct integers found = {0};
    struct error error;
    ck_assert_msg(!read(WRONG[_i].text, &found, &error), "%s was accepted", WRONG[_i].text);
    expect_error(&error, WRONG[_i].code, WRONG[_i].pointer, WRONG[_i].words, WRONG[_i].text);
    ck_assert(!found.data && found.rank == 0);
    ck_assert_uint_eq(arena.used, 0);
}
END_TEST

START_TEST(test_raw)
{
    static const int64_t wide[] = {0, 7, UINT32_MAX};
    static const int32_t narrow[] = {3, -1};
    struct raw_tensor raw = {.dtype = DTYPE_I64,
                             .rank = 2,
                             .shape = {1, 3},
                             .count = 3,
                             .data = (const unsigned char *)wide,
                             .bytes = sizeof wide};
    struct integers found = {0};
    struct error error;
    ck_assert(raw_tensor_integers(&raw, "/x", 2, &arena, &found, &error));
    ck_assert(found.rank == 2 && found.shape[1] == 3 && found.data[1] == 7 && found.data[2] == UINT32_MAX);
    raw = (struct raw_tensor){.dtype = DTYPE_I32,
                              .rank = 1,
                              .shape = {1},
                              .count = 1,
                              .data = (const unsigned char *)narrow,
                              .bytes = sizeof *narrow};
    ck_assert(raw_tensor_integers(&raw, "/x", 2, &arena, &found, &error));
    ck_assert(found.rank == 1 && found.data[0] == 3);
    raw.shape[0] = raw.count = 2;
    raw.bytes = sizeof narrow;
    ck_assert(!raw_tensor_integers(&raw, "/x", 2, &arena, &found, &error));
    expect_error(&error, ERROR_INVALID, "/x/1", "0", "-1");
    raw.dtype = DTYPE_F32;
    ck_assert(!raw_tensor_integers(&raw, "/x", 2, &arena, &found, &error));
    expect_error(&error, ERROR_INVALID, "/x", "f32 integers", "floats");
    raw.dtype = DTYPE_I32;
    raw.rank = 3;
    raw.shape[1] = raw.shape[2] = 1;
    ck_assert(!raw_tensor_integers(&raw, "/x", 2, &arena, &found, &error));
    expect_error(&error, ERROR_INVALID, "/x", "3 2", "three axes");
    ck_assert(found.rank == 1 && found.data[0] == 3);
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("integers");
    TCase *c = tcase_create("integers");
    tcase_add_checked_fixture(c, make_arena, free_memory);
    tcase_add_loop_test(c, test_right, 0, sizeof RIGHT / sizeof *RIGHT);
    tcase_add_loop_test(c, test_wrong, 0, sizeof WRONG / sizeof *WRONG);
    tcase_add_test(c, test_raw);
    suite_add_tcase(s, c);
    return s;
}
