/* `attnd --health`: asks a running server, as a container's health check does without curl. */
#ifndef ATTND_SERVER_HEALTH_PROBE_H
#define ATTND_SERVER_HEALTH_PROBE_H

#include "base/error.h"
#include "config/config.h"

#include <stdbool.h>

/* GET /healthz from the server that listens on `listen` ("ADDRESS:PORT"; on all addresses: asked on loopback). False,
 * with a sentence, unless it answers 200 within a few seconds. Where the configuration has
 * certificates it speaks TLS, and shows them. */
bool health_probe(const char *listen, const struct config *config, struct error *error);

#endif
