/* src/telemetry/log.c: lines through a pipe, whole and in order; who logs never waits, and what is lost is counted. */
#include "suite.h"

#include "base/clock.h"
#include "telemetry/log.h"

#include <dirent.h>
#include <fcntl.h>
#include <jansson.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

/* A pipe whose reading end a thread drains into memory. */
struct drain {
    int ends[2];
    pthread_t thread;
    char *bytes;
    size_t length;
    size_t counted;       /* bytes of them, up to the end of a line */
    _Atomic size_t lines; /* in those bytes, without the reports of what was dropped */
};

/* For ever, on a machine that may stand still for seconds. */
#define PATIENCE_NS (60 * CLOCK_SECOND)

static void *drain_pipe(void *argument)
{
    struct drain *drain = argument;
    for (;;) {
        char buffer[4096];
        ssize_t got = read(drain->ends[0], buffer, sizeof buffer);
        if (got <= 0)
            return NULL;
        drain->bytes = realloc(drain->bytes, drain->length + (size_t)got + 1);
        memcpy(drain->bytes + drain->length, buffer, (size_t)got);
        drain->length += (size_t)got;
        drain->bytes[drain->length] = '\0';
        for (char *line, *end; (end = strchr(line = drain->bytes + drain->counted, '\n')) != NULL;) {
            drain->lines += memmem(line, (size_t)(end - line), "log_dropped", 11) == NULL;
            drain->counted += (size_t)(end + 1 - line);
        }
    }
}

/* Stops the log once so many lines came through: it waits a second for the last ones and no longer, and the machine may
 * stand still for that long. */
static void stop_behind(struct drain *drain, size_t lines)
{
    for (const uint64_t end = clock_ns() + PATIENCE_NS; drain->lines < lines && clock_ns() < end;)
        usleep(1000);
    log_stop();
}

static void open_pipe(struct drain *drain)
{
    memset(drain, 0, sizeof *drain);
    ck_assert_int_eq(pipe(drain->ends), 0);
}

static void start_draining(struct drain *drain)
{
    ck_assert_int_eq(pthread_create(&drain->thread, NULL, drain_pipe, drain), 0);
}

/* After log_stop: everything that was written. */
static const char *finish_draining(struct drain *drain)
{
    close(drain->ends[1]);
    pthread_join(drain->thread, NULL);
    close(drain->ends[0]);
    return drain->bytes ? drain->bytes : "";
}

static void start(int descriptor, enum log_level level, enum log_format format)
{
    struct error error;
    ck_assert_msg(log_start(descriptor, level, format, &error), "%s", error.message);
}

/* The next line of *text as a document; NULL at the end. */
static json_t *next_line(const char **text)
{
    size_t length = strcspn(*text, "\n");
    if (!**text)
        return NULL;
    ck_assert_int_eq((*text)[length], '\n');
    json_error_t error;
    json_t *line = json_loadb(*text, length, JSON_REJECT_DUPLICATES, &error);
    ck_assert_msg(line != NULL, "%s in %.*s", error.text, (int)length, *text);
    *text += length + 1;
    return line;
}

static int64_t integer(const json_t *line, const char *name)
{
    const json_t *value = json_object_get(line, name);
    return value ? json_integer_value(value) : -1;
}

static bool is_event(const json_t *line, const char *event)
{
    return strcmp(json_string_value(json_object_get(line, "event")), event) == 0;
}

START_TEST(lines_arrive_in_order)
{
    struct drain drain;
    open_pipe(&drain);
    start_draining(&drain);
    start(drain.ends[1], LOG_INFO, LOG_JSON);
    for (int i = 0; i < 1000; i++) {
        log_event(LOG_DEBUG, "unseen", LOG_INTEGER("i", i));
        log_event(i % 2 ? LOG_ERROR : LOG_INFO, "counted", LOG_INTEGER("i", i));
    }
    stop_behind(&drain, 1000);
    const char *text = finish_draining(&drain);
    json_t *line;
    int n = 0;
    for (; (line = next_line(&text)); n++) {
        ck_assert(is_event(line, "counted"));
        ck_assert_int_eq(integer(line, "i"), n);
        ck_assert_str_eq(json_string_value(json_object_get(line, "level")), n % 2 ? "error" : "info");
        json_decref(line);
    }
    ck_assert_int_eq(n, 1000);
    ck_assert_uint_eq(log_dropped(), 0);
    free(drain.bytes);
}
END_TEST

