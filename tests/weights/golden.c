/* Reads golden files. Failures end the test program: nothing can be tested then. One thread. */
#include "golden.h"

#include <stdio.h>
#include <stdlib.h>

char *golden_path(const char *name)
{
    const char *folder = getenv("ATTND_GOLDEN");
    char *path;
    if (!folder || asprintf(&path, "%s/%s", folder, name) < 0) {
        fprintf(stderr, "ATTND_GOLDEN does not name the folder of %s\n", name);
        abort();
    }
    return path;
}

json_t *golden_load(const char *name)
{
    char *path = golden_path(name);
    json_error_t fault;
    json_t *document = json_load_file(path, JSON_REJECT_DUPLICATES, &fault);
    if (!document) {
        fprintf(stderr, "%s: %s\n", path, fault.text);
        abort();
    }
    free(path);
    return document;
}

static void flatten(const json_t *nest, float *to, size_t *count)
{
    size_t i;
    json_t *value;
    if (!json_is_array(nest)) {
        to[(*count)++] = (float)json_number_value(nest);
        return;
    }
    json_array_foreach(nest, i, value) flatten(value, to, count);
}

float *golden_numbers(const json_t *nest, size_t *count, size_t shape[4], unsigned *rank)
{
    size_t all = 1;
    *rank = 0;
    for (const json_t *inner = nest; json_is_array(inner) && *rank < 4; inner = json_array_get(inner, 0)) {
        shape[*rank] = json_array_size(inner);
        all *= shape[(*rank)++];
    }
    float *numbers = malloc((all + 1) * sizeof *numbers);
    if (!numbers)
        abort();
    *count = 0;
    flatten(nest, numbers, count);
    return numbers;
}
