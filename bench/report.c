#include "report.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool json;
static size_t rows_printed;

void report_open(bool as_json, const char *isa)
{
    json = as_json;
    if (json)
        printf("{\"isa\": \"%s\", \"lanes\": 1, \"rows\": [", isa);
    else
        printf("%s, 1 lane: median [quartiles]\n", isa);
}

void report_close(void)
{
    if (json)
        printf("\n]}\n");
}

void print_row(const char *section, const char *what, struct spread s, const char *relation, double bound)
{
    if (json) {
        printf("%s\n  {\"section\": \"%s\", \"row\": \"%s\", \"median\": %.5g, \"low\": %.5g, \"high\": %.5g",
               rows_printed++ ? "," : "", section, what, s.median, s.low, s.high);
        printf(relation ? ", \"bound\": \"%s %.5g\"}" : "}", relation, bound);
    } else {
        printf("%-9s %-52s %9.4g  [%.4g .. %.4g]", section, what, s.median, s.low, s.high);
        if (relation)
            printf("  %s %.4g%s", relation, bound,
                   (strcmp(relation, "<=") == 0 ? s.median <= bound : s.median >= bound) ? "" : "  MISSED");
        printf("\n");
    }
    fflush(stdout);
}

void fail(const char *reason)
{
    fprintf(stderr, "bench: %s\n", reason);
    exit(EXIT_FAILURE);
}

void reserve(struct arena *arena, size_t count_of_floats)
{
    *arena = (struct arena){0};
    if (!arena_reserve(arena, count_of_floats * sizeof(float) + 64 * ARENA_ALIGNMENT))
        fail("out of memory");
}

float *floats(struct arena *arena, size_t count)
{
    float *memory = arena_take(arena, count * sizeof *memory);
    return memory ? memory : (fail("out of memory"), NULL);
}

float *random_floats(struct arena *arena, size_t count, float deviation)
{
    float *numbers = floats(arena, count);
    for (size_t i = 0; i < count; i++)
        numbers[i] = ((float)rand() / (float)RAND_MAX - 0.5f) * 3.4641f * deviation;
    return numbers;
}
