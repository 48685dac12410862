/* What live statistics of all heads cost a model's forward pass: the same pass observed and not, in turn; a BERT-base,
 * 12 layers of 12 heads, with random weights. The output alone is returned. One lane.
 * usage: bench_live_model [SECONDS [LENGTH]]      seconds (6), tokens (128) */

#include "analysis/live_observer.h"
#include "engine/forward.h"
#include "measure.h"
#include "random_model.h"
#include "report.h"

#include <stdio.h>
#include <stdlib.h>

struct pass {
    const struct model *model;
    struct forward_input input;
    struct forward_result result;
    struct arena scratch;
    struct live_sums sums;
    void *sums_memory;
};

static struct live_shape sums_shape_of(const struct model_shape *shape)
{
    return (struct live_shape){.num_layers = shape->num_layers, .num_heads = shape->attention.num_heads};
}

static void run(void *context)
{
    struct pass *pass = context;
    const struct model_shape *shape = model_shape_of(pass->model);
    const struct forward_input *inputs[] = {&pass->input};
    struct forward_result *results[] = {&pass->result};
    const struct live_shape sums_shape = sums_shape_of(shape);
    struct live_sums *sums[] = {&pass->sums};
    size_t bytes, observing = 0;
    struct error error;
    const bool observed = pass->input.observed;
    if (!model_scratch_bytes(shape, inputs, 1, 1, &bytes) ||
        (observed && !live_observer_bytes(shape, sums_shape, inputs, 1, 1, &observing)) ||
        !arena_reserve(&pass->scratch, bytes + observing))
        fail("out of memory");
    arena_reset(&pass->scratch);
    if (!observed) {
        if (!model_run(pass->model, inputs, results, 1, NULL, &parallel_serial, &pass->scratch, &error))
            fail(error.message);
        return;
    }
    live_sums_lay(&pass->sums, sums_shape, pass->sums_memory);
    struct live_observer *observer =
        live_observer_create(shape, sums_shape, inputs, 1, 1, sums, &pass->scratch, &error);
    if (!observer)
        fail(error.message);
    const struct forward_observer interface = live_observer_interface(observer);
    if (!model_run(pass->model, inputs, results, 1, &interface, &parallel_serial, &pass->scratch, &error) ||
        !live_observer_finish(observer, 0))
        fail("the pass failed");
}

static void compare(const struct named_shape *named, size_t length, double seconds)
{
    struct model *model = random_model(named);
    const struct model_shape *shape = model_shape_of(model);
    struct pass passes[2] = {0};
    struct contender contenders[2] = {{0}};
    uint32_t *ids = calloc(length, sizeof *ids);
    const struct embedding_input embedding = {.ids = ids};
    size_t bytes;
    if (!ids || !live_sums_bytes(sums_shape_of(shape), &bytes))
        fail("out of memory");
    for (size_t i = 0; i < length; i++)
        ids[i] = (uint32_t)rand() % (uint32_t)shape->embeddings.vocabulary;
    for (int i = 0; i < 2; i++) {
        passes[i] = (struct pass){.model = model,
                                  .input = {.batch = 1,
                                            .query_length = length,
                                            .key_length = length,
                                            .num_layers = shape->num_layers,
                                            .self_attention = true,
                                            .embedding = &embedding,
                                            .observed = i == 1},
                                  .result = {.output = calloc(length * shape->attention.d_model, sizeof(float)),
                                             .n_maps = shape->attention.num_heads},
                                  .sums_memory = malloc(bytes)};
        if (!passes[i].result.output || !passes[i].sums_memory)
            fail("out of memory");
        contenders[i] = (struct contender){.run = run, .context = &passes[i]};
    }
    const size_t rounds = measure(contenders, 2, seconds);
    const struct spread off = measured_seconds(&contenders[0], rounds);
    char what[80];
    snprintf(what, sizeof what, "%s, 1 x %zu, without, milliseconds", named->name, length);
    print_row("live", what, (struct spread){1e3 * off.low, 1e3 * off.median, 1e3 * off.high}, NULL, 0);
    snprintf(what, sizeof what, "%s, 1 x %zu, %zu heads observed / not", named->name, length,
             shape->num_layers * shape->attention.num_heads);
    print_row("live", what, measured_ratio(&contenders[1], &contenders[0], rounds), "<=", 1.10);
    for (int i = 0; i < 2; i++) {
        free(passes[i].result.output);
        free(passes[i].sums_memory);
        arena_free(&passes[i].scratch);
    }
    free(ids);
    model_free(model);
}

int main(int argc, char **argv)
{
    const double seconds = argc > 1 ? atof(argv[1]) : 6;
    const size_t length = argc > 2 ? strtoul(argv[2], NULL, 10) : 128;
    const struct named_shape bert = encoder_shape("BERT-base", 12, 768, 12);
    struct error error;
    if (!engine_init(getenv("ATTND_ISA"), &error))
        fail(error.message);
    if (length < 1 || length > bert.shape.embeddings.positions)
        fail("LENGTH is from 1 to 512 tokens");
    report_open(false, engine_isa());
    compare(&bert, length, seconds);
    return EXIT_SUCCESS;
}
