/* Numbers and choices of the configuration, wherever they are written: file, environment, table of defaults. */
#ifndef ATTND_CONFIG_VALUE_H
#define ATTND_CONFIG_VALUE_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>

/* The JSON number that is all of text [length]. ERROR_INVALID "expected an integer from 0 to 9, got SHOWN" when it is
 * none, has a fraction where `integer`, or is out of range. |minimum| and |maximum| of an integer are at most 2^53. */
bool value_number(const char *text, size_t length, bool integer, double minimum, double maximum, const char *shown,
                  double *value, struct error *error);

/* Which of `choices` (NULL-terminated) is text [length]; ERROR_INVALID naming all of them. */
bool value_choice(const char *text, size_t length, const char *const *choices, const char *shown, size_t *index,
                  struct error *error);

/* true or false. */
bool value_bool(const char *text, size_t length, const char *shown, bool *value, struct error *error);

#endif
