/* The ring and its writer: see log.h. log_fields is entered by any thread; log_start and log_stop by the one that
 * starts and stops the process.
 *
 * One mutex guards the ring; it is held for a copy of at most a line, never during a write. The writer writes straight
 * out of the ring, as much as is there: what it writes stays untouched until it has moved the tail. Its write may block
 * for ever when nobody reads, so log_stop gives it a second and then abandons it: it frees the ring should it ever come
 * back. (Making the descriptor non-blocking would make it so for every process that shares it.) */
#include "telemetry/log.h"

#include "base/clock.h"
#include "telemetry/log_format.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#define RING_BYTES ((size_t)256 << 10) /* a power of two: positions are taken modulo it */
_Static_assert((RING_BYTES & (RING_BYTES - 1)) == 0 && RING_BYTES >= 2 * LOG_LINE_BYTES,
               "positions wrap; a line and a report of drops fit");

/* After a write the writer waits this long for company before it looks again: a busy server's lines cost no wake each,
 * and none is later than this. */
#define NAP (5 * CLOCK_MILLISECOND)

/* A second in all: in parts, so that a machine that stands still takes one of them and not the writer's time. */
#define STOP_PARTS 20
#define STOP_PART  (CLOCK_SECOND / STOP_PARTS)

struct writer {
    pthread_t thread;
    pthread_cond_t work;  /* for the writer */
    pthread_cond_t ended; /* for log_stop */
    int descriptor;
    enum log_format format;
    size_t head, tail;   /* bytes ever put in and taken out; head - tail <= RING_BYTES */
    uint64_t unreported; /* drops that no line has told of yet */
    size_t report_end;   /* where the last line that tells of drops ends in the ring, and how many it tells of */
    uint64_t report_count;
    bool waiting; /* for `work`, with nothing to do */
    bool failing; /* the last write failed */
    bool stopping, has_ended, abandoned;
    bool broken;   /* the other end is closed: nothing will be written any more */
    bool mid_line; /* the last byte written is not a newline */
    bool torn;     /* and the rest of that line was discarded */
    char ring[RING_BYTES];
};

static struct {
    pthread_mutex_t mutex;
    struct writer *writer; /* NULL: lines are written at once */
    bool lost;             /* the last writer was abandoned in a write: to write would block, too */
    _Atomic int descriptor;
    _Atomic enum log_level level;
    _Atomic enum log_format format;
    _Atomic uint64_t dropped;
} sink = {.mutex = PTHREAD_MUTEX_INITIALIZER, .descriptor = STDERR_FILENO, .level = LOG_INFO, .format = LOG_JSON};

/* The ring, under the mutex */

static void copy_in(struct writer *writer, const char *bytes, size_t length)
{
    size_t at = writer->head % RING_BYTES, first = RING_BYTES - at;
    if (first > length)
        first = length;
    memcpy(writer->ring + at, bytes, first);
    memcpy(writer->ring, bytes + first, length - first);
    writer->head += length;
}

static size_t room(const struct writer *writer)
{
    return RING_BYTES - (writer->head - writer->tail);
}

static void count_drops(struct writer *writer, uint64_t lines)
{
    atomic_fetch_add_explicit(&sink.dropped, lines, memory_order_relaxed);
    writer->unreported += lines;
}

/* Tells of drops, once there is room for that and for `more` bytes behind it. */
static void report_drops(struct writer *writer, size_t more)
{
    if (!writer->unreported || writer->broken || room(writer) < more)
        return;
    char line[LOG_LINE_BYTES];
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    struct log_field count = LOG_INTEGER("count", writer->unreported);
    size_t length = log_format_line(line, writer->format, &now, LOG_WARNING, "log_dropped", &count, 1);
    if (length > room(writer) - more)
        return;
    copy_in(writer, line, length);
    writer->report_end = writer->head;
    writer->report_count = writer->unreported;
    writer->unreported = 0;
}

