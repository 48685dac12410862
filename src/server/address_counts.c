/* A table of lists: there are no more addresses in it than connections, which have a limit of their own. */
#include "server/address_counts.h"

#include <netinet/in.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct address_count {
    struct address address;
    size_t connections;
    struct address_count *next;
};

struct address address_of(const struct sockaddr *socket_address)
{
    struct address address = {0};
    if (socket_address->sa_family == AF_INET6) {
        memcpy(address.bytes, &((const struct sockaddr_in6 *)socket_address)->sin6_addr, sizeof address.bytes);
    } else if (socket_address->sa_family == AF_INET) {
        address.bytes[10] = address.bytes[11] = 0xff;
        memcpy(address.bytes + 12, &((const struct sockaddr_in *)socket_address)->sin_addr, 4);
    }
    return address;
}

/* FNV-1a, http://www.isthe.com/chongo/tech/comp/fnv/ */
static size_t bucket_of(const struct address *address)
{
    uint64_t hash = 14695981039346656037U;
    for (size_t i = 0; i < sizeof address->bytes; i++)
        hash = (hash ^ address->bytes[i]) * 1099511628211U;
    return (size_t)(hash >> 32) % ADDRESS_BUCKETS;
}

/* Where its record hangs, or would. */
static struct address_count **find(struct address_counts *counts, const struct address *address)
{
    struct address_count **at = &counts->buckets[bucket_of(address)];
    while (*at && memcmp(&(*at)->address, address, sizeof *address) != 0)
        at = &(*at)->next;
    return at;
}

bool address_counts_add(struct address_counts *counts, const struct address *address)
{
    struct address_count **at = find(counts, address);
    if (!*at) {
        *at = calloc(1, sizeof **at);
        if (!*at)
            return false;
        (*at)->address = *address;
    }
    (*at)->connections++;
    return true;
}

void address_counts_remove(struct address_counts *counts, const struct address *address)
{
    struct address_count **at = find(counts, address), *count = *at;
    if (!count || --count->connections > 0)
        return;
    *at = count->next;
    free(count);
}

size_t address_counts_of(const struct address_counts *counts, const struct address *address)
{
    const struct address_count *count = *find((struct address_counts *)counts, address);
    return count ? count->connections : 0;
}

void address_counts_free(struct address_counts *counts)
{
    for (size_t i = 0; i < ADDRESS_BUCKETS; i++)
        while (counts->buckets[i]) {
            struct address_count *count = counts->buckets[i];
            counts->buckets[i] = count->next;
            free(count);
        }
}
