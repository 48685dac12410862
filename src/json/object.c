/* Objects whose members are known beforehand, read by a table. Entered by the reader's thread. */
#include "json/names.h"
#include "json/reader.h"

#define MAX_MEMBERS 64

static bool unknown_member(const struct json_reader *r, const struct json_key *key, const struct json_member *members,
                           size_t count, struct error *error)
{
    const char *known[MAX_MEMBERS];
    char shown[NAMES_SHOWN_BYTES], text[sizeof error->message];
    for (size_t i = 0; i < count; i++)
        known[i] = members[i].name;
    names_show(key, shown);
    names_unknown("member", shown, known, count, text, sizeof text);
    return json_error(r, error, ERROR_UNKNOWN_MEMBER, "%s", text);
}

bool json_read_object(struct json_reader *r, const struct json_member *members, size_t count, void *context,
                      uint64_t *seen, struct error *error)
{
    uint64_t bits = 0;
    struct json_key key;
    enum json_step step;
    if (!json_enter_object(r, error))
        return false;
    while ((step = names_next_unremembered(r, &key, error)) == JSON_ITEM) {
        size_t i = 0;
        while (i < count && !json_key_is(&key, members[i].name))
            i++;
        if (i == count)
            return unknown_member(r, &key, members, count, error);
        if (bits >> i & 1)
            return names_duplicate_error(r, &key, error);
        bits |= UINT64_C(1) << i;
        if (!members[i].read(r, context, error))
            return false;
    }
    if (step == JSON_FAILED)
        return false;
    if (seen)
        *seen = bits;
    return true;
}
