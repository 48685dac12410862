/* What several keys must agree on. */
#ifndef ATTND_CONFIG_CHECKS_H
#define ATTND_CONFIG_CHECKS_H

#include "config/config.h"

/* Adds a fault for each rule that is broken, where the key's value was given: the variable, or the file's line. */
void config_check(const struct config *config, struct faults *faults);

#endif
