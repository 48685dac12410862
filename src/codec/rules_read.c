/* An object is read twice: ahead for its kind, wherever that stands, and then for the rest. Nothing is held; entered by
 * whichever thread decodes a request, and by the one that loads weights. */
#include "codec/rules_read.h"

#include "base/size.h"
#include "codec/choice.h"
#include "codec/rules_forms.h"
#include "json/names.h"
#include "json/reader.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEFAULT_BASE         10000
#define DEFAULT_MAX_DISTANCE 128
#define DEFAULT_ITERATIONS   6
#define DEFAULT_SAMPLES      32

const char *rules_name(enum rule_index rule)
{
    return rules_forms[rule].what;
}

/* ---- values */

static bool out_of_range(const struct json_reader *r, const struct rule_field *field, double value, struct error *error)
{
    return json_error(r, error, ERROR_INVALID, "%s is %g, expected a number %s %g and %s %g", field->name, value,
                      field->above ? "above" : "of at least", field->minimum, field->below ? "below" : "at most",
                      field->maximum);
}

static bool read_real(struct json_reader *r, const struct rule_field *field, double *to, struct error *error)
{
    double value;
    if (!json_read_double(r, &value, error))
        return false;
    const bool fits = (field->above ? value > field->minimum : value >= field->minimum) &&
                      (field->below ? value < field->maximum : value <= field->maximum);
    if (!fits)
        return out_of_range(r, field, value, error);
    *to = value;
    return true;
}

