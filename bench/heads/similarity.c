/* Similarity of heads for similarity.py, which drives it: maps in a file of float32 [B, H, Tq, Tk], one lane.
 *     bench_similarity FILE B H Tq Tk METRIC [diversity]
 * For each line on standard input, a number of runs, it prints the seconds of one, the thread's own; at the end of the
 * input the matrix, a number a line. */
#include "../samples.h"
#include "analysis/head_similarity.h"
#include "engine/attention.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void fail(const char *what)
{
    fprintf(stderr, "bench_similarity: %s\n", what);
    exit(1);
}

int main(int argc, char **argv)
{
    struct error error;
    struct similarity_question question = {.metric = SIMILARITY_METRIC_COUNT};
    struct forward_input rule = {.self_attention = true};
    struct arena arena = {0};
    size_t heads, bytes, runs;
    if (argc < 7 || argc > 8 || !engine_init(getenv("ATTND_ISA"), &error))
        fail("usage: bench_similarity FILE B H Tq Tk METRIC [diversity]");
    question.diversity = argc == 8;
    rule.batch = strtoul(argv[2], NULL, 10);
    heads = strtoul(argv[3], NULL, 10);
    rule.query_length = strtoul(argv[4], NULL, 10);
    rule.key_length = strtoul(argv[5], NULL, 10);
    for (int i = 0; i < SIMILARITY_METRIC_COUNT; i++)
        if (strcmp(argv[6], similarity_metric_name((enum similarity_metric)i)) == 0)
            question.metric = (enum similarity_metric)i;
    if (question.metric == SIMILARITY_METRIC_COUNT)
        fail("no such metric");

    const size_t count = rule.batch * heads * rule.query_length * rule.key_length;
    struct arena memory = {0}; /* as the server keeps maps */
    if (!arena_reserve_touched(&memory, count * sizeof(float), count * sizeof(float)))
        fail("out of memory");
    float *weights = arena_take(&memory, count * sizeof *weights);
    FILE *file = fopen(argv[1], "rb");
    if (!file || fread(weights, sizeof *weights, count, file) != count)
        fail("cannot read the maps");
    fclose(file);
    struct head_maps maps = {.rule = &rule, .weights = weights, .num_heads = heads, .posted = true};
    double diversity;
    struct head_similarity similarity = {.similarity = malloc(heads * heads * sizeof(double)), .diversity = &diversity};
    if (!similarity.similarity)
        fail("out of memory");
    size_t maps_bytes;
    if (!head_maps_bytes(&maps, &maps_bytes) || !arena_reserve(&arena, maps_bytes))
        fail("too large");
    struct arena scratch = {0};
    if (!head_maps_prepare(&maps, &arena, &error) || !head_similarity_bytes(&question, &maps, 0, 1, &bytes) ||
        !arena_reserve_touched(&scratch, bytes, bytes))
        fail("cannot prepare");
    while (scanf("%zu", &runs) == 1) {
        const double began = thread_seconds();
        for (size_t i = 0; i < runs; i++) {
            arena_reset(&scratch);
            if (!head_similarity_run(&question, &maps, NULL, 0, &parallel_serial, &scratch, &similarity, &error))
                fail(error.message);
        }
        printf("%.9f\n", (thread_seconds() - began) / (double)runs);
        fflush(stdout);
    }
    for (size_t i = 0; i < heads * heads; i++)
        printf("%.17g\n", similarity.similarity[i]);
    free(similarity.similarity);
    arena_free(&scratch);
    arena_free(&arena);
    arena_free(&memory);
    return 0;
}
