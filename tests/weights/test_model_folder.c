/* Folders that are named in a model's place, and what is said of each. */
#include "suite.h"

#include "model_file.h"
#include "weights/model_folder.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MOST    8
#define SIZE(a) (sizeof(a) / sizeof *(a))

static const struct kind {
    bool (*tell)(const char *folder, struct error *error);
    const char *entries[MOST]; /* in the order in which they are made; of folders the name ends with '/' */
    const char *words[3];
} kinds[] = {
    {model_folder_without_config, {NULL}, {"no config.json: expected a Hugging Face model's folder"}},
    {model_folder_without_config,
     {"modules.json", "0_Transformer/", "0_Transformer/config.json", "0_Transformer/model.safetensors", "1_Pooling/",
      "1_Pooling/config.json"},
     {"no config.json, but its sub-folder 0_Transformer is a model: name that"}},
    {model_folder_without_config,
     {"0_Pooling/", "0_Pooling/config.json", "1_T/", "1_T/config.json", "1_T/model.safetensors.index.json"},
     {"but its sub-folder 1_T is a model"}},
    {model_folder_without_config,
     {"blobs/", "refs/", "snapshots/", "snapshots/1f0c/", "snapshots/1f0c/config.json",
      "snapshots/1f0c/model.safetensors"},
     {"but its sub-folder snapshots/1f0c is a model: name that"}},
    {model_folder_without_config, {".hidden/", ".hidden/config.json", ".hidden/model.safetensors"}, {": expected a"}},
    {model_folder_without_config, {"tiny.Q4_K.gguf"}, {"no config.json", "its tiny.Q4_K.gguf is not read"}},
    {model_folder_without_config, {"adapter_config.json", "training_args.bin"}, {"adapter's; merge it into its base"}},
    {model_folder_without_weights, {"config.json"}, {"neither model.safetensors nor model.safetensors.index.json: a"}},
    {model_folder_without_weights,
     {"tf_model.h5", "pytorch_model.bin"},
     {"its pytorch_model.bin is not read", "save the model again as safetensors"}},
    {model_folder_without_weights,
     {"training_args.bin", "model-00002-of-00002.safetensors", "model-00001-of-00002.safetensors"},
     {"its model-00001-of-00002.safetensors is read", "where an index lists it"}},
};

START_TEST(other_folders)
{
    const struct kind *kind = &kinds[_i];
    struct error error = {0};
    char *paths[MOST] = {NULL}, *folder = model_folder_path(".");
    model_folder_empty();
    for (size_t i = 0; i < MOST && kind->entries[i]; i++) {
        const char *name = kind->entries[i];
        paths[i] = model_folder_path(name);
        if (name[strlen(name) - 1] == '/')
            ck_assert_int_eq(mkdir(paths[i], 0700), 0);
        else
            model_folder_write(name, "", 0);
    }
    ck_assert(!kind->tell(folder, &error));
    for (size_t i = MOST; i-- > 0;) {
        if (paths[i])
            remove(paths[i]);
        free(paths[i]);
    }
    free(folder);
    ck_assert_int_eq(error.code, ERROR_IO);
    ck_assert_str_eq(error.pointer, "/path");
    for (size_t i = 0; i < SIZE(kind->words) && kind->words[i]; i++)
        ck_assert_msg(strstr(error.message, kind->words[i]), "\"%s\" is not in: %s", kind->words[i], error.message);
}
END_TEST

START_TEST(nothing_to_look_at)
{
    struct error error = {0};
    ck_assert(!model_folder_without_config("/nowhere/at/all", &error));
    ck_assert_ptr_nonnull(strstr(error.message, "expected a Hugging Face model's folder"));
}
END_TEST

Suite *suite(void)
{
    Suite *suite = suite_create("weights/model_folder");
    TCase *tcase = tcase_create("folders");
    tcase_add_unchecked_fixture(tcase, model_folder_make, model_folder_remove);
    tcase_add_loop_test(tcase, other_folders, 0, (int)SIZE(kinds));
    tcase_add_test(tcase, nothing_to_look_at);
    suite_add_tcase(suite, tcase);
    return suite;
}
