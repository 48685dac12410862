/* Names of members: compared with their escapes resolved, whichever way they are written. Entered by the reader's
 * thread.
 *
 * Duplicates are found by a list of names in the reader, of bounded length, so that neither an object of millions of
 * members nor one made of colliding names costs more than a bounded number of steps a member. */
#include "json/names.h"

#include "base/nearest.h"
#include "json/escape.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>

bool json_key_is(const struct json_key *key, const char *name)
{
    if (!key->escaped) { /* what was read holds no NUL; mostly the first character differs */
        size_t same = 0;
        while (same < key->length && key->raw[same] == name[same])
            same++;
        return same == key->length && name[same] == '\0';
    }
    size_t length = strlen(name);
    const char *at = key->raw, *end = key->raw + key->length;
    while (at < end) {
        char utf8[4];
        size_t bytes = escape_next(&at, utf8);
        if (bytes > length || memcmp(utf8, name, bytes) != 0)
            return false;
        name += bytes;
        length -= bytes;
    }
    return length == 0;
}

size_t json_key_write(const struct json_key *key, char *to)
{
    const char *at = key->raw, *end = key->raw + key->length;
    size_t length = 0;
    if (!key->escaped) {
        memcpy(to, key->raw, key->length);
        length = key->length;
        at = end;
    }
    while (at < end) {
        char utf8[4];
        size_t bytes = escape_next(&at, utf8);
        memcpy(to + length, utf8, bytes);
        length += bytes;
    }
    to[length] = '\0';
    return length;
}

char *json_key_copy(const struct json_key *key, size_t *length)
{
    char *copy = malloc(key->length + 1); /* an escape is longer than what it stands for */
    if (!copy)
        return NULL;
    size_t bytes = json_key_write(key, copy);
    if (length)
        *length = bytes;
    return copy;
}

static bool same_name(const struct json_key *a, const struct json_key *b)
{
    if (!a->escaped && !b->escaped)
        return a->length == b->length && memcmp(a->raw, b->raw, a->length) == 0;
    const char *at_a = a->raw, *end_a = a->raw + a->length, *at_b = b->raw, *end_b = b->raw + b->length;
    while (at_a < end_a && at_b < end_b) {
        char utf8_a[4], utf8_b[4];
        size_t bytes = escape_next(&at_a, utf8_a);
        if (escape_next(&at_b, utf8_b) != bytes || memcmp(utf8_a, utf8_b, bytes) != 0)
            return false;
    }
    return at_a == end_a && at_b == end_b;
}

/* Of the resolved name. Its key is the random number that the kernel gives each process, so that nobody can choose long
 * names that collide, each of which would be compared to its end. */
static uint32_t hash_name(const struct json_key *key)
{
    uint64_t secret[2] = {0};
    const void *random = (const void *)getauxval(AT_RANDOM);
    if (random)
        memcpy(secret, random, sizeof secret);
    uint64_t hash = secret[0];
    const char *at = key->raw, *end = key->raw + key->length;
    while (at < end) {
        char utf8[4];
        size_t bytes = escape_next(&at, utf8);
        for (size_t i = 0; i < bytes; i++) {
            hash = (hash ^ (unsigned char)utf8[i]) * (secret[1] | 1);
            hash ^= hash >> 32;
        }
    }
    return (uint32_t)hash;
}

/* The key whose name begins at `raw`, which was checked when it was read. */
static struct json_key key_at(const struct json_reader *r, const char *raw)
{
    struct json_key key = {.raw = raw};
    const char *end = raw;
    escape_check(&end, r->end, &key.escaped);
    key.length = (size_t)(end - raw);
    return key;
}

/* Adds a character to what is shown; false, with an ellipsis, when it has no room. */
static bool show_character(char shown[NAMES_SHOWN_BYTES], size_t *length, const char *utf8, size_t bytes)
{
    const bool fits = *length + bytes <= NAMES_SHOWN_BYTES - sizeof "...";
    const bool control = (unsigned char)utf8[0] < 0x20 || utf8[0] == 0x7F;
    const char *what = !fits ? "..." : control ? "?" : utf8;
    const size_t added = fits ? bytes : 3;
    memcpy(shown + *length, what, added);
    *length += added;
    return fits;
}

void names_show(const struct json_key *key, char shown[NAMES_SHOWN_BYTES])
{
    const char *at = key->raw, *end = key->raw + key->length;
    char utf8[4];
    size_t length = 0;
    while (at < end) {
        size_t bytes = escape_next(&at, utf8);
        if (!show_character(shown, &length, utf8, bytes))
            break;
    }
    shown[length] = '\0';
}

/* Bytes of the character that begins at `utf8`, which is not the NUL. */
static size_t character_bytes(const char *utf8)
{
    size_t bytes = 1;
    while (((unsigned char)utf8[bytes] & 0xC0) == 0x80)
        bytes++;
    return bytes;
}

void names_show_plain(const char *name, char shown[NAMES_SHOWN_BYTES])
{
    size_t length = 0, bytes;
    for (; *name; name += bytes) {
        bytes = character_bytes(name);
        if (!show_character(shown, &length, name, bytes))
            break;
    }
    shown[length] = '\0';
}

void names_unknown(const char *what, const char *shown, const char *const *known, size_t count, char *text, size_t size)
{
    const char *near = nearest_name(shown, known, count);
    if (near) {
        snprintf(text, size, "unknown %s \"%s\"; did you mean \"%s\"?", what, shown, near);
        return;
    }
    int length = snprintf(text, size,
                          count ? "unknown %s \"%s\"; the %ss here are " : "unknown %s \"%s\"; there are no %ss here",
                          what, shown, what);
    for (size_t i = 0; i < count && length >= 0 && (size_t)length < size; i++)
        length += snprintf(text + length, size - (size_t)length, "%s\"%s\"", i ? ", " : "", known[i]);
}

bool names_duplicate_error(const struct json_reader *r, const struct json_key *key, struct error *error)
{
    char shown[NAMES_SHOWN_BYTES];
    names_show(key, shown);
    return json_error(r, error, ERROR_DUPLICATE_MEMBER, "the object has the member \"%s\" twice; remove one", shown);
}

bool names_add(struct json_reader *r, const struct json_key *key, struct error *error)
{
    unsigned first = r->level[r->depth - 1].first_name, count = r->num_names;
    uint32_t hash = hash_name(key);

    /* Without an exit, so that the compiler compares several at a time: nearly always there is none. */
    bool found = false;
    for (unsigned i = first; i < count; i++)
        found |= r->name_hash[i] == hash;
    for (unsigned i = first; found && i < count; i++) {
        struct json_key other = key_at(r, r->name[i]);
        if (r->name_hash[i] == hash && same_name(&other, key))
            return names_duplicate_error(r, key, error);
    }
    if (count == JSON_MAX_MEMBERS)
        return json_error(
            r, error, ERROR_NOT_JSON,
            "an object with more members than this service reads: at most %d in it and the objects around it",
            JSON_MAX_MEMBERS);
    r->name[count] = key->raw;
    r->name_hash[count] = hash;
    r->num_names = count + 1;
    return true;
}
