/* Whole models of well-known shapes: how much of the processor's peak a forward reaches, what maps cost, and what
 * bfloat16 saves. */

#include "model.h"

#include "engine/kernels/kernels.h"
#include "engine/model_run.h"
#include "measure.h"
#include "peak_contender.h"
#include "random_model.h"
#include "report.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SECONDS 1.5

/* A forward with its tensors. */
struct run {
    const struct model *model;
    struct forward_input input;
    struct embedding_input embedding;
    struct forward_result result;
    struct arena tensors, scratch;
    double flop;
    uint32_t last_layer;
};

/* What is computed: of `causal` half of the scores. */
static double flop_of(const struct model_shape *shape, const struct forward_input *input)
{
    const struct attention_shape *a = &shape->attention;
    const double scores = (double)shape->num_layers * (double)input->batch * (double)input->query_length *
                          (double)input->query_length * (double)a->num_heads;
    return model_flop(shape, input) - (shape->layers[0].causal ? scores * (double)(a->d_k + a->d_v) : 0);
}

static void run_create(struct run *run, const struct model *model, const struct named_shape *named, size_t batch,
                       size_t length, size_t map_layers)
{
    const struct attention_shape *a = &named->shape.attention;
    const size_t rows = batch * length, maps = map_layers * rows * a->num_heads * length;
    *run = (struct run){.model = model, .last_layer = (uint32_t)named->shape.num_layers - 1};
    reserve(&run->tensors, rows + rows * a->d_model + maps);
    uint32_t *ids = arena_take(&run->tensors, rows * sizeof *ids);
    for (size_t i = 0; i < rows; i++)
        ids[i] = (uint32_t)rand() % (uint32_t)named->shape.embeddings.vocabulary;
    run->embedding.ids = ids;
    run->input = (struct forward_input){.batch = batch,
                                        .query_length = length,
                                        .key_length = length,
                                        .self_attention = true,
                                        .embedding = &run->embedding,
                                        .rules = named->rules.position.kind != POSITION_NONE ? &named->rules : NULL};
    run->result = (struct forward_result){.output = floats(&run->tensors, rows * a->d_model),
                                          .attention = maps ? floats(&run->tensors, maps) : NULL,
                                          .n_maps = a->num_heads,
                                          .include_layers = map_layers == 1 ? &run->last_layer : NULL,
                                          .n_layers = map_layers};
    run->flop = flop_of(model_shape_of(model), &run->input);
}

static void run_free(struct run *run)
{
    arena_free(&run->tensors);
    arena_free(&run->scratch);
}

static double run_bytes(const struct run *run)
{
    return (double)(run->tensors.capacity + run->scratch.capacity);
}

static void run_model(void *context)
{
    struct run *run = context;
    const struct forward_input *inputs[] = {&run->input};
    struct forward_result *results[] = {&run->result};
    struct error error;
    size_t bytes;
    if (!model_scratch_bytes(model_shape_of(run->model), inputs, 1, 1, &bytes) ||
        !arena_reserve(&run->scratch, bytes) ||
        !model_run(run->model, inputs, results, 1, NULL, &parallel_serial, &run->scratch, &error))
        fail("out of memory");
    arena_reset(&run->scratch);
}

static struct contender model_contender(struct run *run)
{
    return (struct contender){.run = run_model, .context = run, .flop = run->flop};
}

static struct spread scaled(struct spread s, double factor)
{
    return (struct spread){s.low * factor, s.median * factor, s.high * factor};
}

static void measure_share(const struct named_shape *named, const struct model *model, size_t batch, size_t length,
                          double bound)
{
    struct run run;
    char what[80];
    run_create(&run, model, named, batch, length, 0);
    struct contender c[] = {model_contender(&run), peak_contender(kernels_chosen()->name)};
    const size_t rounds = measure(c, 2, SECONDS);
    const struct spread seconds = measured_seconds(&c[0], rounds);
    snprintf(what, sizeof what, "%s, %zu x %zu, milliseconds", named->name, batch, length);
    print_row("model", what, scaled(seconds, 1e3), NULL, 0);
    snprintf(what, sizeof what, "%s, %zu x %zu, GFLOP/s", named->name, batch, length);
    print_row("model", what,
              (struct spread){1e-9 * run.flop / seconds.high, 1e-9 * run.flop / seconds.median,
                              1e-9 * run.flop / seconds.low},
              NULL, 0);
    snprintf(what, sizeof what, "%s, %zu x %zu, share of the peak", named->name, batch, length);
    print_row("model", what, measured_share(&c[0], &c[1], rounds), ">=", bound);
    run_free(&run);
}

