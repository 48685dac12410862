/* Folders of one file, and of shards with their index: what the index says is what the files hold, and nothing outside
 * the folder is opened. */
#include "suite.h"

#include "model_file.h"
#include "weights/model_files.h"
#include "weights/safetensors_index.h"
#include "weights/tensor_place.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define INDEX   "model.safetensors.index.json"
#define SIZE(a) (sizeof(a) / sizeof *(a))

static void write_file(const char *name, const char *const tensors[], size_t count)
{
    struct file_tensor made[4];
    for (size_t i = 0; i < count; i++)
        made[i] = (struct file_tensor){tensors[i], "F32", 1, {2, 0}, NULL};
    struct model_file file = model_file_compose(made, count);
    model_folder_write_file(name, &file);
    model_file_free(&file);
}

/* a.safetensors has x and y, b.safetensors has z and, with `again`, y. */
static char *make_folder(bool again)
{
    model_folder_empty();
    write_file("a.safetensors", (const char *const[]){"x", "y"}, 2);
    write_file("b.safetensors", (const char *const[]){"z", "y"}, again ? 2 : 1);
    return model_folder_path(".");
}

static void write_index(const char *text)
{
    model_folder_write(INDEX, text, strlen(text));
}

#define GOOD                                                                                                     \
    "{\"metadata\": {\"total_size\": 24}, \"weight_map\": {\"z\": \"b.safetensors\", \"x\": \"a.safetensors\", " \
    "\"y\": \"a.safetensors\"}}"

static struct model_tensor *find(const struct model_files *files, const char *prefix, const char *name)
{
    struct model_tensor *tensor;
    struct error error = {0};
    ck_assert_msg(model_files_find(files, prefix, name, &tensor, &error), "%s", error.message);
    return tensor;
}

START_TEST(shards)
{
    struct model_files files;
    struct error error = {0};
    char *path = make_folder(false);
    write_index(GOOD);
    ck_assert_msg(model_files_open_folder(path, &files, &error), "%s", error.message);
    ck_assert_uint_eq(files.count, 2);
    ck_assert_uint_eq(files.tensor_count, 3);
    ck_assert_str_eq(files.names[find(&files, "", "z")->file], "b.safetensors");
    ck_assert_str_eq(files.names[find(&files, "", "y")->file], "a.safetensors");
    ck_assert_ptr_null(find(&files, "", "w"));
    find(&files, "", "y")->used = true;
    struct text unused = {0};
    model_files_unused(&files, &unused);
    ck_assert_str_eq(text_terminate(&unused), "x, z");
    text_free(&unused);
    ck_assert(model_files_unchanged(&files, &error));
    model_files_close(&files);
    free(path);
}
END_TEST

/* model.safetensors goes before the index; what the index leaves out is there all the same. */
START_TEST(one_file_first)
{
    struct model_files files;
    struct error error = {0};
    char *path = make_folder(false);
    write_index("not read");
    write_file("model.safetensors", (const char *const[]){"x"}, 1);
    ck_assert_msg(model_files_open_folder(path, &files, &error), "%s", error.message);
    ck_assert_uint_eq(files.tensor_count, 1);
    model_files_close(&files);

    free(make_folder(false));
    write_index("{\"weight_map\": {\"x\": \"a.safetensors\", \"z\": \"b.safetensors\"}}");
    ck_assert_msg(model_files_open_folder(path, &files, &error), "%s", error.message);
    ck_assert_ptr_nonnull(find(&files, "", "y"));
    model_files_close(&files);
    free(path);
}
END_TEST

START_TEST(names)
{
    static const char *const tensors[] = {"bert.a.LayerNorm.gamma", "LayerNorm.beta", "bert.c", "d"};
    struct model_files files;
    struct model_tensor *tensor;
    struct error error = {0};
    model_folder_empty();
    write_file("model.safetensors", tensors, 4);
    char *path = model_folder_path("model.safetensors");
    ck_assert(model_files_open(path, &files, &error));
    ck_assert_str_eq(find(&files, "bert.", "a.LayerNorm.weight")->entry->name, tensors[0]);
    ck_assert_str_eq(find(&files, "bert.", "LayerNorm.bias")->entry->name, tensors[1]);
    ck_assert_str_eq(find(&files, "bert.", "c")->entry->name, tensors[2]);
    ck_assert_str_eq(find(&files, "bert.", "d")->entry->name, tensors[3]);
    ck_assert_ptr_null(find(&files, "", "c"));
    ck_assert_ptr_null(find(&files, "", "a.LayerNorm.weight"));
    ck_assert_ptr_null(find(&files, NULL, "LayerNorm.bias")); /* only as it is called */
    ck_assert_str_eq(find(&files, NULL, "LayerNorm.beta")->entry->name, tensors[1]);
    ck_assert_str_eq(model_files_nearest(&files, "bert.", "a.LayerNorm.gammb"), "a.LayerNorm.gamma");
    ck_assert_ptr_null(model_files_nearest(&files, "bert.", "something else"));
    model_files_close(&files);

    static const char *const twice[] = {"bert.LayerNorm.gamma", "LayerNorm.weight"};
    write_file("model.safetensors", twice, 2);
    ck_assert(model_files_open(path, &files, &error));
    ck_assert(!model_files_find(&files, "bert.", "LayerNorm.weight", &tensor, &error));
    ck_assert_ptr_nonnull(strstr(error.message, "bert.LayerNorm.gamma"));
    ck_assert_ptr_nonnull(strstr(error.message, "\"LayerNorm.weight\""));
    model_files_close(&files);
    free(path);
}
END_TEST

