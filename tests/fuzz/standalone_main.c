/* Runs a fuzz target over files, where there is no libFuzzer to drive it. usage: PROGRAM FILE-OR-FOLDER... */
#include <dirent.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* In memory of just the file's size, so that a sanitizer sees what is read behind the end. */
static bool run_file(const char *path, size_t size)
{
    bool done = false;
    uint8_t *data = malloc(size ? size : 1);
    FILE *file = fopen(path, "rb");
    if (data && file && fread(data, 1, size, file) == size) {
        LLVMFuzzerTestOneInput(data, size);
        done = true;
    } else {
        perror(path);
    }
    if (file)
        fclose(file);
    free(data);
    return done;
}

static bool run(const char *path, unsigned long *count)
{
    struct stat status;
    if (stat(path, &status) != 0) {
        perror(path);
        return false;
    }
    if (!S_ISDIR(status.st_mode)) {
        ++*count;
        return run_file(path, (size_t)status.st_size);
    }
    DIR *folder = opendir(path);
    if (!folder) {
        perror(path);
        return false;
    }
    bool good = true;
    for (struct dirent *entry; (entry = readdir(folder));) {
        char inner[4096];
        if (entry->d_name[0] == '.')
            continue;
        snprintf(inner, sizeof inner, "%s/%s", path, entry->d_name);
        good = run(inner, count) && good;
    }
    closedir(folder);
    return good;
}

int main(int argc, char **argv)
{
    unsigned long count = 0;
    bool good = true;
    for (int i = 1; i < argc; i++)
        good = run(argv[i], &count) && good;
    printf("%lu inputs\n", count);
    if (count == 0)
        fprintf(stderr, "no input: name files or folders that hold some\n");
    return good && count ? EXIT_SUCCESS : EXIT_FAILURE;
}
