/* What the sections of bench_engine share: its rows on stdout, and memory that ends the program where there is none. */
#ifndef ATTND_BENCH_REPORT_H
#define ATTND_BENCH_REPORT_H

#include "base/arena.h"
#include "samples.h"

#include <stdbool.h>

void report_open(bool json, const char *isa);
void report_close(void);

/* One row: median, quartiles, and the bound that docs/SPEED.md holds it to, if any ("<=" or ">="; NULL: none). */
void print_row(const char *section, const char *what, struct spread s, const char *relation, double bound);

_Noreturn void fail(const char *reason);

/* Memory in huge pages, as the server's; the program ends with what it does not give back. */
void reserve(struct arena *arena, size_t count_of_floats);
float *floats(struct arena *arena, size_t count);
/* Uniform numbers of deviation `deviation`. */
float *random_floats(struct arena *arena, size_t count, float deviation);

#endif
