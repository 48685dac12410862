/* The readers that attnd's is measured against. Each reads the floats of {"input": [[[...]]]} to `context`, which has
 * room for them; false when it could not. READ_PADDING bytes behind the body may be read too. */
#ifndef ATTND_BENCH_CODEC_READ_H
#define ATTND_BENCH_CODEC_READ_H

#include <stdbool.h>
#include <stddef.h>

#define READ_PADDING 64

#ifdef __cplusplus
extern "C" {
#endif

typedef bool read_function(const char *body, size_t length, void *context);

read_function read_jansson, read_simdjson;

#ifdef __cplusplus
}
#endif

#endif
