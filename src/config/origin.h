/* The form of a web origin, as browsers send it. */
#ifndef ATTND_CONFIG_ORIGIN_H
#define ATTND_CONFIG_ORIGIN_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>

/* text [length] is "*", or a scheme, a host and perhaps a port: "https://app.example:8443". ERROR_INVALID says what is
 * wrong. */
bool origin_check(const char *text, size_t length, struct error *error);

#endif
