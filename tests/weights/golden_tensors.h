/* What a model is made of, held to what an independent program says of it (golden/models/tensors.json). */
#ifndef ATTND_TESTS_WEIGHTS_GOLDEN_TENSORS_H
#define ATTND_TESTS_WEIGHTS_GOLDEN_TENSORS_H

#include "weights/model_source.h"

#include <stdbool.h>

/* The sets that the file names, with (`blocks`) or without a configuration; NULL past the last. */
const char *golden_tensors_name(size_t index, bool blocks);

/* Holds shapes and numbers of everything in `source` to the file's. Fails the test. */
void golden_tensors_check(const struct model_source *source, const char *name);

/* Whether a tensor whose name has `name` in it is one that nothing uses. */
bool source_leaves(const struct model_source *source, const char *name);

/* A member of the set's configuration as JSON text in fresh memory; NULL: it has none. */
char *golden_tensors_entry(const char *name, const char *member);
/* The set's file; fresh memory. */
char *golden_tensors_path(const char *name);

#endif