/* The whole index is `text`, or "weight_map" is. */
static const struct index_fault {
    const char *text, *map;
    bool again;
    const char *words[3];
} faults[] = {
    {"", NULL, false, {INDEX ":1", "empty"}},
    {"[]", NULL, false, {INDEX ":1", "expected an object"}},
    {"{", NULL, false, {INDEX ":1", "}"}},
    {GOOD ",", NULL, false, {INDEX ":1", "the end of the text"}},
    {"{\"metadata\": {}}", NULL, false, {INDEX, "missing \"weight_map\""}},
    {"{\"weight_map\": {}}", NULL, false, {INDEX, "names no tensor"}},
    {"{\"weight_map\": []}", NULL, false, {INDEX ":1: /weight_map", "expected an object"}},
    {"{\"weight_map\": {\"x\": \"a.safetensors\"}, \"weight_map\": {}}", NULL, false, {INDEX, "weight_map", "twice"}},
    {NULL, "\"x\": 1", false, {INDEX ":2: /weight_map/x", "expected a string, got a number"}},
    {NULL, "\"x\": \"a.safetensors\", \"\\u0078\": \"a.safetensors\"", false, {INDEX, "\"x\"", "twice"}},
    {NULL, "\"x\\u0000\": \"a.safetensors\"", false, {INDEX, "U+0000"}},
    {NULL, "\"x\": \"\"", false, {INDEX ":2: /weight_map/x", "empty"}},
    {NULL, "\"x\": \"/etc/a.safetensors\"", false, {INDEX, "/etc/a.safetensors", "absolute"}},
    {NULL, "\"x\": \"../a.safetensors\"", false, {INDEX, "../a.safetensors", "another folder"}},
    {NULL, "\"x\": \"sub/a.safetensors\"", false, {INDEX, "another folder"}},
    {NULL, "\"x\": \"sub\\\\a.safetensors\"", false, {INDEX, "another folder"}},
    {NULL, "\"x\": \"\\u002e\\u002e\\u002fa.safetensors\"", false, {INDEX, "another folder"}},
    {NULL, "\"x\": \"..\"", false, {INDEX, "begins with a dot"}},
    {NULL, "\"x\": \".a.safetensors\"", false, {INDEX, "begins with a dot"}},
    {NULL, "\"x\": \"a.safetensors\\u0000\"", false, {INDEX, "control character"}},
    {NULL, "\"x\": \"a\\n.safetensors\"", false, {INDEX, "control character"}},
    {NULL, "\"x\": \"a.bin\"", false, {INDEX, "a.bin", ".safetensors"}},
    {NULL, "\"x\": \".safetensors\"", false, {INDEX, "begins with a dot"}},
    {NULL, "\"x\": \"c.safetensors\"", false, {"c.safetensors", "No such file"}},
    {NULL,
     "\"x\": \"a.safetensors\", \"z\": \"a.safetensors\"",
     false,
     {INDEX, "\"z\" is in a.safetensors", "no file has it"}},
    {NULL,
     "\"x\": \"a.safetensors\", \"z\": \"a.safetensors\", \"y\": \"b.safetensors\"",
     false,
     {INDEX, "\"y\" is in b.safetensors", "it is in a.safetensors"}},
    {NULL,
     "\"x\": \"a.safetensors\", \"z\": \"b.safetensors\"",
     true,
     {"\"y\"", "two files", "a.safetensors and b.safetensors"}},
};

START_TEST(faulty_index)
{
    const struct index_fault *fault = &faults[_i];
    struct model_files files;
    struct error error = {0};
    char *path = make_folder(fault->again), text[512];
    snprintf(text, sizeof text, "{\"metadata\": {},\n\"weight_map\": {%s}}", fault->map ? fault->map : "");
    write_index(fault->text ? fault->text : text);
    ck_assert(!model_files_open_folder(path, &files, &error));
    for (size_t i = 0; i < SIZE(fault->words) && fault->words[i]; i++)
        ck_assert_msg(strstr(error.message, fault->words[i]) != NULL, "\"%s\" is not in: %s", fault->words[i],
                      error.message);
    ck_assert_str_eq(error.pointer, "/path");
    free(path);
}
END_TEST

