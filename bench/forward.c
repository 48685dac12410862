/* The engine's forward pass for a program that times it beside others (turns.h).
 * usage: bench_forward INPUT LANES      ATTND_ISA chooses the instruction set, as for the server
 *
 * INPUT: four uint64 (B, T, d_model, heads), then float32: W_q, W_k, W_v, W_o [d_model, d_model] each (x @ W), and
 * x [B, T, d_model], all in this processor's byte order. Results: output [B, T, d_model] and maps [B, H, T, T]. */

#include "engine/forward.h"

#include "base/size.h"
#include "turns.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

struct task {
    struct attention_shape shape;
    struct attention_layer *layer;
    struct forward_input input;
    struct forward_result result;
    size_t n_output, n_maps;
    struct arena tensors; /* input and results */
};

static bool scratch_bytes(const void *context, unsigned lanes, size_t *bytes)
{
    const struct task *task = context;
    const struct forward_input *inputs[] = {&task->input};
    return forward_scratch_bytes(&task->shape, inputs, 1, lanes, bytes);
}

static bool run(void *context, const struct parallel *parallel, struct arena *scratch, struct error *error)
{
    struct task *task = context;
    const struct forward_input *inputs[] = {&task->input};
    struct forward_result *results[] = {&task->result};
    return forward_run(task->layer, inputs, results, 1, parallel, scratch, error);
}

static bool save(const void *context, FILE *file)
{
    const struct task *task = context;
    return fwrite(task->result.output, sizeof(float), task->n_output, file) == task->n_output &&
           fwrite(task->result.attention, sizeof(float), task->n_maps, file) == task->n_maps;
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

int main(int argc, char **argv)
{
    const unsigned lanes = argc == 3 ? turns_lanes(argv[2]) : 0;
    if (!lanes) {
        fprintf(stderr, "usage: %s INPUT LANES\n", argv[0]);
        return EXIT_FAILURE;
    }
    struct error error;
    struct task task = {0};
    bool done = false;
    FILE *file = fopen(argv[1], "rb");
    if (!file) {
        error_set(&error, ERROR_IO, "%s cannot be opened", argv[1]);
        goto fail;
    }
    if (!engine_init(getenv("ATTND_ISA"), &error) || !load(&task, file, &error))
        goto fail;
    const struct turns_pass pass = {&task, forward_flop(&task.shape, &task.input), scratch_bytes, run, save};
    done = turns_serve(&pass, lanes, &error);
fail:
    if (!done)
        fprintf(stderr, "%s: %s\n", argv[0], error.message);
    if (file)
        fclose(file);
    attention_layer_free(task.layer);
    arena_free(&task.tensors);
    return done ? EXIT_SUCCESS : EXIT_FAILURE;
}
