/* A dynamic number of heads by its definition, in float64 over the maps and heads of the reference. Needs no libcheck.
 */
#ifndef ATTND_TESTS_ENGINE_KEEP_HEADS_DEFINITION_H
#define ATTND_TESTS_ENGINE_KEEP_HEADS_DEFINITION_H

#include "problem.h"

/* One sequence as a problem of its own, with all maps. */
struct problem one_sequence(const struct problem *p, size_t b);

/* What each head is worth by the rule, from all maps and heads of such a problem, whose pattern is defined. */
void keep_heads_values(const struct problem *one, const struct answer *a, double *values /* [num_heads] */);

/* Which heads are kept. Returns how far from another choice it is. */
double keep_heads_choice(const struct keep_heads_rule *rule, const double *values, size_t n, uint8_t *used /* [n] */);

#endif
