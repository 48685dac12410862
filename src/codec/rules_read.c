/* Owns what each kind of a rule is written as: one table of members a rule, with the kinds that take and need each.
 *
 * An object is read twice: ahead for its kind, wherever that stands, and then for the rest. Nothing is held; entered by
 * whichever thread decodes a request, and by the one that loads weights. */
#include "codec/rules_read.h"

#include "base/size.h"
#include "codec/choice.h"
#include "json/names.h"
#include "json/reader.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Up to there all whole numbers are float64: what a client's JSON library keeps. */
#define WHOLE_MOST 9007199254740992.0

/* Bases and factors: so that no angle of a position is beyond what float64 can tell apart from infinity. */
#define LEAST_FACTOR 1e-6
#define MOST_FACTOR  1e30

#define DEFAULT_BASE         10000
#define DEFAULT_MAX_DISTANCE 128
#define DEFAULT_ITERATIONS   6
#define DEFAULT_SAMPLES      32

enum field_type {
    FIELD_SIZE,      /* size_t; clamped to INT32_MAX */
    FIELD_WHOLE,     /* uint64_t */
    FIELD_REAL,      /* double */
    FIELD_COUNT,     /* double, written as a whole number */
    FIELD_FLAG,      /* bool */
    FIELD_CHOICE,    /* an enumeration, or a bool for two */
    FIELD_TENSOR,    /* struct tensor; maximum: its axes at most */
    FIELD_POSITIONS, /* pattern.global */
    FIELD_SCALING    /* an object of its own */
};

/* A member of a rule's object. */
struct field {
    const char *name;
    enum field_type type;
    unsigned kinds, needed; /* bits of the kinds that take it, and of those that need it */
    size_t offset;          /* in struct rules_asked */
    double minimum, maximum;
    bool above, below;          /* the minimum, or the maximum, itself is out of range */
    const char *const *choices; /* NULL-terminated */
};

/* An object. */
struct form {
    const char *what;         /* "position" */
    const char *const *kinds; /* [n_kinds] values of `kind`; NULL: there is no such member */
    size_t n_kinds;
    const struct field *fields;
    size_t n_fields; /* at most MOST_FIELDS */
};

#define MOST_FIELDS 16

#define AT(member) offsetof(struct rules_asked, member)
#define KIND(kind) (1u << (kind))
#define ALL        (~0u)

#define RULE_NAME(code, name)   name,
#define RULE_NAMED(bit, member) #member,
#define SIZES(least, most)      (least), (most), false, false, NULL
#define NO_RANGE                0, 0, false, false, NULL
#define CHOICES(names)          0, 0, false, false, (names)

/* ---- position */

static const char *const POSITION_NAMES[] = {POSITION_KINDS(RULE_NAME)};
static const char *const STYLES[] = {"half", "interleaved", NULL};

#define ADDED_TABLE KIND(POSITION_LEARNED)
#define BIAS_TABLE  (KIND(POSITION_T5) | KIND(POSITION_RELATIVE))

/* clang-format off */
static const struct field POSITION_FIELDS[] = {
    {"base", FIELD_REAL, KIND(POSITION_SINUSOIDAL) | KIND(POSITION_ROPE), 0, AT(rules.position.base),
     LEAST_FACTOR, MOST_FACTOR, false, false, NULL},
    {"P", FIELD_TENSOR, ADDED_TABLE, ADDED_TABLE, AT(table), SIZES(0, 2)},
    {"offset", FIELD_SIZE, ADDED_TABLE, 0, AT(rules.position.offset), SIZES(0, WHOLE_MOST)},
    {"style", FIELD_CHOICE, KIND(POSITION_ROPE), 0, AT(rules.position.interleaved), CHOICES(STYLES)},
    {"dims", FIELD_SIZE, KIND(POSITION_ROPE), 0, AT(rules.position.dims), SIZES(1, WHOLE_MOST)},
    {"scaling", FIELD_SCALING, KIND(POSITION_ROPE), 0, 0, NO_RANGE},
    {"R", FIELD_TENSOR, BIAS_TABLE, BIAS_TABLE, AT(table), SIZES(0, 2)},
    {"max_distance", FIELD_SIZE, KIND(POSITION_T5), 0, AT(rules.position.max_distance), SIZES(1, WHOLE_MOST)},
    {"bidirectional", FIELD_FLAG, KIND(POSITION_T5), 0, AT(rules.position.bidirectional), NO_RANGE},
};
/* clang-format on */