static void enqueue(struct writer *writer, const char *line, size_t length)
{
    if (writer->broken) {
        count_drops(writer, 1);
        return;
    }
    report_drops(writer, length);
    /* A line that would fit where the report of earlier drops does not is dropped too: the report comes first. */
    if (writer->unreported || length > room(writer)) {
        count_drops(writer, 1);
        return;
    }
    copy_in(writer, line, length);
    bool half_full = room(writer) < RING_BYTES / 2;
    if (writer->waiting || half_full)
        pthread_cond_signal(&writer->work);
}

/* Empties the ring; its lines are counted as dropped. */
static void discard(struct writer *writer)
{
    uint64_t lines = 0;
    if (writer->report_end > writer->tail) { /* it is no line that was dropped, and has told nobody */
        writer->unreported += writer->report_count;
        lines--;
    }
    for (; writer->tail != writer->head; writer->tail++)
        lines += writer->ring[writer->tail % RING_BYTES] == '\n';
    count_drops(writer, lines);
}

/* The writer's thread */

static struct timespec clock_time(uint64_t ns)
{
    return (struct timespec){.tv_sec = (time_t)(ns / CLOCK_SECOND), .tv_nsec = (long)(ns % CLOCK_SECOND)};
}

/* What lies in the ring, after a newline where a line was torn. */
static void gather(struct writer *writer, struct iovec pieces[3])
{
    size_t at = writer->tail % RING_BYTES, length = writer->head - writer->tail, first = RING_BYTES - at;
    if (first > length)
        first = length;
    pieces[0] = (struct iovec){(void *)"\n", writer->torn};
    pieces[1] = (struct iovec){writer->ring + at, first};
    pieces[2] = (struct iovec){writer->ring, length - first};
}

/* As writev does it, but to wait rather than fail. */
static ssize_t write_pieces(int descriptor, const struct iovec pieces[3])
{
    for (;;) {
        ssize_t written = writev(descriptor, pieces, 3);
        if (written >= 0)
            return written;
        if (errno == EAGAIN) { /* somebody else made the descriptor non-blocking */
            struct pollfd ready = {.fd = descriptor, .events = POLLOUT};
            poll(&ready, 1, -1);
        } else if (errno != EINTR) {
            return -1;
        }
    }
}

static void take_out(struct writer *writer, size_t written)
{
    if (writer->torn && written) {
        writer->torn = false;
        writer->mid_line = false;
        written--;
    }
    writer->tail += written;
    if (written)
        writer->mid_line = writer->ring[(writer->tail - 1) % RING_BYTES] != '\n';
}

/* Called and left with the mutex, which it gives up for the write. */
static void write_out(struct writer *writer)
{
    struct iovec pieces[3];
    size_t head = writer->head;
    int descriptor = writer->descriptor;
    gather(writer, pieces);
    pthread_mutex_unlock(&sink.mutex);
    ssize_t written = write_pieces(descriptor, pieces);
    int failure = errno;
    pthread_mutex_lock(&sink.mutex);
    if (writer->abandoned)
        return;
    writer->failing = written < 0;
    if (written >= 0) {
        take_out(writer, (size_t)written);
    } else {
        /* A full disk may have room again; a reader that is gone stays away. */
        writer->broken = failure == EPIPE || failure == EBADF;
        writer->torn = writer->torn || writer->mid_line;
        discard(writer);
    }
    if (writer->tail == head && !writer->stopping && room(writer) > RING_BYTES / 2) {
        struct timespec until = clock_time(clock_ns() + NAP);
        pthread_cond_timedwait(&writer->work, &sink.mutex, &until);
    }
}

static void free_writer(struct writer *writer)
{
    pthread_cond_destroy(&writer->work);
    pthread_cond_destroy(&writer->ended);
    free(writer);
}

static void *writer_main(void *argument)
{
    struct writer *writer = argument;
    pthread_setname_np(pthread_self(), "log writer");
    pthread_mutex_lock(&sink.mutex);
    while (!writer->abandoned) {
        if (!writer->failing) /* else the next line is the occasion to try again */
            report_drops(writer, 0);
        if (writer->head != writer->tail) {
            write_out(writer);
        } else if (writer->stopping) {
            break;
        } else {
            writer->waiting = true;
            pthread_cond_wait(&writer->work, &sink.mutex);
            writer->waiting = false;
        }
    }
    bool abandoned = writer->abandoned;
    if (!abandoned) {
        sink.writer = NULL;
        writer->has_ended = true;
        pthread_cond_signal(&writer->ended);
    }
    pthread_mutex_unlock(&sink.mutex);
    if (abandoned)
        free_writer(writer);
    return NULL;
}

