/* The ATTND_* variables, read over the file. */
#ifndef ATTND_CONFIG_ENVIRONMENT_H
#define ATTND_CONFIG_ENVIRONMENT_H

#include "config/config.h"

/* Sets the keys that `environment` (NULL-terminated "NAME=value") names. A value that does not fit is a fault, a name
 * that is no key's a warning. A string's empty value is null. *default_weights: ATTND_DEFAULT_WEIGHTS was there;
 * *models: the text of ATTND_MODELS, which is no key's, or NULL. */
void environment_read(const char *const *environment, struct config *config, bool *default_weights, const char **models,
                      struct faults *faults, struct faults *warnings);

#endif
