/* One reading of numbers, booleans and choices, so that the file and the environment have the same rules and the same
 * words. */
#include "config/value.h"

#include "base/nearest.h"
#include "json/number.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

bool value_number(const char *text, size_t length, bool integer, double minimum, double maximum, const char *shown,
                  double *value, struct error *error)
{
    const char *at = text, *end = text + length;
    double number;
    if (length == 0 || number_read_f64(&at, end, &number) != NUMBER_OK || at != end || !(number >= minimum) ||
        number > maximum || (integer && number != (double)(int64_t)number))
        return error_set(error, ERROR_INVALID, "expected %s from %.16g to %.16g, got %s",
                         integer ? "an integer" : "a number", minimum, maximum, length ? shown : "nothing");
    *value = number;
    return true;
}

bool value_choice(const char *text, size_t length, const char *const *choices, const char *shown, size_t *index,
                  struct error *error)
{
    char known[256] = "", name[64];
    size_t count = 0, written = 0;
    for (; choices[count]; count++) {
        if (strlen(choices[count]) == length && memcmp(choices[count], text, length) == 0) {
            *index = count;
            return true;
        }
        int added = snprintf(known + written, sizeof known - written, "%s\"%s\"", count ? ", " : "", choices[count]);
        written = written + (size_t)added < sizeof known ? written + (size_t)added : sizeof known - 1;
    }
    snprintf(name, sizeof name, "%.*s", (int)(length < sizeof name ? length : 0), text);
    const char *near = nearest_name(name, choices, count);
    return error_set(error, ERROR_INVALID, "expected one of %s, got %s%s%s%s", known, shown,
                     near ? "; did you mean \"" : "", near ? near : "", near ? "\"?" : "");
}

bool value_bool(const char *text, size_t length, const char *shown, bool *value, struct error *error)
{
    if (length == 4 && memcmp(text, "true", 4) == 0)
        *value = true;
    else if (length == 5 && memcmp(text, "false", 5) == 0)
        *value = false;
    else
        return error_set(error, ERROR_INVALID, "expected true or false, got %s", length ? shown : "nothing");
    return true;
}
