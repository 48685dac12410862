/* Loaded by the starting thread and by the one that reloads; sessions are those of polling threads. */
#include "server/tls.h"

#include "base/file.h"
#include "server/connections.h"

#include <gnutls/x509.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct tls {
    _Atomic unsigned holders;
    gnutls_certificate_credentials_t credentials;
    bool demands;        /* a certificate of the client */
    time_t begins, ends; /* of the validity of the server's own certificate */
};

/* Of a file of certificates: a chain, or the authorities of a system, are some 200 KiB. */
#define FILE_BYTES_MOST ((size_t)4 << 20)

/* The content in fresh memory, with a 0 behind it. */
static bool read_file(const char *pointer, const char *path, gnutls_datum_t *content, struct error *error)
{
    struct text text = {0};
    const int failed = file_read(path, FILE_BYTES_MOST, &text);
    if (failed || !text_terminate(&text)) {
        text_free(&text);
        return failed ? error_set_at(error, ERROR_CONFIGURATION, pointer, "cannot read %s: %s", path, strerror(failed))
                      : error_out_of_memory(error);
    }
    *content = (gnutls_datum_t){(unsigned char *)text.data, (unsigned)text.length};
    return true;
}

/* Nothing of a key stays in memory that is free. */
static void forget(gnutls_datum_t *content)
{
    if (content->data)
        gnutls_memset(content->data, 0, content->size);
    free(content->data);
}

/* The server's own certificate is the first of the file. */
static bool see_certificate(struct tls *tls, const char *path, const gnutls_datum_t *content, struct error *error)
{
    gnutls_x509_crt_t *chain = NULL;
    unsigned count = 0;
    const int failed = gnutls_x509_crt_list_import2(&chain, &count, content, GNUTLS_X509_FMT_PEM, 0);
    const bool right = failed >= 0 && count > 0;
    if (right) {
        tls->begins = gnutls_x509_crt_get_activation_time(chain[0]);
        tls->ends = gnutls_x509_crt_get_expiration_time(chain[0]);
    }
    for (unsigned i = 0; failed >= 0 && i < count; i++)
        gnutls_x509_crt_deinit(chain[i]);
    if (failed >= 0)
        gnutls_free(chain);
    return right || error_set_at(error, ERROR_CONFIGURATION, "/tls/cert_file",
                                 "%s holds no certificate that can be read (%s); expected PEM: the server's own "
                                 "certificate first, its chain behind it",
                                 path, gnutls_strerror(failed));
}

static bool see_key(const char *path, const gnutls_datum_t *content, struct error *error)
{
    gnutls_x509_privkey_t key;
    if (gnutls_x509_privkey_init(&key) < 0)
        return error_out_of_memory(error);
    const int failed = gnutls_x509_privkey_import2(key, content, GNUTLS_X509_FMT_PEM, NULL, 0);
    gnutls_x509_privkey_deinit(key);
    if (failed == GNUTLS_E_DECRYPTION_FAILED)
        return error_set_at(error, ERROR_CONFIGURATION, "/tls/key_file",
                            "the key in %s is encrypted; expected one without a passphrase (openssl pkey -in FILE "
                            "-out PLAIN writes it)",
                            path);
    return failed >= 0 ||
           error_set_at(error, ERROR_CONFIGURATION, "/tls/key_file",
                        "%s holds no private key that can be read (%s); expected PEM", path, gnutls_strerror(failed));
}

static bool load_own(struct tls *tls, const char *certificate, const char *key, struct error *error)
{
    gnutls_datum_t shown = {0}, secret = {0};
    bool done = read_file("/tls/cert_file", certificate, &shown, error) &&
                see_certificate(tls, certificate, &shown, error) && read_file("/tls/key_file", key, &secret, error) &&
                see_key(key, &secret, error);
    if (done) {
        const int failed = gnutls_certificate_set_x509_key_mem(tls->credentials, &shown, &secret, GNUTLS_X509_FMT_PEM);
        done = failed >= 0 ||
               error_set_at(error, ERROR_CONFIGURATION, "/tls/key_file",
                            "%s does not go with the certificate in %s: %s", key, certificate, gnutls_strerror(failed));
    }
    forget(&secret);
    forget(&shown);
    return done;
}

static bool load_authority(struct tls *tls, const char *path, struct error *error)
{
    gnutls_datum_t content = {0};
    bool done = read_file("/tls/client_ca_file", path, &content, error);
    if (done) {
        const int count = gnutls_certificate_set_x509_trust_mem(tls->credentials, &content, GNUTLS_X509_FMT_PEM);
        done = count > 0 || error_set_at(error, ERROR_CONFIGURATION, "/tls/client_ca_file",
                                         "%s holds no certificate that can be read (%s); expected the authorities in "
                                         "PEM",
                                         path, gnutls_strerror(count < 0 ? count : GNUTLS_E_NO_CERTIFICATE_FOUND));
    }
    forget(&content);
    tls->demands |= done;
    return done;
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

void tls_warn(const struct tls *tls, const struct config *config, struct faults *warnings)
{
    const time_t now = time(NULL);
    const bool over = tls && now > tls->ends;
    char message[256], when[32];
    struct tm utc;
    if (!tls || (!over && now >= tls->begins))
        return;
    if (!gmtime_r(over ? &tls->ends : &tls->begins, &utc) || !strftime(when, sizeof when, "%Y-%m-%dT%H:%M:%SZ", &utc))
        *when = '\0';
    snprintf(message, sizeof message, "the certificate %s %s: clients will refuse it; %s",
             over ? "has expired, at" : "is not valid before", when,
             over ? "put a new one in its place and send SIGHUP" : "see whether the clock is right");
    config_fault(config, "/tls/cert_file", message, warnings);
}

time_t tls_expiry(const struct tls *tls)
{
    return tls->ends;
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
