/* Memory that ends at a page that cannot be touched, so that a byte read or written behind it ends the test. */
#ifndef ATTND_TESTS_GUARDED_H
#define ATTND_TESTS_GUARDED_H

#include <stddef.h>
#include <sys/mman.h>
#include <unistd.h>

struct guarded {
    char *begin, *end; /* `end` is the first byte of the page */
};

/* `bytes` at least; false where there is no memory. */
static inline int guarded_map(struct guarded *memory, size_t bytes)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE), size = (bytes + page - 1) / page * page;
    char *begin = mmap(NULL, size + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (begin == MAP_FAILED || mprotect(begin + size, page, PROT_NONE) != 0)
        return 0;
    memory->begin = begin;
    memory->end = begin + size;
    return 1;
}

#endif
