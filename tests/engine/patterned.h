/* Random problems under a pattern, of which the reference has a table. */
#ifndef ATTND_TESTS_ENGINE_PATTERNED_H
#define ATTND_TESTS_ENGINE_PATTERNED_H

#include "pattern_definition.h"
#include "problem.h"

struct patterned {
    struct problem problem;
    struct attention_rules rules;
    struct attention_layer *layer;
};

/* *p must stay where it is: its problem points into it. */
void patterned_open(struct patterned *p, struct random *random, const struct problem_limits *limits,
                    enum pattern_kind kind);
void patterned_close(struct patterned *p);

#endif
