#include "telemetry/otlp_exporter.h"

#include "base/clock.h"
#include "base/size.h"
#include "telemetry/log.h"

#include <curl/curl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

/* Spans wait this long for company. */
#define PATIENCE (1 * CLOCK_SECOND)

/* After a failure, doubled with each further one; a random part of up to a half is taken off, so that replicas do not
 * all come back at once. */
#define FIRST_PAUSE (1 * CLOCK_SECOND)
#define MOST_PAUSE  (32 * CLOCK_SECOND)
#define MOST_TRIES  6 /* of one batch: about half a minute */

/* Of a collector's answer; what is behind is not looked at, and one that goes on and on is not read. */
#define ANSWER_BYTES      4096
#define ANSWER_BYTES_MOST ((size_t)1 << 20)

struct otlp_exporter {
    pthread_t thread;
    const struct otlp_settings *settings;
    struct trace_buffer *buffer;
    struct trace_counters *counters;
    CURLM *multi;
    CURL *easy;
    struct curl_slist *headers;
    char answer[ANSWER_BYTES];         /* [answer_length] */
    size_t answer_length, answer_came; /* kept; in all */
    char fault[CURL_ERROR_SIZE];       /* why there is no answer */
    unsigned failures;                 /* of requests, one behind the other */
    bool failing;                      /* the log has been told */
    _Atomic uint64_t stop_by;          /* clock_ns() by which all has to be over */
};

/* ---- one request */

static size_t take_answer(char *data, size_t size, size_t count, void *context)
{
    struct otlp_exporter *exporter = context;
    const size_t bytes = size * count, taken = size_min(bytes, ANSWER_BYTES - exporter->answer_length);
    memcpy(exporter->answer + exporter->answer_length, data, taken);
    exporter->answer_length += taken;
    exporter->answer_came += bytes;
    return exporter->answer_came <= ANSWER_BYTES_MOST ? bytes : 0; /* 0: the request has failed */
}

/* Runs the transfer until it is over, or stop_by is. */
static CURLcode transfer(struct otlp_exporter *exporter)
{
    CURLcode result = CURLE_ABORTED_BY_CALLBACK;
    int running = 1;
    curl_multi_add_handle(exporter->multi, exporter->easy);
    while (running && curl_multi_perform(exporter->multi, &running) == CURLM_OK && running) {
        const uint64_t now = clock_ns(), stop_by = atomic_load(&exporter->stop_by);
        if (now >= stop_by)
            break;
        const uint64_t left = stop_by == CLOCK_NEVER ? CLOCK_SECOND : stop_by - now;
        curl_multi_poll(exporter->multi, NULL, 0, 1 + (int)(left / CLOCK_MILLISECOND), NULL);
    }
    for (CURLMsg *message; (message = curl_multi_info_read(exporter->multi, &running));)
        if (message->msg == CURLMSG_DONE)
            result = message->data.result;
    curl_multi_remove_handle(exporter->multi, exporter->easy);
    return result;
}

enum outcome { SENT, LATER, REFUSED };

/* Posts the document. *status: 0 where there was no answer. *pause: what the collector asks for; 0: nothing. */
static enum outcome post(struct otlp_exporter *exporter, const struct text *document, long *status, uint64_t *pause)
{
    curl_off_t seconds = 0;
    exporter->answer_length = exporter->answer_came = 0;
    exporter->fault[0] = '\0';
    *status = 0;
    *pause = 0;
    curl_easy_setopt(exporter->easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)document->length);
    curl_easy_setopt(exporter->easy, CURLOPT_POSTFIELDS, document->data);
    atomic_fetch_add(&exporter->counters->requests, 1);
    const CURLcode result = transfer(exporter);
    if (result != CURLE_OK) {
        if (exporter->answer_came > ANSWER_BYTES_MOST)
            strcpy(exporter->fault, "its answer does not end");
        else if (!exporter->fault[0])
            strncat(exporter->fault, curl_easy_strerror(result), sizeof exporter->fault - 1);
        return LATER;
    }
    curl_easy_getinfo(exporter->easy, CURLINFO_RESPONSE_CODE, status);
    curl_easy_getinfo(exporter->easy, CURLINFO_RETRY_AFTER, &seconds);
    if (seconds > 0)
        *pause = size_min((uint64_t)seconds, MOST_PAUSE / CLOCK_SECOND) * CLOCK_SECOND;
    if (*status >= 200 && *status < 300)
        return SENT;
    return *status == 429 || *status == 502 || *status == 503 || *status == 504 ? LATER : REFUSED;
}

/* ---- what is said of it */

/* Once, until a request has succeeded again. */
static void log_failure(struct otlp_exporter *exporter, long status)
{
    if (exporter->failing)
        return;
    exporter->failing = true;
    log_event(LOG_WARNING, "tracing", LOG_STRING("message", "spans cannot be sent"),
              LOG_STRING("reason", status ? NULL : exporter->fault),
              status ? LOG_INTEGER("status", status) : LOG_STRING("status", NULL),
              LOG_STRING("remedy",
                         "see whether a collector takes OTLP over HTTP at tracing.endpoint; requests are served "
                         "all the same"));
}

static void log_success(struct otlp_exporter *exporter)
{
    if (exporter->failing)
        log_event(
            LOG_INFO, "tracing", LOG_STRING("message", "spans are sent again"),
            LOG_INTEGER("lost", atomic_load(&exporter->counters->full) + atomic_load(&exporter->counters->failed)));
    exporter->failing = false;
}

