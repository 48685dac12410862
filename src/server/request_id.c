#include "server/request_id.h"

#include "base/clock.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

void request_id_make(char id[REQUEST_ID_BYTES])
{
    uint64_t words[2];
    if (getrandom(words, sizeof words, GRND_NONBLOCK) != (ssize_t)sizeof words) {
        /* Only before the kernel has any entropy: unique in this process is what is left. */
        static _Atomic uint64_t count;
        words[0] = clock_ns();
        words[1] = atomic_fetch_add(&count, 1);
    }
    snprintf(id, REQUEST_ID_BYTES, "%016llx%016llx", (unsigned long long)words[0], (unsigned long long)words[1]);
}

bool request_id_take(char id[REQUEST_ID_BYTES], const char *sent)
{
    size_t length = strnlen(sent, REQUEST_ID_BYTES);
    if (length == 0 || length >= REQUEST_ID_BYTES)
        return false;
    for (size_t i = 0; i < length; i++)
        if (sent[i] <= ' ' || sent[i] >= 0x7F || sent[i] == '"' || sent[i] == '\\')
            return false;
    memcpy(id, sent, length + 1);
    return true;
}
