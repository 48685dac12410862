/* Places in a tensor: both orders, parts of it, heads apart, all dtypes, and more numbers than one band holds. */
#include "suite.h"

#include "model_file.h"
#include "weights/model_files.h"
#include "weights/tensor_place.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define ROWS    251
#define COLUMNS 517 /* three bands of 64 Ki numbers */

static double value_of(size_t i)
{
    return (double)((i * 2654435761U) >> 24 & 0xFF) / 32 - 4; /* eight bits: every dtype holds them */
}

static struct model_files write_tensor(const char *dtype, size_t rows, size_t columns, double *values)
{
    struct model_files files;
    struct error error = {0};
    for (size_t i = 0; i < rows * columns; i++)
        values[i] = value_of(i);
    const struct file_tensor tensor = {"t", dtype, 2, {rows, columns}, values};
    struct model_file file = model_file_compose(&tensor, 1);
    model_folder_write_file("model.safetensors", &file);
    model_file_free(&file);
    char *path = model_folder_path("model.safetensors");
    ck_assert_msg(model_files_open(path, &files, &error), "%s", error.message);
    free(path);
    return files;
}

static const char *const dtypes[] = {"F32", "F16", "BF16", "F64"};

/* Columns [first, first + count) of the matrix that the file has in this order, or the other. */
static void check_columns(const struct model_files *files, const double *values, enum weights_layout layout,
                          size_t first, size_t count)
{
    struct error error = {0};
    const bool turned = layout == LAYOUT_OUT_IN;
    const size_t rows = turned ? COLUMNS : ROWS, columns = turned ? ROWS : COLUMNS, stride = count + 2;
    const struct tensor_place whole =
        tensor_place_matrix(&files->files[0], files->tensors[0].entry, layout, rows, columns);
    const struct tensor_place place = tensor_place_columns(&whole, first, count);
    float *numbers = calloc(rows * stride, sizeof *numbers);
    ck_assert_ptr_nonnull(numbers);
    ck_assert_msg(tensor_place_read(&place, numbers, stride, &error), "%s", error.message);
    for (size_t i = 0; i < rows; i++) {
        for (size_t j = 0; j < count; j++) {
            const double want = turned ? values[(first + j) * COLUMNS + i] : values[i * COLUMNS + first + j];
            ck_assert_float_eq(numbers[i * stride + j], (float)want);
        }
        ck_assert_float_eq(numbers[i * stride + count], 0);
    }
    free(numbers);
}

START_TEST(matrices)
{
    double *values = malloc(ROWS * COLUMNS * sizeof *values);
    ck_assert_ptr_nonnull(values);
    struct model_files files = write_tensor(dtypes[_i], _i == 3 ? 200 : ROWS, COLUMNS, values);
    if (_i != 3) {
        check_columns(&files, values, LAYOUT_IN_OUT, 0, COLUMNS);
        check_columns(&files, values, LAYOUT_OUT_IN, 0, ROWS);
        check_columns(&files, values, LAYOUT_IN_OUT, 17, 450);
        check_columns(&files, values, LAYOUT_OUT_IN, 17, 1);
        check_columns(&files, values, LAYOUT_IN_OUT, COLUMNS - 1, 1);
        check_columns(&files, values, LAYOUT_OUT_IN, 100, 151);
    } else { /* 8 bytes each: a smaller one */
        struct error error = {0};
        float *numbers = malloc(200 * COLUMNS * sizeof *numbers);
        const struct tensor_place place =
            tensor_place_matrix(&files.files[0], files.tensors[0].entry, LAYOUT_IN_OUT, 200, COLUMNS);
        ck_assert(tensor_place_read(&place, numbers, COLUMNS, &error));
        for (size_t i = 0; i < (size_t)200 * COLUMNS; i++)
            ck_assert_float_eq(numbers[i], (float)values[i]);
        free(numbers);
    }
    model_files_close(&files);
    free(values);
}
END_TEST

START_TEST(not_finite)
{
    double values[6] = {1, 2, 3, 4, NAN, 6};
    struct error error = {0};
    struct model_files files;
    float numbers[6];
    const struct file_tensor tensor = {"t", "F32", 2, {2, 3}, values};
    struct model_file file = model_file_compose(&tensor, 1);
    model_folder_write_file("model.safetensors", &file);
    model_file_free(&file);
    char *path = model_folder_path("model.safetensors");
    ck_assert(model_files_open(path, &files, &error));
    const struct safetensors_entry *entry = files.tensors[0].entry;
    const struct tensor_place plain = tensor_place_matrix(&files.files[0], entry, LAYOUT_IN_OUT, 2, 3),
                              turned = tensor_place_matrix(&files.files[0], entry, LAYOUT_OUT_IN, 3, 2),
                              part = tensor_place_columns(&plain, 1, 2), good = tensor_place_columns(&plain, 2, 1);
    const struct tensor_place *const places[] = {&plain, &turned, &part};
    for (size_t i = 0; i < 3; i++) {
        ck_assert(!tensor_place_read(places[i], numbers, places[i]->columns, &error));
        ck_assert_int_eq(error.code, ERROR_NOT_FINITE);
        ck_assert_ptr_nonnull(strstr(error.message, "\"t\" holds a number at [1, 1]"));
    }
    ck_assert(tensor_place_read(&good, numbers, 1, &error));
    ck_assert_float_eq(numbers[1], 6);
    model_files_close(&files);
    free(path);
}
END_TEST

Suite *suite(void)
{
    Suite *suite = suite_create("weights/tensor_place");
    TCase *tcase = tcase_create("places");
    tcase_add_unchecked_fixture(tcase, model_folder_make, model_folder_remove);
    tcase_add_loop_test(tcase, matrices, 0, 4);
    tcase_add_test(tcase, not_finite);
    suite_add_tcase(suite, tcase);
    return suite;
}
