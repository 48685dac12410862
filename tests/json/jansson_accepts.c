#include "jansson_accepts.h"

#include <jansson.h>

bool jansson_accepts(const char *text, size_t length)
{
    json_t *value = json_loadb(text, length, JSON_DECODE_ANY | JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, NULL);
    bool accepted = value != NULL;
    json_decref(value);
    return accepted;
}
