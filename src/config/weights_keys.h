/* The keys of one entry of `weights`: what each source takes, with types, ranges and defaults. */
#ifndef ATTND_CONFIG_WEIGHTS_KEYS_H
#define ATTND_CONFIG_WEIGHTS_KEYS_H

#include "config/config.h"

#include <stddef.h>

enum weights_type {
    WEIGHTS_NAME,      /* char *: 1..64 of A-Z a-z 0-9 . _ - */
    WEIGHTS_SOURCE,    /* enum weights_source */
    WEIGHTS_BOOL,      /* bool */
    WEIGHTS_SIZE,      /* size_t */
    WEIGHTS_SEED,      /* uint32_t */
    WEIGHTS_SCALE,     /* double, and has_scale */
    WEIGHTS_PATH,      /* char * */
    WEIGHTS_LAYOUT,    /* enum weights_layout */
    WEIGHTS_PRECISION, /* enum weights_precision */
    WEIGHTS_TENSORS,   /* char *[WEIGHT_TENSOR_COUNT] */
    WEIGHTS_RULE,      /* struct weights_text: an object, or null */
    WEIGHTS_LIST,      /* struct weights_text: an array of numbers */
    WEIGHTS_OBJECT,    /* struct weights_text: an object, or null */
    WEIGHTS_OBJECTS    /* struct weights_text: an array of objects */
};

/* Bit s of a set of sources: enum weights_source s. */
#define WEIGHTS_OF(source) (1U << (source))
#define WEIGHTS_OF_ALL     (WEIGHTS_OF(WEIGHTS_HUGGINGFACE + 1) - 1)

struct weights_key {
    const char *name;
    enum weights_type type;
    unsigned sources;  /* that take it */
    unsigned required; /* of these: that need it */
    size_t offset;     /* in struct weights_config */
    double minimum, maximum;
    const char *fallback; /* the default as JSON text; NULL: none, or it follows from others */
};

const struct weights_key *weights_keys(size_t *count);

/* Their names in the configuration, in the order of the enumeration, NULL-terminated. */
extern const char *const weights_source_names[];
extern const char *const weights_layout_names[];
extern const char *const weights_precision_names[];
extern const char *const weight_tensor_names[];

#define WEIGHTS_NAME_BYTES 64 /* the longest name of a set */

#endif
