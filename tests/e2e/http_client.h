/* Requests with libcurl: one after the other on a connection that is kept, or many at once. */
#ifndef ATTND_TESTS_E2E_HTTP_CLIENT_H
#define ATTND_TESTS_E2E_HTTP_CLIENT_H

#include "server_process.h"

#include <curl/curl.h>
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

struct reply {
    CURLcode failure; /* CURLE_OK: the answer came whole */
    long status;      /* 0: none came */
    char *headers;    /* the header block as it came, with its status line; after a 100 the last one */
    char *body;       /* [length], and a NUL */
    size_t length;
    long new_connections; /* that libcurl opened for it */
};

struct http_call {
    const char *method, *path;
    const char *body; /* NULL: none */
    size_t length;
    const char *const
        *headers; /* "Name: value", NULL-terminated; NULL: none. A body is application/json unless they say otherwise */
    struct reply reply;
    struct curl_slist *list; /* the client's own */
};

struct http_client;
struct http_client *http_client_open(const struct server_process *server);
void http_client_close(struct http_client *client);
/* Fills call->reply. */
void http_client_perform(struct http_client *client, struct http_call *call);

/* All at once, each on a connection of its own. */
void http_perform_all(const struct server_process *server, struct http_call *calls, size_t count);

/* A fresh connection each; a reply's memory is given back by reply_free. */
struct reply http_get(const struct server_process *server, const char *path);
struct reply http_post(const struct server_process *server, const char *path, const char *body);
struct reply http_send(const struct server_process *server, struct http_call call);
void reply_free(struct reply *reply);

/* The value of a header into `value`, without the space around it; "" and false where there is none. */
bool reply_header(const struct reply *reply, const char *name, char *value, size_t size);

/* The body as JSON, strictly: no member twice. The caller decrefs it. */
json_t *reply_json(const struct reply *reply);

/* An easy handle prepared for `call`, for those who drive a multi handle themselves; http_release when it is done. */
CURL *http_prepare(unsigned port, struct http_call *call, bool fresh_connection);
/* Notes how it went (call->reply) and frees the handle. */
void http_release(CURL *easy, struct http_call *call, CURLcode result);

#endif
