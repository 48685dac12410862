#include "server/request_id.h"

#include "base/clock.h"
#include "base/hex.h"

#include <stdatomic.h>
#include <string.h>
#include <sys/random.h>

/* Random words that a thread has fetched and not used: a system call for each id would cost as much as a small
 * forward's arithmetic. */
static _Thread_local uint64_t words[64];
static _Thread_local size_t left;

static void fetch_words(void)
{
    if (getrandom(words, sizeof words, GRND_NONBLOCK) == (ssize_t)sizeof words) {
        left = sizeof words / sizeof *words;
        return;
    }
    /* Only before the kernel has any entropy: unique in this process is what is left. */
    static _Atomic uint64_t count;
    words[0] = clock_ns();
    words[1] = atomic_fetch_add(&count, 1);
    left = 2;
}

void request_id_make(char id[REQUEST_ID_BYTES])
{
    if (left < 2)
        fetch_words();
    left -= 2;
    hex_write(id, words[left]);
    hex_write(id + 16, words[left + 1]);
    id[32] = '\0';
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
