/* Tensors as text, read back by jansson, in every instruction set that this processor has. */
#include "base/isa.h"
#include "codec/tensor_write.h"
#include "suite.h"

#include <jansson.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* The whole tensor, in memory that is just as long as tensor_write_bytes says. */
static void append_rows(struct text *text, const struct tensor_rows *rows)
{
    size_t bytes;
    ck_assert(tensor_write_bytes(rows->shape, rows->rank, rows->number_bytes, &bytes));
    char *whole = malloc(bytes);
    const char *behind = tensor_rows_write(whole, rows, 0, tensor_rows_count(rows));
    ck_assert(behind <= whole + bytes);
    text_append(text, whole, (size_t)(behind - whole));
    free(whole);
}

static void append_f32(struct text *text, const float *data, const size_t *shape, unsigned rank, int decimals,
                       size_t number_bytes)
{
    append_rows(text, &(struct tensor_rows){data, shape, rank, decimals, number_bytes, NULL, false});
}

static void expect_text(struct text *text, const char *expected)
{
    ck_assert_str_eq(text_terminate(text), expected);
    text_free(text);
}

START_TEST(test_forms)
{
    const float data[] = {1, -2.5f, 0.125f, -0.0f, 3e20f, 1e-7f, 7, 8, 9, 10, 11, 12};
    const uint32_t keys[] = {0, 9, 10, 4294967295u};
    const size_t row[] = {3}, matrix[] = {2, 3}, three[] = {2, 3, 2}, ones[] = {1, 1, 1}, tall[] = {3, 1},
                 square[] = {2, 2};
    struct text text = {0};
    append_f32(&text, data, row, 1, -1, tensor_write_number_bytes(-1));
    expect_text(&text, "[1.0,-2.5,0.125]");
    append_f32(&text, data, matrix, 2, -1, tensor_write_number_bytes(-1));
    expect_text(&text, "[[1.0,-2.5,0.125],[-0.0,3e20,1e-7]]");
    append_f32(&text, data, three, 3, 0, tensor_write_number_bytes(0));
    expect_text(&text, "[[[1,-2],[0,0],[300000006012263202816,0]],[[7,8],[9,10],[11,12]]]");
    append_f32(&text, data, ones, 3, -1, tensor_write_number_bytes(-1));
    expect_text(&text, "[[[1.0]]]");
    append_f32(&text, data, tall, 2, 2, tensor_write_number_bytes(2));
    expect_text(&text, "[[1.00],[-2.50],[0.12]]");
    append_rows(&text, &(struct tensor_rows){NULL, square, 2, -1, 11, keys, false});
    expect_text(&text, "[[0,9],[10,4294967295]]");
    tensor_write_shape(&text, three, 3);
    expect_text(&text, "[2,3,2]");
}
END_TEST

static const float *expect_nested(const json_t *value, const float *data, const size_t *shape, unsigned rank)
{
    if (rank == 0) {
        ck_assert((float)json_number_value(value) == *data);
        return data + 1;
    }
    ck_assert(json_is_array(value));
    ck_assert_uint_eq(json_array_size(value), shape[0]);
    for (size_t i = 0; i < shape[0]; i++)
        data = expect_nested(json_array_get(value, i), data, shape + 1, rank - 1);
    return data;
}

/* Random shapes: right nesting, and never longer than predicted. The longest numbers are among them. */
START_TEST(test_random_shapes)
{
    float data[4 * 4 * 4 * 4 * 4];
    srand((unsigned)_i + 1);
    for (int round = 0; round < 400; round++) {
        unsigned rank = 1 + (unsigned)rand() % 5;
        size_t shape[5], count = 1, bytes;
        for (unsigned axis = 0; axis < rank; axis++)
            count *= shape[axis] = 1 + (size_t)rand() % 4;
        for (size_t i = 0; i < count; i++)
            data[i] = rand() % 3 ? -1.37751935e-36f : (float)rand() / 3e6f;
        int decimals = _i - 1;
        struct text text = {0};
        ck_assert(tensor_write_bytes(shape, rank, tensor_write_number_bytes(decimals), &bytes));
        append_f32(&text, data, shape, rank, decimals, tensor_write_number_bytes(decimals));
        ck_assert(!text.failed);
        ck_assert_uint_le(text.length, bytes);
        if (decimals < 0) {
            json_t *read = json_loadb(text.data, text.length, 0, NULL);
            expect_nested(read, data, shape, rank);
            json_decref(read);
        }
        text_free(&text);
    }
}
END_TEST

