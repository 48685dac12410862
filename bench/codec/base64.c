/* The benchmark of base64: encoding and decoding floats against memcpy of the same floats, in the cache and beyond it,
 * and a whole tensor in a request. One thread; medians of the processor time.
 *
 * usage: bench_base64 [--repetitions N] */
#include "codec/base64.h"
#include "../samples.h"
#include "base/isa.h"
#include "codec/tensor.h"
#include "json/reader.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What is measured works on these. */
struct work {
    size_t bytes; /* of the floats */
    float *floats, *copy;
    char *body; /* {"shape":[N],"base64":"..."} */
    size_t body_length, characters;
    char *text; /* the base64 in it */
    struct arena arena;
};

static bool copy(struct work *w)
{
    memcpy(w->copy, w->floats, w->bytes);
    __asm__ volatile("" : : "r"(w->copy) : "memory");
    return true;
}

static bool encode(struct work *w)
{
    return base64_encode(w->text, w->floats, w->bytes) == w->text + w->characters;
}

static bool decode(struct work *w)
{
    return base64_decode(w->text, w->characters, (unsigned char *)w->copy) == SIZE_MAX;
}

static bool read_tensor(struct work *w)
{
    struct json_reader r;
    struct tensor tensor;
    struct error error;
    arena_reset(&w->arena);
    json_reader_init(&r, w->body, w->body_length);
    return tensor_read_json(&r, &w->arena, &tensor, 1, &error);
}

static const struct {
    const char *name;
    bool (*run)(struct work *w);
} RUNS[] = {{"memcpy", copy}, {"encode", encode}, {"decode", decode}, {"tensor", read_tensor}};

enum { RUN_COUNT = sizeof RUNS / sizeof *RUNS };

static bool measure(size_t count, unsigned repetitions)
{
    struct work w = {.bytes = count * sizeof(float)};
    double *ns[RUN_COUNT] = {NULL};
    w.characters = base64_encoded_length(w.bytes);
    w.floats = malloc(w.bytes);
    w.copy = malloc(w.bytes);
    w.body = malloc(w.characters + 100);
    bool right = w.floats && w.copy && w.body && arena_reserve(&w.arena, w.bytes + 4096);
    for (int i = 0; i < RUN_COUNT; i++)
        right = (ns[i] = calloc(repetitions, sizeof **ns)) && right;
    if (right) {
        for (size_t i = 0; i < count; i++)
            w.floats[i] = (float)(i * 2654435761u % 1000003) / 1000003;
        w.text = w.body + sprintf(w.body, "{\"shape\":[%zu],\"base64\":\"", count);
        strcpy(w.text + w.characters, "\"}");
        w.body_length = (size_t)(w.text - w.body) + w.characters + 2;
        encode(&w);
    }
    size_t times = 1 + ((size_t)1 << 20) / w.bytes;
    for (unsigned repetition = 0; right && repetition < repetitions; repetition++)
        for (int i = 0; right && i < RUN_COUNT; i++) {
            double begin = thread_seconds();
            for (size_t j = 0; right && j < times; j++)
                right = RUNS[i].run(&w);
            ns[i][repetition] = 1e9 * (thread_seconds() - begin) / (double)times;
        }
    right = right && memcmp(w.floats, w.copy, w.bytes) == 0;
    if (right) {
        printf("%9zu floats", count);
        double copied = 0;
        for (int i = 0; i < RUN_COUNT; i++) {
            const double median = spread_of(ns[i], repetitions).median;
            printf("  %s %5.1f GB/s", RUNS[i].name, (double)w.bytes / median);
            if (i == 0)
                copied = median;
            else
                printf(" (%.2f)", copied / median);
        }
        printf("\n");
    }
    for (int i = 0; i < RUN_COUNT; i++)
        free(ns[i]);
    arena_free(&w.arena);
    free(w.floats);
    free(w.copy);
    free(w.body);
    return right;
}

int main(int argc, char **argv)
{
    unsigned repetitions = 15;
    bool right = argc == 1;
    if (argc == 3 && strcmp(argv[1], "--repetitions") == 0)
        right = (repetitions = (unsigned)strtoul(argv[2], NULL, 10)) > 0;
    if (!right) {
        fprintf(stderr, "usage: bench_base64 [--repetitions N]\n");
        return 1;
    }
    struct error error;
    if (!isa_choose(getenv("ATTND_ISA"), &error)) {
        fprintf(stderr, "%s\n", error.message);
        return 1;
    }
    printf("%s. Bytes of floats a second, medians of %u (of memcpy's)\n", isa_name(isa_chosen()), repetitions);
    static const size_t counts[] = {256, 4096, 65536, 512 * 768, 12 * 512 * 512, 64 << 18};
    for (size_t i = 0; right && i < sizeof counts / sizeof *counts; i++)
        right = measure(counts[i], repetitions);
    return right ? 0 : 1;
}