static int start_thread(struct writer *writer)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int failure = pthread_create(&writer->thread, NULL, writer_main, writer);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return failure;
}

bool log_start(int descriptor, enum log_level level, enum log_format format, struct error *error)
{
    struct writer *writer = malloc(sizeof *writer);
    if (!writer)
        return error_out_of_memory(error);
    memset(writer, 0, offsetof(struct writer, ring));
    writer->descriptor = descriptor;
    writer->format = format;
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&writer->work, &monotonic);
    pthread_cond_init(&writer->ended, &monotonic);
    pthread_condattr_destroy(&monotonic);

    pthread_mutex_lock(&sink.mutex);
    bool running = sink.writer != NULL;
    int failure = running ? 0 : start_thread(writer);
    if (!running && !failure) {
        sink.writer = writer;
        sink.lost = false;
        sink.descriptor = descriptor;
        sink.level = level;
        sink.format = format;
    }
    pthread_mutex_unlock(&sink.mutex);
    if (!running && !failure)
        return true;
    free_writer(writer);
    if (running)
        return error_set(error, ERROR_INVALID, "the log is started already");
    return error_set(error, ERROR_IO,
                     "the log's thread cannot be started: %s; raise the limit on threads (ulimit -u, the control "
                     "group's pids.max)",
                     strerror(failure));
}

void log_stop(void)
{
    pthread_mutex_lock(&sink.mutex);
    struct writer *writer = sink.writer;
    if (!writer) {
        pthread_mutex_unlock(&sink.mutex);
        return;
    }
    writer->stopping = true;
    pthread_cond_signal(&writer->work);
    for (unsigned part = 0; part < STOP_PARTS && !writer->has_ended; part++) {
        struct timespec until = clock_time(clock_ns() + STOP_PART);
        while (!writer->has_ended && pthread_cond_timedwait(&writer->ended, &sink.mutex, &until) != ETIMEDOUT)
            ;
    }
    bool ended = writer->has_ended;
    if (!ended) {
        pthread_detach(writer->thread);
        writer->abandoned = true;
        sink.writer = NULL;
        sink.lost = true;
        discard(writer);
    }
    pthread_mutex_unlock(&sink.mutex);
    if (ended) {
        pthread_join(writer->thread, NULL);
        free_writer(writer);
    }
}

uint64_t log_dropped(void)
{
    return atomic_load_explicit(&sink.dropped, memory_order_relaxed);
}

/* On the thread that logs. What cannot be written has nowhere to be told. */
static void write_at_once(const char *line, size_t length)
{
    while (length) {
        ssize_t written = write(sink.descriptor, line, length);
        if (written < 0 && errno != EINTR) {
            atomic_fetch_add_explicit(&sink.dropped, 1, memory_order_relaxed);
            return;
        }
        if (written > 0) {
            line += written;
            length -= (size_t)written;
        }
    }
}

void log_set_level(enum log_level level)
{
    atomic_store_explicit(&sink.level, level, memory_order_relaxed);
}

void log_fields(enum log_level level, const char *event, const struct log_field *fields, size_t count)
{
    if (level < atomic_load_explicit(&sink.level, memory_order_relaxed))
        return;
    char line[LOG_LINE_BYTES];
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    size_t length = log_format_line(line, atomic_load_explicit(&sink.format, memory_order_relaxed), &now, level, event,
                                    fields, count);
    pthread_mutex_lock(&sink.mutex);
    bool at_once = !sink.writer && !sink.lost;
    if (sink.writer)
        enqueue(sink.writer, line, length);
    else if (sink.lost)
        atomic_fetch_add_explicit(&sink.dropped, 1, memory_order_relaxed);
    pthread_mutex_unlock(&sink.mutex);
    if (at_once)
        write_at_once(line, length);
}
