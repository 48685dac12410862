#include "base/percent.h"

static int hex_value(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

char *percent_decode(const char *from, size_t length, char *to, size_t capacity)
{
    size_t written = 0;
    for (size_t i = 0; i < length; i++) {
        int value = (unsigned char)from[i];
        if (value == '%') {
            const int high = length - i > 2 ? hex_value(from[i + 1]) : -1;
            const int low = length - i > 2 ? hex_value(from[i + 2]) : -1;
            value = high < 0 || low < 0 ? 0 : high << 4 | low;
            i += 2;
        }
        if (value == 0 || written + 1 >= capacity)
            return NULL;
        to[written++] = (char)value;
    }
    if (written == capacity) /* it has no room at all */
        return NULL;
    to[written++] = '\0';
    return to + written;
}
