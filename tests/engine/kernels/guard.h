/* Memory for the arguments of a kernel, with a page that can be neither read nor written directly before or directly
 * behind it, so that one byte too many is a fault, reported by name. */
#ifndef ATTND_TESTS_ENGINE_KERNELS_GUARD_H
#define ATTND_TESTS_ENGINE_KERNELS_GUARD_H

#include <stdbool.h>
#include <stddef.h>

/* Where the page is. On the other side of the buffer is a margin that must not be written. */
enum guard_side { GUARD_BEHIND, GUARD_BEFORE };

/* Begins a case: all buffers of it have their guard on this side. */
void guard_begin(enum guard_side side);
/* A buffer filled with GUARD_BYTE: floats of it are NaN. `name` stays with the caller; bytes is a multiple of
 * `alignment`, or the guard behind it is up to an alignment away. */
void *guard_take(const char *name, size_t bytes, size_t alignment);
/* Writing to the buffer is a fault from now on. */
void guard_read_only(const void *buffer);
/* Ends the case: fails it when a margin was written to. The buffers are gone. */
void guard_end(void);
/* The same without looking, after a failure. */
void guard_reset(void);

enum { GUARD_BYTE = 0xFF };
/* Whether the bytes are as guard_take left them. */
bool guard_untouched(const void *from, size_t bytes);

#endif
