/* A growing list of strings: `listen` and its like, while they are read. One thread at a time. */
#ifndef ATTND_CONFIG_STRING_LIST_H
#define ATTND_CONFIG_STRING_LIST_H

#include <stdbool.h>
#include <stddef.h>

struct string_list {
    char **items; /* [count]; zero-initialise */
    size_t count;
};

/* Appends a copy of text [length]. False when memory ran out: the list is as it was. */
bool string_list_add(struct string_list *list, const char *text, size_t length);

bool string_list_has(const struct string_list *list, const char *text, size_t length);

void string_list_free(struct string_list *list);

#endif
