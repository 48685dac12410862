/* An answer written straight to a socket, where libmicrohttpd can give none: it takes no response while a body is
 * arriving, nor for a connection it was not given. */
#ifndef ATTND_SERVER_BARE_ANSWER_H
#define ATTND_SERVER_BARE_ANSWER_H

#include "base/error.h"
#include "server/problem.h"

#include <gnutls/gnutls.h>

/* Sends the problem document of *error with `Connection: close`, without waiting: what the socket's buffer does not
 * take is lost. `session` is the connection's and this thread's own, NULL: it is not encrypted. `request_id` may be
 * NULL: one is made. Nobody else may be writing to the socket. */
void bare_answer_send(int descriptor, gnutls_session_t session, const struct error *error, const char *request_id,
                      enum problem_form form);

#endif
