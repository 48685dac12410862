/* Addresses of other servers, as configurations name them. Allocates nothing. */
#ifndef ATTND_BASE_HTTP_URL_H
#define ATTND_BASE_HTTP_URL_H

#include "base/error.h"

/* "http://host:port/path" or https, without query and fragment: ERROR_INVALID says what is wrong with it otherwise. */
bool http_url_check(const char *text, size_t length, struct error *error);

#endif
