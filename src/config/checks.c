/* The rules, when everything is read. One thread. */
#include "config/checks.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>

/* Nobody but this machine reaches it. What is no address is not trusted to be one of these, but for "localhost". */
static bool is_loopback(const char *listen)
{
    char host[64];
    struct in_addr v4;
    struct in6_addr v6;
    const char *colon = strrchr(listen, ':');
    const size_t length = colon ? (size_t)(colon - listen) : 0;
    if (length == 0 || length >= sizeof host)
        return false;
    memcpy(host, listen, length);
    host[length] = '\0';
    if (host[0] == '[') {
        host[length - 1] = '\0';
        return inet_pton(AF_INET6, host + 1, &v6) == 1 && IN6_IS_ADDR_LOOPBACK(&v6);
    }
    if (inet_pton(AF_INET, host, &v4) == 1)
        return ntohl(v4.s_addr) >> IN_CLASSA_NSHIFT == IN_LOOPBACKNET;
    return strcmp(host, "localhost") == 0;
}

static void check_tls(const struct config *config, struct faults *faults)
{
    if (config->tls.cert_file && !config->tls.key_file)
        config_fault(config, "/tls/cert_file", "a certificate needs its private key: set tls.key_file too", faults);
    if (config->tls.key_file && !config->tls.cert_file)
        config_fault(config, "/tls/key_file", "a private key needs its certificate: set tls.cert_file too", faults);
    if (config->tls.client_ca_file && !config->tls.cert_file)
        config_fault(config, "/tls/client_ca_file",
                     "clients show certificates over TLS alone: set tls.cert_file and tls.key_file too", faults);
}

static void check_admin(const struct config *config, struct faults *faults)
{
    if (config->admin.listen && !is_loopback(config->admin.listen) && !config->admin.token_file &&
        !config->tls.client_ca_file)
        config_fault(config, "/admin/listen",
                     "other machines may reach this address, and nothing keeps them out: set admin.token_file or "
                     "tls.client_ca_file, or listen on 127.0.0.1",
                     faults);
}

/* Is it one of `listen`? Port 0 is another port each time. */
static void check_admin_is_apart(const struct config *config, struct faults *faults)
{
    const char *colon = config->admin.listen ? strrchr(config->admin.listen, ':') : NULL;
    for (size_t i = 0; colon && strcmp(colon, ":0") != 0 && i < config->listen_count; i++)
        if (strcmp(config->listen[i], config->admin.listen) == 0)
            config_fault(config, "/admin/listen", "this address is in `listen` too; expected one of its own", faults);
}

static void check_origins(const struct config *config, struct faults *faults)
{
    for (size_t i = 0; i < config->cors.allowed_origins_count && config->cors.allowed_origins_count > 1; i++)
        if (strcmp(config->cors.allowed_origins[i], "*") == 0)
            config_fault(config, "/cors/allowed_origins", "\"*\" allows every origin: leave the others out", faults);
}

void config_check(const struct config *config, struct faults *faults)
{
    check_tls(config, faults);
    check_admin(config, faults);
    check_admin_is_apart(config, faults);
    check_origins(config, faults);
}
