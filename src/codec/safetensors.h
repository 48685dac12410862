/* The header of a safetensors file (https://github.com/huggingface/safetensors), checked whole before any tensor is
 * touched.
 *
 * Layout: 8 bytes little-endian header length N, N bytes of JSON, then the tensors' bytes. Read with jansson
 * (duplicates refused). */
#ifndef ATTND_CODEC_SAFETENSORS_H
#define ATTND_CODEC_SAFETENSORS_H

#include "base/dtype.h"
#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>

/* No real header is near this; parsing a longer one would only cost memory (jansson takes up to 80 bytes for one of
 * text). */
#define SAFETENSORS_MAX_HEADER ((size_t)100 * 1000 * 1000)
#define SAFETENSORS_MAX_RANK   8

struct safetensors_entry {
    const char *name;       /* NUL-terminated, owned by the header */
    const char *dtype_name; /* as in the file: "F32", "I64", "F8_E4M3" ... */
    enum dtype dtype;       /* DTYPE_COUNT for one that the format knows and we do not read */
    unsigned rank;
    size_t shape[SAFETENSORS_MAX_RANK]; /* an extent may be 0 */
    size_t count;                       /* product of the shape */
    const unsigned char *data;          /* [bytes] in the file; any alignment */
    size_t bytes;
};

struct safetensors {
    struct safetensors_entry *entries; /* [count], by ascending data offset */
    size_t count;
    struct safetensors_metadata {
        const char *key, *value;
    } * metadata; /* [metadata_count] */
    size_t metadata_count;
    void *owned; /* the parsed header */
};

/* The bytes of the header that `file` [size] states in its first eight. False (ERROR_BAD_ENCODING) when it is longer
 * than the file, or the cap. */
bool safetensors_header_length(const void *file, size_t size, size_t *header_length, struct error *error);

/* Checks `file` [size] and fills *header; the entries point into `file`, which must outlive them. Refused
 * (ERROR_BAD_ENCODING, with a message that names the tensor or the numbers: found and expected): a size below 8, a
 * header longer than the file or the cap, not a JSON object, duplicate names, missing or wrong members, dtypes that the
 * format does not know, more axes than SAFETENSORS_MAX_RANK, shapes whose product overflows, ranges that are reversed,
 * beyond the file, not the size that shape and dtype make, overlapping, with holes between, or not reaching the end of
 * the file. */
bool safetensors_open(const void *file, size_t size, struct safetensors *header, struct error *error);

/* NULL when there is no tensor of that name. */
const struct safetensors_entry *safetensors_find(const struct safetensors *header, const char *name);

void safetensors_close(struct safetensors *header);

#endif
