#include "server/answer_stream.h"

#include "base/size.h"
#include "server/request.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

/* A slot is written in about 0.1 ms, and the ring is some milliseconds of a fast network. A row is in one slot: where
 * rows are longer than that, slots are, and there are fewer. */
#define SLOT_BYTES ((size_t)256 << 10)
#define SLOTS      8

/* What one call of a worker writes at most, so that other short jobs get their turn. */
#define TURN_SLOTS 16

struct slot {
    char *text; /* [slot_bytes] */
    size_t length;
    bool full;
};

struct answer_stream {
    struct job job; /* of a worker that was called to write */
    struct request *request;
    struct answer_pieces *pieces;
    size_t slot_bytes, n_slots;
    struct slot slots[SLOTS];
    size_t read; /* of the slot that is being read; the polling thread's */

    pthread_mutex_t lock;      /* of all below, and of each slot's `full`; never held while text is written or copied */
    struct answer_cursor next; /* of what no slot is claimed for yet */
    size_t claimed, emptied;   /* slots so far: number n is slots[n % n_slots] */
    size_t full;               /* slots now */
    bool writer;               /* a worker is called, or writing */
    bool waiting;              /* the connection is suspended until there is enough to send */
    _Atomic bool left;         /* nobody reads any more */
};

static size_t slot_bytes(const struct answer_pieces *pieces)
{
    return size_max(SLOT_BYTES, pieces->widest);
}

static size_t slot_count(const struct answer_pieces *pieces)
{
    const size_t each = slot_bytes(pieces), in_ring = size_max(SLOTS * SLOT_BYTES / each, 2);
    return size_min(in_ring, pieces->most / each + 1);
}

bool answer_stream_need(const struct answer_pieces *pieces, size_t *bytes)
{
    size_t slots;
    *bytes = 0;
    return arena_need(bytes, sizeof(struct answer_stream)) &&
           size_multiply(slot_bytes(pieces), slot_count(pieces), &slots) && arena_need(bytes, slots);
}

static void run(struct job *job, enum job_end end);
static bool cancelled(struct job *job);

struct answer_stream *answer_stream_create(struct request *request, struct answer_pieces *pieces, struct arena *arena)
{
    struct answer_stream *stream = arena_take(arena, sizeof *stream);
    *stream = (struct answer_stream){
        .job = {.run = run, .cancelled = cancelled, .flop = JOB_LIGHT_FLOP},
        .request = request,
        .pieces = pieces,
        .slot_bytes = slot_bytes(pieces),
        .n_slots = slot_count(pieces),
        .next = answer_pieces_begin(),
        .writer = true,
    };
    char *text = arena_take(arena, stream->slot_bytes * stream->n_slots);
    for (size_t i = 0; i < stream->n_slots; i++)
        stream->slots[i].text = text + i * stream->slot_bytes;
    pthread_mutex_init(&stream->lock, NULL);
    return stream;
}

/* ---- writing */

/* With the lock held: slots that could be claimed now. The text's end may come sooner. */
static size_t free_slots(const struct answer_stream *stream)
{
    return answer_pieces_at_end(stream->pieces, stream->next) ? 0
                                                              : stream->n_slots - (stream->claimed - stream->emptied);
}

static size_t half_ring(const struct answer_stream *stream)
{
    return (stream->n_slots + 1) / 2;
}

/* With the lock held: resumes a reader that waits, where its slot is full and there is `enough` beside it. To suspend a
 * connection and resume it costs as much as writing a quarter of a slot does. */
static void wake_reader(struct answer_stream *stream, bool enough)
{
    if (!stream->waiting || !enough || !stream->slots[stream->emptied % stream->n_slots].full)
        return;
    stream->waiting = false;
    request_resume(stream->request);
}

/* Claims the next slot and writes it. Nothing where none is free. */
static void write_slot(struct answer_stream *stream)
{
    pthread_mutex_lock(&stream->lock);
    if (free_slots(stream) == 0) {
        pthread_mutex_unlock(&stream->lock);
        return;
    }
    const size_t number = stream->claimed++;
    const struct answer_cursor from = stream->next;
    answer_pieces_advance(stream->pieces, &stream->next, stream->slot_bytes);
    const struct answer_cursor to = stream->next;
    pthread_mutex_unlock(&stream->lock);

    struct slot *slot = &stream->slots[number % stream->n_slots];
    slot->length = (size_t)(answer_pieces_write(stream->pieces, from, to, slot->text) - slot->text);

    pthread_mutex_lock(&stream->lock);
    slot->full = true;
    stream->full++;
    wake_reader(stream, stream->full >= half_ring(stream));
    pthread_mutex_unlock(&stream->lock);
}

static void write_tile(void *argument, size_t index, unsigned lane)
{
    struct answer_stream *stream = argument;
    (void)index; /* slots are claimed in order, whichever tile comes first */
    (void)lane;
    if (!atomic_load_explicit(&stream->left, memory_order_relaxed))
        write_slot(stream);
}

