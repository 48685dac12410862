#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#define STEP ((size_t)16 << 10)

/* For who writes into a pipe, such as a shell's <(command), and is not ready yet. */
#define PATIENCE_MS 5000

/* What comes next: the number of bytes, 0 at the end, or -1 with errno. */
static ssize_t read_some(int descriptor, char *to, size_t most)
{
    struct pollfd polled = {.fd = descriptor, .events = POLLIN};
    for (;;) {
        const ssize_t got = read(descriptor, to, most);
        if (got >= 0 || (errno != EINTR && errno != EAGAIN))
            return got;
        if (errno == EAGAIN && poll(&polled, 1, PATIENCE_MS) == 0) {
            errno = ETIMEDOUT;
            return -1;
        }
    }
}

int file_read(const char *path, size_t most, struct text *text)
{
    const size_t before = text->length;
    int failed = 0;
    /* O_NONBLOCK: a pipe without a writer would be waited for. It changes nothing for a regular file. */
    const int descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (descriptor < 0)
        return errno;
    for (ssize_t got = 1; got != 0 && !failed;) {
        char *to = text_reserve(text, STEP);
        if (!to) {
            failed = ENOMEM;
            break;
        }
        got = read_some(descriptor, to, STEP);
        if (got < 0)
            failed = errno;
        else if ((size_t)got > most - (text->length - before))
            failed = EFBIG;
        else
            text->length += (size_t)got;
    }
    close(descriptor);
    return failed;
}
