/* Decompresses bodies and compresses answers: see content_coding.h. What is short is done by the polling thread that
 * has the request anyway, what would hold up its other connections by a worker. The memory is the request's: charged
 * before it is taken, and what it replaces is given back. */
#include "server/content_coding.h"

#include "base/clock.h"
#include "base/size.h"
#include "server/quality.h"
#include "server/request.h"
#include "server/routes.h"

#include <stdlib.h>
#include <string.h>

/* What a polling thread decompresses by itself: up to 0.1 ms at 600 MB/s, and then as much again to decode the
 * result. So many compressed bytes take up to 0.2 ms where all of them are headers of empty blocks. */
#define OPEN_AT_ONCE_BYTES        ((size_t)64 << 10)
#define OPEN_AT_ONCE_PACKED_BYTES ((size_t)4 << 10)

/* What a polling thread compresses by itself: about 0.2 ms. */
#define SHORTEN_AT_ONCE_NS 200e3

/* What a worker decompresses in one go, by libdeflate, which is twice as fast as zlib but cannot be interrupted: up to
 * 2 ms, and where the body is nothing but headers of empty blocks up to 13 ms. */
#define OPEN_WHOLE_BYTES        ((size_t)1 << 20)
#define OPEN_WHOLE_PACKED_BYTES ((size_t)64 << 10)

/* Anything longer goes in steps of up to 1 to 2 ms, by either of these; between two of them other work is done. */
static const struct gzip_step_most STEP = {.packed = 8 << 10, .text = 256 << 10};

/* A worker does 1e11 flop a second. What a body stands for is what it says; how long it is, it cannot lie about, and
 * that many headers of empty blocks take so long. */
#define FLOP_PER_NS          100.0
#define FLOP_PER_OPENED_BYTE (1.5 * FLOP_PER_NS)
#define FLOP_PER_PACKED_BYTE (200 * FLOP_PER_NS)

/* Where memory is full: there is so many times as much next, so that all copies together are a third of the text. */
#define GROWTH 4

void content_coding_see_headers(struct request *request)
{
    request->coding.accepted = accept_encoding_choose(&request->headers.accept_encoding);
}

bool content_coding_check_body(struct request *request, struct error *error)
{
    static const struct {
        const char *name;
        enum coding coding;
    } known[] = {{"", CODING_IDENTITY},
                 {"identity", CODING_IDENTITY},
                 {"gzip", CODING_GZIP},
                 {"x-gzip", CODING_GZIP},
                 {"deflate", CODING_DEFLATE}};
    const struct header_lines *lines = &request->headers.lines[HEADER_CONTENT_ENCODING];
    if (lines->count == 0)
        return true;
    /* libmicrohttpd leaves the blanks behind a value in it. */
    struct header_part rest = {lines->last, lines->last + lines->last_length}, name = rest;
    header_next_part(&rest, ',', &name);
    const bool one = lines->count == 1 && rest.begin == rest.end;
    for (size_t i = 0; one && i < sizeof known / sizeof *known; i++)
        if (header_part_is(&name, known[i].name)) {
            request->coding.body = known[i].coding;
            return true;
        }
    request->coding.refused = true;
    return error_set(
        error, ERROR_UNSUPPORTED_MEDIA_TYPE,
        "Content-Encoding \"%.100s\"%s is not supported; send the body in one of gzip, deflate and identity",
        lines->last, lines->count > 1 ? " behind another" : "");
}

/* ---- bodies */

static size_t body_limit(const struct request *request)
{
    return (size_t)request->generation->config->limits.max_body_bytes;
}

/* The body becomes the first `length` bytes of what it was decompressed to, for which `capacity` bytes are charged. */
static void set_opened(struct request *request, struct arena *opened, size_t capacity, size_t length)
{
    request_drop_body(request);
    request_discharge(request, capacity - length); /* what is not touched takes no memory */
    request->body = *opened;
    request->body_length = request->body_capacity = length;
    request->coding.body = CODING_IDENTITY;
}

/* Decompresses the body into `capacity` bytes, in one go. On GZIP_DONE they are the body, else it is as it was. */
static enum gzip_end open_whole(struct request *request, size_t capacity, struct error *error)
{
    struct arena opened;
    size_t length;
    if (!request_take_memory(request, capacity, false, &opened, error))
        return GZIP_FAILED;
    const enum gzip_end end = gzip_decompress(&request->server->gzip, request->coding.body, request->body.base,
                                              request->body_length, opened.base, capacity, &length, error);
    if (end == GZIP_DONE)
        set_opened(request, &opened, capacity, length);
    else
        request_give_memory(request, capacity, &opened);
    return end;
}

