/* One counter that every request's memory goes through: see budget.h. Any thread; no lock. */
#include "runtime/budget.h"

#include "base/size.h"
#include "runtime/cgroup.h"

#include <sys/resource.h>
#include <unistd.h>

static size_t default_total(void)
{
    uint64_t least = UINT64_MAX, group;
    long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    if (pages > 0 && page > 0)
        least = (uint64_t)pages * (uint64_t)page;
    struct rlimit space;
    if (getrlimit(RLIMIT_AS, &space) == 0 && space.rlim_cur != RLIM_INFINITY && space.rlim_cur < least)
        least = space.rlim_cur;
    if (cgroup_memory_limit("", &group) && group < least)
        least = group;
    least /= 2;
    return least < PTRDIFF_MAX ? (size_t)least : PTRDIFF_MAX;
}

void budget_init(struct memory_budget *budget, size_t bytes)
{
    budget->total = bytes ? bytes : default_total();
    atomic_init(&budget->used, 0);
}

bool budget_take(struct memory_budget *budget, struct budget_share *share, size_t bytes, struct error *error)
{
    size_t need;
    if (!size_add(share->bytes, bytes, &need))
        need = SIZE_MAX;
    if (need > budget->total)
        return error_set(error, ERROR_TOO_LARGE,
                         "the request needs %zu bytes of memory, more than limits.memory_budget_bytes (%zu) allows for "
                         "all requests together; send less at once, or raise the limit",
                         need, budget->total);
    size_t used = atomic_load(&budget->used);
    do {
        if (bytes > budget->total - used)
            return error_set(error, ERROR_BUDGET_FULL,
                             "the request needs %zu bytes of memory and requests hold %zu of the %zu that "
                             "limits.memory_budget_bytes allows; try again later, or raise the limit",
                             bytes, used, budget->total);
    } while (!atomic_compare_exchange_weak(&budget->used, &used, used + bytes));
    share->bytes = need;
    return true;
}

void budget_give(struct memory_budget *budget, struct budget_share *share, size_t bytes)
{
    share->bytes -= bytes;
    atomic_fetch_sub(&budget->used, bytes);
}

void budget_give_all(struct memory_budget *budget, struct budget_share *share)
{
    budget_give(budget, share, share->bytes);
}
