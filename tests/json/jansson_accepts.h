/* An independent opinion on what is JSON, in a file of its own: jansson's header and ours name the same things. */
#ifndef ATTND_TESTS_JSON_JANSSON_ACCEPTS_H
#define ATTND_TESTS_JSON_JANSSON_ACCEPTS_H

#include <stdbool.h>
#include <stddef.h>

/* Whether jansson takes the text as one JSON value without duplicate names. Not the same as ours: it takes no U+0000 in
 * names and no number beyond double or, without a point or an exponent, beyond int64_t, nests deeper, and takes a zero
 * byte for the end. */
bool jansson_accepts(const char *text, size_t length);

#endif
