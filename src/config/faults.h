/* The faults of a configuration: all that are found, in the order of the file, each with its place. One thread at a
 * time. */
#ifndef ATTND_CONFIG_FAULTS_H
#define ATTND_CONFIG_FAULTS_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

struct fault {
    char *where;   /* "attnd.json:3" (the file as it was named, and the line), "ATTND_SERVER_WORKERS", "--listen" */
    char *pointer; /* JSON Pointer, or NULL */
    char *message;
};

struct faults {
    struct fault *items; /* [count]; zero-initialise */
    size_t count;
    bool out_of_memory; /* some could not be kept */
};

/* `file` and `line` make `where`; line 0: `file` alone. pointer may be NULL. */
void faults_add(struct faults *faults, const char *file, size_t line, const char *pointer, const char *format, ...)
    __attribute__((format(printf, 5, 6)));
void faults_add_list(struct faults *faults, const char *file, size_t line, const char *pointer, const char *format,
                     va_list arguments) __attribute__((format(printf, 5, 0)));

/* The last one becomes item `index` and those from there on move up: for a fault that is known only after later ones.
 */
void faults_move_last(struct faults *faults, size_t index);

/* "attnd.json:3: /servers: unknown key, ..." into fresh memory; NULL when memory ran out. */
char *fault_text(const struct fault *fault);

void faults_free(struct faults *faults);

#endif
