/* The header of an answer that is a safetensors file. For the files of this folder; entered by the thread that makes
 * the answer. In order: begin, the members of __metadata__, their end, the tensors, end; their bytes follow in the same
 * order. */
#ifndef ATTND_CODEC_SAFETENSORS_WRITE_H
#define ATTND_CODEC_SAFETENSORS_WRITE_H

#include "base/dtype.h"
#include "base/text.h"

#include <stddef.h>

/* What begin and end take at most. */
#define SAFETENSORS_WRITE_BYTES 64
/* What a tensor takes at most beside its name: its shape has at most 40 characters, because its product is a size, and
 * two offsets of 20 digits. */
#define SAFETENSORS_WRITE_ENTRY_BYTES 192

/* Room for the header's length, and what stands before the first member. */
void safetensors_write_begin(struct text *text);

/* A member: JSON text, as a string. `name` has its quotes and colon, and from the second member on a comma before. */
void safetensors_write_member(struct text *text, const char *name, const struct text *value);

/* Behind the last member. */
void safetensors_write_members_end(struct text *text);

/* A tensor of `bytes` bytes, `offset` behind the first one's begin. */
void safetensors_write_entry(struct text *text, const char *name, enum dtype dtype, const size_t *shape, unsigned rank,
                             size_t offset, size_t bytes);

/* The header's end, at a multiple of 8 bytes, and its length before it. */
void safetensors_write_end(struct text *text);

#endif
