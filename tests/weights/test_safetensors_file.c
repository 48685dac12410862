/* A file that changes while it is loaded is an error, never a signal. */
#include "suite.h"

#include "model_file.h"
#include "weights/safetensors_file.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NUMBERS 4096 /* 16 KiB: beyond the page that holds the header */

static double values[NUMBERS];

static char *write_file(void)
{
    const struct file_tensor tensors[] = {{"a", "F32", 1, {3, 0}, NULL}, {"b", "F32", 1, {NUMBERS, 0}, values}};
    for (size_t i = 0; i < NUMBERS; i++)
        values[i] = (double)i;
    struct model_file file = model_file_compose(tensors, 2);
    model_folder_write_file("changing.safetensors", &file);
    model_file_free(&file);
    return model_folder_path("changing.safetensors");
}

START_TEST(pieces)
{
    struct safetensors_file file;
    struct error error;
    char *path = write_file();
    ck_assert_msg(safetensors_file_open(path, &file, &error), "%s", error.message);
    const struct safetensors_entry *entry = safetensors_find(&file.header, "b");
    ck_assert_ptr_nonnull(entry);
    float piece[5];
    ck_assert(safetensors_file_read(&file, entry, 4000 * sizeof(float), piece, sizeof piece, &error));
    for (size_t i = 0; i < 5; i++)
        ck_assert_float_eq(piece[i], (float)(4000 + i));
    ck_assert(safetensors_file_read(&file, safetensors_find(&file.header, "a"), 0, piece, 3 * sizeof(float), &error));
    ck_assert_float_eq(piece[2], 0.5F);
    ck_assert(safetensors_file_unchanged(&file, &error));
    safetensors_file_close(&file);
    free(path);
}
END_TEST

START_TEST(cut_short)
{
    struct safetensors_file file;
    struct error error;
    char *path = write_file();
    ck_assert(safetensors_file_open(path, &file, &error));
    const struct safetensors_entry *entry = safetensors_find(&file.header, "b");
    ck_assert_int_eq(truncate(path, 1000), 0);
    float all[NUMBERS];
    ck_assert(!safetensors_file_read(&file, entry, 0, all, sizeof all, &error));
    ck_assert_int_eq(error.code, ERROR_IO);
    ck_assert_ptr_nonnull(strstr(error.message, "\"b\""));
    ck_assert(!safetensors_file_unchanged(&file, &error));
    ck_assert_int_eq(error.code, ERROR_IO);
    safetensors_file_close(&file);
    free(path);
}
END_TEST

START_TEST(written_to)
{
    struct safetensors_file file;
    struct error error;
    /* The same size: only the time of change tells. File systems keep it by the tick, in which a file that was written
     * just now is written to again. */
    for (int i = 0; i < 20; i++) {
        char *path = write_file();
        ck_assert(safetensors_file_open(path, &file, &error));
        free(write_file());
        ck_assert(!safetensors_file_unchanged(&file, &error));
        ck_assert_str_eq(error.pointer, "/path");
        safetensors_file_close(&file);
        free(path);
    }
}
END_TEST

Suite *suite(void)
{
    Suite *suite = suite_create("weights/safetensors_file");
    TCase *tcase = tcase_create("changes");
    tcase_add_unchecked_fixture(tcase, model_folder_make, model_folder_remove);
    tcase_add_test(tcase, pieces);
    tcase_add_test(tcase, cut_short);
    tcase_add_test(tcase, written_to);
    suite_add_tcase(suite, tcase);
    return suite;
}
