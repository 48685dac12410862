/* How fast the engine is, beside what the processor could do in the same second. One lane, no HTTP. docs/SPEED.md says
 * what the sections are for and keeps their figures.
 * usage: bench_engine [--json] [SECTION ...]      without sections, all of them
 * ATTND_ISA chooses the instruction set, as for the server. */

#include "base/arena.h"
#include "engine/forward.h"
#include "engine/kernels/kernels.h"
#include "measure.h"
#include "model.h"
#include "peak_contender.h"
#include "report.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Seconds for each measurement, shared by what is compared. */
#define SECONDS 0.6

/* Products. */

struct gemm {
    const struct kernels *kernels;
    struct product product;
    size_t rows;
};

static void run_gemm(void *context)
{
    const struct gemm *g = context;
    g->kernels->multiply(&g->product, 0, g->rows, 0, g->product.columns);
}

static void create_gemm(struct gemm *g, struct arena *arena, size_t rows, size_t depth, size_t columns)
{
    const struct kernels *kernels = kernels_chosen();
    reserve(arena, depth * columns + depth * kernel_padded(columns) + rows * (depth + columns));
    const float *b = random_floats(arena, depth * columns, 1);
    float *packed = floats(arena, depth * kernel_padded(columns));
    kernels->pack(b, columns, depth, columns, packed);
    *g = (struct gemm){kernels,
                       {.depth = depth,
                        .columns = columns,
                        .a = random_floats(arena, rows * depth, 1),
                        .a_stride = depth,
                        .b = packed,
                        .b_depth = depth,
                        .scale = 1,
                        .c = floats(arena, rows * columns),
                        .c_stride = columns},
                       rows};
}

static void measure_gemm(size_t rows, size_t depth, size_t columns, double bound)
{
    struct arena arena;
    struct gemm g;
    create_gemm(&g, &arena, rows, depth, columns);
    struct contender c[] = {
        {.run = run_gemm, .context = &g, .flop = 2.0 * (double)rows * (double)depth * (double)columns},
        peak_contender(g.kernels->name)};
    const size_t rounds = measure(c, 2, SECONDS);
    char what[80];
    snprintf(what, sizeof what, "%zu rows x [%zu, %zu], share of the peak", rows, depth, columns);
    print_row("gemm", what, measured_share(&c[0], &c[1], rounds), bound > 0 ? ">=" : NULL, bound);
    arena_free(&arena);
}

static void gemm(void)
{
    static const size_t sizes[][2] = {{384, 384}, {768, 768}, {768, 2304}, {1024, 1024}};
    static const size_t rows[] = {16, 32, 64, 128, 512};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (size_t j = 0; j < sizeof rows / sizeof *rows; j++)
            measure_gemm(rows[j], sizes[i][0], sizes[i][1], 0.92);
}

