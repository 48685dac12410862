/* Every key of the configuration outside `weights`: its name, type, range, default and place in struct config.
 *
 * The one table that the file's reader, the environment's reader, the defaults, the schema's test and the
 * documentation's test read. */
#ifndef ATTND_CONFIG_KEYS_H
#define ATTND_CONFIG_KEYS_H

#include "base/error.h"
#include "config/config.h"
#include "config/string_list.h"

#include <stdbool.h>
#include <stddef.h>

enum config_type {
    CONFIG_BOOL,
    CONFIG_INTEGER, /* int64_t */
    CONFIG_NUMBER,  /* double */
    CONFIG_CHOICE,  /* char *, one of `choices` */
    CONFIG_STRING,  /* char *, or null */
    CONFIG_LIST     /* char **, and its count */
};

struct config_key {
    const char *section; /* "" for a key at the top */
    const char *name;
    enum config_type type;
    size_t offset;              /* of the value in struct config */
    size_t count_offset;        /* CONFIG_LIST: of its count */
    double minimum, maximum;    /* of a number; of a list's length */
    const char *fallback;       /* the default, written as in the environment; NULL: null */
    const char *const *choices; /* CONFIG_CHOICE: NULL-terminated */
    bool (*check)(const char *text, size_t length, struct error *error); /* of a string, or of each item; or NULL */
};

/* All of them, those of one section together. */
const struct config_key *config_keys(size_t *count);

/* "ATTND_SERVER_WORKERS" into `variable` [CONFIG_VARIABLE_BYTES]. */
#define CONFIG_VARIABLE_BYTES 64
void config_key_variable(const struct config_key *key, char *variable);

/* Sets a key that is no list from text [length]: a JSON number, true, false, or a string's content; NULL is null.
 * ERROR_INVALID when it does not fit (`shown` is what the message quotes as found), ERROR_OUT_OF_MEMORY; *config is
 * then as it was. */
bool config_key_set(const struct config_key *key, struct config *config, const char *text, size_t length,
                    const char *shown, struct error *error);

/* Checks text [length] as an item of a list behind those in *items and appends it. */
bool config_list_add(const struct config_key *key, struct string_list *items, const char *text, size_t length,
                     struct error *error);

/* Puts *items in the list's place and leaves *items empty. ERROR_INVALID when there are too few or too many. */
bool config_list_set(const struct config_key *key, struct config *config, struct string_list *items,
                     struct error *error);

/* Adds the items of a text with commas; spaces around an item are no part of it. */
bool config_list_split(const struct config_key *key, struct string_list *items, const char *text, struct error *error);

/* Fills every key with its default. False when memory ran out. *config is zeroed before. */
bool config_set_defaults(struct config *config);

#endif
