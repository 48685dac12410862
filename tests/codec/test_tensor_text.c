/* Nested arrays of numbers: what is read, and what is refused where. */
#include "base/isa.h"
#include "codec/expect.h"
#include "codec/tensor_text.h"
#include "json/reader.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* What a test's tensors are read into. */
static struct arena arena;

static void free_memory(void)
{
    arena_free(&arena);
}

/* Reads {"input": TEXT} as far as the tensor; what is behind it in the object is read too. */
static bool read_text(const char *text, size_t length, unsigned max_rank, bool booleans, struct tensor *tensor,
                      struct error *error)
{
    struct json_reader r;
    struct json_key key;
    ck_assert(arena_reserve(&arena, 1 << 20));
    arena_reset(&arena);
    json_reader_init(&r, text, length);
    ck_assert(json_enter_object(&r, error));
    ck_assert(json_next_member(&r, &key, error) == JSON_ITEM);
    ck_assert(json_peek(&r) == JSON_ARRAY);
    if (!tensor_text_read(&r, &arena, tensor, max_rank, booleans, error)) {
        ck_assert_uint_eq(arena.used, 0);
        return false;
    }
    ck_assert_uint_eq(arena.used, (tensor->count * sizeof(float) + 63) / 64 * 64);
    return json_next_member(&r, &key, error) == JSON_DONE && json_finish(&r, error);
}

static bool read_value(const char *value, unsigned max_rank, bool booleans, struct tensor *tensor, struct error *error)
{
    char text[2048];
    int length = snprintf(text, sizeof text, "{\"input\":%s}", value);
    char *exact = malloc((size_t)length); /* so that a sanitizer sees a read behind the end */
    memcpy(exact, text, (size_t)length);
    bool right = read_text(exact, (size_t)length, max_rank, booleans, tensor, error);
    free(exact);
    return right;
}

static const struct {
    const char *text;
    unsigned rank;
    size_t shape[TENSOR_MAX_RANK], count;
    float values[8];
} RIGHT[] = {
    {"[1]", 1, {1}, 1, {1}},
    {"[1,2,3]", 1, {3}, 3, {1, 2, 3}},
    {" [ [ 1 , 2 ] ,\n\t[ 3 , 4 ] , [ 5 , 6 ]\r] ", 2, {3, 2}, 6, {1, 2, 3, 4, 5, 6}},
    {"[[[1,-2],[3e-4,5E+1]],[[0.25,-0],[0e0,12.5e-1]]]", 3, {2, 2, 2}, 8, {1, -2, 3e-4f, 50, 0.25f, -0.0f, 0, 1.25f}},
    {"[[[[[7]]]]]", 5, {1, 1, 1, 1, 1}, 1, {7}},
    {"[[1],[2],[3],[4]]", 2, {4, 1}, 4, {1, 2, 3, 4}},
    {"[3.4028234663852886e38,-3.4028234663852886e38,1e-400,1.401298464324817e-45]",
     1,
     {4},
     4,
     {0x1.fffffep127f, -0x1.fffffep127f, 0, 0x1p-149f}},
};

START_TEST(test_right)
{
    struct tensor tensor = {0};
    struct error error;
    ck_assert_msg(read_value(RIGHT[_i].text, TENSOR_MAX_RANK, false, &tensor, &error), "%s: %s", RIGHT[_i].text,
                  error.message);
    ck_assert_uint_eq(tensor.rank, RIGHT[_i].rank);
    ck_assert_mem_eq(tensor.shape, RIGHT[_i].shape, sizeof tensor.shape);
    ck_assert_uint_eq(tensor.count, RIGHT[_i].count);
    ck_assert_mem_eq(tensor.data, RIGHT[_i].values, tensor.count * sizeof(float));
}
END_TEST

START_TEST(test_booleans)
{
    struct tensor tensor = {0};
    struct error error;
    ck_assert(read_value("[[true,false],[1,0]]", 2, true, &tensor, &error));
    const float expected[] = {1, 0, 1, 0};
    ck_assert_mem_eq(tensor.data, expected, sizeof expected);
    ck_assert(!read_value("[true]", 2, false, &tensor, &error));
    expect_error(&error, ERROR_INVALID, "/input/0", "number", "[true]");
    ck_assert(!read_value("[tru]", 2, true, &tensor, &error));
    expect_error(&error, ERROR_NOT_JSON, NULL, "", "[tru]");
    ck_assert(!read_value("[null]", 2, true, &tensor, &error));
    expect_error(&error, ERROR_INVALID, "/input/0", "true false", "[null]");
    ck_assert(!read_value("[truefalse]", 2, true, &tensor, &error));
    expect_error(&error, ERROR_NOT_JSON, NULL, "", "[truefalse]");
}
END_TEST

