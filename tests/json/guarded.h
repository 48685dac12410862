/* Memory between two pages that cannot be touched, so that a byte read or written before or behind it ends the test. */
#ifndef ATTND_TESTS_GUARDED_H
#define ATTND_TESTS_GUARDED_H

#include <stddef.h>
#include <sys/mman.h>
#include <unistd.h>

struct guarded {
    char *begin, *end; /* `end` is the first byte of the page behind */
};

/* `bytes` at least; false where there is no memory. */
static inline int guarded_map(struct guarded *memory, size_t bytes)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE), size = (bytes + page - 1) / page * page;
    char *before = mmap(NULL, size + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (before == MAP_FAILED || mprotect(before + page, size, PROT_READ | PROT_WRITE) != 0)
        return 0;
    memory->begin = before + page;
    memory->end = memory->begin + size;
    return 1;
}

#endif
