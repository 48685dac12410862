/* Loaded by the starting thread and by the one that reloads; sessions are those of polling threads. */
#include "server/tls.h"

#include "server/connections.h"

#include <gnutls/x509.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

struct tls {
    _Atomic unsigned holders;
    gnutls_certificate_credentials_t credentials;
    bool demands; /* a certificate of the client */
};

static bool load_own(struct tls *tls, const char *certificate, const char *key, struct error *error)
{
    const int failed = gnutls_certificate_set_x509_key_file(tls->credentials, certificate, key, GNUTLS_X509_FMT_PEM);
    return failed >= 0 ||
           error_set(error, ERROR_CONFIGURATION,
                     "tls.cert_file %s and tls.key_file %s: %s; expected a certificate in PEM, its chain "
                     "behind it, and its private key, unencrypted",
                     certificate, key, gnutls_strerror(failed));
}

static bool load_authority(struct tls *tls, const char *path, struct error *error)
{
    const int count = gnutls_certificate_set_x509_trust_file(tls->credentials, path, GNUTLS_X509_FMT_PEM);
    if (count <= 0)
        return error_set(error, ERROR_CONFIGURATION, "tls.client_ca_file %s: %s; expected certificates in PEM", path,
                         count < 0 ? gnutls_strerror(count) : "it holds no certificate");
    tls->demands = true;
    return true;
}

bool tls_load(struct tls **tls, const struct config *config, struct error *error)
{
    struct tls *loaded = NULL;
    char *certificate = NULL, *key = NULL, *authority = NULL;
    bool done = false;
    *tls = NULL;
    if (!config->tls.cert_file)
        return true;
    certificate = config_path(config, config->tls.cert_file);
    key = config_path(config, config->tls.key_file);
    authority = config->tls.client_ca_file ? config_path(config, config->tls.client_ca_file) : NULL;
    loaded = calloc(1, sizeof *loaded);
    if (!certificate || !key || (config->tls.client_ca_file && !authority) || !loaded ||
        gnutls_certificate_allocate_credentials(&loaded->credentials) < 0) {
        error_out_of_memory(error);
        goto done;
    }
    atomic_init(&loaded->holders, 1);
    if (!load_own(loaded, certificate, key, error) || (authority && !load_authority(loaded, authority, error)))
        goto done;
    *tls = loaded;
    done = true;
done:
    if (!done)
        tls_release(loaded);
    free(certificate);
    free(key);
    free(authority);
    return done;
}

struct tls *tls_hold(struct tls *tls)
{
    if (tls)
        atomic_fetch_add(&tls->holders, 1);
    return tls;
}

void tls_release(struct tls *tls)
{
    if (!tls || atomic_fetch_sub(&tls->holders, 1) > 1)
        return;
    if (tls->credentials)
        gnutls_certificate_free_credentials(tls->credentials);
    free(tls);
}

gnutls_certificate_credentials_t tls_credentials(const struct tls *tls)
{
    return tls->credentials;
}

/* Whoever has our own key is us. */
static bool is_own(gnutls_session_t session)
{
    unsigned count;
    const gnutls_datum_t *own = gnutls_certificate_get_ours(session);
    const gnutls_datum_t *sent = gnutls_certificate_get_peers(session, &count);
    return own && sent && count && own->size == sent->size && memcmp(own->data, sent->data, own->size) == 0;
}

/* In the handshake, when the client's certificates are here. Not 0: it fails. */
static int verify(gnutls_session_t session)
{
    gnutls_typed_vdata_st purpose = {.type = GNUTLS_DT_KEY_PURPOSE_OID,
                                     .data = (unsigned char *)GNUTLS_KP_TLS_WWW_CLIENT};
    unsigned status = 0;
    if (is_own(session) || (gnutls_certificate_verify_peers(session, &purpose, 1, &status) == 0 && status == 0))
        return 0;
    gnutls_alert_send(session, GNUTLS_AL_FATAL,
                      status & GNUTLS_CERT_EXPIRED            ? GNUTLS_A_CERTIFICATE_EXPIRED
                      : status & GNUTLS_CERT_SIGNER_NOT_FOUND ? GNUTLS_A_UNKNOWN_CA
                                                              : GNUTLS_A_BAD_CERTIFICATE);
    return GNUTLS_E_CERTIFICATE_ERROR;
}

static int see_finished(gnutls_session_t session, unsigned type, unsigned when, unsigned incoming,
                        const gnutls_datum_t *message)
{
    (void)type;
    (void)when;
    (void)message;
    if (incoming)
        connections_secured(gnutls_db_get_ptr(session));
    return 0;
}

void tls_begin(const struct tls *tls, gnutls_session_t session, struct connection *connection)
{
    gnutls_credentials_set(session, GNUTLS_CRD_CERTIFICATE, tls->credentials);
    gnutls_db_set_ptr(session, connection); /* no sessions are stored: the place is free */
    gnutls_handshake_set_hook_function(session, GNUTLS_HANDSHAKE_FINISHED, GNUTLS_HOOK_POST, see_finished);
    if (tls->demands) {
        gnutls_certificate_server_set_request(session, GNUTLS_CERT_REQUIRE);
        gnutls_session_set_verify_function(session, verify);
    }
}

int tls_no_certificate(gnutls_session_t session, const gnutls_datum_t *authorities, int n_authorities,
                       const gnutls_pk_algorithm_t *algorithms, int n_algorithms, gnutls_pcert_st **certificates,
                       unsigned *count, gnutls_privkey_t *key)
{
    (void)session;
    (void)authorities;
    (void)n_authorities;
    (void)algorithms;
    (void)n_algorithms;
    *certificates = NULL;
    *count = 0;
    *key = NULL;
    return -1;
}