/* Sizes without a bound: few rows, small and odd matrices. */
static void gemm_odd(void)
{
    static const size_t sizes[][3] = {
        {1, 768, 768},  {4, 768, 768},   {8, 768, 768},    {16, 64, 64},     {64, 64, 64},     {64, 64, 192},
        {33, 100, 100}, {129, 250, 999}, {512, 769, 65},   {64, 2048, 512},  {96, 64, 512},    {96, 512, 64},
        {24, 64, 2048}, {24, 2048, 64},  {128, 384, 1536}, {128, 1536, 384}, {512, 384, 1536}, {512, 1536, 384}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        measure_gemm(sizes[i][0], sizes[i][1], sizes[i][2], 0);
}

/* Whole forwards. */

struct shape {
    size_t batch, length, d_model, heads;
};

/* A forward with its tensors. */
struct run {
    struct attention_layer *layer;
    struct forward_input input;
    struct forward_result result;
    struct arena tensors, scratch;
    double flop;
};

/* A set without projections does attention alone. */
static void run_create(struct run *run, const struct shape *s, bool projected)
{
    const size_t d = s->d_model, d_k = d / s->heads, rows = s->batch * s->length,
                 map = s->batch * s->heads * s->length * s->length;
    const struct attention_shape shape = {d, s->heads, s->heads, d_k, d_k, 1 / sqrtf((float)d_k), projected};
    struct error error;
    reserve(&run->tensors, 4 * d * d + 2 * rows * d + map);
    const float *weights = random_floats(&run->tensors, 4 * d * d, 1 / sqrtf((float)d));
    const struct attention_matrices matrices = {
        .w_q = weights, .w_k = weights + d * d, .w_v = weights + 2 * d * d, .w_o = weights + 3 * d * d};
    const float *x = random_floats(&run->tensors, rows * d, 1);
    run->layer = attention_layer_create(&shape, &matrices, &error);
    run->input = (struct forward_input){.batch = s->batch,
                                        .query_length = s->length,
                                        .key_length = s->length,
                                        .self_attention = true,
                                        .query = x,
                                        .key = x,
                                        .value = x};
    run->result = (struct forward_result){
        .output = floats(&run->tensors, rows * d), .attention = floats(&run->tensors, map), .n_maps = s->heads};
    run->scratch = (struct arena){0};
    if (!run->layer)
        fail("out of memory");
    run->flop = forward_flop(&shape, &run->input);
}

static void run_free(struct run *run)
{
    attention_layer_free(run->layer);
    arena_free(&run->tensors);
    arena_free(&run->scratch);
}

static void run_forward(void *context)
{
    struct run *run = context;
    const struct forward_input *inputs[] = {&run->input};
    struct forward_result *results[] = {&run->result};
    struct error error;
    size_t bytes;
    if (!forward_scratch_bytes(attention_layer_shape(run->layer), inputs, 1, 1, &bytes) ||
        !arena_reserve(&run->scratch, bytes) ||
        !forward_run(run->layer, inputs, results, 1, &parallel_serial, &run->scratch, &error))
        fail("out of memory");
    arena_reset(&run->scratch);
}

static struct contender forward_contender(struct run *run)
{
    return (struct contender){.run = run_forward, .context = run, .flop = run->flop};
}

/* `other` shares the layer and the tensors of `run`, without maps. */
static void without_maps(struct run *other, const struct run *run)
{
    *other = *run;
    other->result.attention = NULL;
    other->scratch = (struct arena){0};
}

static const struct shape shapes[] = {{1, 4, 64, 8},     {1, 16, 64, 8},    {1, 32, 384, 12},  {1, 128, 768, 12},
                                      {8, 128, 512, 8},  {1, 512, 512, 8},  {1, 512, 768, 12}, {1, 256, 1024, 16},
                                      {4, 200, 600, 12}, {1, 2048, 768, 12}};

static void forward(void)
{
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        const struct shape *s = &shapes[i];
        struct run with, without;
        run_create(&with, s, true);
        without_maps(&without, &with);
        struct contender c[] = {forward_contender(&with), forward_contender(&without), peak_contender(engine_isa())};
        const size_t rounds = measure(c, 3, with.flop > 1e10 ? 6 * SECONDS : 2 * SECONDS);
        char name[40], what[80];
        snprintf(name, sizeof name, "%zu,%zu,%zu,%zu", s->batch, s->length, s->d_model, s->heads);
        struct spread us = measured_seconds(&c[0], rounds);
        us.low *= 1e6, us.median *= 1e6, us.high *= 1e6;
        snprintf(what, sizeof what, "%s with maps, microseconds", name);
        print_row("forward", what, us, NULL, 0);
        snprintf(what, sizeof what, "%s with maps, share of the peak", name);
        print_row("forward", what, measured_share(&c[0], &c[2], rounds), NULL, 0);
        snprintf(what, sizeof what, "%s without maps, share of the peak", name);
        print_row("forward", what, measured_share(&c[1], &c[2], rounds), NULL, 0);
        snprintf(what, sizeof what, "%s with maps / without", name);
        print_row("forward", what, measured_ratio(&c[0], &c[1], rounds), "<=", s->length > 512 ? 1.10 : 1.05);
        arena_free(&without.scratch);
        run_free(&with);
    }
}

/* Attention alone, causal against all keys. */
static void causal(void)
{
    for (size_t maps = 0; maps < 2; maps++) {
        struct run all, limited;
        run_create(&all, &(struct shape){1, 2048, 768, 12}, false);
        if (!maps)
            all.result.attention = NULL;
        limited = all;
        limited.input.causal = true;
        struct contender c[] = {forward_contender(&limited), forward_contender(&all)};
        const size_t rounds = measure(c, 2, 3 * SECONDS);
        print_row("causal",
                  maps ? "1,2048,768,12 attention with maps / not causal" : "1,2048,768,12 attention / not causal",
                  measured_ratio(&c[0], &c[1], rounds), "<=", 0.62);
        arena_free(&limited.scratch);
        run_free(&all);
    }
}

