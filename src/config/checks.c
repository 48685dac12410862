/* The rules, when everything is read. One thread. */
#include "config/checks.h"

#include "config/keys.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct check {
    const struct config *config;
    const struct config_file *found;
    const char *const *environment;
    struct faults *faults;
};

static bool is_set(const char *const *environment, const char *variable)
{
    const size_t length = strlen(variable);
    for (; *environment; environment++)
        if (strncmp(*environment, variable, length) == 0 && (*environment)[length] == '=')
            return true;
    return false;
}

static void add(const struct check *check, const char *section, const char *name, const char *message)
{
    char variable[CONFIG_VARIABLE_BYTES], pointer[CONFIG_VARIABLE_BYTES];
    size_t count, i = 0;
    const struct config_key *keys = config_keys(&count);
    while (i < count && (strcmp(keys[i].section, section) != 0 || strcmp(keys[i].name, name) != 0))
        i++;
    if (i == count)
        abort(); /* the names asked for are in the table */
    config_key_variable(&keys[i], variable);
    snprintf(pointer, sizeof pointer, "/%s/%s", section, name);
    if (is_set(check->environment, variable))
        faults_add(check->faults, variable, 0, NULL, "%s", message);
    else
        faults_add(check->faults, check->config->file ? check->config->file : "configuration", check->found->lines[i],
                   pointer, "%s", message);
}

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

static void check_tls(const struct check *check)
{
    const struct config *config = check->config;
    if (config->tls.cert_file && !config->tls.key_file)
        add(check, "tls", "cert_file", "a certificate needs its private key: set tls.key_file too");
    if (config->tls.key_file && !config->tls.cert_file)
        add(check, "tls", "key_file", "a private key needs its certificate: set tls.cert_file too");
    if (config->tls.client_ca_file && !config->tls.cert_file)
        add(check, "tls", "client_ca_file",
            "clients show certificates over TLS alone: set tls.cert_file and tls.key_file too");
}

static void check_admin(const struct check *check)
{
    const struct config *config = check->config;
    if (config->admin.listen && !is_loopback(config->admin.listen) && !config->admin.token_file &&
        !config->tls.client_ca_file)
        add(check, "admin", "listen",
            "other machines may reach this address, and nothing keeps them out: set admin.token_file or "
            "tls.client_ca_file, or listen on 127.0.0.1");
}

static void check_origins(const struct check *check)
{
    const struct config *config = check->config;
    for (size_t i = 0; i < config->cors.allowed_origins_count && config->cors.allowed_origins_count > 1; i++)
        if (strcmp(config->cors.allowed_origins[i], "*") == 0)
            add(check, "cors", "allowed_origins", "\"*\" allows every origin: leave the others out");
}

void config_check(const struct config *config, const struct config_file *found, const char *const *environment,
                  struct faults *faults)
{
    const struct check check = {config, found, environment, faults};
    check_tls(&check);
    check_admin(&check);
    check_origins(&check);
}
