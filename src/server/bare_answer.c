#include "server/bare_answer.h"

#include "base/text.h"
#include "server/request_id.h"

#include <sys/socket.h>

void bare_answer_send(int descriptor, gnutls_session_t session, const struct error *error, const char *request_id,
                      enum problem_form form)
{
    char made[REQUEST_ID_BYTES];
    struct text body = {0}, answer = {0};
    unsigned status = problem_status(error->code, form);
    if (!request_id) {
        request_id_make(made);
        request_id = made;
    }
    problem_document(error, request_id, form, &body);
    text_append_format(&answer, "HTTP/1.1 %u %s\r\nContent-Type: %s\r\nContent-Length: %zu\r\n", status,
                       problem_reason(status), problem_media_type(form), body.length);
    text_append_format(&answer, "x-request-id: %s\r\nserver-timing: %s\r\n", request_id,
                       "parse;dur=0, queue;dur=0, compute;dur=0");
    if (problem_retry_after(error->code))
        text_append_format(&answer, "Retry-After: %u\r\n", problem_retry_after(error->code));
    text_append_string(&answer, "Connection: close\r\n\r\n");
    text_append(&answer, body.data, body.length);
    if (!answer.failed && !body.failed && session)
        (void)!gnutls_record_send(session, answer.data, answer.length); /* the socket does not block */
    else if (!answer.failed && !body.failed)
        (void)!send(descriptor, answer.data, answer.length, MSG_DONTWAIT | MSG_NOSIGNAL);
    text_free(&answer);
    text_free(&body);
}
