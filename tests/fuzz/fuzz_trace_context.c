/* Fuzzes traceparent and tracestate. What is taken of a traceparent stands in it, and what is written of it is taken
 * again; the lines of a tracestate give what one line with commas between them gives, and its members stand in it. */
#include "telemetry/trace_context.h"
#include "telemetry/trace_state.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool holds)
{
    if (!holds)
        abort();
}

static void check_parent(const char *text, size_t size)
{
    struct trace_context context = {0}, again = {0};
    char written[TRACEPARENT_LENGTH + 1];
    const bool taken = trace_context_read(&context, text, size);
    check(!taken || (size >= TRACEPARENT_LENGTH && memcmp(context.trace_id, text + 3, TRACE_ID_DIGITS) == 0 &&
                     memcmp(context.parent_id, text + 36, SPAN_ID_DIGITS) == 0));
    trace_context_begin(&context, text, size, 0);
    trace_context_write(&context, written);
    check(trace_context_read(&again, written, TRACEPARENT_LENGTH));
    check(strcmp(again.trace_id, context.trace_id) == 0 && strcmp(again.parent_id, context.span_id) == 0 &&
          again.flags == context.flags);
    check(!taken || context.parent_id[0]); /* with blanks around it, it may be taken all the same */
}

static void check_state(const char *text, size_t size)
{
    struct trace_state whole = {.length = 0}, lines = {.length = 0}, again = {.length = 0};
    trace_state_add(&whole, text, size);
    for (size_t begin = 0, end; begin <= size; begin = end + 1) {
        const char *comma = begin < size ? memchr(text + begin, ',', size - begin) : NULL;
        end = comma ? (size_t)(comma - text) : size;
        trace_state_add(&lines, text + begin, end - begin);
    }
    check(whole.malformed == lines.malformed && whole.length == lines.length &&
          memcmp(whole.text, lines.text, whole.length) == 0);
    check(whole.length <= sizeof whole.text && whole.length <= size);
    check(!whole.malformed || whole.length == 0);
    trace_state_add(&again, whole.text, whole.length);
    check(!again.malformed && again.length == whole.length && memcmp(again.text, whole.text, whole.length) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    check_parent((const char *)data, size);
    check_state((const char *)data, size);
    return 0;
}
