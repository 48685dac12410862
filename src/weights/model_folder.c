/* Owns the remedies for folders that are no model's as they stand: caches, folders around one, other formats. They are
 * what is named most often in a model's place. One thread. */
#include "weights/model_folder.h"

#include "weights/huggingface_config.h"
#include "weights/model_files.h"
#include "weights/safetensors_index.h"

#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/* Whether folder/name/file is there; an empty name is the folder itself. */
static bool has(const char *folder, const char *name, const char *file)
{
    struct stat status;
    char path[PATH_MAX];
    const int length = snprintf(path, sizeof path, "%s/%s/%s", folder, name, file);
    return length > 0 && (size_t)length < sizeof path && stat(path, &status) == 0;
}

static bool ends_with(const char *name, const char *ending)
{
    const size_t length = strlen(name), tail = strlen(ending);
    return length > tail && strcmp(name + length - tail, ending) == 0;
}

/* Poolers and their like have a config.json too, but no such weights. */
static bool is_model(const char *folder, const char *name)
{
    return *name != '.' && has(folder, name, HUGGINGFACE_CONFIG_NAME) &&
           (has(folder, name, MODEL_FILE_NAME) || has(folder, name, SAFETENSORS_INDEX_NAME) ||
            has(folder, name, "pytorch_model.bin"));
}

static bool is_tensors(const char *folder, const char *name)
{
    (void)folder;
    return ends_with(name, ".safetensors");
}

static bool is_other_format(const char *folder, const char *name)
{
    static const char *const endings[] = {".bin", ".gguf", ".h5", ".msgpack", ".onnx", ".pt", ".pth"};
    (void)folder;
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++)
        if (ends_with(name, endings[i]))
            return true;
    return false;
}

/* The entry that is first by name of those that `is` takes, into `found` [NAME_MAX + 1]. False: there is none. */
static bool first_entry(const char *folder, bool (*is)(const char *folder, const char *name), char *found)
{
    DIR *list = opendir(folder);
    *found = '\0';
    if (!list)
        return false;
    for (const struct dirent *entry; (entry = readdir(list));)
        if (is(folder, entry->d_name) && (!*found || strcmp(entry->d_name, found) < 0))
            snprintf(found, NAME_MAX + 1, "%s", entry->d_name);
    closedir(list);
    return *found;
}

bool model_folder_without_config(const char *folder, struct error *error)
{
    static const char missing[] = "the folder has no " HUGGINGFACE_CONFIG_NAME;
    char name[NAME_MAX + 1], snapshots[PATH_MAX];
    const int length = snprintf(snapshots, sizeof snapshots, "%s/snapshots", folder);
    if (first_entry(folder, is_model, name))
        return error_set_at(error, ERROR_IO, "/path", "%s, but its sub-folder %.200s is a model: name that", missing,
                            name);
    if (length > 0 && (size_t)length < sizeof snapshots && first_entry(snapshots, is_model, name))
        return error_set_at(error, ERROR_IO, "/path", "%s, but its sub-folder snapshots/%.200s is a model: name that",
                            missing, name);
    if (has(folder, "", "adapter_config.json"))
        return error_set_at(error, ERROR_IO, "/path",
                            "%s: it is an adapter's; merge it into its base model and save that as safetensors",
                            missing);
    if (first_entry(folder, is_other_format, name))
        return error_set_at(error, ERROR_IO, "/path",
                            "%s, and its %.200s is not read: expected a model as transformers' save_pretrained writes "
                            "it, " HUGGINGFACE_CONFIG_NAME " beside " MODEL_FILE_NAME,
                            missing, name);
    return error_set_at(error, ERROR_IO, "/path",
                        "%s: expected a Hugging Face model's folder, with " HUGGINGFACE_CONFIG_NAME
                        " beside " MODEL_FILE_NAME,
                        missing);
}

bool model_folder_without_weights(const char *folder, struct error *error)
{
    static const char missing[] = "the folder has neither " MODEL_FILE_NAME " nor " SAFETENSORS_INDEX_NAME;
    char name[NAME_MAX + 1];
    if (first_entry(folder, is_tensors, name))
        return error_set_at(error, ERROR_IO, "/path",
                            "%s; its %.200s is read under the first name alone, or where an index lists it", missing,
                            name);
    if (first_entry(folder, is_other_format, name))
        return error_set_at(error, ERROR_IO, "/path",
                            "%s; its %.200s is not read: save the model again as safetensors, as transformers' "
                            "save_pretrained does",
                            missing, name);
    return error_set_at(error, ERROR_IO, "/path", "%s: a download that is not whole, or another kind of folder",
                        missing);
}
