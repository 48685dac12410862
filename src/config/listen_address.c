/* Checks addresses by their form alone: no lookups, no sockets. */
#include "config/listen_address.h"

#include "config/excerpt.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

/* RFC 1035's limit on a name in text form. */
#define LONGEST_NAME 253
/* An IPv6 address, '%' and an interface's name. */
#define LONGEST_IPV6 (INET6_ADDRSTRLEN + 16)

static bool is_ipv6(const char *text, size_t length)
{
    char address[LONGEST_IPV6 + 1];
    struct in6_addr parsed;
    if (length > LONGEST_IPV6)
        return false;
    memcpy(address, text, length);
    address[length] = '\0';
    char *zone = strchr(address, '%');
    if (zone) {
        if (!zone[1])
            return false;
        *zone = '\0';
    }
    return inet_pton(AF_INET6, address, &parsed) == 1;
}

static bool is_ipv4(const char *text, size_t length)
{
    char address[INET_ADDRSTRLEN];
    struct in_addr parsed;
    if (length >= sizeof address)
        return false;
    memcpy(address, text, length);
    address[length] = '\0';
    return inet_pton(AF_INET, address, &parsed) == 1;
}

/* Letters, digits, '-', '_' and '.', with a letter somewhere: 300.1.1.1 is no name. */
static bool is_name(const char *text, size_t length)
{
    bool letter = false;
    if (length == 0 || length > LONGEST_NAME || text[0] == '-' || text[0] == '.')
        return false;
    for (size_t i = 0; i < length; i++) {
        unsigned char c = (unsigned char)text[i];
        if (c >= 0x80 || (!isalnum(c) && c != '-' && c != '_' && c != '.'))
            return false;
        letter |= isalpha(c) != 0;
    }
    return letter;
}

static bool is_port(const char *text, size_t length)
{
    unsigned long port = 0;
    if (length == 0 || length > 5)
        return false;
    for (size_t i = 0; i < length; i++) {
        if (text[i] < '0' || text[i] > '9')
            return false;
        port = 10 * port + (unsigned long)(text[i] - '0');
    }
    return port <= 65535;
}

bool listen_address_check(const char *text, size_t length, struct error *error)
{
    char excerpt[EXCERPT_BYTES];
    const char *colon = memrchr(text, ':', length);
    size_t host = colon ? (size_t)(colon - text) : 0;

    excerpt_write(excerpt, text, length);
    if (!colon)
        return error_set(error, ERROR_INVALID, "expected ADDRESS:PORT, such as 127.0.0.1:8080, got \"%s\"", excerpt);
    if (text[0] == '[' ? host < 2 || text[host - 1] != ']' : memchr(text, ':', host) != NULL)
        return error_set(error, ERROR_INVALID,
                         "expected an IPv6 address in brackets and a port, such as [::1]:8080, got \"%s\"", excerpt);
    if (!is_port(colon + 1, length - host - 1))
        return error_set(error, ERROR_INVALID, "expected a port from 0 to 65535 behind the last colon, got \"%s\"",
                         excerpt);
    if (host == 0 || (host == 1 && text[0] == '*'))
        return error_set(error, ERROR_INVALID,
                         "expected an address before the port (0.0.0.0 or [::] for all of them), got \"%s\"", excerpt);
    if (text[0] == '[' ? !is_ipv6(text + 1, host - 2) : !is_ipv4(text, host) && !is_name(text, host))
        return error_set(
            error, ERROR_INVALID,
            "expected an IPv4 address, an IPv6 address in brackets or a host name before the port, got \"%s\"",
            excerpt);
    return true;
}
