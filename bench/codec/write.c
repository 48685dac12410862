/* How fast tensors are written as text, beside what else prints float32. One thread, no HTTP.
 * usage: bench_write [--zmij LIBRARY] [--require targets]
 * ATTND_ISA chooses the instruction set, as for the server. */

#include "../samples.h"
#include "codec/tensor_write.h"
#include "engine/attention.h"
#include "peaked_maps.h"
#include "json/number_rows.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define REPETITIONS 15
#define NUMBER_ROOM 24 /* bytes: what zmij's shim stores for a number */

/* Writes numbers [count], a comma behind each. */
typedef char *write_row(char *to, const float *numbers, size_t count);

#ifdef HAVE_TO_CHARS
write_row to_chars_row;
#endif

static char *printf_row(char *to, const float *numbers, size_t count)
{
    for (size_t i = 0; i < count; i++)
        to += sprintf(to, "%.9g,", (double)numbers[i]);
    return to;
}

enum way { SHORTEST, FIXED_4, FIXED_6, FIXED_8, CHECK, PEERS, PRINTF = PEERS, TO_CHARS, ZMIJ, WAYS };
static const int decimals_of[PEERS] = {-1, 4, 6, 8};

struct ways {
    write_row *row[WAYS]; /* of peers; NULL: not there */
};

struct tensor {
    const char *name;
    const float *data; /* [shape] */
    size_t shape[4];   /* [rank] */
    unsigned rank;
    size_t count;
};

/* Bytes written, or 0 where nothing is. */
static size_t run(const struct ways *ways, enum way way, const struct tensor *tensor, char *text)
{
    const size_t width = tensor->shape[tensor->rank - 1];
    if (way == CHECK)
        return number_rows_chosen()->extremes(tensor->data, tensor->count).magnitude >= NUMBER_INFINITY_BITS;
    if (way < PEERS) {
        const int decimals = decimals_of[way];
        const struct tensor_rows rows = {.data = tensor->data,
                                         .shape = tensor->shape,
                                         .rank = tensor->rank,
                                         .decimals = decimals,
                                         .number_bytes = tensor_write_number_bytes(decimals)};
        return (size_t)(tensor_rows_write(text, &rows, 0, tensor_rows_count(&rows)) - text);
    }
    char *to = text;
    for (size_t i = 0; i < tensor->count; i += width)
        to = ways->row[way](to, tensor->data + i, width);
    return (size_t)(to - text);
}

static double median(const double times[REPETITIONS])
{
    double sorted[REPETITIONS];
    memcpy(sorted, times, sizeof sorted);
    return spread_of(sorted, REPETITIONS).median;
}

/* The median of the ratios of the same repetition. */
static double ratio(const double *numerator, const double *denominator)
{
    double ratios[REPETITIONS];
    for (int i = 0; i < REPETITIONS; i++)
        ratios[i] = numerator[i] / denominator[i];
    return spread_of(ratios, REPETITIONS).median;
}