static const char *const SCALING_NAMES[] = {"linear", "llama3"};
#define LINEAR KIND(ROPE_LINEAR - 1)
#define LLAMA3 KIND(ROPE_LLAMA3 - 1)

/* clang-format off */
static const struct field SCALING_FIELDS[] = {
    {"factor", FIELD_REAL, LINEAR | LLAMA3, LINEAR | LLAMA3, AT(rules.position.factor),
     LEAST_FACTOR, MOST_FACTOR, false, false, NULL},
    {"low_freq_factor", FIELD_REAL, LLAMA3, LLAMA3, AT(rules.position.low_freq_factor),
     0, MOST_FACTOR, false, false, NULL},
    {"high_freq_factor", FIELD_REAL, LLAMA3, LLAMA3, AT(rules.position.high_freq_factor),
     0, MOST_FACTOR, false, false, NULL},
    {"original_max_position_embeddings", FIELD_COUNT, LLAMA3, LLAMA3, AT(rules.position.original_max_positions),
     SIZES(1, WHOLE_MOST)},
};
/* clang-format on */

/* ---- pattern */

static const char *const PATTERN_NAMES[] = {PATTERN_KINDS(RULE_NAME)};

#define WINDOW  KIND(PATTERN_WINDOW)
#define DILATED KIND(PATTERN_DILATED)
#define BIGBIRD KIND(PATTERN_BIGBIRD)

/* clang-format off */
static const struct field PATTERN_FIELDS[] = {
    {"left", FIELD_SIZE, WINDOW, WINDOW, AT(rules.pattern.left), SIZES(0, WHOLE_MOST)},
    {"right", FIELD_SIZE, WINDOW, WINDOW, AT(rules.pattern.right), SIZES(0, WHOLE_MOST)},
    {"window", FIELD_SIZE, DILATED, DILATED, AT(rules.pattern.window), SIZES(0, WHOLE_MOST)},
    {"step", FIELD_SIZE, DILATED, DILATED, AT(rules.pattern.step), SIZES(1, WHOLE_MOST)},
    {"size", FIELD_SIZE, KIND(PATTERN_BLOCK), KIND(PATTERN_BLOCK), AT(rules.pattern.size), SIZES(1, WHOLE_MOST)},
    {"stride", FIELD_SIZE, KIND(PATTERN_STRIDED), KIND(PATTERN_STRIDED), AT(rules.pattern.size), SIZES(1, WHOLE_MOST)},
    {"block", FIELD_SIZE, BIGBIRD, BIGBIRD, AT(rules.pattern.size), SIZES(1, WHOLE_MOST)},
    {"window_blocks", FIELD_SIZE, BIGBIRD, 0, AT(rules.pattern.window_blocks), SIZES(1, WHOLE_MOST)},
    {"global_blocks", FIELD_SIZE, BIGBIRD, 0, AT(rules.pattern.global_blocks), SIZES(0, WHOLE_MOST)},
    {"random_blocks", FIELD_SIZE, BIGBIRD, 0, AT(rules.pattern.random_blocks), SIZES(0, WHOLE_MOST)},
    {"seed", FIELD_WHOLE, BIGBIRD, 0, AT(rules.pattern.seed), SIZES(0, WHOLE_MOST - 1)},
    {"k", FIELD_SIZE, KIND(PATTERN_TOP_K), KIND(PATTERN_TOP_K), AT(rules.pattern.k), SIZES(1, WHOLE_MOST)},
    {"global", FIELD_POSITIONS, ALL & ~KIND(PATTERN_TOP_K), 0, 0, NO_RANGE},
};
/* clang-format on */