/* Sequences padded to four times their tokens against the tokens alone. */
static void measure_padding(const struct shape *s, bool in_front, bool maps)
{
    const struct shape padded_shape = {s->batch, 4 * s->length, s->d_model, s->heads};
    const size_t length = padded_shape.length, start = in_front ? length - s->length : 0;
    struct run alone, padded;
    run_create(&alone, s, true);
    run_create(&padded, &padded_shape, true);
    uint8_t *mask = calloc(s->batch * length, 1);
    for (size_t b = 0; mask && b < s->batch; b++)
        memset(mask + b * length + start, 1, s->length);
    padded.input.mask_kind = FORWARD_MASK_KEYS;
    padded.input.mask = mask;
    if (!mask)
        fail("out of memory");
    if (!maps)
        alone.result.attention = padded.result.attention = NULL;
    struct contender c[] = {forward_contender(&padded), forward_contender(&alone)};
    const size_t rounds = measure(c, 2, SECONDS);
    char what[80];
    snprintf(what, sizeof what, "%zu,%zu,%zu,%zu in %zu, %s, %s maps / unpadded", s->batch, s->length, s->d_model,
             s->heads, length, in_front ? "in front" : "behind", maps ? "with" : "no");
    print_row("padding", what, measured_ratio(&c[0], &c[1], rounds), maps ? NULL : "<=", 1.05);
    free(mask);
    run_free(&alone);
    run_free(&padded);
}

static void padding(void)
{
    static const struct shape padded[] = {{8, 32, 768, 12}, {8, 128, 768, 12}};
    for (size_t i = 0; i < 2; i++)
        for (size_t maps = 0; maps < 2; maps++)
            for (size_t in_front = 0; in_front < 2; in_front++)
                measure_padding(&padded[i], in_front, maps);
}

/* The instruction sets against each other: whole forwards with maps. */
static void compare_isas(const struct shape *s)
{
    const char *chosen = engine_isa(), *names[KERNEL_VARIANT_COUNT];
    struct run runs[KERNEL_VARIANT_COUNT];
    struct contender c[KERNEL_VARIANT_COUNT];
    struct error error;
    size_t count = 0;
    for (size_t i = 0; i < KERNEL_VARIANT_COUNT; i++) {
        if (!isa_supported((enum isa)i) || !engine_init(kernel_variants[i]->name, &error))
            continue;
        run_create(&runs[count], s, true);
        c[count] = forward_contender(&runs[count]);
        names[count++] = kernel_variants[i]->name;
    }
    engine_init(chosen, &error);
    const size_t rounds = measure(c, count, 2 * SECONDS);
    for (size_t i = 1; i < count; i++) {
        /* Without multiply-add and with half the width a fifth is left; with it, and half the width, a half. */
        const bool generic = strcmp(names[i], kernels_generic.name) == 0;
        char what[80];
        snprintf(what, sizeof what, "%zu,%zu,%zu,%zu speed of %s / %s", s->batch, s->length, s->d_model, s->heads,
                 names[i], names[i - 1]);
        print_row("isa", what, measured_share(&c[i], &c[i - 1], rounds), ">=", generic ? 0.2 : 0.5);
    }
    for (size_t i = 0; i < count; i++)
        run_free(&runs[i]);
}

static void isa(void)
{
    compare_isas(&(struct shape){1, 16, 64, 8});
    compare_isas(&(struct shape){1, 128, 768, 12});
    compare_isas(&(struct shape){1, 512, 768, 12});
}

/* Attention alone, without maps. */
static void measure_attention(const char *section, const struct shape *s)
{
    struct run run;
    run_create(&run, s, false);
    run.result.attention = NULL;
    struct contender c[] = {forward_contender(&run), peak_contender(engine_isa())};
    const size_t rounds = measure(c, 2, SECONDS);
    char what[80];
    snprintf(what, sizeof what, "%zu,%zu,%zu,%zu attention, share of the peak", s->batch, s->length, s->d_model,
             s->heads);
    print_row(section, what, measured_share(&c[0], &c[1], rounds), NULL, 0);
    run_free(&run);
}

static void head_sizes(void)
{
    static const size_t sizes[] = {1, 8, 17, 32, 50, 64, 65, 80, 96, 127, 128, 200, 256};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        measure_attention("heads", &(struct shape){1, 512, 4 * sizes[i], 4});
}

/* Tiles of scores within L2, and beyond it. */
static void long_sequences(void)
{
    static const size_t lengths[] = {1024, 2048, 4096, 8192, 12288};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
        measure_attention("long", &(struct shape){1, lengths[i], 64, 1});
}