static void note_sent(struct otlp_exporter *exporter, size_t spans)
{
    char reason[256];
    uint64_t rejected = otlp_json_rejected(exporter->answer, exporter->answer_length, reason, sizeof reason);
    rejected = rejected < spans ? rejected : spans;
    atomic_fetch_add(&exporter->counters->sent, spans - rejected);
    atomic_fetch_add(&exporter->counters->rejected, rejected);
    log_success(exporter);
    if (rejected)
        log_event(LOG_WARNING, "tracing", LOG_STRING("message", "the collector has rejected spans"),
                  LOG_INTEGER("count", rejected), LOG_STRING("reason", reason));
}

/* ---- batches */

static uint64_t pause_after(const struct otlp_exporter *exporter)
{
    uint64_t pause = FIRST_PAUSE << (exporter->failures < 6 ? exporter->failures - 1 : 5);
    pause = pause < MOST_PAUSE ? pause : MOST_PAUSE;
    return pause - trace_ids_random() % (pause / 2);
}

static bool is_over(const struct otlp_exporter *exporter)
{
    return clock_ns() >= atomic_load(&exporter->stop_by);
}

/* False: what it holds is lost. */
static bool deliver(struct otlp_exporter *exporter, const struct text *document, size_t spans)
{
    bool last = false; /* it was stopped: this is the last try */
    for (unsigned tries = 1; !is_over(exporter); tries++) {
        long status;
        uint64_t asked;
        switch (post(exporter, document, &status, &asked)) {
        case SENT:
            exporter->failures = 0;
            note_sent(exporter, spans);
            return true;
        case REFUSED:
            exporter->failures = 0; /* it is there, and has no time to be given */
            atomic_fetch_add(&exporter->counters->failed_requests, 1);
            log_failure(exporter, status);
            return false;
        case LATER:
            exporter->failures++;
            atomic_fetch_add(&exporter->counters->failed_requests, 1);
            log_failure(exporter, status);
            if (last || tries == MOST_TRIES)
                return false;
            last = !trace_buffer_sleep(exporter->buffer, clock_ns() + (asked ? asked : pause_after(exporter)));
        }
    }
    return false;
}

static void *exporter_main(void *argument)
{
    struct otlp_exporter *exporter = argument;
    const struct trace_record *records;
    size_t count;
    pthread_setname_np(pthread_self(), "traces");
    while ((count = trace_buffer_wait(exporter->buffer, PATIENCE, &records))) {
        struct text document = {0};
        size_t spans = 0;
        otlp_json_write(&document, &exporter->settings->resource, records, count);
        for (size_t i = 0; i < count; i++)
            spans += trace_record_spans(&records[i]);
        trace_buffer_drop(exporter->buffer, count);
        if (document.failed || !deliver(exporter, &document, spans))
            atomic_fetch_add(&exporter->counters->failed, spans);
        text_free(&document);
    }
    return NULL;
}

/* ---- beginning and end */

static bool add_header(struct otlp_exporter *exporter, const char *header)
{
    struct curl_slist *more = curl_slist_append(exporter->headers, header);
    if (more)
        exporter->headers = more;
    return more;
}

static bool set_up(struct otlp_exporter *exporter)
{
    const struct otlp_settings *settings = exporter->settings;
    exporter->multi = curl_multi_init();
    exporter->easy = curl_easy_init();
    if (!exporter->multi || !exporter->easy || !add_header(exporter, "Content-Type: application/json") ||
        !add_header(exporter, "Expect:"))
        return false;
    for (size_t i = 0; i < settings->header_count; i++)
        if (!add_header(exporter, settings->headers[i]))
            return false;
    CURL *easy = exporter->easy;
#if LIBCURL_VERSION_NUM >= 0x075700
    curl_easy_setopt(easy, CURLOPT_QUICK_EXIT, 1L); /* stopping does not wait for a name that is being resolved */
#endif
    return curl_easy_setopt(easy, CURLOPT_URL, settings->url) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_HTTPHEADER, exporter->headers) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_USERAGENT, "attnd") == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, settings->timeout_ms) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, exporter->fault) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, take_answer) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_WRITEDATA, exporter) == CURLE_OK;
}

static void tear_down(struct otlp_exporter *exporter)
{
    curl_easy_cleanup(exporter->easy);
    curl_multi_cleanup(exporter->multi);
    curl_slist_free_all(exporter->headers);
    curl_global_cleanup();
    free(exporter);
}

struct otlp_exporter *otlp_exporter_start(const struct otlp_settings *settings, struct trace_buffer *buffer,
                                          struct trace_counters *counters, struct error *error)
{
    struct otlp_exporter *exporter = calloc(1, sizeof *exporter);
    sigset_t all, before;
    if (!exporter || curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK) {
        free(exporter);
        error_out_of_memory(error);
        return NULL;
    }
    exporter->settings = settings;
    exporter->buffer = buffer;
    exporter->counters = counters;
    atomic_init(&exporter->stop_by, CLOCK_NEVER);
    if (!set_up(exporter)) {
        error_set(error, ERROR_IO, "libcurl cannot be set up to send spans to %s; see tracing.endpoint", settings->url);
        tear_down(exporter);
        return NULL;
    }
    /* Signals are for the thread that waits for them. */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const int failure = pthread_create(&exporter->thread, NULL, exporter_main, exporter);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (!failure)
        return exporter;
    error_set(error, ERROR_IO, "the thread that sends spans cannot be started: %s", strerror(failure));
    tear_down(exporter);
    return NULL;
}

void otlp_exporter_stop(struct otlp_exporter *exporter, uint64_t patience_ns)
{
    if (!exporter)
        return;
    atomic_store(&exporter->stop_by, clock_ns() + patience_ns);
    trace_buffer_stop(exporter->buffer);
    curl_multi_wakeup(exporter->multi);
    pthread_join(exporter->thread, NULL);
    tear_down(exporter);
}
