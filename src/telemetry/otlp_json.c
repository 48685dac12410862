#include "telemetry/otlp_json.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

/* Of the protocol's enumerations and flags. */
enum { KIND_INTERNAL = 1, KIND_SERVER = 2 };
enum { STATUS_ERROR = 2 };
enum { FLAG_PARENT_KNOWN = 0x100, FLAG_PARENT_REMOTE = 0x200 };

static const char *const STAGES[TRACE_STAGES] = {"parse", "queue", "compute", "encode"};

static void append_string(struct text *text, const char *string)
{
    text_append_json(text, string, strlen(string));
}

static void append_quoted(struct text *text, const char *before, uint64_t value)
{
    text_append_string(text, before);
    text_append_string(text, "\"");
    text_append_size(text, value);
    text_append_string(text, "\"");
}

/* ---- attributes: lists that begin empty */

static void begin_attribute(struct text *text, const char *key)
{
    if (text->length && text->data[text->length - 1] == '}')
        text_append(text, ",", 1);
    text_append_string(text, "{\"key\":");
    append_string(text, key);
    text_append_string(text, ",\"value\":");
}

static void add_text(struct text *text, const char *key, const char *value, size_t length)
{
    begin_attribute(text, key);
    text_append_string(text, "{\"stringValue\":");
    text_append_json(text, value, length);
    text_append_string(text, "}}");
}

static void add_string(struct text *text, const char *key, const char *value)
{
    if (value)
        add_text(text, key, value, strlen(value));
}

/* 64-bit integers are strings in this encoding. */
static void add_integer(struct text *text, const char *key, uint64_t value)
{
    begin_attribute(text, key);
    append_quoted(text, "{\"intValue\":", value);
    text_append_string(text, "}}");
}

static void add_known(struct text *text, const char *key, uint64_t value)
{
    if (value)
        add_integer(text, key, value);
}

static void add_taken(struct text *text, const char *key, const struct trace_record *record, enum trace_text which)
{
    if (record->texts[which].length)
        add_text(text, key, record->text + record->texts[which].at, record->texts[which].length);
}

/* ---- spans */

static void begin_span(struct text *text, const struct trace_record *record, const char *span_id, const char *parent_id,
                       bool remote, unsigned kind, const struct trace_interval *interval)
{
    text_append_string(text, "{\"traceId\":\"");
    text_append(text, record->context.trace_id, TRACE_ID_DIGITS);
    text_append_string(text, "\",\"spanId\":\"");
    text_append(text, span_id, SPAN_ID_DIGITS);
    if (parent_id[0]) {
        text_append_string(text, "\",\"parentSpanId\":\"");
        text_append(text, parent_id, SPAN_ID_DIGITS);
    }
    text_append_string(text, "\",\"flags\":");
    text_append_size(text, record->context.flags | FLAG_PARENT_KNOWN | (remote ? FLAG_PARENT_REMOTE : 0u));
    if (record->texts[TRACE_TEXT_STATE].length) {
        text_append_string(text, ",\"traceState\":");
        text_append_json(text, record->text + record->texts[TRACE_TEXT_STATE].at,
                         record->texts[TRACE_TEXT_STATE].length);
    }
    text_append_string(text, ",\"kind\":");
    text_append_size(text, kind);
    append_quoted(text, ",\"startTimeUnixNano\":", interval->began);
    append_quoted(text, ",\"endTimeUnixNano\":", interval->ended < interval->began ? interval->began : interval->ended);
}

