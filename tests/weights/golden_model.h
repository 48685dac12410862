/* Copies of the models in golden/models in the tests' folder (model_file.h), with changes. */
#ifndef ATTND_TESTS_WEIGHTS_GOLDEN_MODEL_H
#define ATTND_TESTS_WEIGHTS_GOLDEN_MODEL_H

#include <stddef.h>

/* A file of the model, in which `from`, which must stand there, is replaced by `to`; with safetensors files both are
 * of the same length. No `from`: the file is `to`; no `to`: it is not there. No file: no change. */
struct model_change {
    const char *file, *from, *to;
};

/* The golden folder tiny/NAME; fresh memory. */
char *golden_model_path(const char *name);

/* Copies its files, changed; what was in the tests' folder before is removed. The tests' folder; fresh memory. */
char *golden_model_copy(const char *name, const struct model_change *changes, size_t count);

#endif
