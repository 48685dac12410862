/* What each rule is written as: the members of its object, and which kinds take and need them. For rules_read.c. */
#ifndef ATTND_CODEC_RULES_FORMS_H
#define ATTND_CODEC_RULES_FORMS_H

#include "codec/rules_read.h"

#include <stdbool.h>
#include <stddef.h>

/* Up to there all whole numbers are float64: what a client's JSON library keeps. */
#define RULES_WHOLE_MOST 9007199254740992.0

/* The bit of a kind. */
#define RULE_KIND(kind) (1u << (kind))

enum rule_field_type {
    FIELD_SIZE,      /* size_t */
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
struct rule_field {
    const char *name;
    enum rule_field_type type;
    unsigned kinds, needed; /* bits of the kinds that take it, and of those that need it */
    size_t offset;          /* in struct rules_asked */
    double minimum, maximum;
    bool above, below;          /* the minimum, or the maximum, itself is out of range */
    const char *const *choices; /* NULL-terminated */
};

/* An object. */
struct rule_form {
    const char *what;         /* "position" */
    const char *const *kinds; /* [n_kinds] values of `kind`; NULL: there is no such member */
    size_t n_kinds;
    const struct rule_field *fields;
    size_t n_fields; /* at most RULE_MOST_FIELDS */
};

#define RULE_MOST_FIELDS 16

/* The members of keep_heads, of which settle_keep_heads knows more. */
enum { FIELD_KEEP_COUNT, FIELD_KEEP_MASS, FIELD_KEEP_ENTROPY, FIELD_KEEP_BY };

extern const struct rule_form rules_forms[RULE_COUNT];
extern const struct rule_form rules_scaling_form; /* of rope; its kinds begin behind "unscaled" */

#endif
