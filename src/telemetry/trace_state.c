#include "telemetry/trace_state.h"

#include <string.h>

#define MOST_OF_KEY   256
#define MOST_OF_VALUE 256

static bool begins_key(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

static bool is_key(const char *text, size_t length)
{
    if (length == 0 || length > MOST_OF_KEY || !begins_key(text[0]))
        return false;
    for (size_t i = 1; i < length; i++)
        if (!begins_key(text[i]) && (!text[i] || !strchr("_-*/@", text[i])))
            return false;
    return true;
}

static bool is_value(const char *text, size_t length)
{
    if (length == 0 || length > MOST_OF_VALUE)
        return false;
    for (size_t i = 0; i < length; i++)
        if (text[i] < ' ' || text[i] > '~' || text[i] == '=')
            return false;
    return true;
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

static void add_member(struct trace_state *state, const char *member, size_t length)
{
    const char *equals = memchr(member, '=', length);
    const size_t key = equals ? (size_t)(equals - member) : 0, comma = state->length ? 1 : 0;
    if (!equals || !is_key(member, key) || !is_value(equals + 1, length - key - 1) ||
        ++state->members > TRACE_STATE_MEMBERS) {
        state->malformed = true;
        state->length = 0;
        return;
    }
    state->cut |= comma + length > sizeof state->text - state->length;
    if (state->cut)
        return;
    if (comma)
        state->text[state->length++] = ',';
    memcpy(state->text + state->length, member, length);
    state->length += length;
}

void trace_state_add(struct trace_state *state, const char *line, size_t length)
{
    const char *end = line + length;
    while (line < end && !state->malformed) {
        const char *comma = memchr(line, ',', (size_t)(end - line));
        const char *from = line, *to = comma ? comma : end;
        while (from < to && is_blank(*from))
            from++;
        while (from < to && is_blank(to[-1]))
            to--;
        if (from < to) /* empty ones are allowed, and nothing */
            add_member(state, from, (size_t)(to - from));
        line = comma ? comma + 1 : end;
    }
}
