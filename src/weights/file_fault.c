/* Owns the form of messages about files inside a model's folder. No state. */
#include "weights/file_fault.h"

#include <stdio.h>
#include <string.h>

/* Of a message with something put before it: the rest is cut. */
#define MESSAGE_BYTES sizeof((struct error *)NULL)->message

bool file_fault(const char *file, struct error *error)
{
    char message[MESSAGE_BYTES];
    if (error->code == ERROR_OUT_OF_MEMORY)
        return false;
    memcpy(message, error->message, sizeof message);
    return error_set_at(error, error->code, "/path", "%.255s: %s", file, message);
}

bool file_fault_json(const struct json_reader *r, const char *file, struct error *error)
{
    char message[MESSAGE_BYTES], place[128];
    if (error->code == ERROR_OUT_OF_MEMORY)
        return false;
    memcpy(message, error->message, sizeof message);
    const enum error_code code =
        error->code == ERROR_NOT_JSON || error->code == ERROR_DUPLICATE_MEMBER ? ERROR_BAD_ENCODING : error->code;
    json_pointer(r, place, sizeof place);
    return error_set_at(error, code, "/path", "%.255s:%zu: %s%s%s", file, json_line(r, r->at), place,
                        *place ? ": " : "", message);
}
