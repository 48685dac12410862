/* Pages of other origins that call this server from a browser (https://fetch.spec.whatwg.org/#http-cors-protocol):
 * those of cors.allowed_origins may. Cookies and the like are never asked for, nor allowed to be sent. */
#ifndef ATTND_SERVER_CORS_H
#define ATTND_SERVER_CORS_H

#include <microhttpd.h>
#include <stdbool.h>

struct request;

/* Whether the request asks, before another one, what a page may send, and is from an origin that may: OPTIONS with
 * Origin and Access-Control-Request-Method. Looks at the headers. */
bool cors_is_preflight(const struct request *request);
/* The method that it asks for. */
const char *cors_wanted_method(const struct request *request);
/* Answers it: request->route is what it asks for. */
void cors_answer_preflight(struct request *request);

/* What an answer says of who may read it. */
enum MHD_Result cors_add_headers(const struct request *request, struct MHD_Response *response);

#endif
