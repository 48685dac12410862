/* Who may use admin routes, and where: whoever sends the token of admin.token_file, if there is one; at admin.listen,
 * if there is such an address. */
#ifndef ATTND_SERVER_ADMIN_H
#define ATTND_SERVER_ADMIN_H

#include "base/error.h"
#include "config/config.h"

#include <stdbool.h>
#include <stddef.h>

struct request;

struct admin {
    char *token; /* NULL: there are no admin routes */
    size_t length;
};

/* Reads the token: the file's first line. ERROR_CONFIGURATION when there is none in it, ERROR_IO when it cannot be
 * read; the pointer is the key's. */
bool admin_load(struct admin *admin, const struct config *config, struct error *error);
void admin_free(struct admin *admin);

/* ERROR_UNAUTHORIZED without the token, ERROR_UNKNOWN_ROUTE where there are no admin routes. A route_acceptor, as the
 * next two. */
bool admin_accept(struct request *request, struct error *error);
/* The same for routes that read live statistics, where live.access is admin; else they are open. */
bool admin_accept_reader(struct request *request, struct error *error);
/* For what is read by scrapers: open, but at admin.listen alone where there is such an address. */
bool admin_accept_scrape(struct request *request, struct error *error);

/* At admin.listen there are those routes and the probes, and no others. */
bool admin_accept_place(const struct request *request, struct error *error);

#endif
