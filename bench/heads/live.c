/* What live statistics cost a forward pass: the same pass observed and not, in turn, with and without maps in its
 * results. One lane.
 * usage: bench_live [SECONDS [LENGTH [D_MODEL]]]      seconds for each line (3), of one length, of one size */

#include "analysis/live_observer.h"
#include "layer.h"
#include "measure.h"

#include <stdio.h>
#include <stdlib.h>

struct size {
    size_t d_model, num_heads, length;
};

static const struct size sizes[] = {{64, 8, 4},    {64, 8, 32},    {384, 12, 4},   {384, 12, 32},
                                    {768, 12, 16}, {768, 12, 128}, {768, 12, 512}, {768, 12, 2048}};

struct pass {
    struct attention_shape shape;
    const struct attention_layer *layer;
    struct forward_input input;
    struct forward_result result;
    struct arena scratch;
    struct live_sums sums;
    void *sums_memory;
    bool observed;
};

static struct live_shape sums_shape(const struct attention_shape *shape)
{
    return (struct live_shape){.num_layers = 1, .num_heads = shape->num_heads};
}

static size_t scratch_bytes(const struct pass *pass)
{
    const struct forward_input *inputs[] = {&pass->input};
    size_t forward, observer = 0;
    if (!forward_scratch_bytes(&pass->shape, inputs, 1, 1, &forward) ||
        !live_observer_bytes(NULL, sums_shape(&pass->shape), inputs, 1, 1, &observer))
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
    struct live_sums *sums[] = {&pass->sums};
    live_sums_lay(&pass->sums, sums_shape(&pass->shape), pass->sums_memory);
    struct live_observer *observer =
        live_observer_create(NULL, sums_shape(&pass->shape), inputs, 1, 1, sums, &pass->scratch, &error);
    const struct forward_observer interface = live_observer_interface(observer);
    if (!forward_run_observed(pass->layer, inputs, results, 1, &interface, &parallel_serial, &pass->scratch, &error) ||
        !live_observer_finish(observer, 0))
        abort();
}

static void compare(const struct attention_shape *shape, const struct attention_layer *layer, size_t length, bool maps,
                    double seconds)
{
    struct pass passes[2] = {0};
    struct contender contenders[2] = {{0}};
    size_t bytes;
    float *x = normals(7, length * shape->d_model, 1);
    live_sums_bytes(sums_shape(shape), &bytes);
    for (int i = 0; i < 2; i++) {
        struct pass *p = &passes[i];
        *p = (struct pass){.shape = *shape, .layer = layer, .observed = i == 1};
        p->input = self_input(x, length);
        p->input.observed = p->observed;
        p->result.n_maps = shape->num_heads;
        p->result.output = allocate(length * shape->d_model * sizeof(float));
        p->result.attention = maps ? allocate(shape->num_heads * length * length * sizeof(float)) : NULL;
        p->sums_memory = allocate(bytes);
        if (!arena_reserve(&p->scratch, scratch_bytes(p)))
            abort();
        contenders[i] = (struct contender){.run = run, .context = p};
    }
    const size_t rounds = measure(contenders, 2, seconds);
    const struct spread off = measured_seconds(&contenders[0], rounds), on = measured_seconds(&contenders[1], rounds),
                        ratio = measured_ratio(&contenders[1], &contenders[0], rounds);
    printf("D %3zu  H %2zu  T %4zu  %s  off %9.2f us  on %9.2f us  ratio %.3f (%.3f to %.3f)\n", shape->d_model,
           shape->num_heads, length, maps ? "maps   " : "no maps", 1e6 * off.median, 1e6 * on.median, ratio.median,
           ratio.low, ratio.high);
    for (int i = 0; i < 2; i++) {
        free(passes[i].result.output);
        free(passes[i].result.attention);
        free(passes[i].sums_memory);
        arena_free(&passes[i].scratch);
    }
    free(x);
}

static void compare_size(const struct size *size, double seconds)
{
    struct attention_shape shape;
    struct attention_layer *layer = random_layer(size->d_model, size->num_heads, &shape);
    compare(&shape, layer, size->length, true, seconds);
    compare(&shape, layer, size->length, false, seconds);
    attention_layer_free(layer);
}

int main(int argc, char **argv)
{
    const double seconds = argc > 1 ? atof(argv[1]) : 3;
    const size_t length = argc > 2 ? (size_t)atoi(argv[2]) : 0, d_model = argc > 3 ? (size_t)atoi(argv[3]) : 0;
    struct error error;
    if (!engine_init(getenv("ATTND_ISA"), &error)) {
        fprintf(stderr, "%s\n", error.message);
        return 2;
    }
    printf("live statistics, one lane, %s\n", engine_isa());
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        if ((!length || sizes[i].length == length) && (!d_model || sizes[i].d_model == d_model))
            compare_size(&sizes[i], seconds);
    return 0;
}
