/* The linker sends every call of malloc and its kin to these. Any thread. */
#include "fail_alloc.h"

#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void *__real_malloc(size_t bytes);
void *__real_calloc(size_t count, size_t bytes);
void *__real_realloc(void *memory, size_t bytes);
void *__real_reallocarray(void *memory, size_t count, size_t bytes);
void *__real_aligned_alloc(size_t alignment, size_t bytes);
int __real_posix_memalign(void **memory, size_t alignment, size_t bytes);
char *__real_strdup(const char *text);
char *__real_strndup(const char *text, size_t length);
int __real_vasprintf(char **text, const char *format, va_list arguments);

void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
void *__wrap_realloc(void *memory, size_t bytes);
void *__wrap_reallocarray(void *memory, size_t count, size_t bytes);
void *__wrap_aligned_alloc(size_t alignment, size_t bytes);
int __wrap_posix_memalign(void **memory, size_t alignment, size_t bytes);
char *__wrap_strdup(const char *text);
char *__wrap_strndup(const char *text, size_t length);
int __wrap_vasprintf(char **text, const char *format, va_list arguments) __attribute__((format(printf, 2, 0)));
int __wrap_asprintf(char **text, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Allocations until the one that fails; 0: none will. */
static atomic_size_t left;
static atomic_bool happened;

void fail_alloc_at(size_t n)
{
    atomic_store(&happened, false);
    atomic_store(&left, n);
}

size_t fail_alloc_left(void)
{
    return atomic_load(&left);
}

bool fail_alloc_happened(void)
{
    return atomic_load(&happened);
}

static bool fails(void)
{
    size_t now = atomic_load(&left);
    while (now && !atomic_compare_exchange_weak(&left, &now, now - 1))
        ;
    if (now != 1)
        return false;
    atomic_store(&happened, true);
    errno = ENOMEM;
    return true;
}

void *__wrap_malloc(size_t bytes)
{
    return fails() ? NULL : __real_malloc(bytes);
}

void *__wrap_calloc(size_t count, size_t bytes)
{
    return fails() ? NULL : __real_calloc(count, bytes);
}

void *__wrap_realloc(void *memory, size_t bytes)
{
    return fails() ? NULL : __real_realloc(memory, bytes);
}

void *__wrap_reallocarray(void *memory, size_t count, size_t bytes)
{
    return fails() ? NULL : __real_reallocarray(memory, count, bytes);
}

void *__wrap_aligned_alloc(size_t alignment, size_t bytes)
{
    return fails() ? NULL : __real_aligned_alloc(alignment, bytes);
}

int __wrap_posix_memalign(void **memory, size_t alignment, size_t bytes)
{
    return fails() ? ENOMEM : __real_posix_memalign(memory, alignment, bytes);
}

char *__wrap_strdup(const char *text)
{
    return fails() ? NULL : __real_strdup(text);
}

char *__wrap_strndup(const char *text, size_t length)
{
    return fails() ? NULL : __real_strndup(text, length);
}

int __wrap_vasprintf(char **text, const char *format, va_list arguments)
{
    if (!fails())
        return __real_vasprintf(text, format, arguments);
    /* What *text is after a failure is not said: no caller may free it. */
    *text = (char *)(uintptr_t)1;
    return -1;
}

int __wrap_asprintf(char **text, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int length = __wrap_vasprintf(text, format, arguments);
    va_end(arguments);
    return length;
}
