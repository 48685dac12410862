/* Nothing is held; entered by whichever thread reads. */
#include "codec/choice.h"

#include "base/nearest.h"
#include "json/names.h"
#include "json/reader.h"

#include <stdio.h>

bool choice_read(struct json_reader *r, const char *what, const char *const *names, size_t count, unsigned *index,
                 struct error *error)
{
    struct json_key name;
    unsigned found = 0;
    if (!json_read_in_place(r, &name, error))
        return false;
    while (found < count && !json_key_is(&name, names[found]))
        found++;
    if (found == count) {
        char shown[NAMES_SHOWN_BYTES], known[256] = "";
        size_t length = 0;
        names_show(&name, shown);
        const char *meant = nearest_name(shown, names, count);
        for (size_t i = 0; i < count && length < sizeof known; i++)
            length += (size_t)snprintf(known + length, sizeof known - length, "%s%s",
                                       i == 0          ? ""
                                       : i + 1 < count ? ", "
                                                       : " and ",
                                       names[i]);
        return json_error(r, error, ERROR_INVALID, "%s \"%s\" is not one of %s%s%s%s", what, shown, known,
                          meant ? "; did you mean \"" : "", meant ? meant : "", meant ? "\"?" : "");
    }
    *index = found;
    return true;
}
