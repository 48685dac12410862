/* Patterns by their definition, pair by pair, and random ones. Shares nothing with the engine. */
#ifndef ATTND_TESTS_ENGINE_PATTERN_DEFINITION_H
#define ATTND_TESTS_ENGINE_PATTERN_DEFINITION_H

#include "engine/rules.h"
#include "random.h"

/* Which keys the query at `position` sees. */
void pattern_definition(const struct pattern_rule *rule, size_t layer, ptrdiff_t position, size_t n_keys,
                        bool *seen /* [n_keys] */);
/* Parameters are mostly small, at times as large as a request may have them. Without global positions. */
struct pattern_rule random_pattern(struct random *random, enum pattern_kind kind, size_t n_keys);

#endif
