/* The configuration file, read over the defaults. */
#ifndef ATTND_CONFIG_CONFIG_FILE_H
#define ATTND_CONFIG_CONFIG_FILE_H

#include "config/config.h"
#include "config/keys.h"

/* The largest file that is read: some 4096 weight sets with every tensor named. */
#define CONFIG_FILE_BYTES ((size_t)4 << 20)

/* What the checks that need the whole configuration want to know of the file. */
struct config_file {
    bool has_weights;   /* it has the key `weights` */
    bool weights_known; /* it was read to its end and every set has a name: what may be referred to is known */
    bool has_default_weights;
    size_t default_weights_line;
    size_t default_weights_fault; /* the index in the faults at which a fault of default_weights belongs */
};

/* Reads the file into *config, which holds the defaults. Faults are added, in the file's order. */
void config_file_read(const char *file, struct config *config, struct config_file *found, struct faults *faults);

/* The same for text that is in memory; `file` is what the faults call it and what relative paths go by. */
void config_file_read_text(const char *file, const char *text, size_t length, struct config *config,
                           struct config_file *found, struct faults *faults);

#endif
