/* Weight sets that are given as NAME=PATH, by --model or ATTND_MODELS: folders, read as they are. One thread. */
#ifndef ATTND_CONFIG_MODELS_H
#define ATTND_CONFIG_MODELS_H

#include "config/config.h"

/* Adds a set for each of the items [count] behind those of *config. What is wrong with one is a fault of `given_by`,
 * "--model", which lives on. */
void models_add(struct config *config, const char *const *items, size_t count, const char *given_by,
                struct faults *faults);

/* The same for a text with commas; spaces around an item are no part of it. */
void models_add_text(struct config *config, const char *text, const char *given_by, struct faults *faults);

#endif
