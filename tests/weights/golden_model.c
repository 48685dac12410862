/* Owns the copying and changing of models' files. One thread. */
#include "golden_model.h"

#include "golden.h"
#include "model_file.h"

#include <dirent.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

char *golden_model_path(const char *name)
{
    char *relative, *path;
    if (asprintf(&relative, "models/tiny/%s", name) < 0)
        abort();
    path = golden_path(relative);
    free(relative);
    return path;
}

static char *read_file(const char *folder, const char *name, size_t *size)
{
    char *path, *data;
    if (asprintf(&path, "%s/%s", folder, name) < 0)
        abort();
    FILE *file = fopen(path, "rb");
    data = malloc(MODEL_FILE_MAX_BYTES + 1);
    if (!file || !data) {
        perror(path);
        abort();
    }
    *size = fread(data, 1, MODEL_FILE_MAX_BYTES, file);
    fclose(file);
    free(path);
    return data;
}

static void change(char **data, size_t *size, const struct model_change *how)
{
    const size_t from = strlen(how->from), to = strlen(how->to);
    const char *at = memmem(*data, *size, how->from, from);
    if (!at) {
        fprintf(stderr, "%s does not hold %s\n", how->file, how->from);
        abort();
    }
    char *changed = malloc(*size + to + 1);
    if (!changed)
        abort();
    const size_t before = (size_t)(at - *data);
    memcpy(changed, *data, before);
    memcpy(changed + before, how->to, to);
    memcpy(changed + before + to, at + from, *size - before - from);
    free(*data);
    *data = changed;
    *size += to - from;
}

static void copy(const char *folder, const char *name, const struct model_change *changes, size_t count)
{
    size_t size;
    char *data = read_file(folder, name, &size);
    bool there = true;
    for (size_t i = 0; i < count; i++) {
        if (!changes[i].file || strcmp(changes[i].file, name) != 0)
            continue;
        if (!changes[i].to) {
            there = false;
        } else if (!changes[i].from) {
            size = strlen(changes[i].to);
            memcpy(data, changes[i].to, size);
        } else {
            change(&data, &size, &changes[i]);
        }
    }
    if (there)
        model_folder_write(name, data, size);
    free(data);
}

char *golden_model_copy(const char *name, const struct model_change *changes, size_t count)
{
    char *from = golden_model_path(name);
    DIR *entries = opendir(from);
    if (!entries)
        abort();
    model_folder_empty();
    for (struct dirent *entry; (entry = readdir(entries));)
        if (entry->d_name[0] != '.')
            copy(from, entry->d_name, changes, count);
    closedir(entries);
    free(from);
    return model_folder_path(".");
}
