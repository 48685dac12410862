/* The list of a configuration's faults. It never loses one silently: what cannot be kept sets out_of_memory. */
#include "config/faults.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool make_room(struct faults *faults)
{
    /* The capacity is the least power of two that is at least `count`: full whenever count is one itself. */
    if (faults->count & (faults->count - 1))
        return true;
    size_t capacity = faults->count ? 2 * faults->count : 1;
    struct fault *items = reallocarray(faults->items, capacity, sizeof *items);
    if (!items)
        return false;
    faults->items = items;
    return true;
}

static void fault_free(struct fault *fault)
{
    free(fault->where);
    free(fault->pointer);
    free(fault->message);
}

void faults_add_list(struct faults *faults, const char *file, size_t line, const char *pointer, const char *format,
                     va_list arguments)
{
    struct fault fault = {0};
    if (line) {
        if (asprintf(&fault.where, "%s:%zu", file, line) < 0)
            fault.where = NULL;
    } else {
        fault.where = strdup(file);
    }
    if (pointer)
        fault.pointer = strdup(pointer);
    if (vasprintf(&fault.message, format, arguments) < 0)
        fault.message = NULL;
    if (!fault.where || (pointer && !fault.pointer) || !fault.message || !make_room(faults)) {
        fault_free(&fault);
        faults->out_of_memory = true;
        return;
    }
    faults->items[faults->count++] = fault;
}

void faults_add(struct faults *faults, const char *file, size_t line, const char *pointer, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    faults_add_list(faults, file, line, pointer, format, arguments);
    va_end(arguments);
}

void faults_move_last(struct faults *faults, size_t index)
{
    if (index + 1 >= faults->count)
        return;
    struct fault last = faults->items[faults->count - 1];
    memmove(&faults->items[index + 1], &faults->items[index], (faults->count - 1 - index) * sizeof last);
    faults->items[index] = last;
}

char *fault_text(const struct fault *fault)
{
    char *text;
    int length = fault->pointer ? asprintf(&text, "%s: %s: %s", fault->where, fault->pointer, fault->message)
                                : asprintf(&text, "%s: %s", fault->where, fault->message);
    return length < 0 ? NULL : text;
}

void faults_free(struct faults *faults)
{
    for (size_t i = 0; i < faults->count; i++)
        fault_free(&faults->items[i]);
    free(faults->items);
    *faults = (struct faults){0};
}
