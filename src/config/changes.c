/* One list of names: what is not in it changes with a reload. One thread. */
#include "config/changes.h"

#include "config/keys.h"
#include "config/string_list.h"

#include <stdlib.h>
#include <string.h>

/* Sockets, threads, queues, and what is sized by them. */
static const char *const fixed[] = {
    "listen",
    "admin.listen",
    "server.io_threads",
    "server.workers",
    "server.pin",
    "server.max_connections",
    "limits.memory_budget_bytes",
    "limits.queue_depth",
    "limits.max_batch_tokens",
    "limits.max_batch_delay_us",
    "log.format",
    "tracing.endpoint",
};

_Static_assert(sizeof fixed / sizeof *fixed <= CONFIG_MAX_FIXED - 1, "CONFIG_MAX_FIXED is behind");

const char *config_fixed_key(size_t number)
{
    return number < sizeof fixed / sizeof *fixed ? fixed[number] : NULL;
}

static const struct config_key *find(const char *full)
{
    size_t count;
    const struct config_key *keys = config_keys(&count);
    const char *dot = strchr(full, '.'), *name = dot ? dot + 1 : full;
    const size_t section = dot ? (size_t)(dot - full) : 0;
    for (size_t i = 0; i < count; i++)
        if (strlen(keys[i].section) == section && memcmp(keys[i].section, full, section) == 0 &&
            strcmp(keys[i].name, name) == 0)
            return &keys[i];
    abort(); /* the names asked for are in the table */
}

static struct string_list list_of(const struct config *config, const struct config_key *key)
{
    return (struct string_list){.items = *(char ***)((char *)config + key->offset),
                                .count = *(size_t *)((char *)config + key->count_offset)};
}

static bool same_list(const struct string_list *one, const struct string_list *other)
{
    bool same = one->count == other->count;
    for (size_t i = 0; i < one->count && same; i++)
        same = strcmp(one->items[i], other->items[i]) == 0;
    return same;
}

static bool keep_list(const struct config *running, struct config *read, const struct config_key *key, bool *differs)
{
    struct string_list before = list_of(running, key), now = list_of(read, key), copy = {0};
    struct error error;
    *differs = !same_list(&before, &now);
    bool kept = true;
    for (size_t i = 0; i < before.count && *differs && kept; i++)
        kept = string_list_add(&copy, before.items[i], strlen(before.items[i]));
    if (*differs && kept)
        kept = config_list_set(key, read, &copy, &error);
    string_list_free(&copy);
    return kept;
}

static bool keep_string(const char *running, char **read, bool *differs)
{
    *differs = running && *read ? strcmp(running, *read) != 0 : running != *read;
    if (!*differs)
        return true;
    char *copy = running ? strdup(running) : NULL;
    if (running && !copy)
        return false;
    free(*read);
    *read = copy;
    return true;
}

static bool keep(const struct config *running, struct config *read, const struct config_key *key, bool *differs)
{
    const void *before = (const char *)running + key->offset;
    void *now = (char *)read + key->offset;
    if (key->type == CONFIG_LIST)
        return keep_list(running, read, key, differs);
    if (key->type == CONFIG_STRING || key->type == CONFIG_CHOICE)
        return keep_string(*(char *const *)before, now, differs);
    const size_t bytes = key->type == CONFIG_BOOL      ? sizeof(bool)
                         : key->type == CONFIG_INTEGER ? sizeof(int64_t)
                                                       : sizeof(double);
    *differs = memcmp(before, now, bytes) != 0;
    memcpy(now, before, bytes);
    return true;
}

/* Connections are encrypted or not, as when the server started; the files may be others. */
static bool keep_tls(const struct config *running, struct config *read, bool *differs)
{
    static const char *const keys[] = {"tls.cert_file", "tls.key_file", "tls.client_ca_file"};
    bool ignored, kept = true;
    *differs = !running->tls.cert_file != !read->tls.cert_file;
    for (size_t i = 0; i < sizeof keys / sizeof *keys && *differs && kept; i++)
        kept = keep(running, read, find(keys[i]), &ignored);
    return kept;
}

bool config_keep_fixed(const struct config *running, struct config *read, const char *names[CONFIG_MAX_FIXED],
                       size_t *count)
{
    *count = 0;
    for (size_t i = 0; i < sizeof fixed / sizeof *fixed; i++) {
        bool differs;
        if (!keep(running, read, find(fixed[i]), &differs))
            return false;
        if (differs)
            names[(*count)++] = fixed[i];
    }
    bool differs;
    if (!keep_tls(running, read, &differs))
        return false;
    if (differs)
        names[(*count)++] = "tls.cert_file";
    return true;
}
