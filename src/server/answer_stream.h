/* A large answer that is written while it is sent.
 *
 * Its text goes through a ring of slots. Workers fill them, as many at a time as are idle, and the polling thread of
 * the connection empties them in order; so memory holds what was computed and a few slots, and the first byte leaves
 * when the first slot is full. A client that does not read leaves the ring full and no thread waiting: the workers
 * return, and are called again when half of the ring is free. */
#ifndef ATTND_SERVER_ANSWER_STREAM_H
#define ATTND_SERVER_ANSWER_STREAM_H

#include "base/arena.h"
#include "codec/answer_pieces.h"
#include "engine/parallel.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct answer_stream;
struct request;

/* Memory of a stream of these pieces, as arena_need counts it; false when that overflows. */
bool answer_stream_need(const struct answer_pieces *pieces, size_t *bytes);

/* In memory of the arena, which has answer_stream_need; it and the pieces outlive the stream. By the worker that
 * composed the pieces, which then holds the stream as its writer until answer_stream_fill. */
struct answer_stream *answer_stream_create(struct request *request, struct answer_pieces *pieces, struct arena *arena);

/* By the worker that created it, before the request is given to the polling thread: fills the first slots. */
void answer_stream_begin(struct answer_stream *stream, const struct parallel *parallel);
/* By the same, after that: fills the ring. The stream is not the caller's any more when this returns. */
void answer_stream_fill(struct answer_stream *stream, const struct parallel *parallel);

/* By the polling thread: the next bytes of the text, at most `most`. 0: none is ready, and the connection was suspended
 * until one is. -1: the text is at its end. */
ssize_t answer_stream_read(struct answer_stream *stream, char *to, size_t most);

/* The polling thread reads no more. False where a worker still holds the stream: it calls request_end when it is done,
 * and the caller leaves the request alone. */
bool answer_stream_leave(struct answer_stream *stream);

#endif
