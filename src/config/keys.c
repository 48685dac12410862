/* The table of keys, and setting one of them. Each row takes its name and its place from one word, and its type is
 * checked by the compiler. */
#include "config/keys.h"

#include "base/http_url.h"
#include "base/text.h"
#include "config/excerpt.h"
#include "config/listen_address.h"
#include "config/origin.h"
#include "config/value.h"

#include <ctype.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* clang-format off */

/* offsetof, refused by the compiler where the member has another type. */
#define MEMBER(member, wanted)                                                                                         \
    (offsetof(struct config, member) +                                                                                 \
     0 * sizeof(char[__builtin_types_compatible_p(__typeof__(((struct config *)0)->member), wanted) ? 1 : -1]))

#define KEY(section_, name_, type_, ctype)                                                                             \
    .section = #section_, .name = #name_, .type = (type_), .offset = MEMBER(section_.name_, ctype)

#define BOOL(section, name, fallback_)                                                                                 \
    {KEY(section, name, CONFIG_BOOL, bool), .fallback = (fallback_)}
#define INTEGER(section, name, minimum_, maximum_, fallback_)                                                          \
    {KEY(section, name, CONFIG_INTEGER, int64_t), .minimum = (minimum_), .maximum = (maximum_), .fallback = (fallback_)}
#define NUMBER(section, name, minimum_, maximum_, fallback_)                                                           \
    {KEY(section, name, CONFIG_NUMBER, double), .minimum = (minimum_), .maximum = (maximum_), .fallback = (fallback_)}
#define CHOICE(section, name, fallback_, ...)                                                                          \
    {KEY(section, name, CONFIG_CHOICE, char *), .fallback = (fallback_),                                               \
     .choices = (const char *const[]){__VA_ARGS__, NULL}}
#define STRING(section, name, ...) {KEY(section, name, CONFIG_STRING, char *), __VA_ARGS__}

#define TEBIBYTE 1099511627776.0
#define DAY_S    86400.0

/* Ranges: the smallest timeout is what a test may want, the largest a day; bytes end where no machine has more; 2^53 is
 * the last integer that JSON carries everywhere. */
static const struct config_key keys[] = {
    {.section = "", .name = "listen", .type = CONFIG_LIST, .offset = MEMBER(listen, char **),
     .count_offset = MEMBER(listen_count, size_t), .minimum = 1, .maximum = 64, .fallback = "127.0.0.1:8080",
     .check = listen_address_check},
    {.section = "", .name = "default_weights", .type = CONFIG_STRING, .offset = MEMBER(default_weights, char *)},

    INTEGER(server, io_threads, 1, 256, "2"),
    INTEGER(server, workers, 0, 1024, "0"),
    BOOL(server, pin, "true"),
    INTEGER(server, max_connections, 1, 1000000, "1000"),
    INTEGER(server, max_connections_per_address, 0, 1000000, "0"),
    NUMBER(server, idle_timeout_s, 0.001, DAY_S, "75"),
    NUMBER(server, upload_timeout_s, 0.001, DAY_S, "30"),
    NUMBER(server, request_timeout_s, 0.001, DAY_S, "30"),
    NUMBER(server, send_timeout_s, 0.001, DAY_S, "30"),
    NUMBER(server, drain_delay_s, 0, 3600, "5"),

    NUMBER(limits, max_request_gflop, 1e-9, 1e15, "10000"),
    INTEGER(limits, max_body_bytes, 1, TEBIBYTE, "67108864"),
    INTEGER(limits, max_response_bytes, 1, TEBIBYTE, "268435456"),
    INTEGER(limits, memory_budget_bytes, 0, 9007199254740992.0, "0"),
    INTEGER(limits, queue_depth, 1, 1000000, "256"),
    INTEGER(limits, max_batch_tokens, 1, 16777216, "8192"),
    INTEGER(limits, max_batch_delay_us, 0, 1000000, "0"),

    INTEGER(compression, min_bytes, 0, TEBIBYTE, "1024"),
    INTEGER(compression, max_bytes, 0, TEBIBYTE, "1048576"),
    INTEGER(compression, level, 1, 12, "1"),

    NUMBER(live, sample_rate, 0, 1, "1"),
    NUMBER(live, window_s, 1, DAY_S, "300"),
    CHOICE(live, access, "public", "public", "admin"),
    INTEGER(live, max_heads, 0, 65536, "1024"),

    CHOICE(metrics, heads, "auto", "auto", "on", "off"),

    CHOICE(log, level, "info", "debug", "info", "warning", "error"),
    CHOICE(log, format, "json", "json", "text"),

    STRING(admin, listen, .check = listen_address_check),
    STRING(admin, token_file),

    STRING(tls, cert_file),
    STRING(tls, key_file),
    STRING(tls, client_ca_file),

    {KEY(cors, allowed_origins, CONFIG_LIST, char **), .count_offset = MEMBER(cors.allowed_origins_count, size_t),
     .minimum = 0, .maximum = 64, .fallback = "", .check = origin_check},

    {KEY(tracing, endpoint, CONFIG_STRING, char *), .check = http_url_check},
    NUMBER(tracing, sample_rate, 0, 1, "0.01"),
};