/* More memory for what has `written` bytes in *opened, up to limits.max_body_bytes. */
static bool grow_opened(struct request *request, struct arena *opened, size_t *capacity, size_t written,
                        struct error *error)
{
    const size_t limit = body_limit(request);
    size_t more = size_max(*capacity, request->body_length); /* its own word may be a lie, and much too small */
    struct arena larger;
    if (*capacity == limit)
        return error_set(
            error, ERROR_TOO_LARGE,
            "decompressed, the body is over limits.max_body_bytes (%zu); send less at once, or raise the setting",
            limit);
    more = more > limit / GROWTH ? limit : more * GROWTH;
    if (!request_take_memory(request, more, false, &larger, error))
        return false;
    memcpy(larger.base, opened->base, written);
    request_give_memory(request, *capacity, opened);
    *opened = larger;
    *capacity = more;
    return true;
}

/* Decompresses the body in steps. Between two of them light jobs run that no other worker takes, and the rest is given
 * up where the answer is not wanted any more. False: the body is as it was. */
static bool open_in_steps(struct request *request, size_t capacity, struct error *error)
{
    struct gzip_steps steps;
    struct arena opened;
    enum gzip_end end = GZIP_FAILED;
    if (!request_take_memory(request, capacity, false, &opened, error))
        return false;
    if (!gzip_steps_begin(&steps, &request->server->gzip, request->coding.body, request->body.base,
                          request->body_length, error))
        goto fail;
    for (;;) {
        end = gzip_step(&steps, opened.base, capacity, &STEP, error);
        if (end == GZIP_DONE || end == GZIP_FAILED)
            break;
        if (end == GZIP_LONGER && !grow_opened(request, &opened, &capacity, steps.written, error))
            break;
        job_yield(&request->job);
        if (request_lapsed(request, clock_ns(), false, error) != ERROR_NONE)
            break;
    }
    gzip_steps_end(&steps);
    if (end != GZIP_DONE)
        goto fail;
    set_opened(request, &opened, capacity, steps.written);
    return true;
fail:
    request_give_memory(request, capacity, &opened);
    return false;
}

/* How long the body may be, decompressed, by its own word. */
static size_t expected_bytes(const struct request *request)
{
    return gzip_expected(request->coding.body, request->body.base, request->body_length, body_limit(request));
}

static void note_opened(struct request *request, uint64_t began)
{
    request->body_came = clock_ns();
    if (!request->timing.parse_began)
        request->timing.parse_began = began;
    request->timing.parse_us += (double)(request->body_came - began) / 1e3;
}

static bool open_by_worker(struct request *request, struct error *error)
{
    const uint64_t began = clock_ns();
    const size_t expected = expected_bytes(request);
    enum gzip_end end = GZIP_LONGER;
    if (request->body_length <= OPEN_WHOLE_PACKED_BYTES && expected <= OPEN_WHOLE_BYTES)
        end = open_whole(request, expected, error);
    const bool opened = end == GZIP_DONE || (end == GZIP_LONGER && open_in_steps(request, expected, error));
    note_opened(request, began);
    return opened;
}

/* On the polling thread. GZIP_LONGER: a worker is to do it. */
static enum gzip_end open_at_once(struct request *request, size_t expected, struct error *error)
{
    const uint64_t began = clock_ns();
    const size_t most = size_min(OPEN_AT_ONCE_BYTES, body_limit(request));
    enum gzip_end end = open_whole(request, expected, error);
    if (end == GZIP_LONGER && expected < most)
        end = open_whole(request, most, error);
    note_opened(request, began);
    return end;
}

/* Entered by a worker; on JOB_DROPPED by the thread that stops the server. */
static void open_job(struct job *job, enum job_end end)
{
    struct request *request = request_of_job(job);
    struct error error;
    if (!request_job_begins(request, end, &error) || !open_by_worker(request, &error))
        request_fail(request, &error);
    request_resume(request);
}

bool content_coding_open_body(struct request *request)
{
    struct error error;
    if (request->coding.body == CODING_IDENTITY)
        return true;
    const size_t expected = expected_bytes(request);
    if (request->body_length <= OPEN_AT_ONCE_PACKED_BYTES && expected <= OPEN_AT_ONCE_BYTES) {
        const enum gzip_end end = open_at_once(request, expected, &error);
        if (end == GZIP_FAILED)
            request_fail(request, &error);
        if (end != GZIP_LONGER)
            return end == GZIP_DONE;
    }
    request->coding.decoding = true;
    request->job = (struct job){.run = open_job,
                                .flop = FLOP_PER_OPENED_BYTE * (double)expected +
                                        FLOP_PER_PACKED_BYTE * (double)request->body_length};
    request_submit(request);
    return false;
}

bool content_coding_opened(struct request *request)
{
    const bool opened = request->coding.decoding && request->answer.status == 0;
    request->coding.decoding = false;
    if (opened) {
        request->job = (struct job){0};
        request->submitted = 0;
        request->body_came = clock_ns(); /* from the worker */
    }
    return opened;
}