/* Attention alone under a pattern against all keys, without maps. */
static void measure_pattern(const char *what, const struct pattern_rule *pattern, double bound)
{
    struct run all, sparse;
    run_create(&all, &(struct shape){1, 4096, 768, 12}, false);
    all.result.attention = NULL;
    const struct attention_rules rules = {.pattern = *pattern, .num_layers = 1};
    sparse = all;
    sparse.input.rules = &rules;
    struct contender c[] = {forward_contender(&sparse), forward_contender(&all)};
    const size_t rounds = measure(c, 2, 3 * SECONDS);
    char name[80];
    snprintf(name, sizeof name, "1,4096,768,12 %s / all keys", what);
    print_row("pattern", name, measured_ratio(&c[0], &c[1], rounds), bound > 0 ? "<=" : NULL, bound);
    arena_free(&sparse.scratch);
    run_free(&all);
}

static void patterns(void)
{
    measure_pattern("window 64, 64", &(struct pattern_rule){.kind = PATTERN_WINDOW, .left = 64, .right = 64}, 1.0 / 12);
    measure_pattern(
        "bigbird of 64",
        &(struct pattern_rule){
            .kind = PATTERN_BIGBIRD, .size = 64, .window_blocks = 3, .global_blocks = 2, .random_blocks = 3},
        1.0 / 5);
    measure_pattern("block of 128", &(struct pattern_rule){.kind = PATTERN_BLOCK, .size = 128}, 0);
    measure_pattern("strided by 64", &(struct pattern_rule){.kind = PATTERN_STRIDED, .size = 64}, 0);
    measure_pattern("top_k 64", &(struct pattern_rule){.kind = PATTERN_TOP_K, .k = 64}, 0);
}

/* The same, under another rule. */
static void under_rules(struct run *other, const struct run *run, const struct attention_rules *rules)
{
    without_maps(other, run);
    other->input.rules = rules;
}

/* Attention alone, without maps, from landmarks against from all tokens. */
static void nystrom(void)
{
    static const struct attention_rules rules = {.low_rank = {LOW_RANK_NYSTROM, .landmarks = 64, .iterations = 6},
                                                 .num_layers = 1};
    struct run full, low;
    run_create(&full, &(struct shape){1, 4096, 768, 12}, false);
    full.result.attention = NULL;
    under_rules(&low, &full, &rules);
    struct contender c[] = {forward_contender(&low), forward_contender(&full)};
    const size_t rounds = measure(c, 2, 6 * SECONDS);
    print_row("nystrom", "1,4096,768,12 attention, 64 landmarks / all tokens", measured_ratio(&c[0], &c[1], rounds),
              "<=", 1.0 / 14);
    arena_free(&low.scratch);
    run_free(&full);
}

/* Samples of attention and the output projection against so many times attention and output projection alone, which are
 * what a forward takes beyond the projections of queries, keys and values. */
static void dropout(void)
{
    enum { SAMPLES = 32 };
    static const struct attention_rules rules = {.dropout = {.samples = SAMPLES, .rate = 0.1}, .num_layers = 1};
    const struct shape shape = {1, 128, 768, 12};
    struct run plain, sampled, attention;
    run_create(&plain, &shape, true);
    plain.result.attention = NULL;
    under_rules(&sampled, &plain, &rules);
    run_create(&attention, &shape, false);
    attention.result.attention = NULL;
    struct gemm out;
    struct arena memory;
    create_gemm(&out, &memory, shape.length, shape.d_model, shape.d_model);
    struct contender c[] = {forward_contender(&sampled),
                            forward_contender(&plain),
                            forward_contender(&attention),
                            {.run = run_gemm, .context = &out}};
    const size_t rounds = measure(c, 4, 4 * SECONDS);
    const double extra = measured_seconds(&c[0], rounds).median - measured_seconds(&c[1], rounds).median,
                 alone = measured_seconds(&c[2], rounds).median + measured_seconds(&c[3], rounds).median;
    const double ratio = extra / (SAMPLES * alone);
    print_row("dropout", "1,128,768,12: 32 samples / 32 times what they repeat", (struct spread){ratio, ratio, ratio},
              "<=", 1.15);
    arena_free(&sampled.scratch);
    run_free(&plain);
    run_free(&attention);
    arena_free(&memory);
}

