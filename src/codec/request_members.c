/* A table of members, looked up by name and read from JSON or from bytes. Nothing is held; entered by the thread that
 * decodes. */
#include "codec/request_members.h"

#include "json/names.h"
#include "json/reader.h"

#include <stdio.h>
#include <string.h>

size_t request_members_find(const struct request_members *members, const char *name)
{
    size_t i = 0;
    while (i < members->count && strcmp(members->list[i].name, name) != 0)
        i++;
    return i;
}

/* A text under one of the names that it is sent by elsewhere, where ids of tokens are taken: says what to send. False.
 */
static bool explain_text(const struct request_members *members, struct error *error)
{
    static const char *const pointers[] = {"/text", "/texts", "/sentence"};
    if (error->code != ERROR_UNKNOWN_MEMBER || request_members_find(members, "input_ids") == members->count)
        return false;
    for (size_t i = 0; i < sizeof pointers / sizeof *pointers; i++)
        if (strcmp(error->pointer, pointers[i]) == 0)
            return error_set_at(error, ERROR_UNKNOWN_MEMBER, pointers[i],
                                "unknown member \"%s\": " REQUEST_NO_TOKENIZER, pointers[i] + 1);
    return false;
}

bool request_members_read_object(struct request_members *members, struct json_reader *r, struct error *error)
{
    struct json_member list[REQUEST_MAX_MEMBERS];
    for (size_t i = 0; i < members->count; i++)
        list[i] = (struct json_member){members->list[i].name, members->list[i].read_json};
    return json_read_object(r, list, members->count, members->context, &members->seen, error) ||
           explain_text(members, error);
}

/* The names that are tensors, or those that are not. */
static bool unknown(const struct request_members *members, const char *name, bool tensors, struct error *error)
{
    const char *known[REQUEST_MAX_MEMBERS];
    char shown[NAMES_SHOWN_BYTES], text[sizeof error->message], pointer[sizeof error->pointer];
    size_t count = 0;
    for (size_t i = 0; i < members->count; i++)
        if (!members->list[i].read_raw == !tensors)
            known[count++] = members->list[i].name;
    names_show_plain(name, shown);
    names_unknown(tensors ? "tensor" : "member", shown, known, count, text, sizeof text);
    error_set_at(error, ERROR_UNKNOWN_MEMBER, json_pointer_of(name, pointer, sizeof pointer), "%s", text);
    return explain_text(members, error);
}

/* Notes that list[i] comes. */
static bool note(struct request_members *members, size_t i, const char *pointer, struct error *error)
{
    if (members->seen >> i & 1)
        return error_set_at(error, ERROR_DUPLICATE_MEMBER, pointer, "\"%s\" is there twice; remove one",
                            members->list[i].name);
    members->seen |= UINT64_C(1) << i;
    return true;
}

bool request_members_read_raw(struct request_members *members, const char *name, const struct raw_tensor *raw,
                              const char *elsewhere, struct error *error)
{
    const size_t i = request_members_find(members, name);
    char pointer[sizeof error->pointer];
    if (i == members->count)
        return unknown(members, name, true, error);
    json_pointer_of(name, pointer, sizeof pointer);
    if (!members->list[i].read_raw)
        return error_set_at(error, ERROR_INVALID, pointer, "\"%s\" is not a tensor: send it %s", name, elsewhere);
    return note(members, i, pointer, error) && members->list[i].read_raw(raw, pointer, members->context, error);
}

/* A value that is not JSON. One that begins like no other value was meant for a string. */
static bool not_json(const char *name, const char *text, struct error *error)
{
    char pointer[sizeof error->pointer], shown[NAMES_SHOWN_BYTES];
    const struct error found = *error;
    names_show_plain(text, shown);
    json_pointer_of(name, pointer, sizeof pointer);
    if (*text && !strchr("\"[{ \t\r\n", *text))
        return error_set_at(error, ERROR_NOT_JSON, pointer,
                            "the value of \"%s\" has to be JSON text, and %s is none; a string has its quotes in it: "
                            "\"%s\"",
                            name, shown, shown);
    return error_set_at(error, ERROR_NOT_JSON, found.has_pointer ? found.pointer : pointer,
                        "the value of \"%s\" has to be JSON text: %s", name, found.message);
}

bool request_members_read_text(struct request_members *members, const char *name, const char *text, struct error *error)
{
    const size_t i = request_members_find(members, name);
    char pointer[sizeof error->pointer];
    struct json_reader r;
    if (i == members->count)
        return unknown(members, name, false, error);
    json_pointer_of(name, pointer, sizeof pointer);
    if (members->list[i].read_raw)
        return error_set_at(error, ERROR_INVALID, pointer, "\"%s\" is a tensor: send its bytes under that name", name);
    if (!note(members, i, pointer, error))
        return false;
    json_reader_init_member(&r, members->list[i].name, text, strlen(text));
    if (members->list[i].read_json(&r, members->context, error) && json_finish(&r, error))
        return true;
    return error->code == ERROR_NOT_JSON ? not_json(name, text, error) : false;
}