static void measure_maps(const struct named_shape *named, const struct model *model)
{
    struct run none, one, all;
    run_create(&none, model, named, 1, 128, 0);
    run_create(&one, model, named, 1, 128, 1);
    run_create(&all, model, named, 1, 128, named->shape.num_layers);
    struct contender c[] = {model_contender(&none), model_contender(&one), model_contender(&all)};
    const size_t rounds = measure(c, 3, 10 * SECONDS); /* of what differs by a hundredth */
    char what[80];
    snprintf(what, sizeof what, "%s, 1 x 128, with one layer's maps / without", named->name);
    print_row("model", what, measured_ratio(&c[1], &c[0], rounds), "<=", 1.02);
    snprintf(what, sizeof what, "%s, 1 x 128, with all layers' maps / without", named->name);
    print_row("model", what, measured_ratio(&c[2], &c[0], rounds), "<=", 1.05);
    snprintf(what, sizeof what, "%s, 1 x 128, one layer's maps / all layers', time", named->name);
    print_row("model", what, measured_ratio(&c[1], &c[2], rounds), "<=", 1.0);
    snprintf(what, sizeof what, "%s, 1 x 128, one layer's maps / all layers', memory", named->name);
    const double memory = (run_bytes(&one) - run_bytes(&none)) / (run_bytes(&all) - run_bytes(&none));
    print_row("model", what, (struct spread){memory, memory, memory}, "<=", 1.0 / (double)named->shape.num_layers);
    run_free(&none);
    run_free(&one);
    run_free(&all);
}

static void measure_encoders(void)
{
    const struct named_shape minilm = encoder_shape("MiniLM", 6, 384, 12),
                             bert = encoder_shape("BERT-base", 12, 768, 12);
    struct model *model = random_model(&minilm);
    measure_share(&minilm, model, 1, 128, 0.85);
    measure_share(&minilm, model, 16, 32, 0.85);
    model_free(model);
    model = random_model(&bert);
    measure_share(&bert, model, 1, 128, 0.85);
    measure_maps(&bert, model);
    model_free(model);
}

static void measure_precision(const struct named_shape *wide, const struct model *wide_model,
                              const struct named_shape *narrow, const struct model *narrow_model, size_t length,
                              double bound)
{
    struct run runs[2];
    char what[80];
    run_create(&runs[0], narrow_model, narrow, 1, length, 0);
    run_create(&runs[1], wide_model, wide, 1, length, 0);
    struct contender c[] = {model_contender(&runs[0]), model_contender(&runs[1])};
    const size_t rounds = measure(c, 2, SECONDS);
    snprintf(what, sizeof what, "%s / float32, 1 x %zu, time", narrow->name, length);
    print_row("model", what, measured_ratio(&c[0], &c[1], rounds), "<=", bound);
    run_free(&runs[0]);
    run_free(&runs[1]);
}

static void measure_decoder(void)
{
    const struct named_shape wide = decoder_shape(PRECISION_F32), narrow = decoder_shape(PRECISION_BF16);
    struct model *wide_model = random_model(&wide), *narrow_model = random_model(&narrow);
    const double memory = (double)model_bytes(narrow_model) / (double)model_bytes(wide_model);
    measure_share(&wide, wide_model, 1, 512, 0.85);
    print_row("model", "Llama, bf16 / float32, memory", (struct spread){memory, memory, memory}, "<=", 0.52);
    measure_precision(&wide, wide_model, &narrow, narrow_model, 128, 1.1);
    measure_precision(&wide, wide_model, &narrow, narrow_model, 1, 1 / 1.5);
    model_free(wide_model);
    model_free(narrow_model);
}

void bench_model(void)
{
    measure_encoders();
    measure_decoder();
}
