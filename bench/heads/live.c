/* What live statistics cost a forward pass: the same pass observed and not, in turn, with and without maps in its
 * results. One lane.
 * usage: bench_live [SECONDS [LENGTH]]      seconds for each line (3), one sequence length */

#include "analysis/live_observer.h"
#include "measure.h"
#include "weights/numpy_random.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { D_MODEL = 768, HEADS = 12, D_K = D_MODEL / HEADS };

static const struct attention_shape shape = {D_MODEL, HEADS, HEADS, D_K, D_K, 0.125f, true};

struct pass {
    const struct attention_layer *layer;
    struct forward_input input;
    struct forward_result result;
    struct arena scratch;
    struct live_sums sums;
    bool observed;
};

static void *allocate(size_t bytes)
{
    void *memory = malloc(bytes);
    if (!memory)
        abort();
    return memory;
}

static float *normals(uint32_t seed, size_t count, double scale)
{
    struct numpy_random random;
    float *numbers = allocate(count * sizeof *numbers);
    numpy_random_seed(&random, seed);
    for (size_t i = 0; i < count; i++)
        numbers[i] = (float)(numpy_random_normal(&random) * scale);
    return numbers;
}

static size_t scratch_bytes(const struct pass *pass)
{
    const struct forward_input *inputs[] = {&pass->input};
    size_t forward, observer = 0;
    if (!forward_scratch_bytes(&shape, inputs, 1, 1, &forward) || !live_observer_bytes(HEADS, inputs, 1, 1, &observer))
        abort();
    return forward + observer;
}

static void run(void *context)
{
    struct pass *pass = context;
    const struct forward_input *inputs[] = {&pass->input};
    struct forward_result *results[] = {&pass->result};
    struct error error;
    arena_reset(&pass->scratch);
    if (!pass->observed) {
        if (!forward_run(pass->layer, inputs, results, 1, &parallel_serial, &pass->scratch, &error))
            abort();
        return;
    }
    struct live_observer *observer = live_observer_create(HEADS, inputs, 1, 1, &pass->scratch, &error);
    const struct forward_observer interface = live_observer_interface(observer);
    live_sums_clear(&pass->sums);
    if (!forward_run_observed(pass->layer, inputs, results, 1, &interface, &parallel_serial, &pass->scratch, &error) ||
        !live_observer_finish(observer, 0, &pass->sums))
        abort();
}

static void compare(const struct attention_layer *layer, size_t length, bool maps, double seconds)
{
    struct pass passes[2] = {{0}};
    struct contender contenders[2] = {{0}};
    size_t bytes;
    float *x = normals(7, length * D_MODEL, 1);
    live_sums_bytes(1, HEADS, &bytes);
    for (int i = 0; i < 2; i++) {
        struct pass *p = &passes[i];
        *p = (struct pass){.layer = layer, .observed = i == 1};
        p->input = (struct forward_input){.batch = 1,
                                          .query_length = length,
                                          .key_length = length,
                                          .self_attention = true,
                                          .query = x,
                                          .key = x,
                                          .value = x,
                                          .observed = p->observed};
        p->result.n_maps = HEADS;
        p->result.output = allocate(length * D_MODEL * sizeof(float));
        p->result.attention = maps ? allocate(HEADS * length * length * sizeof(float)) : NULL;
        live_sums_init(&p->sums, 1, HEADS, allocate(bytes));
        if (!arena_reserve(&p->scratch, scratch_bytes(p)))
            abort();
        contenders[i] = (struct contender){.run = run, .context = p};
    }
    const size_t rounds = measure(contenders, 2, seconds);
    const struct spread off = measured_seconds(&contenders[0], rounds), on = measured_seconds(&contenders[1], rounds),
                        ratio = measured_ratio(&contenders[1], &contenders[0], rounds);
    printf("T %5zu  %s  off %9.1f us  on %9.1f us  ratio %.3f (%.3f to %.3f)\n", length, maps ? "maps   " : "no maps",
           1e6 * off.median, 1e6 * on.median, ratio.median, ratio.low, ratio.high);
    for (int i = 0; i < 2; i++) {
        free(passes[i].result.output);
        free(passes[i].result.attention);
        free(passes[i].sums.statistics);
        arena_free(&passes[i].scratch);
    }
    free(x);
}

int main(int argc, char **argv)
{
    const double seconds = argc > 1 ? atof(argv[1]) : 3;
    const size_t square = (size_t)D_MODEL * D_MODEL;
    struct error error;
    if (!engine_init(getenv("ATTND_ISA"), &error)) {
        fprintf(stderr, "%s\n", error.message);
        return 2;
    }
    float *weights = normals(42, 4 * square, 0.04);
    const struct attention_matrices matrices = {
        .w_q = weights, .w_k = weights + square, .w_v = weights + 2 * square, .w_o = weights + 3 * square};
    struct attention_layer *layer = attention_layer_create(&shape, &matrices, &error);
    if (!layer)
        return 2;
    printf("live statistics, D %d, %d heads, one lane, %s\n", D_MODEL, HEADS, engine_isa());
    static const size_t lengths[] = {16, 128, 512, 2048};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        if (argc > 2 && (size_t)atoi(argv[2]) != lengths[i])
            continue;
        compare(layer, lengths[i], true, seconds);
        compare(layer, lengths[i], false, seconds);
    }
    attention_layer_free(layer);
    free(weights);
    return 0;
}