static const struct {
    const char *text;
    enum error_code code;
    const char *pointer, *words;
} WRONG[] = {
    {"[]", ERROR_INVALID, "/input", "empty"},
    {"[[]]", ERROR_INVALID, "/input", "empty"},
    {"[[[ ]]]", ERROR_INVALID, "/input", "empty"},
    {"[[1],[]]", ERROR_INVALID, "/input/1", "0 1"},
    {"[[[1],[2]],[[3],[]]]", ERROR_INVALID, "/input/1/1", "0 1"},
    {"[[[1],[2]],[]]", ERROR_INVALID, "/input/1", "0 2"},
    {"[[1,2,3],[4,5]]", ERROR_INVALID, "/input/1", "3 2"},
    {"[[1,2],[4,5,6]]", ERROR_INVALID, "/input/1", "3 2"},
    {"[[[1,2],[3,4]],[[5,6]]]", ERROR_INVALID, "/input/1", "2 1"},
    {"[[[1,2]],[[3,4],[5,6]]]", ERROR_INVALID, "/input/1", "2 1"},
    {"[[[1,2],[3,4]],[[5,6],[7]]]", ERROR_INVALID, "/input/1/1", "2 1"},
    {"[1,[2]]", ERROR_INVALID, "/input/1", "array number"},
    {"[[1,2],[[3],4]]", ERROR_INVALID, "/input/1/0", "array number"},
    {"[[1],2]", ERROR_INVALID, "/input/1", "array number"},
    {"[[[1]],[2]]", ERROR_INVALID, "/input/1/0", "array number"},
    {"[[[1]],2]", ERROR_INVALID, "/input/1", "array number"},
    {"[\"a\"]", ERROR_INVALID, "/input/0", "string number"},
    {"[[1,\"2\"]]", ERROR_INVALID, "/input/0/1", "string number"},
    {"[[1],\"2\"]", ERROR_INVALID, "/input/1", "string array"},
    {"[[1,null]]", ERROR_INVALID, "/input/0/1", "null"},
    {"[[1,{}]]", ERROR_INVALID, "/input/0/1", "object"},
    {"[[1,{\"a\":[[[1]]]}]]", ERROR_INVALID, "/input/0/1", "object"},
    {"[[[[[[1]]]]]]", ERROR_INVALID, "/input", "6 5"},
    {"[[[[[[[[1]]]]]]]]", ERROR_INVALID, "/input", "8 5"},
    {"[1e39]", ERROR_NOT_FINITE, "/input/0", "1e39"},
    {"[[0,0],[0,-1e400]]", ERROR_NOT_FINITE, "/input/1/1", "1e400"},
    {"[340282356779733661637539395458142568448]", ERROR_NOT_FINITE, "/input/0", "float32"},
    {"[1e39,NaN]", ERROR_NOT_FINITE, "/input/0", ""},
    {"[0,]", ERROR_NOT_JSON, NULL, ""},
    {"[,0]", ERROR_NOT_JSON, NULL, ""},
    {"[[0],]", ERROR_NOT_JSON, NULL, ""},
    {"[[0]0]", ERROR_NOT_JSON, NULL, ""},
    {"[0 0]", ERROR_NOT_JSON, NULL, ""},
    {"[0", ERROR_NOT_JSON, NULL, ""},
    {"[0}", ERROR_NOT_JSON, NULL, ""},
    {"[[0}", ERROR_NOT_JSON, NULL, ""},
    {"[\"a]", ERROR_NOT_JSON, NULL, ""},
    {"[\"\xff\"]", ERROR_NOT_JSON, NULL, ""},
    {"[{1}]", ERROR_NOT_JSON, NULL, ""},
    {"[NaN]", ERROR_NOT_JSON, NULL, ""},
    {"[nan]", ERROR_NOT_JSON, NULL, ""},
    {"[nul]", ERROR_NOT_JSON, NULL, ""},
    {"[Infinity]", ERROR_NOT_JSON, NULL, ""},
    {"[-Infinity]", ERROR_NOT_JSON, NULL, ""},
    {"[+1]", ERROR_NOT_JSON, NULL, ""},
    {"[01]", ERROR_NOT_JSON, NULL, ""},
    {"[-01]", ERROR_NOT_JSON, NULL, ""},
    {"[.5]", ERROR_NOT_JSON, NULL, ""},
    {"[1.]", ERROR_NOT_JSON, NULL, ""},
    {"[1e]", ERROR_NOT_JSON, NULL, ""},
    {"[1e+]", ERROR_NOT_JSON, NULL, ""},
    {"[0x1]", ERROR_NOT_JSON, NULL, ""},
    {"[--1]", ERROR_NOT_JSON, NULL, ""},
    {"[-]", ERROR_NOT_JSON, NULL, ""},
    {"[[1],NaN]", ERROR_NOT_JSON, NULL, ""},
    {"[1\v]", ERROR_NOT_JSON, NULL, ""},
};

