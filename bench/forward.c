/* The engine's forward pass for a program that times it beside others: it stays alive and runs what it is told.
 * usage: bench_forward INPUT LANES      ATTND_ISA chooses the instruction set, as for the server
 *
 * INPUT: four uint64 (B, T, d_model, heads), then float32: W_q, W_k, W_v, W_o [d_model, d_model] each (x @ W), and
 * x [B, T, d_model], all in this processor's byte order.
 *
 * Each line of stdin is "REPEATS [FILE]": one forward pass that is not timed, then REPEATS that are. The answer is a
 * line "WALL CPU": seconds of all repeats by the clock, and the same of this process on all processors. With FILE,
 * output [B, T, d_model] and maps [B, H, T, T] are written there. All passes write to the same memory. The line "peak"
 * is answered by the multiply-adds per second of one core, times two, with nothing but registers. */

#include "engine/forward.h"

#include "base/arena.h"
#include "base/size.h"
#include "lanes.h"
#include "peak.h"
#include "samples.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct task {
    struct attention_shape shape;
    struct attention_layer *layer;
    struct forward_input input;
    struct forward_result result;
    size_t n_output, n_maps;
    struct arena tensors; /* input and results */
    struct arena scratch;
};

struct timing {
    double wall, cpu; /* seconds */
};

struct repeats {
    struct task *task;
    unsigned long count;
    struct timing timing;
    bool done;
    struct error error;
};

