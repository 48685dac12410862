/* Pure: any thread. */
#include "codec/oip_index.h"

#include "json/reader.h"

bool oip_index_decode(const char *body, size_t length, bool *ready_only, struct error *error)
{
    struct json_reader r;
    struct json_key name;
    enum json_step step;
    bool ready = false;
    json_reader_init(&r, body, length);
    if (length > 0) {
        if (!json_enter_object(&r, error))
            return false;
        while ((step = json_next_member(&r, &name, error)) == JSON_ITEM)
            if (!(json_key_is(&name, "ready") ? json_read_bool(&r, &ready, error) : json_skip(&r, NULL, NULL, error)))
                return false;
        if (step == JSON_FAILED || !json_finish(&r, error))
            return false;
    }
    *ready_only = ready;
    return true;
}