/* clang-format on */

_Static_assert(sizeof keys / sizeof *keys < CONFIG_MAX_KEYS, "CONFIG_MAX_KEYS is behind");

const struct config_key *config_keys(size_t *count)
{
    *count = sizeof keys / sizeof *keys;
    return keys;
}

void config_key_variable(const struct config_key *key, char *variable)
{
    snprintf(variable, CONFIG_VARIABLE_BYTES, "ATTND_%s%s%s", key->section, *key->section ? "_" : "", key->name);
    for (char *c = variable; *c; c++)
        *c = (char)toupper((unsigned char)*c);
}

static bool replace_string(char **place, const char *text, size_t length, struct error *error)
{
    char *copy = NULL;
    if (text && !(copy = text_copy(text, length)))
        return error_out_of_memory(error);
    free(*place);
    *place = copy;
    return true;
}

bool config_key_set(const struct config_key *key, struct config *config, const char *text, size_t length,
                    const char *shown, struct error *error)
{
    char *place = (char *)config + key->offset;
    double number;
    size_t choice;
    switch (key->type) {
    case CONFIG_BOOL:
        return value_bool(text, length, shown, (bool *)place, error);
    case CONFIG_INTEGER:
        if (!value_number(text, length, true, key->minimum, key->maximum, shown, &number, error))
            return false;
        *(int64_t *)place = (int64_t)number;
        return true;
    case CONFIG_NUMBER:
        return value_number(text, length, false, key->minimum, key->maximum, shown, (double *)place, error);
    case CONFIG_CHOICE:
        return value_choice(text, length, key->choices, shown, &choice, error) &&
               replace_string((char **)place, text, length, error);
    case CONFIG_STRING:
        if (text && key->check && !key->check(text, length, error))
            return false;
        return replace_string((char **)place, text, length, error);
    case CONFIG_LIST:
        break;
    }
    abort(); /* a list has functions of its own */
}

bool config_list_add(const struct config_key *key, struct string_list *items, const char *text, size_t length,
                     struct error *error)
{
    char excerpt[EXCERPT_BYTES];
    if (key->check && !key->check(text, length, error))
        return false;
    /* Two free ports are two addresses. */
    if (string_list_has(items, text, length) && !(length > 2 && memcmp(text + length - 2, ":0", 2) == 0)) {
        excerpt_write(excerpt, text, length);
        return error_set(error, ERROR_INVALID, "\"%s\" is given twice", excerpt);
    }
    return string_list_add(items, text, length) || error_out_of_memory(error);
}

bool config_list_set(const struct config_key *key, struct config *config, struct string_list *items,
                     struct error *error)
{
    char ***place = (char ***)((char *)config + key->offset);
    size_t *count = (size_t *)((char *)config + key->count_offset);
    if ((double)items->count < key->minimum || (double)items->count > key->maximum)
        return error_set(error, ERROR_INVALID, "expected from %.0f to %.0f items, got %zu", key->minimum, key->maximum,
                         items->count);
    struct string_list old = {.items = *place, .count = *count};
    string_list_free(&old);
    *place = items->items;
    *count = items->count;
    *items = (struct string_list){0};
    return true;
}

bool config_list_split(const struct config_key *key, struct string_list *items, const char *text, struct error *error)
{
    if (text[strspn(text, " ")] == '\0')
        return true;
    for (const char *at = text;; at++) {
        at += strspn(at, " ");
        size_t to_comma = strcspn(at, ","), length = to_comma;
        while (length && at[length - 1] == ' ')
            length--;
        if (!config_list_add(key, items, at, length, error))
            return false;
        at += to_comma;
        if (!*at)
            return true;
    }
}

bool config_set_defaults(struct config *config)
{
    struct error error;
    bool set = true;
    for (const struct config_key *key = keys; set && key < keys + sizeof keys / sizeof *keys; key++) {
        if (key->type == CONFIG_LIST) {
            struct string_list items = {0};
            set = config_list_split(key, &items, key->fallback, &error) && config_list_set(key, config, &items, &error);
            string_list_free(&items);
        } else {
            const char *text = key->fallback;
            set = config_key_set(key, config, text, text ? strlen(text) : 0, text, &error);
        }
    }
    return set;
}
