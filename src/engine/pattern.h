/* Which keys a pattern (rules.h) lets a query see: a function from a row to a few runs of keys, never a table of
 * queries by keys. Masks and causal order are not its business; the caller intersects.
 *
 * A reader has memory of its own (bigbird's drawn blocks are kept from row to row) and belongs to one thread. */
#ifndef ATTND_ENGINE_PATTERN_H
#define ATTND_ENGINE_PATTERN_H

#include "engine/rules.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Keys begin .. end - 1. */
struct key_run {
    uint32_t begin, end;
};

struct pattern_reader;

/* Memory of a reader of a layer's pattern for n_keys keys, as arena_need counts it. False on overflow. */
bool pattern_reader_bytes(const struct pattern_rule *rule, size_t n_keys, size_t *bytes);

/* Makes a reader in memory of that size, aligned as arenas align. `layer` is that of struct attention_rules. */
struct pattern_reader *pattern_reader_init(const struct pattern_rule *rule, size_t layer, size_t n_keys, void *memory);

/* The keys that the query at `position` (rules.h; below 0 under causal, where queries are more than keys) sees of the
 * n_keys: runs in ascending order, none empty, none touching the next, valid until the reader's next call. Calls in
 * order of positions are cheap. */
const struct key_run *pattern_runs(struct pattern_reader *reader, ptrdiff_t position, size_t *count);

/* Whether it hides anything: false for a full one and for top_k. */
bool pattern_is_sparse(const struct pattern_rule *rule);

#endif
