/* The tensors that the rules of a set's configuration name, in the set's own file or folder. One thread. */
#ifndef ATTND_WEIGHTS_RULE_TENSORS_H
#define ATTND_WEIGHTS_RULE_TENSORS_H

#include "base/error.h"
#include "codec/tensor.h"
#include "config/config.h"
#include "weights/model_files.h"

#include <stdbool.h>
#include <stddef.h>

struct rule_tensor {
    char *name; /* in the file; NULL: it came with the source */
    float *numbers;
    size_t count;
};

/* What rules point to. */
struct rule_tensors {
    struct rule_tensor *items; /* [count] */
    size_t count;
};

/* Where they are read from, while they are. */
struct rule_files {
    const struct weights_config *config;
    struct rule_tensors *kept; /* that they are added to */
    struct model_files files;  /* count 0: not opened yet */
    bool counting;             /* tensors are looked up, and not read */
    size_t bytes;              /* of those that were met */
};

/* As struct rules_reading has it; context: a struct rule_files. */
bool rule_tensor_read(struct json_reader *r, void *context, unsigned max_rank, struct tensor *tensor,
                      struct error *error);

/* Closes them. False when they were written to since: ERROR_IO. */
bool rule_files_close(struct rule_files *files, bool check, struct error *error);

/* Takes numbers [count] over. False when memory ran out: they are still the caller's. */
bool rule_tensors_add(struct rule_tensors *tensors, const char *name, float *numbers, size_t count);
void rule_tensors_free(struct rule_tensors *tensors);

#endif
