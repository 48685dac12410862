/* What the kernel knows of a TCP connection and poll() does not say. */
#ifndef ATTND_SERVER_TCP_H
#define ATTND_SERVER_TCP_H

#include <stdbool.h>
#include <stdint.h>

struct tcp_state {
    bool open; /* the other side has neither closed (FIN) nor reset; our own shutdown() of reading does not count */
    uint32_t received_ms_ago; /* since data came in last, or since the connection was made */
    uint64_t acknowledged;    /* bytes of ours that the other side's system has taken */
};

/* False when the kernel tells nothing: *state is then untouched. */
bool tcp_state(int descriptor, struct tcp_state *state);

#endif
