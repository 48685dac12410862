/* The guarded buffers of one case. They lie in slots that are mapped once, since mapping fresh pages for every case
 * would take most of the time; a buffer lies at the end of its slot or at its start. One thread. */

#include "guard.h"

#include "../require.h"
#include "check.h"

#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { SLOTS = 10, MARGIN = 256 };
#define SLOT_BYTES ((size_t)1 << 21)

struct slot {
    char *start, *end; /* between the guard pages */
    const char *name;
    char *data;
    size_t bytes;
    bool read_only;
};

static struct {
    struct slot slots[SLOTS];
    size_t taken, page;
    enum guard_side side;
} guard;

static void report(const struct slot *s, uintptr_t at)
{
    const uintptr_t data = (uintptr_t)s->data, end = data + s->bytes;
    if (at < data)
        check_fail("touches memory %zu bytes before the start of %s (%zu bytes)", (size_t)(data - at), s->name,
                   s->bytes);
    if (at >= end)
        check_fail("touches memory %zu bytes behind the end of %s (%zu bytes)", (size_t)(at - end), s->name, s->bytes);
    check_fail("writes to %s, which it may only read", s->name);
}

static void on_fault(int number, siginfo_t *info, void *context)
{
    (void)number, (void)context;
    const uintptr_t at = (uintptr_t)info->si_addr;
    for (size_t i = 0; i < guard.taken; i++) {
        const struct slot *s = &guard.slots[i];
        if (at >= (uintptr_t)s->start - guard.page && at < (uintptr_t)s->end + guard.page)
            report(s, at);
    }
    check_fail("touches memory at %p, which is near none of its arguments", info->si_addr);
}

static void map_slots(void)
{
    guard.page = (size_t)sysconf(_SC_PAGESIZE);
    for (size_t i = 0; i < SLOTS; i++) {
        char *memory = mmap(NULL, SLOT_BYTES + 2 * guard.page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        require(memory != MAP_FAILED, "no memory for guarded buffers");
        guard.slots[i].start = memory + guard.page;
        guard.slots[i].end = guard.slots[i].start + SLOT_BYTES;
        require(mprotect(guard.slots[i].start, SLOT_BYTES, PROT_READ | PROT_WRITE) == 0, "mprotect failed");
    }
    struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO};
    sigemptyset(&action.sa_mask);
    require(sigaction(SIGSEGV, &action, NULL) == 0 && sigaction(SIGBUS, &action, NULL) == 0, "sigaction failed");
}

void guard_begin(enum guard_side side)
{
    if (!guard.page)
        map_slots();
    guard.side = side;
}

void *guard_take(const char *name, size_t bytes, size_t alignment)
{
    require(guard.taken < SLOTS && bytes + alignment + MARGIN <= SLOT_BYTES, "no slot for %s of %zu bytes", name,
            bytes);
    struct slot *s = &guard.slots[guard.taken++];
    s->name = name;
    s->bytes = bytes;
    if (guard.side == GUARD_BEHIND) {
        s->data = s->end - (bytes + alignment - 1) / alignment * alignment;
        memset(s->data - MARGIN, GUARD_BYTE, (size_t)(s->end - s->data) + MARGIN);
    } else {
        s->data = s->start;
        memset(s->data, GUARD_BYTE, bytes + MARGIN);
    }
    return s->data;
}

void guard_read_only(const void *buffer)
{
    for (size_t i = 0; i < guard.taken; i++)
        if (guard.slots[i].data == buffer) {
            guard.slots[i].read_only = true;
            require(mprotect(guard.slots[i].start, SLOT_BYTES, PROT_READ) == 0, "mprotect failed");
        }
}

void guard_reset(void)
{
    for (size_t i = 0; i < guard.taken; i++)
        if (guard.slots[i].read_only) {
            guard.slots[i].read_only = false;
            require(mprotect(guard.slots[i].start, SLOT_BYTES, PROT_READ | PROT_WRITE) == 0, "mprotect failed");
        }
    guard.taken = 0;
}

bool guard_untouched(const void *from, size_t bytes)
{
    const unsigned char *byte = from;
    for (size_t i = 0; i < bytes; i++)
        if (byte[i] != GUARD_BYTE)
            return false;
    return true;
}

void guard_end(void)
{
    for (size_t i = 0; i < guard.taken; i++) {
        const struct slot *s = &guard.slots[i];
        if (guard.side == GUARD_BEHIND && !guard_untouched(s->data - MARGIN, MARGIN))
            check_fail("writes before the start of %s (%zu bytes)", s->name, s->bytes);
        const size_t behind = guard.side == GUARD_BEHIND ? (size_t)(s->end - s->data) - s->bytes : MARGIN;
        if (!guard_untouched(s->data + s->bytes, behind))
            check_fail("writes behind the end of %s (%zu bytes)", s->name, s->bytes);
    }
    guard_reset();
}
