/* Finding a model's tensors in its files, and holding their shapes to what the model's numbers say. One thread. */
#ifndef ATTND_WEIGHTS_TENSOR_SEARCH_H
#define ATTND_WEIGHTS_TENSOR_SEARCH_H

#include "weights/model_files.h"
#include "weights/tensor_place.h"

#define TENSOR_NAME_BYTES 256

/* A number with what it is in words: {64, "intermediate_size"}. */
struct extent {
    size_t size;
    const char *words;
};

struct tensor_search {
    const struct model_files *files;
    const char *prefix; /* as model_files_find takes it */
    struct text missing;
    size_t missing_count, missing_listed;
};

/* The tensor `name` of just `shape` [rank], with its file; it counts as used. A tensor that is not there is put down as
 * missing, with *file and *entry NULL. ERROR_INVALID at /path names the file (where they are many), the tensor, what
 * was found and what was expected, for another shape, or a dtype that is none of F32, F16, BF16 and F64. */
bool tensor_search(struct tensor_search *search, const char *name, const struct extent *shape, unsigned rank,
                   const struct safetensors_file **file, const struct safetensors_entry **entry, struct error *error);

/* The same for a matrix [rows, columns] of the model, stored in that order or (LAYOUT_OUT_IN) the other. */
bool tensor_search_matrix(struct tensor_search *search, const char *name, enum weights_layout layout,
                          struct extent rows, struct extent columns, struct tensor_place *place, struct error *error);

/* The same for a vector: one row. */
bool tensor_search_vector(struct tensor_search *search, const char *name, struct extent columns,
                          struct tensor_place *place, struct error *error);

/* Whether there is such a tensor. */
bool tensor_search_has(struct tensor_search *search, const char *name);

/* ERROR_INVALID at /path naming all that are missing; true when none is. */
bool tensor_search_finish(struct tensor_search *search, struct error *error);

void tensor_search_free(struct tensor_search *search);

#endif