/* A line is written soon, not only when the log stops. */
START_TEST(single_line_is_written_soon)
{
    struct drain drain;
    char buffer[512];
    open_pipe(&drain);
    start(drain.ends[1], LOG_INFO, LOG_TEXT);
    for (int i = 0; i < 3; i++) {
        log_event(LOG_INFO, "alone", LOG_INTEGER("i", i));
        ssize_t got = read(drain.ends[0], buffer, sizeof buffer); /* hangs where nothing comes */
        ck_assert_int_gt(got, 0);
        ck_assert_int_eq(buffer[got - 1], '\n');
    }
    log_stop();
    close(drain.ends[0]);
    close(drain.ends[1]);
}
END_TEST

START_TEST(text_through_the_pipe)
{
    struct drain drain;
    open_pipe(&drain);
    start_draining(&drain);
    start(drain.ends[1], LOG_DEBUG, LOG_TEXT);
    log_event(LOG_DEBUG, "hello", LOG_STRING("name", "two words"));
    stop_behind(&drain, 1);
    const char *text = finish_draining(&drain);
    ck_assert_str_eq(text + strlen("2026-01-31T12:00:00.123Z"), " debug hello name=\"two words\"\n");
    free(drain.bytes);
}
END_TEST

#define PADDING "0123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789"

struct chatter {
    pthread_t thread;
    int number, lines;
};

static void *chat(void *argument)
{
    struct chatter *chatter = argument;
    for (int i = 0; i < chatter->lines; i++)
        log_event(LOG_INFO, "chat", LOG_INTEGER("thread", chatter->number), LOG_INTEGER("i", i),
                  LOG_STRING("padding", PADDING));
    return NULL;
}

