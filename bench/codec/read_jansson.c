/* A file of its own, because jansson's names and those of json/reader.h cannot stand in one. */
#include "read.h"

#include <jansson.h>

bool read_jansson(const char *body, size_t length, void *context)
{
    float *to = context;
    json_t *root = json_loadb(body, length, 0, NULL), *sequence, *row, *number;
    size_t i, j, k;
    json_array_foreach(json_object_get(root, "input"), i, sequence) json_array_foreach(sequence, j, row)
        json_array_foreach(row, k, number) *to++ = (float)json_number_value(number);
    json_decref(root);
    return root != NULL;
}
