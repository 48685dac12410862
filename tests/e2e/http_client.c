#include "http_client.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include <check.h>

#define REQUEST_SECONDS 300

struct http_client {
    CURL *easy;
    unsigned port;
};

static size_t append(char **text, size_t length, const char *part, size_t size)
{
    char *grown = realloc(*text, length + size + 1);
    if (!grown)
        return 0;
    memcpy(grown + length, part, size);
    grown[length + size] = '\0';
    *text = grown;
    return size;
}

/* Bodies double their memory: an answer of many megabytes comes in pieces of some kilobytes. */
static size_t capacity_for(size_t length)
{
    size_t capacity = 64;
    while (capacity < length + 1)
        capacity *= 2;
    return capacity;
}

static size_t take_body(char *part, size_t one, size_t size, void *context)
{
    struct http_call *call = context;
    struct reply *reply = &call->reply;
    size_t needed = capacity_for(reply->length + size);
    if (!reply->body || needed > capacity_for(reply->length)) {
        char *grown = realloc(reply->body, needed);
        if (!grown)
            return 0;
        reply->body = grown;
    }
    memcpy(reply->body + reply->length, part, size);
    reply->length += size;
    reply->body[reply->length] = '\0';
    return one * size;
}

static size_t take_header(char *line, size_t one, size_t size, void *context)
{
    struct http_call *call = context;
    char **headers = &call->reply.headers;
    if (size > 5 && strncmp(line, "HTTP/", 5) == 0) {
        free(*headers);
        *headers = NULL;
    }
    return append(headers, *headers ? strlen(*headers) : 0, line, size) ? one * size : 0;
}

/* Options of the call on a fresh or reset handle. */
static void set_up(CURL *easy, unsigned port, struct http_call *call)
{
    char url[512];
    bool has_type = false;
    call->reply = (struct reply){0};
    call->list = NULL;
    snprintf(url, sizeof url, "http://127.0.0.1:%u%s", port, call->path);
    curl_easy_setopt(easy, CURLOPT_URL, url);
    curl_easy_setopt(easy, CURLOPT_PATH_AS_IS, 1L);
    curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(easy, CURLOPT_NOPROXY, "*");
    curl_easy_setopt(easy, CURLOPT_TIMEOUT, (long)REQUEST_SECONDS);
    curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, take_body);
    curl_easy_setopt(easy, CURLOPT_WRITEDATA, call);
    curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, take_header);
    curl_easy_setopt(easy, CURLOPT_HEADERDATA, call);
    curl_easy_setopt(easy, CURLOPT_PRIVATE, call);
    if (call->body) {
        curl_easy_setopt(easy, CURLOPT_POST, 1L);
        curl_easy_setopt(easy, CURLOPT_POSTFIELDS, call->body);
        curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)call->length);
    }
    if (strcmp(call->method, "HEAD") == 0)
        curl_easy_setopt(easy, CURLOPT_NOBODY, 1L);
    else
        curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, call->method);
    call->list = curl_slist_append(NULL, "Expect:"); /* libcurl would wait for a 100 before large bodies */
    for (size_t i = 0; call->headers && call->headers[i]; i++) {
        call->list = curl_slist_append(call->list, call->headers[i]);
        has_type |= strncasecmp(call->headers[i], "Content-Type:", 13) == 0;
    }
    if (call->body && !has_type)
        call->list = curl_slist_append(call->list, "Content-Type: application/json");
    curl_easy_setopt(easy, CURLOPT_HTTPHEADER, call->list);
}

static void note(CURL *easy, struct http_call *call, CURLcode result)
{
    call->reply.failure = result;
    curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &call->reply.status);
    curl_easy_getinfo(easy, CURLINFO_NUM_CONNECTS, &call->reply.new_connections);
    if (!call->reply.body)
        call->reply.body = calloc(1, 1);
    if (!call->reply.headers)
        call->reply.headers = calloc(1, 1);
    curl_slist_free_all(call->list);
    call->list = NULL;
}