static int compare_positions(const void *a, const void *b)
{
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

/* Positions in any order, some of them twice, or beyond any sequence. */
static bool read_positions(struct json_reader *r, const struct rules_reading *reading, struct error *error)
{
    struct pattern_rule *pattern = &reading->asked->rules.pattern;
    size_t room, count = 0, kept = 0;
    uint32_t *positions = arena_take_rest(reading->arena, &room);
    enum json_step step;
    int64_t position;
    room = positions ? room / sizeof *positions : 0;
    if (!json_enter_array(r, error))
        return false;
    while ((step = json_next_element(r, error)) == JSON_ITEM) {
        if (!json_read_integer(r, 0, (int64_t)RULES_WHOLE_MOST, &position, error))
            return false;
        if (position >= INT32_MAX)
            continue;
        if (count == room)
            return error_out_of_memory(error);
        positions[count++] = (uint32_t)position;
    }
    if (step == JSON_FAILED)
        return false;
    if (count > 0)
        qsort(positions, count, sizeof *positions, compare_positions);
    for (size_t i = 0; i < count; i++)
        if (kept == 0 || positions[kept - 1] != positions[i])
            positions[kept++] = positions[i];
    if (positions)
        arena_shorten(reading->arena, positions, kept * sizeof *positions);
    pattern->global = kept ? positions : NULL;
    pattern->n_global = kept;
    return true;
}

static bool read_form(struct json_reader *r, const struct rule_form *form, const struct rules_reading *reading,
                      unsigned *kind, uint64_t *seen, struct error *error);

static bool read_scaling(struct json_reader *r, const struct rules_reading *reading, struct error *error)
{
    struct position_rule *position = &reading->asked->rules.position;
    char pointer[sizeof error->pointer], place[sizeof pointer + sizeof "/high_freq_factor"];
    unsigned kind;
    if (json_peek(r) == JSON_NULL)
        return json_read_null(r, error);
    if (!read_form(r, &rules_scaling_form, reading, &kind, NULL, error))
        return false;
    position->scaling = (enum rope_scaling)(kind + 1);
    if (position->scaling == ROPE_LLAMA3 && !(position->high_freq_factor > position->low_freq_factor)) {
        snprintf(place, sizeof place, "%s/high_freq_factor", json_pointer(r, pointer, sizeof pointer));
        return error_set_at(error, ERROR_INVALID, place,
                            "high_freq_factor is %g, expected more than low_freq_factor, %g",
                            position->high_freq_factor, position->low_freq_factor);
    }
    return true;
}

static bool read_field(struct json_reader *r, const struct rule_field *field, const struct rules_reading *reading,
                       struct error *error)
{
    char *to = (char *)reading->asked + field->offset;
    const size_t n_choices = field->choices && field->choices[2] ? 3 : 2;
    unsigned choice;
    int64_t whole;
    switch (field->type) {
    case FIELD_SIZE:
        if (!json_read_integer(r, (int64_t)field->minimum, (int64_t)field->maximum, &whole, error))
            return false;
        *(size_t *)to = (uint64_t)whole < SIZE_MAX ? (size_t)whole : SIZE_MAX;
        return true;
    case FIELD_WHOLE:
        if (!json_read_integer(r, (int64_t)field->minimum, (int64_t)field->maximum, &whole, error))
            return false;
        *(uint64_t *)to = (uint64_t)whole;
        return true;
    case FIELD_COUNT:
        if (!json_read_integer(r, (int64_t)field->minimum, (int64_t)field->maximum, &whole, error))
            return false;
        *(double *)to = (double)whole;
        return true;
    case FIELD_REAL:
        return read_real(r, field, (double *)to, error);
    case FIELD_FLAG:
        return json_read_bool(r, (bool *)to, error);
    case FIELD_CHOICE:
        if (!choice_read(r, field->name, field->choices, n_choices, &choice, error))
            return false;
        if (n_choices == 2)
            *(bool *)to = choice;
        else
            *(enum keep_heads_measure *)to = (enum keep_heads_measure)choice;
        return true;
    case FIELD_TENSOR:
        return reading->read_tensor(r, reading->context, (unsigned)field->maximum, (struct tensor *)to, error);
    case FIELD_POSITIONS:
        return read_positions(r, reading, error);
    case FIELD_SCALING:
        break;
    }
    return read_scaling(r, reading, error);
}

/* ---- objects */

/* Looks ahead for `kind`, wherever it stands. */
static bool find_kind(const struct json_reader *r, const struct rule_form *form, unsigned *kind, struct error *error)
{
    struct json_reader ahead = *r;
    struct json_key key;
    enum json_step step = JSON_ITEM;
    bool found = false;
    if (!json_enter_object(&ahead, error))
        return false;
    while (!found && (step = json_next_member(&ahead, &key, error)) == JSON_ITEM) {
        if (!json_key_is(&key, "kind")) {
            if (!json_skip(&ahead, NULL, NULL, error))
                return false;
            continue;
        }
        if (!choice_read(&ahead, "kind", form->kinds, form->n_kinds, kind, error))
            return false;
        found = true;
    }
    if (step == JSON_FAILED)
        return false;
    return found || json_error(&ahead, error, ERROR_INVALID, "%s needs the member \"kind\"", form->what);
}

static bool unknown_member(const struct json_reader *r, const struct rule_form *form, unsigned kind,
                           const struct json_key *key, struct error *error)
{
    const char *known[RULE_MOST_FIELDS + 1];
    char shown[NAMES_SHOWN_BYTES], text[sizeof error->message];
    size_t count = 0;
    if (form->kinds)
        known[count++] = "kind";
    for (size_t i = 0; i < form->n_fields; i++)
        if (form->fields[i].kinds & RULE_KIND(kind))
            known[count++] = form->fields[i].name;
    names_show(key, shown);
    names_unknown("member", shown, known, count, text, sizeof text);
    return json_error(r, error, ERROR_UNKNOWN_MEMBER, "%s%s%s: %.900s", form->what, form->kinds ? " of kind " : "",
                      form->kinds ? form->kinds[kind] : "", text);
}

static bool check_needed(const struct json_reader *r, const struct rule_form *form, unsigned kind, uint64_t seen,
                         struct error *error)
{
    for (size_t i = 0; i < form->n_fields; i++)
        if (form->fields[i].needed & RULE_KIND(kind) && !(seen >> i & 1))
            return json_error(r, error, ERROR_INVALID, "%s%s%s needs the member \"%s\"", form->what,
                              form->kinds ? " of kind " : "", form->kinds ? form->kinds[kind] : "",
                              form->fields[i].name);
    return true;
}

/* *kind: its index in form->kinds, 0 where there are none. *seen (may be NULL): bit i for fields[i]. */
static bool read_form(struct json_reader *r, const struct rule_form *form, const struct rules_reading *reading,
                      unsigned *kind, uint64_t *seen, struct error *error)
{
    uint64_t bits = 0;
    struct json_key key;
    enum json_step step;
    *kind = 0;
    if (form->kinds && !find_kind(r, form, kind, error))
        return false;
    if (!json_enter_object(r, error))
        return false;
    while ((step = json_next_member(r, &key, error)) == JSON_ITEM) {
        size_t i = 0;
        if (form->kinds && json_key_is(&key, "kind")) {
            if (!json_skip(r, NULL, NULL, error))
                return false;
            continue;
        }
        while (i < form->n_fields &&
               !(form->fields[i].kinds & RULE_KIND(*kind) && json_key_is(&key, form->fields[i].name)))
            i++;
        if (i == form->n_fields)
            return unknown_member(r, form, *kind, &key, error);
        if (!read_field(r, &form->fields[i], reading, error))
            return false;
        bits |= UINT64_C(1) << i;
    }
    if (step == JSON_FAILED || !check_needed(r, form, *kind, bits, error))
        return false;
    if (seen)
        *seen = bits;
    return true;
}

/* ---- the rules */

static void set_defaults(struct attention_rules *rules, enum rule_index rule)
{
    switch (rule) {
    case RULE_POSITION_INDEX:
        rules->position =
            (struct position_rule){.base = DEFAULT_BASE, .max_distance = DEFAULT_MAX_DISTANCE, .bidirectional = true};
        break;
    case RULE_PATTERN_INDEX:
        rules->pattern = (struct pattern_rule){.window_blocks = 3, .global_blocks = 1};
        break;
    case RULE_LOW_RANK_INDEX:
        rules->low_rank = (struct low_rank_rule){.iterations = DEFAULT_ITERATIONS};
        break;
    case RULE_KEEP_HEADS_INDEX:
        rules->keep_heads = (struct keep_heads_rule){.by = KEEP_BY_NORM};
        break;
    default:
        rules->dropout = (struct dropout_rule){.samples = DEFAULT_SAMPLES};
    }
}

static bool error_below(const struct json_reader *r, const char *member, struct error *error, const char *message)
{
    char pointer[sizeof error->pointer], place[sizeof pointer + 32];
    snprintf(place, sizeof place, "%s/%s", json_pointer(r, pointer, sizeof pointer), member);
    return error_set_at(error, ERROR_INVALID, place, "%s", message);
}

/* Exactly one of three says how many heads are kept. */
static bool settle_keep_heads(const struct json_reader *r, struct keep_heads_rule *keep, uint64_t seen,
                              struct error *error)
{
    static const enum keep_heads_kind kinds[] = {
        [FIELD_KEEP_COUNT] = KEEP_COUNT, [FIELD_KEEP_MASS] = KEEP_MASS, [FIELD_KEEP_ENTROPY] = KEEP_ENTROPY_BELOW};
    unsigned named = 0;
    for (unsigned i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (seen >> i & 1) {
            keep->kind = kinds[i];
            named++;
        }
    if (named != 1)
        return json_error(r, error, ERROR_INVALID,
                          "keep_heads has exactly one of the members count, mass and entropy_below, got %s",
                          named ? "more" : "none");
    return keep->kind != KEEP_ENTROPY_BELOW || !(seen >> FIELD_KEEP_BY & 1) ||
           error_below(r, "by", error, "\"by\" goes with count and mass; entropy_below goes by the entropy");
}

/* What no table says. */
static bool settle(const struct json_reader *r, enum rule_index rule, const struct rules_reading *reading,
                   unsigned kind, uint64_t seen, struct error *error)
{
    struct attention_rules *rules = &reading->asked->rules;
    switch (rule) {
    case RULE_POSITION_INDEX:
        rules->position.kind = (enum position_kind)kind;
        reading->asked->has_dims = rules->position.dims > 0;
        return true;
    case RULE_PATTERN_INDEX:
        rules->pattern.kind = (enum pattern_kind)kind;
        return rules->pattern.kind != PATTERN_BIGBIRD || rules->pattern.window_blocks % 2 ||
               error_below(r, "window_blocks", error,
                           "window_blocks is even, expected an odd number: as many blocks on either side, and the own");
    case RULE_LOW_RANK_INDEX:
        rules->low_rank.kind = (enum low_rank_kind)(kind + 1);
        return rules->low_rank.kind != LOW_RANK_SVD || reading->configured ||
               error_below(r, "kind", error,
                           "svd is made when weights are loaded: it belongs in the configuration of the weight set");
    case RULE_KEEP_HEADS_INDEX:
        return settle_keep_heads(r, &rules->keep_heads, seen, error);
    default:
        return true;
    }
}

bool rules_read(struct json_reader *r, enum rule_index rule, const struct rules_reading *reading, struct error *error)
{
    struct rules_asked *asked = reading->asked;
    uint64_t seen;
    unsigned kind;
    asked->named |= 1u << rule;
    if (json_peek(r) == JSON_NULL)
        return json_read_null(r, error);
    if (json_peek(r) != JSON_OBJECT)
        return json_type_error(r, error, "an object, or null for none");
    set_defaults(&asked->rules, rule);
    return read_form(r, &rules_forms[rule], reading, &kind, &seen, error) &&
           settle(r, rule, reading, kind, seen, error);
}