/* Times all ways in turn, every second repetition in the opposite order; whether the targets are met. */
static bool measure(const struct ways *ways, const struct tensor *tensor, char *text, bool is_map)
{
    static double times[WAYS][REPETITIONS];
    size_t bytes[WAYS] = {0};
    for (int repetition = -1; repetition < REPETITIONS; repetition++)
        for (int i = 0; i < WAYS; i++) {
            const enum way way = (enum way)(repetition % 2 ? i : WAYS - 1 - i);
            if (way >= PEERS && !ways->row[way])
                continue;
            const double start = thread_seconds();
            bytes[way] = run(ways, way, tensor, text);
            if (repetition >= 0)
                times[way][repetition] = thread_seconds() - start;
        }

    const double ns = 1e9 / (double)tensor->count;
    static const char *const names[WAYS] = {
        "attnd, shortest",   "attnd, 4 decimals", "attnd, 6 decimals", "attnd, 8 decimals",
        "attnd, all finite", "printf %.9g",       "std::to_chars",     "zmij"};
    /* As many times as long as the shortest text must these take at least; or as short. */
    static const double targets[WAYS] = {0, 2, 2, 2, 0, 12, 2, 1.2};
    bool met = true;
    printf("%s, %zu numbers\n%22s %10s %14s %8s %8s\n", tensor->name, tensor->count, "", "ns", "bytes/number", "x",
           "target");
    for (int way = 0; way < WAYS; way++) {
        if (way >= PEERS && !ways->row[way])
            continue;
        const bool fixed = way > SHORTEST && way < CHECK, targeted = is_map && targets[way] > 0;
        const double x = way < PEERS ? ratio(times[SHORTEST], times[way]) : ratio(times[way], times[SHORTEST]);
        printf("%22s %10.2f %14.2f", names[way], median(times[way]) * ns, (double)bytes[way] / (double)tensor->count);
        if (way == CHECK)
            printf("   %.1f GB/s\n", 4 / (median(times[way]) * ns));
        else if (targeted)
            printf(" %8.2f %8.1f%s\n", x, targets[way], fixed ? "  faster than shortest" : "");
        else
            printf(" %8.2f\n", x);
        met = met && (!targeted || x >= targets[way]);
    }
    return met;
}

static bool measure_shape(const struct ways *ways, const char *name, size_t length, size_t d_model, size_t heads,
                          bool *met, struct error *error)
{
    struct peaked_maps made;
    if (!peaked_maps_make(&made, length, d_model, heads, error))
        return false;
    char maps_name[64], output_name[64];
    snprintf(maps_name, sizeof maps_name, "%s maps [1,%zu,%zu,%zu]", name, heads, length, length);
    snprintf(output_name, sizeof output_name, "%s output [1,%zu,%zu]", name, length, d_model);
    const struct tensor maps = {maps_name, made.maps, {1, heads, length, length}, 4, heads * length * length};
    const struct tensor output = {output_name, made.output, {1, length, d_model}, 3, length * d_model};
    const size_t room = (maps.count > output.count ? maps.count : output.count) * 56 + 1024;
    char *text = malloc(room);
    if (text) {
        memset(text, 0, room); /* no page is touched first while it is timed */
        *met = measure(ways, &maps, text, true) && *met;
        *met = measure(ways, &output, text, false) && *met;
    }
    free(text);
    peaked_maps_free(&made);
    return text || error_out_of_memory(error);
}

int main(int argc, char **argv)
{
    _Static_assert(NUMBER_ROOM < 56, "the text holds the longest of all ways");
    struct ways ways = {.row[PRINTF] = printf_row};
    bool require = false, met = true;
#ifdef HAVE_TO_CHARS
    ways.row[TO_CHARS] = to_chars_row;
#endif
    for (int i = 1; i < argc; i += 2) {
        void *library = NULL;
        if (i + 1 < argc && strcmp(argv[i], "--require") == 0 && strcmp(argv[i + 1], "targets") == 0) {
            require = true;
        } else if (i + 1 < argc && strcmp(argv[i], "--zmij") == 0 && (library = dlopen(argv[i + 1], RTLD_NOW))) {
            ways.row[ZMIJ] = (write_row *)dlsym(library, "zmij_row");
        } else {
            fprintf(stderr, "usage: %s [--zmij LIBRARY] [--require targets]\n", argv[0]);
            return EXIT_FAILURE;
        }
    }
    struct error error;
    if (!engine_init(getenv("ATTND_ISA"), &error)) {
        fprintf(stderr, "%s\n", error.message);
        return EXIT_FAILURE;
    }
    printf("%s, 1 thread, medians of %d\n", engine_isa(), REPETITIONS);
    if (!measure_shape(&ways, "S3", 128, 768, 12, &met, &error) ||
        !measure_shape(&ways, "S5", 512, 512, 8, &met, &error)) {
        fprintf(stderr, "%s: %s\n", argv[0], error.message);
        return EXIT_FAILURE;
    }
    if (!met)
        printf("not all targets are met\n");
    return require && !met ? EXIT_FAILURE : EXIT_SUCCESS;
}
