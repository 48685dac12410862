/* A string that is one of a few names. */
#ifndef ATTND_CODEC_CHOICE_H
#define ATTND_CODEC_CHOICE_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>

/* json/reader.h has it; not included here, because its names and jansson's cannot stand in one file. */
struct json_reader;

/* Reads one of `names` [count] into *index; ERROR_INVALID for another, with the nearest. `what`: "metric". */
bool choice_read(struct json_reader *r, const char *what, const char *const *names, size_t count, unsigned *index,
                 struct error *error);

#endif
