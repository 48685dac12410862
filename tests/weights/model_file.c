/* Owns the temporary folder and the composition of files in it. One thread. Failures end the test program: nothing can
 * be tested then. */
#include "model_file.h"

#include <dirent.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[512];

static void require(int holds, const char *what)
{
    if (!holds) {
        perror(what);
        abort();
    }
}

void model_folder_make(void)
{
    const char *above = getenv("TMPDIR");
    snprintf(folder, sizeof folder, "%s/attnd-weights-XXXXXX", above && *above ? above : "/tmp");
    require(mkdtemp(folder) != NULL, folder);
}

void model_folder_empty(void)
{
    DIR *entries = opendir(folder);
    require(entries != NULL, folder);
    for (struct dirent *entry; (entry = readdir(entries));)
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            unlinkat(dirfd(entries), entry->d_name, 0);
    closedir(entries);
}

void model_folder_remove(void)
{
    model_folder_empty();
    rmdir(folder);
}

char *model_folder_path(const char *name)
{
    char *path;
    require(asprintf(&path, "%s/%s", folder, name) > 0, name);
    return path;
}

/* Only for values that half precision holds exactly and that are 0, normal or infinite. */
static uint16_t half_bits(double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    if (value == 0)
        return (uint16_t)(bits >> 48);
    if (isinf(value))
        return (uint16_t)((bits >> 63) << 15 | 0x7C00);
    int exponent = (int)(bits >> 52 & 0x7FF) - 1023;
    return (uint16_t)((bits >> 63) << 15 | (uint64_t)(exponent + 15) << 10 | (bits >> 42 & 0x3FF));
}

static size_t store(const char *dtype, double value, unsigned char *to)
{
    float f32 = (float)value;
    uint32_t bits;
    memcpy(&bits, &f32, sizeof bits);
    if (strcmp(dtype, "F64") == 0)
        return memcpy(to, &value, 8), 8;
    if (strcmp(dtype, "F32") == 0)
        return memcpy(to, &bits, 4), 4;
    uint16_t half = strcmp(dtype, "F16") == 0 ? half_bits(value) : (uint16_t)(bits >> 16);
    return memcpy(to, &half, 2), 2;
}

struct model_file model_file_compose(const struct file_tensor *tensors, size_t count)
{
    struct model_file file = {.header = calloc(1, 64 + 256 * count), .data = calloc(1, MODEL_FILE_MAX_BYTES)};
    char(*entries)[256] = calloc(count + 1, sizeof *entries);
    require(file.header && file.data && entries, "calloc");
    for (size_t t = 0; t < count; t++) {
        const struct file_tensor *tensor = &tensors[t];
        size_t begin = file.data_bytes, n = tensor->shape[0] * (tensor->rank == 2 ? tensor->shape[1] : 1);
        enum dtype dtype = dtype_from_safetensors_name(tensor->dtype, strlen(tensor->dtype));
        char shape[64];
        for (size_t i = 0; i < n && dtype_is_float(dtype); i++)
            file.data_bytes +=
                store(tensor->dtype, tensor->values ? tensor->values[i] : 0.5, file.data + file.data_bytes);
        if (!dtype_is_float(dtype))
            file.data_bytes += n * dtype_bytes(dtype);
        snprintf(shape, sizeof shape, tensor->rank == 2 ? "[%zu, %zu]" : "[%zu]", tensor->shape[0], tensor->shape[1]);
        snprintf(entries[t], sizeof *entries,
                 "\"%s\": {\"dtype\": \"%s\", \"shape\": %s, \"data_offsets\": [%zu, %zu]}", tensor->name,
                 tensor->dtype, shape, begin, file.data_bytes);
    }
    strcpy(file.header, "{\"__metadata__\": {\"format\": \"pt\"}");
    for (size_t t = count; t-- > 0;)
        strcat(strcat(file.header, ", "), entries[t]);
    strcat(file.header, "}");
    if (strlen(file.header) % 2 == 0)
        strcat(file.header, " ");
    free(entries);
    return file;
}

void model_file_free(struct model_file *file)
{
    free(file->header);
    free(file->data);
    *file = (struct model_file){0};
}

void model_file_replace(struct model_file *file, const char *from, const char *to)
{
    char *at = strstr(file->header, from), *changed;
    require(at != NULL, from);
    require(asprintf(&changed, "%.*s%s%s", (int)(at - file->header), file->header, to, at + strlen(from)) > 0, from);
    free(file->header);
    file->header = changed;
}

unsigned char *model_file_bytes(const struct model_file *file, size_t *size)
{
    uint64_t length = strlen(file->header);
    *size = sizeof length + length + file->data_bytes;
    unsigned char *bytes = malloc(*size);
    require(bytes != NULL, "malloc");
    memcpy(bytes, &length, sizeof length);
    memcpy(bytes + sizeof length, file->header, length);
    memcpy(bytes + sizeof length + length, file->data, file->data_bytes);
    return bytes;
}

void model_folder_write(const char *name, const void *bytes, size_t size)
{
    char *path = model_folder_path(name);
    FILE *to = fopen(path, "wb");
    require(to && (size == 0 || fwrite(bytes, 1, size, to) == size) && fclose(to) == 0, path);
    free(path);
}

void model_folder_write_file(const char *name, const struct model_file *file)
{
    size_t size;
    unsigned char *bytes = model_file_bytes(file, &size);
    model_folder_write(name, bytes, size);
    free(bytes);
}
