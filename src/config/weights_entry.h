/* One entry of `weights` in the configuration file. */
#ifndef ATTND_CONFIG_WEIGHTS_ENTRY_H
#define ATTND_CONFIG_WEIGHTS_ENTRY_H

#include "config/config.h"
#include "config/document.h"

/* A numpy set without `scale` or `seed`: those of the demo set. */
#define WEIGHTS_NUMPY_SCALE 0.1
#define WEIGHTS_NUMPY_SEED  42

/* Reads the value that comes next into *set (zeroed), entry `index` of the list. Faults of the entry are added; false
 * when the reading is over. *set is valid for weights_entry_free either way. */
bool weights_entry_read(struct document *document, size_t index, struct weights_config *set);

/* The line of the file that a fault of the entry is about: `pointer` is relative to the entry, "/pattern/left". */
size_t weights_entry_line(const struct weights_config *set, const char *pointer);

/* Whether a set may have this name. */
bool weights_entry_is_name(const char *name);

void weights_entry_free(struct weights_config *set);

#endif