START_TEST(long_names)
{
    struct safetensors_index index;
    struct error error;
    char text[600], name[300];
    for (size_t length = 255; length <= 256; length++) {
        memset(name, 'a', length);
        strcpy(name + length - 12, ".safetensors");
        snprintf(text, sizeof text, "{\"weight_map\": {\"x\": \"%s\"}}", name);
        const bool read = safetensors_index_read(text, strlen(text), &index, &error);
        ck_assert(read == (length == 255));
        if (read)
            safetensors_index_free(&index);
        else
            ck_assert_ptr_nonnull(strstr(error.message, "255 bytes"));
    }
}
END_TEST

/* More tensors than the JSON reader remembers names of, and more files than are opened. */
START_TEST(many)
{
    struct safetensors_index index;
    struct error error = {0};
    char *text = malloc(1 << 20), *at = text;
    for (int files = 512; files <= 513; files++) {
        at = text + sprintf(text, "{\"weight_map\": {");
        for (int i = 0; i < 5000; i++)
            at += sprintf(at, "%s\"t%d\": \"f%d.safetensors\"", i ? ", " : "", i, i % files);
        strcpy(at, "}}");
        const bool read = safetensors_index_read(text, strlen(text), &index, &error);
        ck_assert_msg(read == (files == 512), "%s", error.message);
        if (!read)
            continue;
        ck_assert_uint_eq(index.count, 5000);
        ck_assert_uint_eq(index.file_count, 512);
        for (size_t i = 1; i < index.count; i++)
            ck_assert_int_lt(strcmp(index.tensors[i - 1].name, index.tensors[i].name), 0);
        safetensors_index_free(&index);
    }
    ck_assert_ptr_nonnull(strstr(error.message, "513 files, at most 512"));
    free(text);
}
END_TEST

START_TEST(folders)
{
    struct model_files files;
    struct error error = {0};
    model_folder_empty();
    char *path = model_folder_path("."), *missing = model_folder_path("missing"), *plain = model_folder_path("plain");
    ck_assert(!model_files_open_folder(path, &files, &error));
    ck_assert_ptr_nonnull(strstr(error.message, "neither model.safetensors nor " INDEX));
    ck_assert_ptr_null(strstr(error.message, "pytorch_model.bin"));
    model_folder_write("pytorch_model.bin", "", 0);
    ck_assert(!model_files_open_folder(path, &files, &error));
    ck_assert_ptr_nonnull(strstr(error.message, "pytorch_model.bin"));
    ck_assert(!model_files_open_folder(missing, &files, &error));
    ck_assert_ptr_nonnull(strstr(error.message, "No such file"));
    model_folder_write("plain", "", 0);
    ck_assert(!model_files_open_folder(plain, &files, &error));
    ck_assert_ptr_nonnull(strstr(error.message, "expected a folder"));
    model_folder_write("model.safetensors", "short", 5);
    ck_assert(!model_files_open_folder(path, &files, &error));
    ck_assert_int_eq(error.code, ERROR_BAD_ENCODING);
    ck_assert_ptr_nonnull(strstr(error.message, "model.safetensors: not a safetensors file"));
    free(path);
    free(missing);
    free(plain);
}
END_TEST

/* A shard that is cut while it is read is an error. */
START_TEST(cut_short)
{
    struct model_files files;
    struct error error = {0};
    float numbers[2];
    char *path = make_folder(false), *shard = model_folder_path("b.safetensors");
    write_index(GOOD);
    ck_assert(model_files_open_folder(path, &files, &error));
    const struct model_tensor *z = find(&files, "", "z");
    const struct tensor_place place = tensor_place_matrix(&files.files[z->file], z->entry, LAYOUT_IN_OUT, 1, 2);
    ck_assert(tensor_place_read(&place, numbers, 2, &error));
    ck_assert_float_eq(numbers[1], 0.5F);
    ck_assert_int_eq(truncate(shard, (off_t)files.files[z->file].size - 4), 0);
    ck_assert(!tensor_place_read(&place, numbers, 2, &error));
    ck_assert_int_eq(error.code, ERROR_IO);
    ck_assert(!model_files_unchanged(&files, &error));
    ck_assert_ptr_nonnull(strstr(error.message, "b.safetensors: "));
    model_files_close(&files);
    free(path);
    free(shard);
}
END_TEST

Suite *suite(void)
{
    Suite *suite = suite_create("weights/model_files");
    TCase *tcase = tcase_create("files");
    tcase_add_unchecked_fixture(tcase, model_folder_make, model_folder_remove);
    tcase_add_test(tcase, shards);
    tcase_add_test(tcase, one_file_first);
    tcase_add_test(tcase, names);
    tcase_add_loop_test(tcase, faulty_index, 0, (int)SIZE(faults));
    tcase_add_test(tcase, long_names);
    tcase_add_test(tcase, many);
    tcase_add_test(tcase, folders);
    tcase_add_test(tcase, cut_short);
    suite_add_tcase(suite, tcase);
    return suite;
}