/* More than the ring holds: every line is there or counted, whole, and each thread's in order. */
START_TEST(concurrent_writers)
{
    enum { THREADS = 6, LINES = 3000 };
    struct drain drain;
    struct chatter chatters[THREADS];
    int next[THREADS] = {0};
    open_pipe(&drain);
    start_draining(&drain);
    start(drain.ends[1], LOG_INFO, LOG_JSON);
    for (int i = 0; i < THREADS; i++) {
        chatters[i] = (struct chatter){.number = i, .lines = LINES};
        ck_assert_int_eq(pthread_create(&chatters[i].thread, NULL, chat, &chatters[i]), 0);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(chatters[i].thread, NULL);
    stop_behind(&drain, THREADS * LINES - log_dropped());
    const char *text = finish_draining(&drain);
    json_t *line;
    uint64_t seen = 0, reported = 0;
    while ((line = next_line(&text))) {
        if (is_event(line, "log_dropped")) {
            reported += (uint64_t)integer(line, "count");
        } else {
            int64_t thread = integer(line, "thread"), i = integer(line, "i");
            ck_assert(thread >= 0 && thread < THREADS);
            ck_assert_int_ge(i, next[thread]);
            next[thread] = (int)i + 1;
            seen++;
        }
        json_decref(line);
    }
    ck_assert_uint_eq(reported, log_dropped());
    ck_assert_uint_eq(seen + reported, THREADS * LINES);
    free(drain.bytes);
}
END_TEST

/* Nobody reads while four megabytes are logged; then somebody does. */
START_TEST(full_ring_drops_and_says_so)
{
    enum { LINES = 20000 };
    struct drain drain;
    open_pipe(&drain);
    start(drain.ends[1], LOG_INFO, LOG_JSON);
    /* Whoever waited for a reader would wait for ever. A short line may fit where the report of what was dropped before
     * it does not. */
    for (int i = 0; i < LINES; i++)
        log_event(LOG_INFO, "flood", LOG_INTEGER("i", i), LOG_STRING("padding", i % 2 ? NULL : PADDING PADDING));
    uint64_t dropped = log_dropped();
    ck_assert_uint_gt(dropped, LINES / 2);
    start_draining(&drain);
    for (const uint64_t end = clock_ns() + PATIENCE_NS; drain.lines < LINES - dropped && clock_ns() < end;)
        usleep(1000);
    log_event(LOG_INFO, "flood", LOG_INTEGER("i", LINES), LOG_STRING("padding", PADDING));
    stop_behind(&drain, LINES - dropped + 1);
    ck_assert_uint_eq(log_dropped(), dropped);
    const char *text = finish_draining(&drain);
    json_t *line;
    int64_t i = 0, last = -1;
    uint64_t reported = 0;
    for (; (line = next_line(&text)); json_decref(line)) {
        if (is_event(line, "log_dropped")) {
            ck_assert_str_eq(json_string_value(json_object_get(line, "level")), "warning");
            reported += (uint64_t)integer(line, "count");
            i += integer(line, "count"); /* the report stands where the lines are missing */
        } else {
            ck_assert_int_eq(integer(line, "i"), i);
            last = i++;
        }
    }
    ck_assert_uint_eq(reported, dropped);
    ck_assert_int_eq(last, LINES);
    free(drain.bytes);
}
END_TEST

/* The threads of this process that write the log. */
static unsigned writers(void)
{
    DIR *threads = opendir("/proc/self/task");
    unsigned count = 0;
    ck_assert_ptr_nonnull(threads);
    for (const struct dirent *entry; (entry = readdir(threads)) != NULL;) {
        char path[300], name[32] = "";
        snprintf(path, sizeof path, "/proc/self/task/%s/comm", entry->d_name);
        FILE *file = fopen(path, "r");
        if (file && fgets(name, sizeof name, file))
            count += strcmp(name, "log writer\n") == 0;
        if (file)
            fclose(file);
    }
    closedir(threads);
    return count;
}

START_TEST(stopping_waits_a_second_at_most)
{
    struct drain drain;
    open_pipe(&drain);
    start(drain.ends[1], LOG_INFO, LOG_JSON);
    for (int i = 0; i < 3000; i++) /* the pipe's 64 KiB and the ring */
        log_event(LOG_INFO, "flood", LOG_INTEGER("i", i), LOG_STRING("padding", PADDING));
    uint64_t dropped = log_dropped(), began = clock_ns();
    log_stop();
    uint64_t took = clock_ns() - began;
    ck_assert_uint_ge(took, CLOCK_SECOND / 2);
    ck_assert_uint_lt(took, PATIENCE_NS);
    ck_assert_uint_gt(log_dropped(), dropped); /* what was in the ring */
    dropped = log_dropped();
    log_event(LOG_INFO, "late", LOG_INTEGER("i", 0)); /* would hang if it were written */
    ck_assert_uint_eq(log_dropped(), dropped + 1);
    /* The writer that was abandoned comes back and cleans up; a new one is none the worse. */
    struct drain second;
    open_pipe(&second);
    start_draining(&second);
    start(second.ends[1], LOG_INFO, LOG_JSON);
    log_event(LOG_INFO, "again", LOG_INTEGER("i", 0));
    for (const uint64_t end = clock_ns() + PATIENCE_NS; second.lines < 1 && clock_ns() < end;)
        usleep(1000);
    start_draining(&drain);
    for (const uint64_t end = clock_ns() + PATIENCE_NS; writers() > 1 && clock_ns() < end;)
        usleep(1000);
    ck_assert_uint_eq(writers(), 1);
    log_event(LOG_INFO, "again", LOG_INTEGER("i", 1));
    stop_behind(&second, 2);
    const char *text = finish_draining(&second);
    for (int64_t i = 0; i < 2; i++) {
        json_t *line = next_line(&text);
        ck_assert_ptr_nonnull(line);
        ck_assert(is_event(line, "again") && integer(line, "i") == i);
        json_decref(line);
    }
    ck_assert_str_eq(text, "");
    finish_draining(&drain);
    free(second.bytes);
    free(drain.bytes);
}
END_TEST

/* Stopping does not wait for the reader that is gone, which shows unless the machine stands still just then. */
START_TEST(reader_that_goes_away)
{
    uint64_t took = CLOCK_SECOND;
    signal(SIGPIPE, SIG_DFL); /* would end the process if the writer took it */
    for (int try = 0; try < 20 && took > CLOCK_SECOND / 2; try++) {
        const uint64_t before = log_dropped();
        struct drain drain;
        open_pipe(&drain);
        start(drain.ends[1], LOG_INFO, LOG_JSON);
        close(drain.ends[0]);
        log_event(LOG_INFO, "unheard", LOG_INTEGER("i", 0));
        for (const uint64_t end = clock_ns() + PATIENCE_NS; log_dropped() == before && clock_ns() < end;)
            usleep(1000);
        ck_assert_uint_eq(log_dropped(), before + 1);
        for (int i = 0; i < 10; i++)
            log_event(LOG_INFO, "unheard", LOG_INTEGER("i", i));
        ck_assert_uint_eq(log_dropped(), before + 11);
        const uint64_t began = clock_ns();
        log_stop();
        took = clock_ns() - began;
        close(drain.ends[1]);
    }
    ck_assert_uint_le(took, CLOCK_SECOND / 2);
}
END_TEST

/* A file that may not grow for a while, as on a full disk: the torn line is ended, and the loss is told. */
START_TEST(full_disk_recovers)
{
    char path[] = "/tmp/attnd-log-XXXXXX", content[4096];
    int file = mkstemp(path);
    ck_assert_int_ge(file, 0);
    unlink(path);
    struct rlimit before, small;
    ck_assert_int_eq(getrlimit(RLIMIT_FSIZE, &before), 0);
    small = before;
    small.rlim_cur = 250;
    signal(SIGXFSZ, SIG_IGN);
    start(file, LOG_INFO, LOG_JSON);
    int limited =
        setrlimit(RLIMIT_FSIZE, &small); /* from here on the test library cannot write either: no assertions */
    for (int i = 0; i < 3; i++) {        /* 200 bytes each: one fits, one is torn, one is lost */
        log_event(LOG_INFO, "line", LOG_INTEGER("i", i), LOG_STRING("padding", PADDING));
        usleep(20000);
    }
    for (const uint64_t end = clock_ns() + PATIENCE_NS; log_dropped() < 2 && clock_ns() < end;)
        usleep(1000);
    uint64_t dropped = log_dropped();
    int restored = setrlimit(RLIMIT_FSIZE, &before);
    ck_assert_int_eq(limited, 0);
    ck_assert_int_eq(restored, 0);
    ck_assert_uint_eq(dropped, 2);
    log_event(LOG_INFO, "line", LOG_INTEGER("i", 3));
    ssize_t length = 0;
    content[0] = '\0';
    for (const uint64_t end = clock_ns() + PATIENCE_NS; !strstr(content, "\"i\":3") && clock_ns() < end; usleep(1000)) {
        length = pread(file, content, sizeof content - 1, 0);
        ck_assert_int_ge(length, 0);
        content[length] = '\0';
    }
    log_stop();
    ck_assert_uint_eq(log_dropped(), 2);
    ck_assert_int_gt(length, 250);
    const char *text = content;
    json_t *line = next_line(&text);
    ck_assert_int_eq(integer(line, "i"), 0);
    json_decref(line);
    text += strcspn(text, "\n") + 1; /* the torn one */
    ck_assert_int_eq(text - content, 251);
    line = next_line(&text);
    ck_assert_ptr_nonnull(line);
    ck_assert(is_event(line, "log_dropped"));
    ck_assert_int_eq(integer(line, "count"), 2);
    json_decref(line);
    line = next_line(&text);
    ck_assert_ptr_nonnull(line);
    ck_assert_int_eq(integer(line, "i"), 3);
    json_decref(line);
    ck_assert_str_eq(text, "");
    close(file);
}
END_TEST

START_TEST(without_a_writer_lines_are_written_at_once)
{
    struct drain drain;
    open_pipe(&drain);
    ck_assert_int_eq(dup2(drain.ends[1], STDERR_FILENO), STDERR_FILENO);
    log_event(LOG_DEBUG, "unseen", LOG_INTEGER("i", 0));
    log_event(LOG_INFO, "early", LOG_INTEGER("i", 1));
    char buffer[1024];
    ssize_t got = read(drain.ends[0], buffer, sizeof buffer - 1);
    ck_assert_int_gt(got, 0);
    buffer[got] = '\0';
    const char *text = buffer;
    json_t *line = next_line(&text);
    ck_assert(is_event(line, "early"));
    json_decref(line);
    ck_assert_str_eq(text, "");
    log_stop(); /* nothing to stop */
    start(drain.ends[1], LOG_WARNING, LOG_TEXT);
    struct error error;
    ck_assert(!log_start(drain.ends[1], LOG_INFO, LOG_JSON, &error));
    ck_assert_int_eq(error.code, ERROR_INVALID);
    log_stop();
    log_event(LOG_INFO, "unseen", LOG_INTEGER("i", 0));
    log_event(LOG_WARNING, "late", LOG_INTEGER("i", 2));
    got = read(drain.ends[0], buffer, sizeof buffer - 1);
    ck_assert_int_gt(got, 0);
    buffer[got] = '\0';
    ck_assert_str_eq(buffer + strlen("2026-01-31T12:00:00.123Z"), " warning late i=2\n");
    close(drain.ends[0]);
    close(drain.ends[1]);
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("log");
    TCase *t = tcase_create("log");
    tcase_add_test(t, lines_arrive_in_order);
    tcase_add_test(t, single_line_is_written_soon);
    tcase_add_test(t, text_through_the_pipe);
    tcase_add_test(t, concurrent_writers);
    tcase_add_test(t, full_ring_drops_and_says_so);
    tcase_add_test(t, stopping_waits_a_second_at_most);
    tcase_add_test(t, reader_that_goes_away);
    tcase_add_test(t, full_disk_recovers);
    tcase_add_test(t, without_a_writer_lines_are_written_at_once);
    suite_add_tcase(s, t);
    return s;
}
