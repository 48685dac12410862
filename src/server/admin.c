/* Loaded by the starting thread and by the one that reloads; the token is compared by polling threads. */
#include "server/admin.h"

#include "base/file.h"
#include "server/request.h"
#include "server/routes.h"

#include <stdlib.h>
#include <string.h>

#define TOKEN_BYTES_MOST 4096
#define FILE_BYTES_MOST  ((size_t)64 << 10)

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

/* Of the first line of the file's text, what is the token. */
static bool find_token(const char *path, const struct text *text, size_t *length, struct error *error)
{
    const char *end = text->length ? memchr(text->data, '\n', text->length) : NULL;
    *length = end ? (size_t)(end - text->data) : text->length;
    while (*length > 0 && is_blank(text->data[*length - 1]))
        --*length;
    if (*length == 0)
        return error_set_at(error, ERROR_CONFIGURATION, "/admin/token_file",
                            "%s holds no token; write one into its first line", path);
    if (*length > TOKEN_BYTES_MOST)
        return error_set_at(error, ERROR_CONFIGURATION, "/admin/token_file",
                            "the first line of %s has %zu bytes; a token has %d at most", path, *length,
                            TOKEN_BYTES_MOST);
    for (size_t i = 0; i < *length; i++)
        if ((unsigned char)text->data[i] < ' ' || text->data[i] == 0x7f)
            return error_set_at(error, ERROR_CONFIGURATION, "/admin/token_file",
                                "%s has a control character as byte %zu of its token, which no client "
                                "can send; write another token",
                                path, i + 1);
    return true;
}

static bool read_token(const char *path, struct admin *admin, struct error *error)
{
    struct text text = {0};
    size_t length;
    const int failed = file_read(path, FILE_BYTES_MOST, &text);
    if (failed)
        error_set_at(error, ERROR_IO, "/admin/token_file", "cannot read %s: %s", path, strerror(failed));
    const bool found = !failed && find_token(path, &text, &length, error);
    if (found)
        *admin = (struct admin){text.data, length};
    else
        text_free(&text);
    return found;
}

bool admin_load(struct admin *admin, const struct config *config, struct error *error)
{
    *admin = (struct admin){0};
    if (!config->admin.token_file)
        return true;
    char *path = config_path(config, config->admin.token_file);
    const bool loaded = path ? read_token(path, admin, error) : error_out_of_memory(error);
    free(path);
    return loaded;
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
