/* The static table of routes. */
#ifndef ATTND_SERVER_ROUTES_H
#define ATTND_SERVER_ROUTES_H

#include "base/error.h"
#include "server/request.h"

#include <stdbool.h>

/* Looks at the headers, before the body is read: false when it is not to be. */
typedef bool route_acceptor(struct request *request, struct error *error);

/* Fills request->answer before it returns, or queues a job that will (request_submit). Runs on a polling thread and
 * must not block. */
typedef void route_handler(struct request *request);

/* Finds the route of `method` and request->target: fills request->route (also on ERROR_METHOD_NOT_ALLOWED) and
 * request->parameters. Matching is on the raw target, query cut off: an encoded slash is no slash. */
bool route_find(struct request *request, const char *method, struct error *error);

/* The path of an origin-form ("/a?b") or absolute-form ("http://host/a?b") target, as it was sent, [*length]; its query
 * is behind it. */
const char *route_path(const char *target, size_t *length);

/* The form of errors under this target, whether there is such a route or not. */
enum problem_form route_problem_form(const char *target);

const char *route_pattern(const struct route *route);

/* The table by index; routes of one pattern and several methods are several of it. NULL behind the last. */
#define ROUTES_MOST 48
const struct route *route_at(size_t index);
size_t route_index(const struct route *route);
/* "GET" or "POST". */
const char *route_method(const struct route *route);
/* "GET, HEAD" */
const char *route_allow(const struct route *route);
/* Whether it reads a body. */
bool route_takes_body(const struct route *route);
/* Whether it does nothing with the body that it reads. */
bool route_needs_no_body(const struct route *route);
/* Whether a body may be of this type. */
bool route_takes(const struct route *route, enum media_type type);
/* Whether it may be JSON with bytes behind it, whose type says nothing. */
bool route_takes_octets(const struct route *route);
/* What the route itself demands of the headers. */
bool route_accept(struct request *request, struct error *error);
/* Whether it is served at admin.listen. */
bool route_is_admin(const struct route *route);
/* Whether it is asked by probes, again and again. */
bool route_is_probe(const struct route *route);
/* Whether it is a probe or a scrape, of which traces and the log say nothing. */
bool route_is_unobserved(const struct route *route);
void route_handle(struct request *request);

#endif
