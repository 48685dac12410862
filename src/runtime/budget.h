/* The memory that requests may hold at once, counted from the first byte of a body to the last of its answer. Any
 * thread. */
#ifndef ATTND_RUNTIME_BUDGET_H
#define ATTND_RUNTIME_BUDGET_H

#include "base/error.h"

#include <stdatomic.h>
#include <stddef.h>

struct memory_budget {
    size_t total; /* set once by budget_init */
    _Atomic size_t used;
};

/* `bytes` 0: half of the least of the cgroup's memory limit (v2 or v1, ancestors too), RLIMIT_AS and the machine's
 * memory. */
void budget_init(struct memory_budget *budget, size_t bytes);

/* What one request has taken. Zero-initialise; used by one thread at a time. */
struct budget_share {
    size_t bytes;
};

/* Takes `bytes` more. ERROR_TOO_LARGE when they could never fit (naming memory_budget_bytes, its value and what is
 * needed), ERROR_BUDGET_FULL when they do not now. */
bool budget_take(struct memory_budget *budget, struct budget_share *share, size_t bytes, struct error *error);
/* Gives `bytes` (at most what the share holds) or all of it back. */
void budget_give(struct memory_budget *budget, struct budget_share *share, size_t bytes);
void budget_give_all(struct memory_budget *budget, struct budget_share *share);

#endif
