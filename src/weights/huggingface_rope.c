/* Owns what the members of rope's objects mean. No state. */
#include "weights/huggingface_rope.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

#define DEFAULT_THETA 10000.0

static const struct {
    const char *name;
    size_t offset;
} numbers[] = {
    {"rope_theta", offsetof(struct rope_members, theta)},
    {"factor", offsetof(struct rope_members, factor)},
    {"low_freq_factor", offsetof(struct rope_members, low_freq_factor)},
    {"high_freq_factor", offsetof(struct rope_members, high_freq_factor)},
    {"original_max_position_embeddings", offsetof(struct rope_members, original_positions)},
    {"partial_rotary_factor", offsetof(struct rope_members, partial_rotary_factor)},
};
#define NUMBER_COUNT (sizeof numbers / sizeof *numbers)

static bool read_name(struct json_reader *r, char shown[NAMES_SHOWN_BYTES], struct error *error)
{
    struct json_key name;
    if (!json_read_in_place(r, &name, error))
        return false;
    names_show(&name, shown);
    return true;
}

static bool read_member(struct json_reader *r, const struct json_key *key, struct rope_members *members,
                        struct error *error)
{
    const enum json_type type = json_peek(r);
    const char *before = r->at;
    if (type == JSON_NULL)
        return json_read_null(r, error);
    if (json_key_is(key, "rope_type"))
        return read_name(r, members->rope_type, error);
    if (json_key_is(key, "type"))
        return read_name(r, members->type, error);
    for (size_t i = 0; i < NUMBER_COUNT; i++) {
        double *number = (double *)((char *)members + numbers[i].offset);
        if (!json_key_is(key, numbers[i].name))
            continue;
        if (!json_read_double(r, number, error))
            return false;
        if (*number > 0)
            return true;
        r->at = before;
        return json_error(r, error, ERROR_INVALID, "expected a number above 0, got %g", *number);
    }
    if (type == JSON_OBJECT) /* angles of their own for kinds of layers: not of these models */
        return json_error(r, error, ERROR_INVALID, "expected no object here: one rule holds for all layers");
    return json_ignore(r, error);
}

bool huggingface_rope_read(struct json_reader *r, struct rope_members *members, struct error *error)
{
    struct rope_members read = {.given = true};
    struct json_key key;
    enum json_step step;
    if (json_peek(r) == JSON_NULL)
        return json_read_null(r, error);
    if (!json_enter_object(r, error))
        return false;
    while ((step = json_next_member(r, &key, error)) == JSON_ITEM)
        if (!read_member(r, &key, &read, error))
            return false;
    if (step == JSON_FAILED)
        return false;
    *members = read;
    return true;
}

static double first_of(double a, double b, double c)
{
    return a > 0 ? a : b > 0 ? b : c;
}

/* One object of both. */
static struct rope_members merge(const struct rope_members *first, const struct rope_members *second)
{
    struct rope_members merged = {.given = first->given || second->given};
    memcpy(merged.rope_type, *first->rope_type ? first->rope_type : second->rope_type, NAMES_SHOWN_BYTES);
    memcpy(merged.type, *first->type ? first->type : second->type, NAMES_SHOWN_BYTES);
    for (size_t i = 0; i < NUMBER_COUNT; i++) {
        const size_t at = numbers[i].offset;
        *(double *)((char *)&merged + at) =
            first_of(*(const double *)((const char *)first + at), *(const double *)((const char *)second + at), 0);
    }
    return merged;
}

static bool make_scaling(const struct rope_members *members, const char *where, struct position_rule *rule,
                         struct error *error)
{
    const char *kind = *members->rope_type ? members->rope_type : members->type;
    if (!*kind && members->factor > 0)
        return error_set(error, ERROR_INVALID, "\"%s\" has a factor and no \"rope_type\": expected linear or llama3",
                         where);
    if (!*kind || strcmp(kind, "default") == 0)
        return true;
    const bool llama3 = strcmp(kind, "llama3") == 0;
    if (!llama3 && strcmp(kind, "linear") != 0)
        return error_set(error, ERROR_INVALID, "\"%s\" has the rope_type \"%s\"; known are default, linear and llama3",
                         where, kind);
    for (size_t i = 1; i < (llama3 ? 5 : 2); i++)
        if (!(*(const double *)((const char *)members + numbers[i].offset) > 0))
            return error_set(error, ERROR_INVALID, "\"%s\" of rope_type %s has no \"%s\"", where, kind,
                             numbers[i].name);
    if (llama3 && members->high_freq_factor <= members->low_freq_factor)
        return error_set(error, ERROR_INVALID,
                         "\"%s\" has the high_freq_factor %g, expected one above its low_freq_factor %g", where,
                         members->high_freq_factor, members->low_freq_factor);
    rule->scaling = llama3 ? ROPE_LLAMA3 : ROPE_LINEAR;
    rule->factor = members->factor;
    if (llama3) {
        rule->low_freq_factor = members->low_freq_factor;
        rule->high_freq_factor = members->high_freq_factor;
        rule->original_max_positions = members->original_positions;
    }
    return true;
}

bool huggingface_rope_make(const struct rope_members *parameters, const struct rope_members *scaling, double theta,
                           double partial, size_t d_k, struct position_rule *rule, struct error *error)
{
    const struct rope_members members = merge(parameters, scaling);
    struct position_rule made = {.kind = POSITION_ROPE, .base = first_of(members.theta, theta, DEFAULT_THETA)};
    const double share = first_of(members.partial_rotary_factor, partial, 1);
    if (share > 1)
        return error_set(error, ERROR_INVALID, "\"partial_rotary_factor\" is %g, expected at most 1", share);
    made.dims = (size_t)((double)d_k * share);
    if (made.dims == 0 || made.dims % 2 != 0)
        return error_set(error, ERROR_INVALID,
                         "positions rotate pairs of components, but %zu of the %zu of each head are to be rotated: "
                         "expected an even number from 2 up",
                         made.dims, d_k);
    if (!make_scaling(&members, parameters->given ? "rope_parameters" : "rope_scaling", &made, error))
        return false;
    *rule = made;
    return true;
}