/* ---- answers */

bool content_coding_wanted(const struct request *request, size_t length)
{
    const struct config *config = request->generation->config;
    if (request->coding.accepted == ACCEPTED_IDENTITY || length == 0 ||
        length > (size_t)config->compression.max_bytes || (request->route && route_is_probe(request->route)))
        return false;
    return request->coding.accepted == ACCEPTED_ONLY_GZIP || length >= (size_t)config->compression.min_bytes;
}

/* Whether the answer is still to be looked at. */
static bool to_be_tried(const struct request *request)
{
    return !request->answer.coding_tried && request->answer.form == ANSWER_WHOLE &&
           request->answer.error != ERROR_CLIENT_GONE && content_coding_wanted(request, request->answer.length);
}

/* The answer becomes the first `length` bytes of `packed`. What it was stays held with what it was made of: it is at
 * most compression.max_bytes. */
static void set_packed(struct request *request, struct arena *packed, size_t length)
{
    struct answer *answer = &request->answer;
    if (answer->owned)
        free((char *)answer->body);
    answer->body = packed->base;
    answer->length = length;
    answer->owned = false;
    answer->gzip = true;
    request_hold(request, packed);
}

static void shorten(struct request *request)
{
    const struct answer *answer = &request->answer;
    const size_t bound = gzip_bound(answer->length);
    const size_t capacity =
        request->coding.accepted == ACCEPTED_ONLY_GZIP ? bound : size_min(bound, answer->length - 1);
    struct error ignored;
    struct arena packed;
    if (capacity == 0 || !request_take_memory(request, capacity, false, &packed, &ignored))
        return;
    const size_t length = gzip_compress(&request->server->gzip, answer->body, answer->length, packed.base, capacity);
    request_discharge(request, capacity - length);
    if (length > 0)
        set_packed(request, &packed, length);
    else
        arena_store_put(request->server->parts.arenas, &packed);
}

static void shorten_in_time(struct request *request)
{
    const uint64_t began = clock_ns();
    request->answer.coding_tried = true;
    shorten(request);
    request->timing.encode_us += (double)(clock_ns() - began) / 1e3;
    request->answer.pieces = NULL; /* they are written, and no longer tell how long that took */
    request->timing.encoded_whole = true;
}

void content_coding_shorten_answer(struct request *request)
{
    if (to_be_tried(request))
        shorten_in_time(request);
}

/* Nanoseconds that compressing numbers takes; other documents are faster. */
static double expected_ns(const struct request *request, size_t length)
{
    const int64_t level = request->generation->config->compression.level;
    return (level == 1 ? 4.5 : level <= 6 ? 17 : 110) * (double)length;
}

double content_coding_flop(const struct request *request, size_t length)
{
    return content_coding_wanted(request, length) ? FLOP_PER_NS * expected_ns(request, length) : 0;
}

void content_coding_shorten_here(struct request *request)
{
    if (to_be_tried(request) && expected_ns(request, request->answer.length) <= SHORTEN_AT_ONCE_NS)
        shorten_in_time(request);
}

static void shorten_job(struct job *job, enum job_end end)
{
    struct request *request = request_of_job(job);
    if (end == JOB_RUN)
        shorten_in_time(request);
    request_resume(request);
}

bool content_coding_shorten_later(struct request *request)
{
    struct server *server = request->server;
    struct error ignored;
    if (!to_be_tried(request) || expected_ns(request, request->answer.length) <= SHORTEN_AT_ONCE_NS)
        return false;
    request->answer.coding_tried = true;
    request->job = (struct job){.run = shorten_job, .flop = FLOP_PER_NS * expected_ns(request, request->answer.length)};
    request->submitted = clock_ns();
    MHD_suspend_connection(request->mhd);
    if (pool_submit(server->parts.pool, &request->job, &ignored))
        connections_enter(&server->connections, request->connection, CONNECTION_WORKING, request->submitted,
                          request->deadline);
    else
        request_resume(request); /* the answer is good as it is */
    return true;
}

void content_coding_replace_answer(struct request *request, const void *packed, size_t length)
{
    request->answer.body = packed;
    request->answer.length = length;
    request->answer.gzip = request->answer.coding_tried = true;
}

enum MHD_Result content_coding_add_headers(const struct request *request, struct MHD_Response *response)
{
    enum MHD_Result ok = MHD_YES;
    if (!request->route || !route_is_probe(request->route))
        ok &= MHD_add_response_header(response, MHD_HTTP_HEADER_VARY, "Accept, Accept-Encoding");
    if (request->answer.gzip)
        ok &= MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_ENCODING, "gzip");
    if (request->coding.refused)
        ok &= MHD_add_response_header(response, MHD_HTTP_HEADER_ACCEPT_ENCODING, "gzip, deflate");
    return ok;
}
