/* Owns its strings. Lists are short (tens), so each addition makes its own room. */
#include "config/string_list.h"

#include "base/text.h"

#include <stdlib.h>
#include <string.h>

bool string_list_add(struct string_list *list, const char *text, size_t length)
{
    char *copy = text_copy(text, length);
    char **items = copy ? reallocarray(list->items, list->count + 1, sizeof *items) : NULL;
    if (!items) {
        free(copy);
        return false;
    }
    list->items = items;
    list->items[list->count++] = copy;
    return true;
}

bool string_list_has(const struct string_list *list, const char *text, size_t length)
{
    for (size_t i = 0; i < list->count; i++)
        if (strlen(list->items[i]) == length && memcmp(list->items[i], text, length) == 0)
            return true;
    return false;
}

void string_list_free(struct string_list *list)
{
    for (size_t i = 0; i < list->count; i++)
        free(list->items[i]);
    free(list->items);
    *list = (struct string_list){0};
}
