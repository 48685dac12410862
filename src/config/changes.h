/* What of a configuration that was read again cannot change while the server runs. */
#ifndef ATTND_CONFIG_CHANGES_H
#define ATTND_CONFIG_CHANGES_H

#include "config/config.h"

/* Names of such keys, as "server.workers"; NULL behind the last. Beside them: whether there is TLS. */
const char *config_fixed_key(size_t number);

/* Puts the running value into each such key of *read that differs, and the key's name into names [*count]
 * (CONFIG_MAX_FIXED). False when memory ran out; *read is then to be freed. */
#define CONFIG_MAX_FIXED 32
bool config_keep_fixed(const struct config *running, struct config *read, const char *names[CONFIG_MAX_FIXED],
                       size_t *count);

#endif
