/* How long each function of each variant takes on sizes that are usual, beside the generic one. Not a test. */

#include "check.h"

#include "../require.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Each number is the best of RUNS runs of at least RUN_SECONDS. */
enum { RUNS = 8 };
#define RUN_SECONDS 0.002

/* What one call works on. */
struct call {
    const struct kernels *k;
    size_t rows, depth, columns;
    float *a, *b, *packed, *c;
    uint8_t *allowed;
};

static void call_pack(struct call *c)
{
    c->k->pack(c->b, c->columns, c->depth, c->columns, c->packed);
}

static void call_pack_transposed(struct call *c)
{
    c->k->pack_transposed(c->b, c->depth, c->depth, c->columns, c->packed);
}

static void call_multiply(struct call *c)
{
    const struct product product = {.depth = c->depth,
                                    .columns = c->columns,
                                    .a = c->a,
                                    .a_stride = c->depth,
                                    .b = c->packed,
                                    .b_depth = c->depth,
                                    .scale = 1,
                                    .c = c->c,
                                    .c_stride = c->columns};
    c->k->multiply(&product, 0, c->rows, 0, c->columns);
}

/* Any bits are some panel. */
static void call_multiply_bfloat(struct call *c)
{
    const struct product product = {.depth = c->depth,
                                    .columns = c->columns,
                                    .a = c->a,
                                    .a_stride = c->depth,
                                    .pairs = (const uint32_t *)c->packed,
                                    .b_depth = c->depth,
                                    .scale = 1,
                                    .c = c->c,
                                    .c_stride = c->columns};
    c->k->multiply(&product, 0, c->rows, 0, c->columns);
}

static void call_softmax(struct call *c)
{
    c->k->softmax(c->c, c->columns, c->columns, NULL, NULL, NULL);
}

static void call_softmax_masked(struct call *c)
{
    c->k->softmax(c->c, c->columns, c->columns, c->b, c->allowed, NULL);
}

static void call_scale(struct call *c)
{
    c->k->scale(c->c, c->b, c->columns, 0.5f);
}

static void call_softmax_rows(struct call *c)
{
    c->k->softmax_rows(c->c, c->columns, c->rows, c->columns, (ptrdiff_t)c->columns, c->a, NULL);
}

static void call_rotate(struct call *c)
{
    const struct rotation rotation = {.d_k = 64, .dims = 64, .turns = c->a, .turns_stride = 64};
    c->k->rotate(&rotation, c->c, c->columns, c->rows, c->columns / 64);
}

static const struct {
    const char *check, *name;
    void (*call)(struct call *c);
    size_t rows, depth, columns;
} lines[] = {
    {"pack", "pack", call_pack, 1, 768, 768},
    {"pack", "pack_transposed", call_pack_transposed, 1, 64, 512},
    {"multiply", "multiply", call_multiply, 1, 768, 768},
    {"multiply", "multiply", call_multiply, 4, 64, 192},
    {"multiply", "multiply", call_multiply, 16, 768, 768},
    {"multiply", "multiply", call_multiply, 128, 768, 2304},
    {"multiply", "multiply", call_multiply, 96, 64, 512}, /* scores of a head */
    {"multiply", "multiply", call_multiply, 96, 512, 64}, /* weights times values */
    {"bfloat", "multiply, bfloat16", call_multiply_bfloat, 1, 768, 768},
    {"bfloat", "multiply, bfloat16", call_multiply_bfloat, 16, 768, 768},
    {"bfloat", "multiply, bfloat16", call_multiply_bfloat, 128, 768, 2304},
    {"softmax", "softmax", call_softmax, 1, 1, 64},
    {"softmax", "softmax", call_softmax, 1, 1, 512},
    {"softmax", "softmax", call_softmax, 1, 1, 2048},
    {"softmax_rows", "softmax_rows", call_softmax_rows, 16, 1, 16},
    {"softmax_rows", "softmax_rows", call_softmax_rows, 32, 1, 32},
    {"softmax_rows", "softmax_rows", call_softmax_rows, 96, 1, 512},
    {"softmax", "softmax, bias, mask", call_softmax_masked, 1, 1, 512},
    {"scale", "scale", call_scale, 1, 1, 512},
    {"rotate", "rotate", call_rotate, 96, 64, 768},
};

/* Of the processor, not of the wall: other programs may run. */
static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static float *floats(size_t count)
{
    float *memory = aligned_alloc(64, kernel_padded(count) * sizeof *memory);
    require(memory, "no memory for %zu numbers", count);
    for (size_t i = 0; i < kernel_padded(count); i++)
        memory[i] = -(float)(i % 97) / 97;
    return memory;
}

/* Seconds of one call. */
static double measure(const struct kernels *k, size_t line)
{
    struct call c = {.k = k, .rows = lines[line].rows, .depth = lines[line].depth, .columns = lines[line].columns};
    c.a = floats(c.rows * c.depth);
    c.b = floats(c.depth * c.columns);
    c.packed = floats(c.depth * kernel_padded(c.columns));
    c.c = floats(c.rows * c.columns);
    c.allowed = malloc(c.columns);
    require(c.allowed, "no memory for a mask");
    for (size_t j = 0; j < c.columns; j++)
        c.allowed[j] = j % 3 != 0;
    double best = 0;
    size_t count = 1;
    for (int run = 0; run < RUNS;) {
        const double start = now();
        for (size_t i = 0; i < count; i++)
            lines[line].call(&c);
        const double seconds = now() - start;
        if (seconds < RUN_SECONDS) {
            count *= 2;
            continue;
        }
        if (run++ == 0 || seconds / (double)count < best)
            best = seconds / (double)count;
    }
    free(c.a), free(c.b), free(c.packed), free(c.c), free(c.allowed);
    return best;
}

void bench(const char *variant, const char *function)
{
    printf("%-20s %-15s %-10s %12s %9s %8s\n", "function", "size", "variant", "ns", "G/s", "generic/");
    for (size_t line = 0; line < sizeof lines / sizeof *lines; line++) {
        if (function && strcmp(function, lines[line].check) != 0)
            continue;
        const double numbers = (double)lines[line].rows * (double)lines[line].depth * (double)lines[line].columns;
        const double work =
            lines[line].call == call_multiply || lines[line].call == call_multiply_bfloat ? 2 * numbers : numbers;
        const double generic = measure(&kernels_generic, line);
        for (size_t v = KERNEL_VARIANT_COUNT; v-- > 0;) {
            const struct kernels *k = kernel_variants[v];
            if (!isa_supported((enum isa)v) || (variant && k != &kernels_generic && strcmp(variant, k->name) != 0))
                continue;
            const double seconds = k == &kernels_generic ? generic : measure(k, line);
            char size[64];
            snprintf(size, sizeof size, "%zu x %zu x %zu", lines[line].rows, lines[line].depth, lines[line].columns);
            printf("%-20s %-15s %-10s %12.0f %9.2f %8.2f\n", lines[line].name, size, k->name, 1e9 * seconds,
                   1e-9 * work / seconds, generic / seconds);
        }
    }
    puts("G/s: 1e9 floating-point operations a second of multiply, 1e9 numbers a second of the others.");
}
