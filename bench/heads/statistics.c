/* The statistics of the heads of one map, over and over, on one thread: driven by statistics.py, which has the same
 * maps.
 *
 * usage: bench_statistics MAPS BATCH HEADS LENGTH REPETITIONS [causal]
 * MAPS is a file of float32, [BATCH, HEADS, LENGTH, LENGTH]. Prints the processor seconds of each repetition on one
 * line, then for each head the means in the order of HEAD_STATISTICS, sink_key, sink_mass, best_offset and its share.
 */
#include "../samples.h"
#include "analysis/head_statistics.h"
#include "engine/attention.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static float *read_maps(const char *path, size_t count)
{
    float *maps = malloc(count * sizeof *maps);
    FILE *file = fopen(path, "rb");
    bool whole = maps && file && fread(maps, sizeof *maps, count, file) == count;
    if (file)
        fclose(file);
    if (whole)
        return maps;
    free(maps);
    fprintf(stderr, "bench_statistics: %s does not hold %zu numbers\n", path, count);
    return NULL;
}

static void print_head(const struct head_statistics *statistics, size_t head)
{
    const struct head_peaks *peaks = &statistics->peaks[head];
    for (size_t i = 0; i < HEAD_STATISTIC_COUNT; i++)
        printf("%.17g ", ratio_sums_mean(&statistics->means[head * HEAD_STATISTIC_COUNT + i]));
    printf("%zu %.17g %td %.17g\n", peaks->sink_key, peaks->sink_mass, peaks->best_offset, peaks->best_offset_share);
}

int main(int argc, char **argv)
{
    if (argc < 6) {
        fprintf(stderr, "usage: bench_statistics MAPS BATCH HEADS LENGTH REPETITIONS [causal]\n");
        return 2;
    }
    const size_t batch = strtoul(argv[2], NULL, 10), heads = strtoul(argv[3], NULL, 10),
                 length = strtoul(argv[4], NULL, 10), repetitions = strtoul(argv[5], NULL, 10);
    const struct forward_input rule = {.batch = batch,
                                       .query_length = length,
                                       .key_length = length,
                                       .self_attention = true,
                                       .causal = argc > 6 && strcmp(argv[6], "causal") == 0};
    struct head_maps given = {.rule = &rule, .num_heads = heads};
    struct head_statistics statistics = {.means = malloc(heads * HEAD_STATISTIC_COUNT * sizeof *statistics.means),
                                         .peaks = malloc(heads * sizeof *statistics.peaks)};
    struct arena arena = {0};
    struct error error = {0};
    size_t bytes;
    float *maps = read_maps(argv[1], batch * heads * length * length);
    given.weights = maps;
    if (!maps || !statistics.means || !statistics.peaks || !engine_init(getenv("ATTND_ISA"), &error) ||
        !head_statistics_scratch_bytes(&given, heads, 1, &bytes) || !arena_reserve(&arena, bytes)) {
        fprintf(stderr, "bench_statistics: %s\n", error.message);
        return 1;
    }
    for (size_t i = 0; i < repetitions; i++) {
        struct head_maps prepared = given;
        const double begun = thread_seconds();
        arena_reset(&arena);
        if (!head_statistics_run(&prepared, NULL, heads, &parallel_serial, &arena, &statistics, &error))
            return 1;
        printf("%.9f ", thread_seconds() - begun);
    }
    printf("\n");
    for (size_t head = 0; head < heads; head++)
        print_head(&statistics, head);
    arena_free(&arena);
    free(maps);
    free(statistics.means);
    free(statistics.peaks);
    return 0;
}