static void write_request(struct text *text, const struct trace_record *record)
{
    const bool error = record->failed;
    char name[128];
    /* A method that is not known is no name for what was done. */
    snprintf(name, sizeof name, "%s%s%s", record->method ? record->method : "HTTP", record->route ? " " : "",
             record->route ? record->route : "");
    begin_span(text, record, record->context.span_id, record->context.parent_id, record->context.parent_id[0],
               KIND_SERVER, &record->request);
    text_append_string(text, ",\"name\":");
    append_string(text, name);
    text_append_string(text, ",\"attributes\":[");
    add_string(text, "http.request.method", record->method ? record->method : "_OTHER");
    add_taken(text, "http.request.method_original", record, TRACE_TEXT_METHOD);
    add_string(text, "http.route", record->route);
    add_known(text, "http.response.status_code", record->status);
    add_string(text, "url.scheme", record->scheme);
    add_taken(text, "url.path", record, TRACE_TEXT_PATH);
    add_taken(text, "url.query", record, TRACE_TEXT_QUERY);
    add_taken(text, "server.address", record, TRACE_TEXT_HOST);
    add_known(text, "server.port", record->host_port);
    add_taken(text, "network.peer.address", record, TRACE_TEXT_PEER);
    add_known(text, "network.peer.port", record->peer_port);
    add_string(text, "network.protocol.version", record->version);
    add_taken(text, "user_agent.original", record, TRACE_TEXT_USER_AGENT);
    add_integer(text, "http.request.body.size", record->bytes_in);
    add_integer(text, "http.response.body.size", record->bytes_out);
    /* What the client got wrong is no error of the server's span. */
    add_string(text, error ? "error.type" : "attnd.refusal", record->error);
    add_taken(text, "attnd.request_id", record, TRACE_TEXT_REQUEST_ID);
    add_taken(text, "attnd.weights", record, TRACE_TEXT_WEIGHTS);
    add_known(text, "attnd.tokens", record->tokens);
    text_append_string(text, "]");
    if (error)
        text_append_format(text, ",\"status\":{\"code\":%d}", STATUS_ERROR);
    text_append_string(text, "}");
}

static void write_stage(struct text *text, const struct trace_record *record, enum trace_stage stage)
{
    char id[SPAN_ID_DIGITS + 1];
    trace_ids_make_span(id);
    text_append_string(text, ",");
    begin_span(text, record, id, record->context.span_id, false, KIND_INTERNAL, &record->stages[stage]);
    text_append_format(text, ",\"name\":\"%s\",\"attributes\":[", STAGES[stage]);
    if (stage == TRACE_COMPUTE) {
        add_taken(text, "attnd.weights", record, TRACE_TEXT_WEIGHTS);
        add_known(text, "attnd.tokens", record->tokens);
        add_known(text, "attnd.batch.requests", record->batch);
    }
    text_append_string(text, "]}");
}

void otlp_json_write(struct text *text, const struct otlp_resource *resource, const struct trace_record *records,
                     size_t count)
{
    text_append_string(text, "{\"resourceSpans\":[{\"resource\":{\"attributes\":[");
    for (size_t i = 0; i < resource->count; i++)
        add_string(text, resource->items[i].key, resource->items[i].value);
    text_append_string(text, "]},\"scopeSpans\":[{\"scope\":{\"name\":\"attnd\",\"version\":");
    append_string(text, resource->version);
    text_append_string(text, "},\"spans\":[");
    for (size_t i = 0; i < count; i++) {
        if (i)
            text_append_string(text, ",");
        write_request(text, &records[i]);
        for (unsigned stage = 0; stage < TRACE_STAGES; stage++)
            if (records[i].stages[stage].began)
                write_stage(text, &records[i], stage);
    }
    text_append_string(text, "]}]}]}");
}

/* ---- answers */

uint64_t otlp_json_rejected(const char *body, size_t length, char *reason, size_t size)
{
    json_t *answer = json_loadb(body, length, 0, NULL);
    const json_t *partial = json_object_get(answer, "partialSuccess"),
                 *rejected = json_object_get(partial, "rejectedSpans");
    const char *said = json_string_value(json_object_get(partial, "errorMessage"));
    long long count = 0;
    if (json_is_integer(rejected))
        count = json_integer_value(rejected);
    else if (json_is_string(rejected))
        count = strtoll(json_string_value(rejected), NULL, 10);
    snprintf(reason, size, "%s", said ? said : "");
    json_decref(answer);
    return count > 0 ? (uint64_t)count : 0;
}
