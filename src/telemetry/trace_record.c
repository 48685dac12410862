#include "telemetry/trace_record.h"

#include "base/size.h"
#include "telemetry/trace_state.h"

#include <string.h>

static const uint16_t MOST[TRACE_TEXTS] = {
    [TRACE_TEXT_METHOD] = 32,      [TRACE_TEXT_PATH] = 256,    [TRACE_TEXT_QUERY] = 256,
    [TRACE_TEXT_HOST] = 256,       [TRACE_TEXT_PEER] = 64,     [TRACE_TEXT_USER_AGENT] = 256,
    [TRACE_TEXT_REQUEST_ID] = 128, [TRACE_TEXT_WEIGHTS] = 256, [TRACE_TEXT_STATE] = TRACE_STATE_BYTES,
};
_Static_assert(32 + 256 + 256 + 256 + 64 + 256 + 128 + 256 + TRACE_STATE_BYTES <=
                   sizeof((struct trace_record *)0)->text,
               "all texts fit side by side");

void trace_record_take(struct trace_record *record, enum trace_text which, const char *text, size_t length)
{
    if (!text)
        return;
    length = size_min(length, MOST[which]);
    record->texts[which].at = (uint16_t)record->used;
    record->texts[which].length = (uint16_t)length;
    memcpy(record->text + record->used, text, length);
    record->used += length;
}

size_t trace_record_spans(const struct trace_record *record)
{
    size_t spans = 1;
    for (unsigned stage = 0; stage < TRACE_STAGES; stage++)
        spans += record->stages[stage].began != 0;
    return spans;
}