/* The prediction is exact where every number has its greatest length. */
START_TEST(test_bound_is_tight)
{
    const size_t shape[] = {2, 3, 4};
    float data[24];
    size_t bytes;
    struct text text = {0};
    for (int i = 0; i < 24; i++)
        data[i] = -1.37751935e-36f;
    ck_assert(tensor_write_bytes(shape, 3, tensor_write_number_bytes(-1), &bytes));
    append_f32(&text, data, shape, 3, -1, tensor_write_number_bytes(-1));
    ck_assert_uint_eq(text.length, bytes);
    text.length = 0;
    for (int i = 0; i < 24; i++)
        data[i] = -3.4028234e38f;
    ck_assert(tensor_write_bytes(shape, 3, tensor_write_number_bytes(9), &bytes));
    append_f32(&text, data, shape, 3, 9, tensor_write_number_bytes(9));
    ck_assert_uint_ge(text.length + 24, bytes); /* a byte a number of slack at most */
    ck_assert_uint_le(text.length, bytes);
    text.length = 0;
    for (int i = 0; i < 24; i++)
        data[i] = 1.0000001f;
    ck_assert(tensor_write_bytes(shape, 3, tensor_write_weight_bytes(9), &bytes));
    append_f32(&text, data, shape, 3, 9, tensor_write_weight_bytes(9));
    ck_assert_uint_eq(text.length, bytes);
    text_free(&text);
}
END_TEST

START_TEST(test_overflow)
{
    const size_t huge[] = {SIZE_MAX / 2, 3, 1}, nearly[] = {SIZE_MAX / 16, 1};
    size_t bytes = 5;
    ck_assert(!tensor_write_bytes(huge, 3, 16, &bytes));
    ck_assert(!tensor_write_bytes(nearly, 2, 16, &bytes));
    ck_assert_uint_eq(bytes, 5);
    ck_assert_uint_eq(tensor_write_digits(0), 1);
    ck_assert_uint_eq(tensor_write_digits(9), 1);
    ck_assert_uint_eq(tensor_write_digits(10), 2);
    ck_assert_uint_eq(tensor_write_digits(SIZE_MAX), 20);
}
END_TEST

static void choose(int isa)
{
    struct error error;
    ck_assert(!isa_supported((enum isa)isa) || isa_choose(isa_name((enum isa)isa), &error));
}

/* Rows written by themselves, in ranges of any length, each into memory that is exactly as long as promised, are one
 * after the other the whole text. */
START_TEST(test_ranges_of_rows)
{
    static const size_t shapes[][4] = {{2, 3, 4, 5}, {1, 1, 1, 1}, {3, 1, 2, 70}, {1, 4, 1, 3}, {5, 2, 2, 1}};
    float data[3 * 1 * 2 * 70];
    choose(_i);
    srand(7);
    for (size_t i = 0; i < sizeof data / sizeof *data; i++)
        data[i] = rand() % 3 ? -1.37751935e-36f : (float)rand() / 3e6f;
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
        for (unsigned rank = 1; rank <= 4; rank++)
            for (int decimals = -1; decimals <= 9; decimals++) {
                const struct tensor_rows tensor = {
                    data, shapes[s] + 4 - rank, rank, decimals, tensor_write_number_bytes(decimals), NULL, false};
                const size_t count = tensor_rows_count(&tensor);
                struct text whole = {0}, joined = {0};
                append_f32(&whole, data, tensor.shape, rank, decimals, tensor.number_bytes);
                for (size_t begin = 0, end; begin < count; begin = end) {
                    end = begin + 1 + (size_t)rand() % (count - begin);
                    const size_t bytes = (end - begin) * tensor_rows_bytes(&tensor);
                    char *part = malloc(bytes + 1);
                    ck_assert_ptr_nonnull(part);
                    part[bytes] = '#';
                    const char *behind = tensor_rows_write(part, &tensor, begin, end);
                    ck_assert_int_eq(part[bytes], '#');
                    ck_assert(behind <= part + bytes);
                    text_append(&joined, part, (size_t)(behind - part));
                    free(part);
                }
                ck_assert_uint_eq(joined.length, whole.length);
                ck_assert_mem_eq(joined.data, whole.data, whole.length);
                if (decimals < 0) {
                    json_t *read = json_loadb(joined.data, joined.length, 0, NULL);
                    ck_assert_ptr_nonnull(read);
                    expect_nested(read, data, tensor.shape, rank);
                    json_decref(read);
                }
                text_free(&whole);
                text_free(&joined);
            }
}
END_TEST

/* A flat array is the nested text without its inner brackets, in whatever ranges it is written, and no longer than
 * promised. */
