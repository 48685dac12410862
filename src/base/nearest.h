/* The known name that a mistyped one probably meant. */
#ifndef ATTND_BASE_NEAREST_H
#define ATTND_BASE_NEAREST_H

#include <stddef.h>

/* The entry of `known` [count] with the least Damerau-Levenshtein distance (optimal string alignment) to `name`, or
 * NULL when none is close: at most a third of the longer length, rounded up. Ties go to the earlier entry. */
const char *nearest_name(const char *name, const char *const *known, size_t count);

#endif
