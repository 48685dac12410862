/* The instruction sets that code of this build is compiled for, and the one that is used: chosen once, before threads
 * start; read by any thread. */
#ifndef ATTND_BASE_ISA_H
#define ATTND_BASE_ISA_H

#include "base/error.h"

#include <stdbool.h>

/* X(identifier, name): those of this processor family, best first. */
#if defined(__x86_64__)
#define ISA_VARIANTS(X)       \
    X(x86_64_v4, "x86-64-v4") \
    X(x86_64_v3, "x86-64-v3") \
    X(generic, "generic")
#elif defined(__aarch64__)
#define ISA_VARIANTS(X) \
    X(neon, "neon")     \
    X(generic, "generic")
#else
#define ISA_VARIANTS(X) X(generic, "generic")
#endif

#define ISA_ENUMERATE(identifier, name) ISA_##identifier,
enum isa { ISA_VARIANTS(ISA_ENUMERATE) ISA_COUNT };
#undef ISA_ENUMERATE

const char *isa_name(enum isa isa);

/* By this processor and its operating system. */
bool isa_supported(enum isa isa);

/* Chooses the best that is supported, or the one named (`forced`, NULL: none). ERROR_CONFIGURATION names the known ones
 * when it is unknown or not supported here; the choice is what it was, then. */
bool isa_choose(const char *forced, struct error *error);

/* The choice; before there was one, the generic instruction set. */
enum isa isa_chosen(void);

#endif
