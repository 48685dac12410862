/* What a service manager gives the process, and what it is told.
 *
 * systemd's protocols of sd_listen_fds(3) and sd_notify(3), which others speak too: sockets that are open already when
 * the process starts, and lines of state over a datagram socket. Some environment variables and one sendto: no library
 * is worth it. Without a manager nothing of this does anything. Any thread. */
#ifndef ATTND_RUNTIME_SERVICE_MANAGER_H
#define ATTND_RUNTIME_SERVICE_MANAGER_H

#include <stddef.h>
#include <stdint.h>

/* The sockets that were given to this process: descriptors *first and on; returns their number, 0 for none. */
size_t service_manager_sockets(int *first);

/* Sends lines of state, such as "READY=1\nSTATUS=serving". A manager that cannot be reached is not waited for. */
void service_manager_notify(const char *state);

/* "RELOADING=1", with the time that systemd demands beside it. READY=1 follows when it is over. */
void service_manager_notify_reloading(void);

/* How often the manager wants to hear WATCHDOG=1 at least; 0: not at all. */
uint64_t service_manager_watchdog_ns(void);

#endif
