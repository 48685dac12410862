/* What the importance of 12 heads costs: the forward and the ablation of every head, beside the forward alone. One
 * lane. usage: bench_importance [SECONDS]      for each line (3) */

#include "analysis/importance.h"
#include "layer.h"
#include "measure.h"

#include <stdio.h>
#include <stdlib.h>

enum { D_MODEL = 768, HEADS = 12 };

struct pass {
    const struct attention_layer *layer;
    struct forward_input input;
    struct forward_result result;
    struct arena scratch;
    enum importance_method method;
    struct importance importance;
};

static void forward(void *context)
{
    struct pass *pass = context;
    const struct forward_input *inputs[] = {&pass->input};
    struct forward_result *results[] = {&pass->result};
    struct error error;
    arena_reset(&pass->scratch);
    if (!forward_run(pass->layer, inputs, results, 1, &parallel_serial, &pass->scratch, &error))
        abort();
}

static void ablate(void *context)
{
    struct pass *pass = context;
    struct error error;
    forward(context);
    arena_reset(&pass->scratch);
    if (!importance_run(pass->layer, &pass->input, pass->method, &pass->result, &parallel_serial, &pass->scratch,
                        &pass->importance, &error))
        abort();
}

/* Both passes have results of their own: the forward alone gives what POST /v1/forward would, without maps. */
static void compare(const struct attention_shape *shape, const struct attention_layer *layer, const char *name,
                    enum importance_method method, bool plan, size_t length, double seconds)
{
    struct pass passes[2] = {{0}};
    struct contender contenders[2] = {{.run = forward}, {.run = ablate}};
    float *x = normals(7, length * D_MODEL, 1);
    const size_t tensor = length * D_MODEL * sizeof(float);
    for (int i = 0; i < 2; i++) {
        struct pass *p = &passes[i];
        p->layer = layer;
        p->method = method;
        p->input = self_input(x, length);
        const struct forward_input *inputs[] = {&p->input};
        size_t bytes, ablation;
        p->result.n_maps = HEADS;
        if (i == 0 || importance_needs_output(method))
            p->result.output = allocate(tensor);
        if (i == 1) {
            p->result.heads = allocate(tensor);
            p->result.value = importance_needs_value(method) ? allocate(tensor) : NULL;
            p->importance.importance = allocate(HEADS * sizeof(double));
            p->importance.plan = plan ? allocate(HEADS * sizeof(struct prune_step)) : NULL;
        }
        if (!forward_scratch_bytes(shape, inputs, 1, 1, &bytes) ||
            !importance_scratch_bytes(shape, &p->input, method, plan, 1, &ablation) ||
            !arena_reserve(&p->scratch, bytes > ablation ? bytes : ablation))
            abort();
        contenders[i].context = p;
    }
    const size_t rounds = measure(contenders, 2, seconds);
    const struct spread alone = measured_seconds(&contenders[0], rounds),
                        both = measured_seconds(&contenders[1], rounds),
                        ratio = measured_ratio(&contenders[1], &contenders[0], rounds);
    printf("T %4zu  %-10s  forward %9.1f us  importance %9.1f us  ratio %.3f (%.3f to %.3f)\n", length, name,
           1e6 * alone.median, 1e6 * both.median, ratio.median, ratio.low, ratio.high);
    for (int i = 0; i < 2; i++) {
        free(passes[i].result.output);
        free(passes[i].result.heads);
        free(passes[i].result.value);
        free(passes[i].importance.importance);
        free(passes[i].importance.plan);
        arena_free(&passes[i].scratch);
    }
    free(x);
}

int main(int argc, char **argv)
{
    const double seconds = argc > 1 ? atof(argv[1]) : 3;
    struct error error;
    if (!engine_init(getenv("ATTND_ISA"), &error)) {
        fprintf(stderr, "%s\n", error.message);
        return 2;
    }
    struct attention_shape shape;
    struct attention_layer *layer = random_layer(D_MODEL, HEADS, &shape);
    printf("importance, D %d, %d heads, one lane, %s\n", D_MODEL, HEADS, engine_isa());
    static const size_t lengths[] = {32, 128, 512};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        for (int method = 0; method < IMPORTANCE_METHOD_COUNT; method++)
            compare(&shape, layer, importance_method_name(method), method, false, lengths[i], seconds);
        compare(&shape, layer, "prune_plan", IMPORTANCE_ZERO, true, lengths[i], seconds);
    }
    attention_layer_free(layer);
    return 0;
}