/* Whole forwards of 1,512,768,12 without maps under a rule, against the same without. */
static void measure_rule(const char *section, const char *what, const struct attention_rules *rules, double bound)
{
    struct run plain, ruled;
    run_create(&plain, &(struct shape){1, 512, 768, 12}, true);
    plain.result.attention = NULL;
    under_rules(&ruled, &plain, rules);
    struct contender c[] = {forward_contender(&ruled), forward_contender(&plain)};
    const size_t rounds = measure(c, 2, 3 * SECONDS);
    char row[80];
    snprintf(row, sizeof row, "1,512,768,12 %s / without", what);
    print_row(section, row, measured_ratio(&c[0], &c[1], rounds), bound > 0 ? "<=" : NULL, bound);
    arena_free(&ruled.scratch);
    run_free(&plain);
}

static void positions(void)
{
    float table[32 * 12];
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        table[i] = (float)(i % 7) / 7;
    const struct position_rule alibi = {.kind = POSITION_ALIBI},
                               t5 = {.kind = POSITION_T5,
                                     .table = table,
                                     .table_rows = 32,
                                     .max_distance = 128,
                                     .bidirectional = true},
                               rope = {.kind = POSITION_ROPE, .base = 10000},
                               neighbours = {.kind = POSITION_ROPE, .base = 10000, .interleaved = true},
                               sinusoidal = {.kind = POSITION_SINUSOIDAL, .base = 10000};
    measure_rule("position", "alibi", &(struct attention_rules){.position = alibi}, 1.06);
    measure_rule("position", "t5", &(struct attention_rules){.position = t5}, 1.06);
    measure_rule("position", "rope", &(struct attention_rules){.position = rope}, 1.06);
    measure_rule("position", "rope, interleaved", &(struct attention_rules){.position = neighbours}, 1.06);
    measure_rule("position", "sinusoidal", &(struct attention_rules){.position = sinusoidal}, 0);
}

/* Half of the heads, chosen beforehand and by what they do. */
static void keep_heads(void)
{
    static const double importance[12] = {1, 7, 3, 9, 2, 8, 4, 12, 6, 5, 11, 10};
    struct keep_heads_rule rule = {.kind = KEEP_COUNT, .by = KEEP_BY_IMPORTANCE, .count = 6, .importance = importance};
    measure_rule("keep", "6 heads by importance", &(struct attention_rules){.keep_heads = rule}, 0.65);
    rule.by = KEEP_BY_CONFIDENCE;
    measure_rule("keep", "6 heads by confidence", &(struct attention_rules){.keep_heads = rule}, 0);
    rule.by = KEEP_BY_NORM;
    measure_rule("keep", "6 heads by norm", &(struct attention_rules){.keep_heads = rule}, 0);
}

static const struct {
    const char *name;
    void (*run)(void);
} sections[] = {{"gemm", gemm},        {"gemm_odd", gemm_odd}, {"forward", forward},  {"causal", causal},
                {"padding", padding},  {"isa", isa},           {"heads", head_sizes}, {"long", long_sequences},
                {"pattern", patterns}, {"nystrom", nystrom},   {"dropout", dropout},  {"position", positions},
                {"keep", keep_heads},  {"model", bench_model}};
enum { SECTIONS = sizeof sections / sizeof *sections };

static bool is_wanted(const char *name, int argc, char **argv)
{
    bool any = false;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--json") == 0)
            continue;
        any = true;
        if (strcmp(argv[i], name) == 0)
            return true;
    }
    return !any;
}

static bool is_known(const char *argument)
{
    for (size_t i = 0; i < SECTIONS; i++)
        if (strcmp(argument, sections[i].name) == 0)
            return true;
    return strcmp(argument, "--json") == 0;
}

int main(int argc, char **argv)
{
    bool json = false;
    for (int i = 1; i < argc; i++)
        if (!is_known(argv[i])) {
            fprintf(stderr, "usage: %s [--json] [SECTION ...]\nsections:", argv[0]);
            for (size_t j = 0; j < SECTIONS; j++)
                fprintf(stderr, " %s", sections[j].name);
            fprintf(stderr, "\n");
            return EXIT_FAILURE;
        } else {
            json |= strcmp(argv[i], "--json") == 0;
        }
    struct error error;
    if (!engine_init(getenv("ATTND_ISA"), &error)) {
        fprintf(stderr, "%s\n", error.message);
        return EXIT_FAILURE;
    }
    report_open(json, engine_isa());
    for (size_t i = 0; i < SECTIONS; i++)
        if (is_wanted(sections[i].name, argc, argv))
            sections[i].run();
    report_close();
    return EXIT_SUCCESS;
}
