#include "server/problem.h"

#include <stdio.h>
#include <string.h>

struct problem {
    unsigned status;
    const char *title;
    unsigned retry_after;
};

/* 499 is never sent: it is the log's word for a client that left. */
static const struct problem PROBLEMS[ERROR_CODE_COUNT] = {
    [ERROR_NONE] = {200, "OK", 0},
    [ERROR_NOT_JSON] = {400, "The body is not JSON", 0},
    [ERROR_DUPLICATE_MEMBER] = {400, "A member is named twice", 0},
    [ERROR_BAD_ENCODING] = {400, "The encoding of the body is broken", 0},
    [ERROR_BAD_FRAMING] = {400, "The request is framed ambiguously", 0},
    [ERROR_INVALID] = {422, "The request is well-formed but wrong", 0},
    [ERROR_UNKNOWN_MEMBER] = {422, "A member is not known", 0},
    [ERROR_NOT_FINITE] = {422, "A number is not finite", 0},
    [ERROR_UNAUTHORIZED] = {401, "The admin token is missing or wrong", 0},
    [ERROR_UNKNOWN_ROUTE] = {404, "There is no such route", 0},
    [ERROR_UNKNOWN_WEIGHTS] = {404, "There is no such weight set", 0},
    [ERROR_METHOD_NOT_ALLOWED] = {405, "The method is not allowed here", 0},
    [ERROR_UPLOAD_TIMEOUT] = {408, "The request was not whole in time", 0},
    [ERROR_TOO_LARGE] = {413, "The request is over a limit", 0},
    [ERROR_UNSUPPORTED_MEDIA_TYPE] = {415, "The content type or encoding is not supported", 0},
    [ERROR_EXPECTATION_FAILED] = {417, "The expectation cannot be met", 0},
    [ERROR_QUEUE_FULL] = {429, "The queue is full", 1},
    [ERROR_OVERLOADED] = {429, "The answer would come too late", 1},
    [ERROR_BUDGET_FULL] = {429, "The memory budget is taken", 1},
    [ERROR_DRAINING] = {503, "The server is stopping", 1},
    [ERROR_NOT_READY] = {503, "Not ready", 1},
    [ERROR_OUT_OF_MEMORY] = {503, "Memory ran out", 1},
    [ERROR_DEADLINE] = {504, "The deadline has passed", 0},
    [ERROR_CLIENT_GONE] = {499, "The client has gone", 0},
    [ERROR_IO] = {503, "A system call failed", 1},
    [ERROR_CONFIGURATION] = {503, "The configuration is wrong", 1},
};

unsigned problem_status(enum error_code code, enum problem_form form)
{
    const unsigned status = PROBLEMS[code].status;
    return status == 422 && form == PROBLEM_OPEN_INFERENCE ? 400 : status;
}

const char *problem_media_type(enum problem_form form)
{
    return form == PROBLEM_OPEN_INFERENCE ? "application/json" : "application/problem+json";
}

unsigned problem_retry_after(enum error_code code)
{
    return PROBLEMS[code].retry_after;
}

const char *problem_reason(unsigned status)
{
    switch (status) {
    case 408:
        return "Request Timeout";
    case 413:
        return "Content Too Large";
    case 503:
        return "Service Unavailable";
    default:
        return "Error";
    }
}

static void member(struct text *text, const char *name, const char *value)
{
    text_append_format(text, ",\"%s\":", name);
    text_append_json(text, value, strlen(value));
}

static void details(const struct error *error, const char *request_id, struct text *text)
{
    const struct problem *problem = &PROBLEMS[error->code];
    text_append_format(text, "{\"type\":\"urn:attnd:problem:%s\"", error_slug(error->code));
    member(text, "title", problem->title);
    text_append_format(text, ",\"status\":%u", problem->status);
    member(text, "detail", error->message);
    member(text, "instance", request_id);
    if (error->has_pointer)
        member(text, "pointer", error->pointer);
    member(text, "error", error->message);
    text_append(text, "}", 1);
}

static void open_inference(const struct error *error, struct text *text)
{
    const bool placed = error->has_pointer && error->pointer[0];
    char whole[sizeof error->message + sizeof error->pointer + sizeof " (at )"];
    snprintf(whole, sizeof whole, "%s%s%s%s", error->message, placed ? " (at " : "", placed ? error->pointer : "",
             placed ? ")" : "");
    text_append_string(text, "{\"error\":");
    text_append_json(text, whole, strlen(whole));
    text_append(text, "}", 1);
}

void problem_document(const struct error *error, const char *request_id, enum problem_form form, struct text *text)
{
    if (form == PROBLEM_OPEN_INFERENCE)
        open_inference(error, text);
    else
        details(error, request_id, text);
}