START_TEST(test_wrong)
{
    struct tensor tensor = {0};
    struct error error;
    ck_assert_msg(!read_value(WRONG[_i].text, TENSOR_MAX_RANK, false, &tensor, &error), "%s was accepted",
                  WRONG[_i].text);
    expect_error(&error, WRONG[_i].code, WRONG[_i].pointer, WRONG[_i].words, WRONG[_i].text);
    ck_assert(!tensor.data && tensor.rank == 0);
}
END_TEST

START_TEST(test_most_axes)
{
    struct tensor tensor = {0};
    struct error error;
    ck_assert(!read_value("[[[[1]]]]", 3, false, &tensor, &error));
    expect_error(&error, ERROR_INVALID, "/input", "4 3", "rank 4");
    ck_assert(!read_value("[[1]]", 1, false, &tensor, &error));
    expect_error(&error, ERROR_INVALID, "/input", "2 1", "rank 2");
}
END_TEST

/* 100 000 brackets, closed and not, at the beginning and among numbers. */
START_TEST(test_very_deep)
{
    const size_t depth = 100000;
    const char *begin = _i & 1 ? "{\"input\":[1," : "{\"input\":";
    char *text = malloc(2 * depth + 64);
    size_t length = (size_t)sprintf(text, "%s", begin);
    memset(text + length, '[', depth);
    length += depth;
    if (_i & 2) {
        memset(text + length, ']', depth);
        length += depth;
    }
    struct tensor tensor = {0};
    struct error error;
    ck_assert(!read_text(text, length, 3, false, &tensor, &error));
    expect_error(&error, ERROR_INVALID, _i & 1 ? "/input/1" : "/input", _i & 1 ? "" : "100000 3", "deep");
    free(text);
}
END_TEST

/* Long rows and short, long numbers before short ones. Integers, so that the value is known without reading. */
START_TEST(test_large)
{
    static const struct {
        size_t rows, width;
        const char *early, *late;
    } CASES[] = {
        {1, 100000, "1", "2"},
        {100000, 1, "1", "2"},
        {300, 300, "1.0000000000000000000", "2"},
        {300, 300, "1", "2.0000000000000000000"},
        {1, 1024, "1", "2"},
        {1, 1025, "1", "2"},
        {2, 1024, "1", "2"},
        {40, 1024, "1.00000000000000000000000000000000000", "2"},
        {3, 5000, "   1", "2      "},
        {1, 200000, "1.00000000", "2"},
    };
    size_t rows = CASES[_i].rows, width = CASES[_i].width, count = rows * width, at;
    const char *early = CASES[_i].early, *late = CASES[_i].late;
    size_t most = strlen(early) > strlen(late) ? strlen(early) : strlen(late);
    char *text = malloc(32 + count * (most + 1) + 3 * rows);
    at = (size_t)sprintf(text, "{\"input\":[");
    for (size_t i = 0; i < count; i++)
        at += (size_t)sprintf(text + at, "%s%s%s", i % width == 0 ? (i ? ",[" : "[") : ",", i < 2000 ? early : late,
                              i % width == width - 1 ? "]" : "");
    at += (size_t)sprintf(text + at, "]}");
    struct tensor tensor = {0};
    struct error error;
    ck_assert_msg(read_text(text, at, 2, false, &tensor, &error), "%s", error.message);
    ck_assert_uint_eq(tensor.rank, 2);
    ck_assert_uint_eq(tensor.shape[0], rows);
    ck_assert_uint_eq(tensor.shape[1], width);
    ck_assert_uint_eq(tensor.count, count);
    size_t wrong = 0;
    for (size_t i = 0; i < count; i++)
        wrong += tensor.data[i] != (i < 2000 ? 1.0f : 2.0f);
    ck_assert_uint_eq(wrong, 0);
    free(text);
}
END_TEST

