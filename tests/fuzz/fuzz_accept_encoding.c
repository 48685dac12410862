/* Fuzzes Accept-Encoding. Lines are one list: read as two lines or as one with a comma between, they say the same; and
 * a list without "gzip", in any case, and without an asterisk never asks for gzip. */
#include "server/accept_encoding.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool holds)
{
    if (!holds)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct accept_encoding whole = ACCEPT_ENCODING_NONE, parts = ACCEPT_ENCODING_NONE;
    const char *text = (const char *)data;
    accept_encoding_read(&whole, text, size);
    for (size_t begin = 0, end; begin <= size; begin = end + 1) {
        const char *comma = begin < size ? memchr(text + begin, ',', size - begin) : NULL;
        end = comma ? (size_t)(comma - text) : size;
        accept_encoding_read(&parts, text + begin, end - begin);
    }
    check(memcmp(&whole, &parts, sizeof whole) == 0);
    check(whole.gzip >= -1 && whole.gzip <= 1000 && whole.identity >= -1 && whole.identity <= 1000 && whole.any >= -1 &&
          whole.any <= 1000);

    bool named = memchr(text, '*', size) != NULL;
    for (size_t i = 0; i + 4 <= size; i++)
        named |= strncasecmp(text + i, "gzip", 4) == 0;
    check(named || accept_encoding_choose(&whole) == ACCEPTED_IDENTITY);
    return 0;
}