static double seconds(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static struct timing read_clocks(void)
{
    return (struct timing){seconds(CLOCK_MONOTONIC), seconds(CLOCK_PROCESS_CPUTIME_ID)};
}

static bool pass(struct task *task, const struct parallel *parallel, struct error *error)
{
    const struct forward_input *inputs[] = {&task->input};
    struct forward_result *results[] = {&task->result};
    arena_reset(&task->scratch);
    return forward_run(task->layer, inputs, results, 1, parallel, &task->scratch, error);
}

/* On the thread that the lanes chose, so that no thread is waited for within the time. */
static void run_repeats(const struct parallel *parallel, void *argument)
{
    struct repeats *repeats = argument;
    const struct forward_input *inputs[] = {&repeats->task->input};
    size_t bytes;
    arena_reset(&repeats->task->scratch);
    if (!forward_scratch_bytes(&repeats->task->shape, inputs, 1, parallel->lanes, &bytes) ||
        !arena_reserve(&repeats->task->scratch, bytes)) {
        repeats->done = error_out_of_memory(&repeats->error);
        return;
    }
    repeats->done = pass(repeats->task, parallel, &repeats->error);
    const struct timing start = read_clocks();
    for (unsigned long i = 0; i < repeats->count && repeats->done; i++)
        repeats->done = pass(repeats->task, parallel, &repeats->error);
    const struct timing end = read_clocks();
    repeats->timing = (struct timing){end.wall - start.wall, end.cpu - start.cpu};
}

static bool take_floats(struct arena *arena, size_t count, float **numbers)
{
    *numbers = arena_take(arena, count * sizeof **numbers);
    return *numbers != NULL;
}

static bool read_floats(FILE *file, float *numbers, size_t count)
{
    return fread(numbers, sizeof *numbers, count, file) == count;
}

/* Room for x, output and maps. */
static bool reserve_tensors(struct arena *arena, size_t n_x, size_t n_maps)
{
    size_t total = 0, x_bytes, maps_bytes;
    return size_multiply(n_x, sizeof(float), &x_bytes) && size_multiply(n_maps, sizeof(float), &maps_bytes) &&
           arena_need(&total, x_bytes) && arena_need(&total, x_bytes) && arena_need(&total, maps_bytes) &&
           arena_reserve(arena, total);
}

static bool load_weights(struct task *task, FILE *file, struct error *error)
{
    const size_t d = task->shape.d_model;
    size_t square, bytes;
    float *weights = NULL; /* [4, d_model, d_model] */
    bool done = false;
    if (!size_multiply(d, d, &square) || !size_multiply(square, 4 * sizeof *weights, &bytes) ||
        !(weights = malloc(bytes))) {
        error_out_of_memory(error);
        goto end;
    }
    if (!read_floats(file, weights, 4 * square)) {
        error_set(error, ERROR_INVALID, "the file ends within the weights");
        goto end;
    }
    const struct attention_matrices matrices = {
        .w_q = weights, .w_k = weights + square, .w_v = weights + 2 * square, .w_o = weights + 3 * square};
    task->layer = attention_layer_create(&task->shape, &matrices, error);
    done = task->layer != NULL;
end:
    free(weights);
    return done;
}

static bool load(struct task *task, FILE *file, struct error *error)
{
    uint64_t sizes[4]; /* B, T, d_model, heads */
    if (fread(sizes, sizeof *sizes, 4, file) != 4)
        return error_set(error, ERROR_INVALID, "the file ends within the four sizes");
    const size_t batch = sizes[0], length = sizes[1], d = sizes[2], heads = sizes[3];
    size_t rows;
    if (!batch || !length || !d || !heads || d % heads)
        return error_set(error, ERROR_INVALID, "sizes are at least 1, and d_model a multiple of heads");
    if (!size_multiply(batch, length, &rows) || !size_multiply(rows, d, &task->n_output) ||
        !size_multiply(rows, heads, &task->n_maps) || !size_multiply(task->n_maps, length, &task->n_maps) ||
        !reserve_tensors(&task->tensors, task->n_output, task->n_maps))
        return error_out_of_memory(error);
    const size_t d_k = d / heads;
    task->shape = (struct attention_shape){d, heads, heads, d_k, d_k, 1 / sqrtf((float)d_k), true};
    float *x; /* [B, T, d_model] */
    if (!take_floats(&task->tensors, task->n_output, &x) ||
        !take_floats(&task->tensors, task->n_output, &task->result.output) ||
        !take_floats(&task->tensors, task->n_maps, &task->result.attention))
        return error_out_of_memory(error);
    task->result.n_maps = heads;
    if (!load_weights(task, file, error))
        return false;
    if (!read_floats(file, x, task->n_output))
        return error_set(error, ERROR_INVALID, "the file ends within x");
    task->input = (struct forward_input){.batch = batch,
                                         .query_length = length,
                                         .key_length = length,
                                         .self_attention = true,
                                         .query = x,
                                         .key = x,
                                         .value = x};
    return true;
}

static bool save(const struct task *task, const char *path, struct error *error)
{
    FILE *file = fopen(path, "wb");
    bool done = file && fwrite(task->result.output, sizeof(float), task->n_output, file) == task->n_output &&
                fwrite(task->result.attention, sizeof(float), task->n_maps, file) == task->n_maps;
    if (file && fclose(file) != 0)
        done = false;
    return done || error_set(error, ERROR_IO, "%s cannot be written", path);
}

static double measure_peak(void)
{
    const double start = thread_seconds();
    double flop = NAN;
#define PEAK_CALL(identifier, name)      \
    if (strcmp(engine_isa(), name) == 0) \
        flop = peak_##identifier(2000000);
    KERNEL_VARIANTS(PEAK_CALL)
    return flop / (thread_seconds() - start);
}

/* Answers one line of stdin. */
static bool answer(struct lanes *lanes, struct task *task, char *line, struct error *error)
{
    line[strcspn(line, "\n")] = '\0';
    if (strcmp(line, "peak") == 0) {
        printf("%.0f\n", measure_peak());
        fflush(stdout);
        return true;
    }
    char *end;
    struct repeats repeats = {.task = task, .count = strtoul(line, &end, 10)};
    if (end == line || (*end != '\0' && *end != ' '))
        return error_set(error, ERROR_INVALID, "\"%s\" is not \"REPEATS [FILE]\"", line);
    if (!lanes_run(lanes, forward_flop(&task->shape, &task->input), run_repeats, &repeats, error))
        return false;
    if (!repeats.done) {
        *error = repeats.error;
        return false;
    }
    if (*end == ' ' && !save(task, end + 1, error))
        return false;
    printf("%.9f %.9f\n", repeats.timing.wall, repeats.timing.cpu);
    fflush(stdout);
    return true;
}

int main(int argc, char **argv)
{
    const unsigned long count = argc == 3 ? strtoul(argv[2], NULL, 10) : 0;
    if (count < 1 || count > 1024) {
        fprintf(stderr, "usage: %s INPUT LANES\n", argv[0]);
        return EXIT_FAILURE;
    }
    struct error error;
    struct task task = {0};
    struct lanes *lanes = NULL;
    bool done = false;
    FILE *file = fopen(argv[1], "rb");
    if (!file) {
        error_set(&error, ERROR_IO, "%s cannot be opened", argv[1]);
        goto fail;
    }
    if (!engine_init(getenv("ATTND_ISA"), &error) || !load(&task, file, &error))
        goto fail;
    lanes = lanes_create((unsigned)count, &error);
    if (!lanes)
        goto fail;
    char line[4096];
    done = true;
    while (done && fgets(line, sizeof line, stdin))
        done = answer(lanes, &task, line, &error);
fail:
    if (!done)
        fprintf(stderr, "%s: %s\n", argv[0], error.message);
    if (file)
        fclose(file);
    lanes_free(lanes);
    attention_layer_free(task.layer);
    arena_free(&task.tensors);
    arena_free(&task.scratch);
    return done ? EXIT_SUCCESS : EXIT_FAILURE;
}