/* Every beginning of a right text is refused. */
START_TEST(test_truncated)
{
    const char text[] = "{\"input\":[[1.5, -2e3] , [true,0]]}";
    struct tensor tensor = {0};
    struct error error;
    ck_assert(read_text(text, sizeof text - 1, 2, true, &tensor, &error));
    for (size_t length = 10; length < sizeof text - 1; length++) {
        char *exact = malloc(length);
        memcpy(exact, text, length);
        ck_assert(!read_text(exact, length, 2, true, &tensor, &error));
        expect_error(&error, ERROR_NOT_JSON, NULL, "", "truncated");
        free(exact);
    }
}
END_TEST

/* A text of long rows, right at first. Returns its length. */
static size_t write_rows(char *text, unsigned *seed)
{
    static const char *const formats[] = {"%.9g", "%.17g", "%.3f", "%.0f", "%.4e"};
    static const char *const separators[] = {",", ", ", " ,\n      "};
    size_t at = (size_t)sprintf(text, "{\"input\":[");
    const char *separator = separators[(size_t)rand_r(seed) % 3], *format = formats[(size_t)rand_r(seed) % 5];
    int width = 1 + rand_r(seed) % 40;
    for (int row = 0; row < 3; row++)
        for (int i = 0; i < width; i++) {
            at += (size_t)sprintf(text + at, "%s%s", i ? separator : row ? ",[" : "[", rand_r(seed) % 9 ? "" : "-");
            at += (size_t)sprintf(text + at, format, (double)rand_r(seed) / (1 + rand_r(seed) % 100000));
            at += (size_t)sprintf(text + at, "%s", i == width - 1 ? "]" : "");
        }
    return at + (size_t)sprintf(text + at, "]}");
}

/* Whatever is wrong in long rows, each instruction set says what the generic one does, which reads a number at a time.
 */
START_TEST(test_same_faults)
{
    const char letters[] = "0123456789--++..eE,,[] \n\t\x01/t\"NaN";
    static char text[8192];
    static float expected[200];
    unsigned seed = 5, refused = 0;
    struct error error, expected_error;
    if (!isa_supported((enum isa)_i))
        return;
    for (int turn = 0; turn < 20000; turn++) {
        size_t length = write_rows(text, &seed);
        for (int change = rand_r(&seed) % 3; change > 0; change--)
            text[10 + (size_t)rand_r(&seed) % (length - 10)] = letters[(size_t)rand_r(&seed) % (sizeof letters - 1)];
        char *exact = malloc(length);
        memcpy(exact, text, length);
        struct tensor tensor = {0}, expected_tensor = {0};
        ck_assert(isa_choose("generic", &error));
        bool right = read_text(exact, length, 3, false, &expected_tensor, &expected_error);
        ck_assert_uint_le(expected_tensor.count, 200);
        if (expected_tensor.data)
            memcpy(expected, expected_tensor.data, expected_tensor.count * sizeof *expected);
        ck_assert(isa_choose(isa_name((enum isa)_i), &error));
        ck_assert_msg(read_text(exact, length, 3, false, &tensor, &error) == right, "%.*s", (int)length, exact);
        if (right) {
            ck_assert_uint_eq(tensor.count, expected_tensor.count);
            ck_assert_mem_eq(tensor.shape, expected_tensor.shape, sizeof tensor.shape);
            ck_assert_mem_eq(tensor.data, expected, tensor.count * sizeof *expected);
        } else {
            refused++;
            ck_assert_int_eq(error.code, expected_error.code);
            ck_assert_str_eq(error.message, expected_error.message);
            ck_assert(error.has_pointer == expected_error.has_pointer);
            ck_assert(!error.has_pointer || strcmp(error.pointer, expected_error.pointer) == 0);
        }
        free(exact);
    }
    ck_assert_uint_gt(refused, 2000);
    ck_assert_uint_lt(refused, 18000);
}
END_TEST

static void choose_best(void)
{
    struct error error;
    ck_assert(isa_choose(NULL, &error));
}

Suite *suite(void)
{
    Suite *s = suite_create("tensor_text");
    TCase *c = tcase_create("tensor_text");
    tcase_add_checked_fixture(c, choose_best, free_memory);
    tcase_add_loop_test(c, test_right, 0, sizeof RIGHT / sizeof *RIGHT);
    tcase_add_test(c, test_booleans);
    tcase_add_loop_test(c, test_wrong, 0, sizeof WRONG / sizeof *WRONG);
    tcase_add_test(c, test_most_axes);
    tcase_add_loop_test(c, test_very_deep, 0, 4);
    tcase_add_loop_test(c, test_large, 0, 10);
    tcase_add_test(c, test_truncated);
    tcase_add_loop_test(c, test_same_faults, 0, ISA_COUNT);
    suite_add_tcase(s, c);
    return s;
}