/* Fills up to `most` slots; returns how many were free. */
static size_t write_slots(struct answer_stream *stream, const struct parallel *parallel, size_t most)
{
    pthread_mutex_lock(&stream->lock);
    const size_t count = size_min(free_slots(stream), most);
    pthread_mutex_unlock(&stream->lock);
    if (count == 1)
        write_tile(stream, 0, 0);
    else if (count)
        parallel->run(parallel->context, count, write_tile, stream);
    return count;
}

/* Calls a worker, or none where the pool takes no more: then the polling thread writes what it needs itself. With the
 * lock held. */
static bool call_writer(struct answer_stream *stream)
{
    struct error error;
    stream->writer = pool_submit(stream->request->server->parts.pool, &stream->job, &error);
    return stream->writer;
}

/* The writer's turn is over. What is left to be written is another turn's, or begins when the reader has made room. */
static void end_turn(struct answer_stream *stream)
{
    struct request *request = stream->request;
    pthread_mutex_lock(&stream->lock);
    const bool left = stream->left, again = !left && free_slots(stream) && call_writer(stream);
    if (!left)
        wake_reader(stream, true);
    if (!again) {
        stream->writer = false;
        if (stream->waiting && !left) { /* no slot is full: it writes one by itself */
            stream->waiting = false;
            request_resume(request);
        }
    }
    pthread_mutex_unlock(&stream->lock);
    if (left)
        request_end(request);
}

void answer_stream_begin(struct answer_stream *stream, const struct parallel *parallel)
{
    write_slots(stream, parallel, parallel->lanes);
}

void answer_stream_fill(struct answer_stream *stream, const struct parallel *parallel)
{
    for (size_t written = 0, more; written < TURN_SLOTS; written += more)
        if (!(more = write_slots(stream, parallel, SLOTS)))
            break;
    end_turn(stream);
}

static struct answer_stream *stream_of(struct job *job)
{
    return (struct answer_stream *)((char *)job - offsetof(struct answer_stream, job));
}

static void run(struct job *job, enum job_end end)
{
    struct answer_stream *stream = stream_of(job);
    const struct parallel parallel = job_parallel(job);
    if (end == JOB_RUN)
        answer_stream_fill(stream, &parallel);
    else
        end_turn(stream); /* the server is stopping: the polling threads write */
}

static bool cancelled(struct job *job)
{
    return atomic_load_explicit(&stream_of(job)->left, memory_order_relaxed);
}

/* ---- reading */

/* With the lock held: the slot to read from is full. Where it is not: a worker is called or at it and the connection
 * suspended (false), or this thread writes it. */
static bool next_is_full(struct answer_stream *stream, const struct slot *slot)
{
    if (slot->full)
        return true;
    if (stream->writer || call_writer(stream)) {
        stream->waiting = true;
        MHD_suspend_connection(stream->request->mhd);
        return false;
    }
    pthread_mutex_unlock(&stream->lock);
    write_slot(stream);
    pthread_mutex_lock(&stream->lock);
    return true;
}

/* With the lock held: the slot was read to its end. */
static void empty(struct answer_stream *stream, struct slot *slot)
{
    slot->full = false;
    stream->full--;
    stream->emptied++;
    stream->read = 0;
    if (!stream->writer && free_slots(stream) >= half_ring(stream))
        call_writer(stream);
}

ssize_t answer_stream_read(struct answer_stream *stream, char *to, size_t most)
{
    struct slot *slot = &stream->slots[stream->emptied % stream->n_slots];
    if (stream->read == 0) {
        pthread_mutex_lock(&stream->lock);
        const bool at_end = stream->emptied == stream->claimed && answer_pieces_at_end(stream->pieces, stream->next),
                   ready = !at_end && next_is_full(stream, slot);
        pthread_mutex_unlock(&stream->lock);
        if (!ready)
            return at_end ? -1 : 0;
    }
    const size_t length = size_min(most, slot->length - stream->read);
    memcpy(to, slot->text + stream->read, length);
    stream->read += length;
    if (stream->read == slot->length) {
        pthread_mutex_lock(&stream->lock);
        empty(stream, slot);
        pthread_mutex_unlock(&stream->lock);
    }
    return (ssize_t)length;
}

bool answer_stream_leave(struct answer_stream *stream)
{
    struct pool *pool = stream->request->server->parts.pool;
    pthread_mutex_lock(&stream->lock);
    stream->left = true;
    if (stream->writer && pool_withdraw(pool, &stream->job))
        stream->writer = false;
    const bool alone = !stream->writer;
    pthread_mutex_unlock(&stream->lock);
    if (alone)
        pthread_mutex_destroy(&stream->lock);
    return alone;
}