/* ---- low_rank: its kinds begin behind "none", which null says */

static const char *const LOW_RANK_NAMES[] = {LOW_RANK_KINDS(RULE_NAME)};
#define LINFORMER KIND(LOW_RANK_LINFORMER - 1)
#define NYSTROM   KIND(LOW_RANK_NYSTROM - 1)
#define SVD       KIND(LOW_RANK_SVD - 1)

/* clang-format off */
static const struct field LOW_RANK_FIELDS[] = {
    {"E", FIELD_TENSOR, LINFORMER, LINFORMER, AT(e), SIZES(0, 3)},
    {"F", FIELD_TENSOR, LINFORMER, LINFORMER, AT(f), SIZES(0, 3)},
    {"landmarks", FIELD_SIZE, NYSTROM, NYSTROM, AT(rules.low_rank.landmarks), SIZES(1, 1024)},
    {"iterations", FIELD_SIZE, NYSTROM, 0, AT(rules.low_rank.iterations), SIZES(1, 32)},
    {"rank", FIELD_SIZE, SVD, SVD, AT(rules.low_rank.rank), SIZES(1, WHOLE_MOST)},
    {"values", FIELD_FLAG, SVD, 0, AT(rules.low_rank.values), NO_RANGE},
};
/* clang-format on */

/* ---- keep_heads and dropout, which have no kinds */

static const char *const MEASURES[] = {KEEP_HEADS_MEASURES(RULE_NAME) NULL};

enum { FIELD_KEEP_COUNT, FIELD_KEEP_MASS, FIELD_KEEP_ENTROPY, FIELD_KEEP_BY };

/* clang-format off */
static const struct field KEEP_HEADS_FIELDS[] = {
    [FIELD_KEEP_COUNT] = {"count", FIELD_SIZE, ALL, 0, AT(rules.keep_heads.count), SIZES(1, WHOLE_MOST)},
    [FIELD_KEEP_MASS] = {"mass", FIELD_REAL, ALL, 0, AT(rules.keep_heads.mass), 0, 1, true, false, NULL},
    [FIELD_KEEP_ENTROPY] = {"entropy_below", FIELD_REAL, ALL, 0, AT(rules.keep_heads.entropy_below),
                            0, 1, false, false, NULL},
    [FIELD_KEEP_BY] = {"by", FIELD_CHOICE, ALL, 0, AT(rules.keep_heads.by), CHOICES(MEASURES)},
};

static const struct field DROPOUT_FIELDS[] = {
    {"rate", FIELD_REAL, ALL, ALL, AT(rules.dropout.rate), 0, 1, false, true, NULL},
    {"seed", FIELD_WHOLE, ALL, 0, AT(rules.dropout.seed), SIZES(0, WHOLE_MOST - 1)},
    {"samples", FIELD_SIZE, ALL, 0, AT(rules.dropout.samples), SIZES(1, 1024)},
};

#define KINDS(names, first) (names) + (first), sizeof(names) / sizeof *(names) - (first)
#define FIELDS(fields)      (fields), sizeof(fields) / sizeof *(fields)

static const struct form FORMS[RULE_COUNT] = {
    [RULE_POSITION_INDEX] = {"position", KINDS(POSITION_NAMES, 0), FIELDS(POSITION_FIELDS)},
    [RULE_PATTERN_INDEX] = {"pattern", KINDS(PATTERN_NAMES, 0), FIELDS(PATTERN_FIELDS)},
    [RULE_LOW_RANK_INDEX] = {"low_rank", KINDS(LOW_RANK_NAMES, 1), FIELDS(LOW_RANK_FIELDS)},
    [RULE_KEEP_HEADS_INDEX] = {"keep_heads", NULL, 0, FIELDS(KEEP_HEADS_FIELDS)},
    [RULE_DROPOUT_INDEX] = {"dropout", NULL, 0, FIELDS(DROPOUT_FIELDS)},
};
static const struct form SCALING = {"scaling", KINDS(SCALING_NAMES, 0), FIELDS(SCALING_FIELDS)};
/* clang-format on */