START_TEST(test_flat)
{
    static const size_t shapes[][4] = {{2, 3, 4, 5}, {1, 1, 1, 1}, {3, 1, 2, 70}, {1, 4, 1, 3}, {5, 2, 2, 1}};
    float data[3 * 1 * 2 * 70];
    uint32_t keys[sizeof data / sizeof *data];
    choose(_i);
    srand(8);
    for (size_t i = 0; i < sizeof data / sizeof *data; i++) {
        data[i] = rand() % 3 ? -1.37751935e-36f : (float)rand() / 3e6f;
        keys[i] = (uint32_t)rand() >> rand() % 32;
    }
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
        for (unsigned rank = 1; rank <= 4; rank++)
            for (int decimals = -2; decimals <= 9; decimals++) { /* -2: integers */
                struct tensor_rows rows = {.data = data, .shape = shapes[s] + 4 - rank, .rank = rank};
                rows.decimals = decimals;
                rows.integers = decimals == -2 ? keys : NULL;
                rows.number_bytes = rows.integers ? 11 : tensor_write_number_bytes(decimals);
                const size_t count = tensor_rows_count(&rows);
                struct text nested = {0}, expected = {0}, joined = {0};
                size_t most;
                append_rows(&nested, &rows);
                text_append(&expected, "[", 1);
                for (size_t i = 0; i < nested.length; i++)
                    if (nested.data[i] != '[' && nested.data[i] != ']')
                        text_append(&expected, nested.data + i, 1);
                text_append(&expected, "]", 1);
                rows.flat = true;
                ck_assert(tensor_rows_text_bytes(&rows, rows.number_bytes, &most));
                char *whole = malloc(most);
                ck_assert_uint_eq((size_t)(tensor_rows_write(whole, &rows, 0, count) - whole), expected.length);
                ck_assert_mem_eq(whole, expected.data, expected.length);
                free(whole);
                for (size_t begin = 0, end; begin < count; begin = end) {
                    end = begin + 1 + (size_t)rand() % (count - begin);
                    char *part = malloc((end - begin) * tensor_rows_bytes(&rows));
                    text_append(&joined, part, (size_t)(tensor_rows_write(part, &rows, begin, end) - part));
                    free(part);
                }
                ck_assert_uint_eq(joined.length, expected.length);
                ck_assert_mem_eq(joined.data, expected.data, expected.length);
                text_free(&nested);
                text_free(&expected);
                text_free(&joined);
            }
}
END_TEST

struct half {
    const struct tensor_rows *tensor;
    size_t begin, end;
    char *text, *behind;
};

static void *write_half(void *context)
{
    struct half *half = context;
    half->behind = tensor_rows_write(half->text, half->tensor, half->begin, half->end);
    return NULL;
}

/* Two threads, each its rows. */
START_TEST(test_threads)
{
    enum { ROWS = 64, WIDTH = 100 };
    static float data[ROWS * WIDTH];
    const size_t shape[] = {4, ROWS / 4, WIDTH};
    choose(_i);
    for (size_t i = 0; i < ROWS * WIDTH; i++)
        data[i] = 1 / (float)(i + 3);
    const struct tensor_rows tensor = {data, shape, 3, -1, tensor_write_number_bytes(-1), NULL, false};
    struct half halves[2] = {{&tensor, 0, 25, NULL, NULL}, {&tensor, 25, ROWS, NULL, NULL}};
    pthread_t threads[2];
    for (int i = 0; i < 2; i++) {
        halves[i].text = malloc((halves[i].end - halves[i].begin) * tensor_rows_bytes(&tensor));
        ck_assert_ptr_nonnull(halves[i].text);
        ck_assert_int_eq(pthread_create(&threads[i], NULL, write_half, &halves[i]), 0);
    }
    struct text joined = {0};
    for (int i = 0; i < 2; i++) {
        pthread_join(threads[i], NULL);
        text_append(&joined, halves[i].text, (size_t)(halves[i].behind - halves[i].text));
        free(halves[i].text);
    }
    json_t *read = json_loadb(joined.data, joined.length, 0, NULL);
    ck_assert_ptr_nonnull(read);
    expect_nested(read, data, shape, 3);
    json_decref(read);
    text_free(&joined);
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("tensor_write");
    TCase *c = tcase_create("tensor_write");
    tcase_add_test(c, test_forms);
    tcase_add_loop_test(c, test_random_shapes, 0, 11);
    tcase_add_test(c, test_bound_is_tight);
    tcase_add_test(c, test_overflow);
    tcase_add_loop_test(c, test_ranges_of_rows, 0, ISA_COUNT);
    tcase_add_loop_test(c, test_flat, 0, ISA_COUNT);
    tcase_add_loop_test(c, test_threads, 0, ISA_COUNT);
    suite_add_tcase(s, c);
    return s;
}
