/* The shape of a listen address: ADDRESS:PORT. Whether a name resolves is found out where it is bound. */
#ifndef ATTND_CONFIG_LISTEN_ADDRESS_H
#define ATTND_CONFIG_LISTEN_ADDRESS_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>

/* text [length] is an IPv4 address, an IPv6 address in brackets (with a zone or without) or a host name, a colon and a
 * port from 0 (a free one) to 65535; else ERROR_INVALID with what was found and what to write instead. */
bool listen_address_check(const char *text, size_t length, struct error *error);

#endif