_Static_assert(sizeof(PATTERN_FIELDS) / sizeof *PATTERN_FIELDS <= MOST_FIELDS, "a form has room for its fields");

const char *rules_name(enum rule_index rule)
{
    return FORMS[rule].what;
}

/* ---- values */

static bool out_of_range(const struct json_reader *r, const struct field *field, double value, struct error *error)
{
    return json_error(r, error, ERROR_INVALID, "%s is %g, expected a number %s %g and %s %g", field->name, value,
                      field->above ? "above" : "of at least", field->minimum, field->below ? "below" : "at most",
                      field->maximum);
}

static bool read_real(struct json_reader *r, const struct field *field, double *to, struct error *error)
{
    const struct json_reader before = *r;
    double value;
    if (!json_read_double(r, &value, error))
        return false;
    const bool fits = (field->above ? value > field->minimum : value >= field->minimum) &&
                      (field->below ? value < field->maximum : value <= field->maximum);
    if (!fits)
        return out_of_range(&before, field, value, error);
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
        if (!json_read_integer(r, 0, (int64_t)WHOLE_MOST, &position, error))
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

static bool read_form(struct json_reader *r, const struct form *form, const struct rules_reading *reading,
                      unsigned *kind, uint64_t *seen, struct error *error);

static bool read_scaling(struct json_reader *r, const struct rules_reading *reading, struct error *error)
{
    struct position_rule *position = &reading->asked->rules.position;
    char pointer[sizeof error->pointer], place[sizeof pointer + sizeof "/high_freq_factor"];
    unsigned kind;
    if (json_peek(r) == JSON_NULL)
        return json_read_null(r, error);
    if (!read_form(r, &SCALING, reading, &kind, NULL, error))
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

static bool read_field(struct json_reader *r, const struct field *field, const struct rules_reading *reading,
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
        *(size_t *)to = size_min((size_t)whole, INT32_MAX);
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
static bool find_kind(const struct json_reader *r, const struct form *form, unsigned *kind, struct error *error)
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

static bool unknown_member(const struct json_reader *r, const struct form *form, unsigned kind,
                           const struct json_key *key, struct error *error)
{
    const char *known[MOST_FIELDS + 1];
    char shown[NAMES_SHOWN_BYTES], text[sizeof error->message];
    size_t count = 0;
    if (form->kinds)
        known[count++] = "kind";
    for (size_t i = 0; i < form->n_fields; i++)
        if (form->fields[i].kinds & KIND(kind))
            known[count++] = form->fields[i].name;
    names_show(key, shown);
    names_unknown("member", shown, known, count, text, sizeof text);
    return json_error(r, error, ERROR_UNKNOWN_MEMBER, "%s%s%s: %.900s", form->what, form->kinds ? " of kind " : "",
                      form->kinds ? form->kinds[kind] : "", text);
}

static bool check_needed(const struct json_reader *r, const struct form *form, unsigned kind, uint64_t seen,
                         struct error *error)
{
    for (size_t i = 0; i < form->n_fields; i++)
        if (form->fields[i].needed & KIND(kind) && !(seen >> i & 1))
            return json_error(r, error, ERROR_INVALID, "%s%s%s needs the member \"%s\"", form->what,
                              form->kinds ? " of kind " : "", form->kinds ? form->kinds[kind] : "",
                              form->fields[i].name);
    return true;
}

/* *kind: its index in form->kinds, 0 where there are none. *seen (may be NULL): bit i for fields[i]. */
static bool read_form(struct json_reader *r, const struct form *form, const struct rules_reading *reading,
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
        while (i < form->n_fields && !(form->fields[i].kinds & KIND(*kind) && json_key_is(&key, form->fields[i].name)))
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
    return read_form(r, &FORMS[rule], reading, &kind, &seen, error) && settle(r, rule, reading, kind, seen, error);
}
