/* Loaded by the starting thread and by the one that reloads; the token is compared by polling threads. */
#include "server/admin.h"

#include "server/request.h"
#include "server/routes.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TOKEN_BYTES_MOST 4096

static bool read_token(const char *path, char *token, size_t *length, struct error *error)
{
    FILE *file = fopen(path, "re");
    if (!file)
        return error_set_at(error, ERROR_IO, "/admin/token_file", "cannot read %s: %s", path, strerror(errno));
    *length = fread(token, 1, TOKEN_BYTES_MOST, file);
    const int read_error = ferror(file) ? errno : 0;
    fclose(file);
    if (read_error)
        return error_set_at(error, ERROR_IO, "/admin/token_file", "cannot read %s: %s", path, strerror(read_error));
    const char *end = memchr(token, '\n', *length);
    *length = end ? (size_t)(end - token) : *length;
    while (*length > 0 && strchr(" \t\r", token[*length - 1]))
        --*length;
    if (*length == 0)
        return error_set_at(error, ERROR_CONFIGURATION, "/admin/token_file",
                            "%s holds no token; write one into its first line", path);
    return true;
}

bool admin_load(struct admin *admin, const struct config *config, struct error *error)
{
    *admin = (struct admin){0};
    if (!config->admin.token_file)
        return true;
    char *path = config_path(config, config->admin.token_file), *token = malloc(TOKEN_BYTES_MOST);
    size_t length = 0;
    bool loaded = false;
    if (!path || !token)
        error_out_of_memory(error);
    else
        loaded = read_token(path, token, &length, error);
    free(path);
    if (!loaded) {
        free(token);
        return false;
    }
    *admin = (struct admin){token, length};
    return true;
}

void admin_free(struct admin *admin)
{
    free(admin->token);
    *admin = (struct admin){0};
}

/* In a time that tells nothing of where they differ. */
static bool same(const char *sent, const char *token, size_t length)
{
    const size_t sent_length = strlen(sent);
    unsigned char differs = sent_length != length;
    for (size_t i = 0; i < length; i++)
        differs |= (unsigned char)((unsigned char)token[i] ^ (unsigned char)(i < sent_length ? sent[i] : 0));
    return differs == 0;
}

static bool has_token(const struct request *request, const struct admin *admin)
{
    static const char scheme[] = "Bearer ";
    const char *sent = MHD_lookup_connection_value(request->mhd, MHD_HEADER_KIND, MHD_HTTP_HEADER_AUTHORIZATION);
    return sent && strncasecmp(sent, scheme, sizeof scheme - 1) == 0 &&
           same(sent + sizeof scheme - 1, admin->token, admin->length);
}

/* Where there is an admin listener, these routes are nowhere else. */
static bool check_place(const struct request *request, struct error *error)
{
    return request->connection->admin || !request->generation->config->admin.listen ||
           error_set(error, ERROR_UNKNOWN_ROUTE, "%s is served at admin.listen, and nowhere else",
                     route_pattern(request->route));
}

bool admin_accept(struct request *request, struct error *error)
{
    const struct admin *admin = &request->generation->settings->admin;
    if (!check_place(request, error))
        return false;
    if (!admin->token)
        return request->connection->admin ||
               error_set(error, ERROR_UNKNOWN_ROUTE,
                         "%s is an admin route, and there are none: neither admin.token_file nor admin.listen is set",
                         route_pattern(request->route));
    return has_token(request, admin) ||
           error_set(error, ERROR_UNAUTHORIZED, "%s needs the admin token: send Authorization: Bearer TOKEN",
                     route_pattern(request->route));
}

bool admin_accept_reader(struct request *request, struct error *error)
{
    return strcmp(request->generation->config->live.access, "admin") != 0 || admin_accept(request, error);
}

bool admin_accept_scrape(struct request *request, struct error *error)
{
    return check_place(request, error);
}

bool admin_accept_place(const struct request *request, struct error *error)
{
    return !request->connection->admin || route_is_admin(request->route) || route_is_probe(request->route) ||
           error_set(error, ERROR_UNKNOWN_ROUTE,
                     "%s is not served at admin.listen: ask one of the addresses of `listen`",
                     route_pattern(request->route));
}