CURL *http_prepare(unsigned port, struct http_call *call, bool fresh_connection)
{
    CURL *easy = curl_easy_init();
    if (!easy)
        abort();
    set_up(easy, port, call);
    if (fresh_connection) {
        curl_easy_setopt(easy, CURLOPT_FRESH_CONNECT, 1L);
        curl_easy_setopt(easy, CURLOPT_FORBID_REUSE, 1L);
    }
    return easy;
}

void http_release(CURL *easy, struct http_call *call, CURLcode result)
{
    note(easy, call, result);
    curl_easy_cleanup(easy);
}

struct http_client *http_client_open(const struct server_process *server)
{
    struct http_client *client = calloc(1, sizeof *client);
    if (!client)
        abort();
    client->easy = curl_easy_init();
    client->port = server_process_port(server);
    return client;
}

void http_client_close(struct http_client *client)
{
    curl_easy_cleanup(client->easy);
    free(client);
}

void http_client_perform(struct http_client *client, struct http_call *call)
{
    curl_easy_reset(client->easy); /* its connection stays */
    set_up(client->easy, client->port, call);
    note(client->easy, call, curl_easy_perform(client->easy));
}

void http_perform_all(const struct server_process *server, struct http_call *calls, size_t count)
{
    CURLM *multi = curl_multi_init();
    int running = (int)count;
    curl_multi_setopt(multi, CURLMOPT_MAXCONNECTS, (long)count);
    for (size_t i = 0; i < count; i++)
        curl_multi_add_handle(multi, http_prepare(server_process_port(server), &calls[i], true));
    while (running) {
        CURLMsg *message;
        int left;
        curl_multi_perform(multi, &running);
        while ((message = curl_multi_info_read(multi, &left)) != NULL) {
            CURL *easy = message->easy_handle;
            CURLcode result = message->data.result;
            struct http_call *call;
            curl_easy_getinfo(easy, CURLINFO_PRIVATE, &call);
            curl_multi_remove_handle(multi, easy);
            http_release(easy, call, result);
        }
        if (running)
            curl_multi_poll(multi, NULL, 0, 1000, NULL);
    }
    curl_multi_cleanup(multi);
}

struct reply http_send(const struct server_process *server, struct http_call call)
{
    struct http_client *client = http_client_open(server);
    http_client_perform(client, &call);
    http_client_close(client);
    return call.reply;
}

struct reply http_get(const struct server_process *server, const char *path)
{
    return http_send(server, (struct http_call){.method = "GET", .path = path});
}

struct reply http_post(const struct server_process *server, const char *path, const char *body)
{
    return http_send(server, (struct http_call){.method = "POST", .path = path, .body = body, .length = strlen(body)});
}

void reply_free(struct reply *reply)
{
    free(reply->headers);
    free(reply->body);
    *reply = (struct reply){0};
}

bool reply_header(const struct reply *reply, const char *name, char *value, size_t size)
{
    size_t length = strlen(name);
    value[0] = '\0';
    for (const char *line = reply->headers; line; line = strstr(line, "\r\n"), line = line ? line + 2 : NULL) {
        if (strncasecmp(line, name, length) != 0 || line[length] != ':')
            continue;
        const char *from = line + length + 1;
        from += strspn(from, " \t");
        snprintf(value, size, "%.*s", (int)strcspn(from, "\r\n"), from);
        return true;
    }
    return false;
}

json_t *reply_json(const struct reply *reply)
{
    json_error_t fault;
    ck_assert_msg(reply->failure == CURLE_OK, "no answer: %s", curl_easy_strerror(reply->failure));
    json_t *document = json_loadb(reply->body, reply->length, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &fault);
    ck_assert_msg(document != NULL, "the answer (%ld) is not JSON: %s at %d:%d: %.300s", reply->status, fault.text,
                  fault.line, fault.column, reply->body);
    return document;
}
