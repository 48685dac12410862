/* Members of a state document (live_state.h), read with the place and what was found there in each error.
 *
 * Pure: any thread. All return false with *reading->error set. */
#ifndef ATTND_CODEC_STATE_MEMBERS_H
#define ATTND_CODEC_STATE_MEMBERS_H

#include "base/error.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

/* Up to there all whole numbers are float64. */
#define STATE_COUNT_MOST  9007199254740992.0
#define STATE_COUNT_WORDS "a whole number up to 9007199254740992"

/* One document on its way. */
struct state_reading {
    const json_t *document;
    size_t index; /* of the list */
    struct error *error;
};

/* What stands in a document, for a message; NULL: the member is missing. */
void state_describe(const json_t *value, char *to, size_t capacity);

/* `member`: its path below the document, "" for the document itself. */
bool state_wrong(const struct state_reading *r, const char *member, const json_t *found, const char *expected);
/* Each number could be, but not all of them together. */
bool state_impossible(const struct state_reading *r, const char *member, const char *found);

/* NULL where it is no string. */
const char *state_text(const struct state_reading *r, const char *name);
bool state_take_text(const struct state_reading *r, const char *name, char *to, size_t capacity);
/* The earliest of several is found by comparing texts: they all have the form that is written. */
bool state_take_since(const struct state_reading *r, char *to, size_t capacity);

/* A finite number. `within`: the path to the object. */
bool state_take_number(const struct state_reading *r, const json_t *object, const char *within, const char *name,
                       double least, double *to);
bool state_is_count(double number);
/* A whole number from 0 up. */
bool state_take_count(const struct state_reading *r, const char *name, double *to);
/* Where numbers of a document go, part by part: `count` of each, `stride` doubles from one part's to the next one's. */
struct state_numbers {
    double *first;
    size_t parts, stride, count;
};

/* A list of finite numbers, those of all parts. */
bool state_take_list(const struct state_reading *r, const json_t *object, const char *within, const char *name,
                     struct state_numbers to);
/* One finite number from 0 up of each part: of one part the number itself, of more a list. */
bool state_take_parts(const struct state_reading *r, const json_t *object, const char *within, const char *name,
                      double *first, size_t parts, size_t stride);

#endif
