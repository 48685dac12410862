/* How fast the engine is, beside what the processor could do in the same second. One lane, no HTTP.
 * usage: bench_engine [--json]      ATTND_ISA chooses the instruction set, as for the server */

#include "base/arena.h"
#include "engine/forward.h"
#include "peak.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct shape {
    size_t batch, length, d_model, heads;
};

static const struct shape shapes[] = {{1, 4, 64, 8},    {1, 32, 384, 12},  {1, 128, 768, 12},
                                      {8, 128, 512, 8}, {1, 512, 768, 12}, {1, 2048, 768, 12}};

/* Each measurement is the best of runs that together take this long. */
#define SECONDS 0.5

/* Of the processor, not of the wall: other programs may run. */
static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static double measure_peak(void)
{
#define PEAK_CALL(identifier, name)      \
    if (strcmp(engine_isa(), name) == 0) \
        return peak_##identifier();
    KERNEL_VARIANTS(PEAK_CALL)
    return NAN;
}

/* Uniform numbers of deviation `deviation`; NULL when memory ran out. */
static float *random_floats(size_t count, float deviation)
{
    float *numbers = malloc(count * sizeof *numbers);
    for (size_t i = 0; numbers && i < count; i++)
        numbers[i] = ((float)rand() / (float)RAND_MAX - 0.5f) * 3.4641f * deviation;
    return numbers;
}

struct measurement {
    double with_maps, without_maps; /* seconds */
    double peak;                    /* flop per second */
};

static bool measure_forward(const struct attention_layer *layer, const struct forward_input *input, size_t repeats,
                            struct forward_result *with, struct forward_result *without, struct measurement *m)
{
    const struct forward_input *inputs[] = {input};
    struct forward_result *results[2][1] = {{with}, {without}};
    struct arena arena = {0};
    struct error error;
    size_t bytes;
    if (!forward_scratch_bytes(attention_layer_shape(layer), inputs, 1, 1, &bytes) || !arena_reserve(&arena, bytes))
        return false;
    double best[2] = {INFINITY, INFINITY};
    m->peak = 0;
    for (const double end = now() + 2 * SECONDS; now() < end;) {
        m->peak = fmax(m->peak, measure_peak());
        for (double round = now() + SECONDS / 10; now() < round;)
            for (size_t i = 0; i < 2; i++) {
                const double start = now();
                for (size_t j = 0; j < repeats; j++) {
                    if (!forward_run(layer, inputs, results[i], 1, &parallel_serial, &arena, &error)) {
                        arena_free(&arena);
                        return false;
                    }
                    arena_reset(&arena);
                }
                best[i] = fmin(best[i], (now() - start) / (double)repeats);
            }
    }
    arena_free(&arena);
    m->with_maps = best[0];
    m->without_maps = best[1];
    return true;
}

static bool measure_shape(const struct shape *s, struct measurement *m, double *flop)
{
    const size_t d = s->d_model, d_k = d / s->heads, rows = s->batch * s->length,
                 map = s->batch * s->heads * s->length * s->length;
    const struct attention_shape shape = {d, s->heads, s->heads, d_k, d_k, 1 / sqrtf((float)d_k), true};
    float *weights = random_floats(4 * d * d, 1 / sqrtf((float)d)), *x = random_floats(rows * d, 1),
          *output = random_floats(rows * d, 0), *maps = random_floats(map, 0);
    struct attention_layer *layer = NULL;
    bool done = false;
    if (weights && x && output && maps) {
        const struct attention_matrices matrices = {
            .w_q = weights, .w_k = weights + d * d, .w_v = weights + 2 * d * d, .w_o = weights + 3 * d * d};
        struct error error;
        layer = attention_layer_create(&shape, &matrices, &error);
    }
    if (layer) {
        const struct forward_input input = {.batch = s->batch,
                                            .query_length = s->length,
                                            .key_length = s->length,
                                            .self_attention = true,
                                            .query = x,
                                            .key = x,
                                            .value = x};
        struct forward_result with = {.output = output, .attention = maps, .n_maps = s->heads},
                              without = {.output = output, .n_maps = s->heads};
        *flop = forward_flop(&shape, &input);
        done = measure_forward(layer, &input, 1 + (size_t)(1e7 / *flop), &with, &without, m);
    }
    attention_layer_free(layer);
    free(weights), free(x), free(output), free(maps);
    return done;
}

int main(int argc, char **argv)
{
    const bool json = argc == 2 && strcmp(argv[1], "--json") == 0;
    if (argc > 1 && !json) {
        fprintf(stderr, "usage: %s [--json]\n", argv[0]);
        return EXIT_FAILURE;
    }
    struct error error;
    if (!engine_init(getenv("ATTND_ISA"), &error)) {
        fprintf(stderr, "%s\n", error.message);
        return EXIT_FAILURE;
    }
    const size_t count = sizeof shapes / sizeof *shapes;
    if (json)
        printf("{\"isa\": \"%s\", \"lanes\": 1, \"shapes\": [", engine_isa());
    else
        printf("%s, 1 lane\n%24s %10s %10s %8s %8s %8s\n", engine_isa(), "B, T, d_model, heads", "maps ms", "no maps",
               "GFLOP/s", "peak", "share");
    for (size_t i = 0; i < count; i++) {
        const struct shape *s = &shapes[i];
        struct measurement m;
        double flop = 0;
        if (!measure_shape(s, &m, &flop)) {
            fprintf(stderr, "%s: out of memory\n", argv[0]);
            return EXIT_FAILURE;
        }
        const double rate = flop / m.with_maps;
        if (json)
            printf("%s\n  {\"batch\": %zu, \"length\": %zu, \"d_model\": %zu, \"heads\": %zu, \"ms\": %.6g, "
                   "\"ms_without_maps\": %.6g, \"gflops\": %.5g, \"peak_gflops\": %.5g, \"share\": %.4f}",
                   i ? "," : "", s->batch, s->length, s->d_model, s->heads, m.with_maps * 1e3, m.without_maps * 1e3,
                   rate * 1e-9, m.peak * 1e-9, rate / m.peak);
        else
            printf("%8zu, %4zu, %4zu, %3zu %10.4f %10.4f %8.1f %8.1f %8.2f\n", s->batch, s->length, s->d_model,
                   s->heads, m.with_maps * 1e3, m.without_maps * 1e3, rate * 1e-9, m.peak * 1e-9, rate / m.peak);
        fflush(stdout);
    }
    if (json)
        printf("\n]}\n");
    return EXIT_SUCCESS;
}
