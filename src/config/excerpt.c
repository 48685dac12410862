/* Values come from files and the environment and may hold anything; messages go to terminals and logs. */
#include "config/excerpt.h"

#include "base/utf8.h"

#include <string.h>

void excerpt_write(char *to, const char *text, size_t length)
{
    const char dots[] = "...";
    size_t written = 0, fits = 0; /* `fits`: the length after which the dots still have room */
    for (size_t i = 0; i < length;) {
        size_t bytes = utf8_sequence(text + i, length - i);
        size_t step = bytes ? bytes : 1;
        if (written + step >= EXCERPT_BYTES) {
            memcpy(to + fits, dots, sizeof dots);
            return;
        }
        unsigned char c = (unsigned char)text[i];
        if (bytes == 0 || c < 0x20 || c == 0x7F)
            to[written] = '?';
        else
            memcpy(to + written, text + i, bytes);
        written += step;
        i += step;
        if (written + sizeof dots <= EXCERPT_BYTES)
            fits = written;
    }
    to[written] = '\0';
}
