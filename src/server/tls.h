/* TLS: the certificates that the configuration names, and what a session does with them. libmicrohttpd drives the
 * handshake and the records; which certificate is shown and whose is accepted is decided here, for each connection when
 * it begins, so that certificates can be read again while others go on. */
#ifndef ATTND_SERVER_TLS_H
#define ATTND_SERVER_TLS_H

#include "base/error.h"
#include "config/config.h"

#include <gnutls/abstract.h>
#include <gnutls/gnutls.h>
#include <stdbool.h>
#include <time.h>

struct connection;
struct tls;

/* TLS 1.2 and 1.3, in GnuTLS's words. */
#define TLS_PRIORITIES "NORMAL:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2"

/* Reads what tls.* names; *tls is held once, or NULL where nothing is named. ERROR_CONFIGURATION names the file and the
 * fault; its pointer is the key's. */
bool tls_load(struct tls **tls, const struct config *config, struct error *error);
/* Adds a warning where the server's certificate has expired, or is not valid yet. tls may be NULL. */
void tls_warn(const struct tls *tls, const struct config *config, struct faults *warnings);
/* The end of the server's own certificate, since the epoch. */
time_t tls_expiry(const struct tls *tls);
/* One more holder, and one less; the last one frees it. tls_release(NULL) is fine. */
struct tls *tls_hold(struct tls *tls);
void tls_release(struct tls *tls);

/* A session whose handshake has not begun is to show our certificate and, with tls.client_ca_file, to demand one that
 * this authority has signed for clients and that is valid, or our own certificate; no handshake ends without it. `tls`
 * must outlive the session. When the handshake is over, connections_secured(connection) is called. */
void tls_begin(const struct tls *tls, gnutls_session_t session, struct connection *connection);

/* For libmicrohttpd, which wants to be told of a certificate before it starts: it is never asked for one. */
int tls_no_certificate(gnutls_session_t session, const gnutls_datum_t *authorities, int n_authorities,
                       const gnutls_pk_algorithm_t *algorithms, int n_algorithms, gnutls_pcert_st **certificates,
                       unsigned *count, gnutls_privkey_t *key);

/* The credentials, for a client of our own (--health) to show. */
gnutls_certificate_credentials_t tls_credentials(const struct tls *tls);

#endif
