#include "server/tcp.h"

#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>

/* TCP_ESTABLISHED of netinet/tcp.h, which cannot stand beside linux/tcp.h; the latter has the newer struct. */
#define ESTABLISHED 1

bool tcp_state(int descriptor, struct tcp_state *state)
{
    struct tcp_info info = {0};
    socklen_t length = sizeof info;
    if (getsockopt(descriptor, IPPROTO_TCP, TCP_INFO, &info, &length) != 0)
        return false;
    *state = (struct tcp_state){.open = info.tcpi_state == ESTABLISHED,
                                .received_ms_ago = info.tcpi_last_data_recv,
                                .acknowledged = info.tcpi_bytes_acked};
    return true;
}
