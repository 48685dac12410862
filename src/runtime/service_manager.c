#include "runtime/service_manager.h"

#include "base/clock.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

/* The first of the sockets; the others follow it (SD_LISTEN_FDS_START). */
#define FIRST_SOCKET 3

/* A whole number of at least 1 in an environment variable; 0 where there is none. */
static uint64_t number_of(const char *name)
{
    const char *text = getenv(name);
    if (!text || !*text || strspn(text, "0123456789") != strlen(text))
        return 0;
    errno = 0;
    unsigned long long number = strtoull(text, NULL, 10);
    return errno ? 0 : number;
}

/* What is meant for a parent of this process is not for this one. */
static bool is_this_process(const char *name)
{
    return number_of(name) == (uint64_t)getpid();
}

size_t service_manager_sockets(int *first)
{
    *first = FIRST_SOCKET;
    return is_this_process("LISTEN_PID") ? (size_t)number_of("LISTEN_FDS") : 0;
}

void service_manager_notify(const char *state)
{
    const char *path = getenv("NOTIFY_SOCKET");
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    size_t length = path ? strlen(path) : 0;
    if (length < 2 || length >= sizeof address.sun_path || (path[0] != '/' && path[0] != '@'))
        return;
    memcpy(address.sun_path, path, length);
    if (path[0] == '@')
        address.sun_path[0] = '\0'; /* a name without a file */
    int descriptor = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (descriptor < 0)
        return;
    socklen_t address_length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length + (path[0] == '/'));
    sendto(descriptor, state, strlen(state), MSG_NOSIGNAL | MSG_DONTWAIT, (struct sockaddr *)&address, address_length);
    close(descriptor);
}

void service_manager_notify_reloading(void)
{
    char state[64];
    snprintf(state, sizeof state, "RELOADING=1\nMONOTONIC_USEC=%llu", (unsigned long long)(clock_ns() / 1000));
    service_manager_notify(state);
}

uint64_t service_manager_watchdog_ns(void)
{
    uint64_t microseconds = number_of("WATCHDOG_USEC");
    if ((getenv("WATCHDOG_PID") && !is_this_process("WATCHDOG_PID")) || microseconds > CLOCK_NEVER / 1000)
        return 0;
    return microseconds * 1000;
}
