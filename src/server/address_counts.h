/* How many connections each client address has. */
#ifndef ATTND_SERVER_ADDRESS_COUNTS_H
#define ATTND_SERVER_ADDRESS_COUNTS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>

/* An IPv6 address, or an IPv4 one mapped to it. */
struct address {
    unsigned char bytes[16];
};

struct address_count;

#define ADDRESS_BUCKETS 1024

/* Zero-initialise. One thread at a time. */
struct address_counts {
    struct address_count *buckets[ADDRESS_BUCKETS];
};

/* All zero for what is neither IPv4 nor IPv6. */
struct address address_of(const struct sockaddr *socket_address);

/* One connection more; false when memory ran out. */
bool address_counts_add(struct address_counts *counts, const struct address *address);
/* One that was added is over. */
void address_counts_remove(struct address_counts *counts, const struct address *address);
size_t address_counts_of(const struct address_counts *counts, const struct address *address);
void address_counts_free(struct address_counts *counts);

#endif
