#include "telemetry/trace_context.h"

#include <string.h>

/* Where the fields of "VERSION-TRACE_ID-PARENT_ID-FLAGS" begin. */
enum { AT_TRACE_ID = 3, AT_PARENT_ID = 36, AT_FLAGS = 53 };

#define RANDOM_BITS 56

static int digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Hexadecimal digits in lower case; not all of them zero, unless they may be. */
static bool are_digits(const char *text, size_t count, bool zero)
{
    int all = 0, wrong = 0;
    for (size_t i = 0; i < count; i++) {
        const int value = digit(text[i]);
        all |= value;
        wrong |= value < 0;
    }
    return !wrong && (zero || all != 0);
}

bool trace_context_read(struct trace_context *context, const char *text, size_t length)
{
    if (length < TRACEPARENT_LENGTH || text[AT_TRACE_ID - 1] != '-' || text[AT_PARENT_ID - 1] != '-' ||
        text[AT_FLAGS - 1] != '-' || !are_digits(text, 2, true) ||
        !are_digits(text + AT_TRACE_ID, TRACE_ID_DIGITS, false) ||
        !are_digits(text + AT_PARENT_ID, SPAN_ID_DIGITS, false) || !are_digits(text + AT_FLAGS, 2, true))
        return false;
    if (text[0] == 'f' && text[1] == 'f')
        return false;
    const bool version_00 = text[0] == '0' && text[1] == '0';
    if (length > TRACEPARENT_LENGTH && (version_00 || text[TRACEPARENT_LENGTH] != '-'))
        return false;
    memcpy(context->trace_id, text + AT_TRACE_ID, TRACE_ID_DIGITS);
    context->trace_id[TRACE_ID_DIGITS] = '\0';
    memcpy(context->parent_id, text + AT_PARENT_ID, SPAN_ID_DIGITS);
    context->parent_id[SPAN_ID_DIGITS] = '\0';
    context->flags = (uint8_t)(digit(text[AT_FLAGS + 1]) & (TRACE_SAMPLED | TRACE_RANDOM));
    return true;
}

uint64_t trace_share(double rate)
{
    return (uint64_t)(rate * (double)(UINT64_C(1) << RANDOM_BITS));
}

/* The last 14 digits of an id of ours. */
static uint64_t randomness(const char *trace_id)
{
    uint64_t value = 0;
    for (const char *c = trace_id + TRACE_ID_DIGITS - RANDOM_BITS / 4; *c; c++)
        value = value << 4 | (unsigned)digit(*c);
    return value;
}

/* Blanks around a header's value are none of it, and libmicrohttpd leaves those behind it. */
static const char *trim(const char *text, size_t *length)
{
    while (*length && (*text == ' ' || *text == '\t')) {
        text++;
        --*length;
    }
    while (*length && (text[*length - 1] == ' ' || text[*length - 1] == '\t'))
        --*length;
    return text;
}

void trace_context_begin(struct trace_context *context, const char *traceparent, size_t length, uint64_t share)
{
    trace_ids_make_span(context->span_id);
    if (traceparent)
        traceparent = trim(traceparent, &length);
    if (traceparent && trace_context_read(context, traceparent, length))
        return;
    trace_ids_make_trace(context->trace_id);
    context->parent_id[0] = '\0';
    context->flags = TRACE_RANDOM;
    if (share && randomness(context->trace_id) >= (UINT64_C(1) << RANDOM_BITS) - share)
        context->flags |= TRACE_SAMPLED;
}

void trace_context_write(const struct trace_context *context, char text[TRACEPARENT_LENGTH + 1])
{
    static const char digits[] = "0123456789abcdef";
    memcpy(text, "00-", AT_TRACE_ID);
    memcpy(text + AT_TRACE_ID, context->trace_id, TRACE_ID_DIGITS);
    text[AT_PARENT_ID - 1] = '-';
    memcpy(text + AT_PARENT_ID, context->span_id, SPAN_ID_DIGITS);
    text[AT_FLAGS - 1] = '-';
    text[AT_FLAGS] = '0';
    text[AT_FLAGS + 1] = digits[context->flags & 0xF];
    text[TRACEPARENT_LENGTH] = '\0';
}
