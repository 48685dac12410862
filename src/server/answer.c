/* Entered by the worker that computed the answer (answer_from_pieces), then by the polling thread. */
#include "server/answer.h"

#include "base/clock.h"
#include "base/size.h"
#include "server/answer_stream.h"
#include "server/request.h"

/* Below this an answer is whole before it leaves: its length is known, and one call sends it. */
#define READ_LEAST_BYTES   ((size_t)256 << 10)
#define STREAM_LEAST_BYTES ((size_t)1 << 20)

/* What is written and sent at once of an answer that is read: it stays in the processor's cache in between. */
#define READ_BLOCK_BYTES ((size_t)128 << 10)

static bool make_whole(struct request *request, struct answer_pieces *pieces, uint64_t began, struct arena *memory,
                       struct error *error)
{
    struct answer *answer = &request->answer;
    struct arena larger = {0};
    char *text = arena_take(memory, pieces->most);
    if (!text) {
        if (!request_take_memory(request, pieces->most, false, &larger, error))
            return false;
        text = arena_take(&larger, pieces->most);
        request_hold(request, &larger);
    }
    const char *behind = answer_pieces_write_whole(pieces, began, text);
    answer->body = text;
    answer->length = (size_t)(behind - text);
    /* What was not touched takes no memory. */
    request_discharge(request, pieces->most - answer->length);
    return true;
}

static bool make_stream(struct request *request, struct answer_pieces *pieces, const struct parallel *parallel,
                        struct error *error)
{
    struct arena memory = {0};
    size_t bytes;
    if (!answer_stream_need(pieces, &bytes))
        return error_out_of_memory(error);
    if (!request_take_memory(request, bytes, true, &memory, error))
        return false;
    request->answer.stream = answer_stream_create(request, pieces, &memory);
    request_hold(request, &memory);
    answer_stream_begin(request->answer.stream, parallel);
    return true;
}

static enum answer_form choose_form(const struct request *request, const struct answer_pieces *pieces)
{
    const size_t whole = (size_t)request->generation->config->compression.max_bytes;
    if (pieces->exact) {
        if (pieces->most <= READ_LEAST_BYTES || content_coding_wanted(request, pieces->most))
            return ANSWER_WHOLE;
        return pieces->raw ? ANSWER_IN_PLACE : ANSWER_READ;
    }
    /* Only chunks can carry what has no known length, and let a client see that it is cut short. */
    return request->takes_chunks && pieces->least > size_max(whole, STREAM_LEAST_BYTES) ? ANSWER_STREAMED
                                                                                        : ANSWER_WHOLE;
}

bool answer_from_pieces(struct request *request, struct answer_pieces *pieces, uint64_t began, struct arena *memory,
                        const struct parallel *parallel, bool *keep, struct error *error)
{
    struct answer *answer = &request->answer;
    const enum answer_form form = choose_form(request, pieces);
    *answer = (struct answer){.status = 200, .form = form, .pieces = pieces};
    if (form != ANSWER_WHOLE)
        pieces->written_ns = clock_ns() - began;
    if ((form == ANSWER_WHOLE && !make_whole(request, pieces, began, memory, error)) ||
        (form == ANSWER_STREAMED && !make_stream(request, pieces, parallel, error))) {
        *answer = (struct answer){0};
        return false;
    }
    if (form == ANSWER_IN_PLACE || form == ANSWER_READ)
        answer->length = pieces->most;
    *keep = form != ANSWER_WHOLE;
    return true;
}

double answer_written_us(const struct answer *answer)
{
    return answer->pieces ? (double)atomic_load_explicit(&answer->pieces->written_ns, memory_order_relaxed) / 1e3 : 0;
}

/* ---- what libmicrohttpd sends */

static ssize_t read_pieces(void *context, uint64_t position, char *to, size_t most)
{
    struct answer *answer = context;
    const struct answer_cursor from = answer->next;
    (void)position; /* one connection reads it, once and in order */
    answer_pieces_advance(answer->pieces, &answer->next, most);
    return answer_pieces_write(answer->pieces, from, answer->next, to) - to;
}

static ssize_t read_stream(void *context, uint64_t position, char *to, size_t most)
{
    struct answer *answer = context;
    const ssize_t length = answer_stream_read(answer->stream, to, most);
    (void)position;
    if (length < 0)
        return MHD_CONTENT_READER_END_OF_STREAM;
    answer->length += (size_t)length;
    return length;
}

static struct MHD_Response *response_in_place(const struct answer_pieces *pieces)
{
    struct MHD_IoVec parts[ANSWER_MAX_RAW_PIECES];
    const size_t count = answer_pieces_count(pieces);
    if (count > ANSWER_MAX_RAW_PIECES)
        return NULL;
    for (size_t i = 0; i < count; i++)
        parts[i].iov_base = answer_pieces_bytes(pieces, i, &parts[i].iov_len);
    return MHD_create_response_from_iovec(parts, (unsigned)count, NULL, NULL);
}

struct MHD_Response *answer_response(struct request *request)
{
    struct answer *answer = &request->answer;
    switch (answer->form) {
    case ANSWER_IN_PLACE:
        return response_in_place(answer->pieces);
    case ANSWER_READ:
        return MHD_create_response_from_callback(answer->length, READ_BLOCK_BYTES, read_pieces, answer, NULL);
    case ANSWER_STREAMED:
        return MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, 1, read_stream, answer, NULL);
    case ANSWER_WHOLE:
        break;
    }
    /* The answer's memory stays the request's until it has ended, whoever sends it. */
    return MHD_create_response_from_buffer(answer->length, answer->length ? (char *)answer->body : (char *)"",
                                           MHD_RESPMEM_PERSISTENT);
}
