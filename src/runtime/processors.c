/* The CPUs of this process, by affinity and by quota: see processors.h. Any thread; called when threads start. */
#include "runtime/processors.h"

#include "runtime/cgroup.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <unistd.h>

/* No system has more CPUs than this: the end of the search for a mask that is large enough. */
#define CPUS_MAX (1 << 20)

/* The affinity mask of the process's first thread (ours may be pinned) in memory to be freed with CPU_FREE; NULL when
 * there is none to be had. */
static cpu_set_t *process_mask(size_t *bytes)
{
    for (int cpus = CPU_SETSIZE; cpus <= CPUS_MAX; cpus *= 2) { /* the kernel refuses a mask shorter than its own */
        cpu_set_t *mask = CPU_ALLOC((size_t)cpus);
        *bytes = CPU_ALLOC_SIZE((size_t)cpus);
        if (!mask)
            return NULL;
        CPU_ZERO_S(*bytes, mask);
        if (sched_getaffinity(getpid(), *bytes, mask) == 0)
            return mask;
        CPU_FREE(mask);
        if (errno != EINVAL)
            return NULL;
    }
    return NULL;
}

struct processors processors_with_quota(unsigned allowed, double quota)
{
    struct processors processors = {.allowed = allowed, .usable = allowed, .quota = quota < allowed};
    if (processors.quota) {
        processors.usable = (unsigned)quota;
        processors.usable += processors.usable < quota;
    }
    return processors;
}

struct processors processors_count(void)
{
    size_t bytes;
    cpu_set_t *mask = process_mask(&bytes);
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    int allowed = mask ? CPU_COUNT_S(bytes, mask) : (int)online;
    if (mask)
        CPU_FREE(mask);
    if (allowed < 1)
        allowed = 1;
    double quota = allowed;
    cgroup_cpu_quota("", &quota);
    return processors_with_quota((unsigned)allowed, quota);
}

bool processors_pin(unsigned n)
{
    size_t bytes;
    cpu_set_t *mask = process_mask(&bytes);
    if (!mask)
        return false;
    bool pinned = false;
    for (size_t cpu = 0; cpu < bytes * 8; cpu++) {
        if (!CPU_ISSET_S(cpu, bytes, mask) || n-- > 0)
            continue;
        CPU_ZERO_S(bytes, mask);
        CPU_SET_S(cpu, bytes, mask);
        pinned = pthread_setaffinity_np(pthread_self(), bytes, mask) == 0;
        break;
    }
    CPU_FREE(mask);
    return pinned;
}

bool processors_unpin(void)
{
    size_t bytes;
    cpu_set_t *mask = process_mask(&bytes);
    if (!mask)
        return false;
    bool unpinned = pthread_setaffinity_np(pthread_self(), bytes, mask) == 0;
    CPU_FREE(mask);
    return unpinned;
}
