/* The benchmark of content codings: libdeflate, which the server uses, beside zlib, both ways, on texts as the server
 * sends and takes them, and on files. Each keeps its state from run to run, as a server does. One thread; medians of
 * the processor time.
 *
 * usage: bench_gzip [--repetitions N] [--levels N,N,...] [FILE ...] */
#include "../samples.h"
#include "base/isa.h"
#include "codec/tensor_write.h"
#include "peaked_maps.h"
#include "weights/numpy_random.h"

#include <libdeflate.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#define MOST_LEVELS 12

struct work {
    const char *text; /* [length] */
    size_t length;
    unsigned char *packed, *back; /* [capacity], [length] */
    size_t capacity, packed_length;
};

/* A library at one level. `pack` returns the length, 0 on failure. */
struct library {
    const char *name;
    int highest_level;
    void *(*packer)(int level);
    size_t (*pack)(void *packer, struct work *w);
    void (*free_packer)(void *packer);
    void *(*unpacker)(void);
    bool (*unpack)(void *unpacker, struct work *w);
    void (*free_unpacker)(void *unpacker);
};

static void *deflate_packer(int level)
{
    return libdeflate_alloc_compressor(level);
}

static size_t deflate_pack(void *packer, struct work *w)
{
    return libdeflate_gzip_compress(packer, w->text, w->length, w->packed, w->capacity);
}

static void deflate_free_packer(void *packer)
{
    libdeflate_free_compressor(packer);
}

static void *deflate_unpacker(void)
{
    return libdeflate_alloc_decompressor();
}

static bool deflate_unpack(void *unpacker, struct work *w)
{
    return libdeflate_gzip_decompress(unpacker, w->packed, w->packed_length, w->back, w->length, NULL) ==
           LIBDEFLATE_SUCCESS;
}

static void deflate_free_unpacker(void *unpacker)
{
    libdeflate_free_decompressor(unpacker);
}

static void *zlib_packer(int level)
{
    z_stream *z = calloc(1, sizeof *z);
    if (z && deflateInit2(z, level, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) != Z_OK) {
        free(z);
        return NULL;
    }
    return z;
}

static size_t zlib_pack(void *packer, struct work *w)
{
    z_stream *z = packer;
    if (deflateReset(z) != Z_OK)
        return 0;
    z->next_in = (Bytef *)(uintptr_t)w->text;
    z->avail_in = (uInt)w->length;
    z->next_out = w->packed;
    z->avail_out = (uInt)w->capacity;
    return deflate(z, Z_FINISH) == Z_STREAM_END ? (size_t)z->total_out : 0;
}

static void zlib_free_packer(void *packer)
{
    if (packer)
        deflateEnd(packer);
    free(packer);
}

static void *zlib_unpacker(void)
{
    z_stream *z = calloc(1, sizeof *z);
    if (z && inflateInit2(z, 15 + 16) != Z_OK) {
        free(z);
        return NULL;
    }
    return z;
}

static bool zlib_unpack(void *unpacker, struct work *w)
{
    z_stream *z = unpacker;
    if (inflateReset(z) != Z_OK)
        return false;
    z->next_in = w->packed;
    z->avail_in = (uInt)w->packed_length;
    z->next_out = w->back;
    z->avail_out = (uInt)w->length;
    return inflate(z, Z_FINISH) == Z_STREAM_END && z->total_out == w->length;
}

static void zlib_free_unpacker(void *unpacker)
{
    if (unpacker)
        inflateEnd(unpacker);
    free(unpacker);
}

static const struct library LIBRARIES[] = {
    {"libdeflate", 12, deflate_packer, deflate_pack, deflate_free_packer, deflate_unpacker, deflate_unpack,
     deflate_free_unpacker},
    {"zlib", 9, zlib_packer, zlib_pack, zlib_free_packer, zlib_unpacker, zlib_unpack, zlib_free_unpacker},
};

static bool measure_level(const struct library *library, int level, struct work *w, unsigned repetitions, double *ns)
{
    const size_t times = 1 + ((size_t)1 << 19) / w->length;
    void *packer = library->packer(level), *unpacker = library->unpacker();
    bool right = packer && unpacker;
    for (unsigned i = 0; right && i < repetitions; i++) {
        double begin = thread_seconds();
        for (size_t j = 0; right && j < times; j++)
            right = (w->packed_length = library->pack(packer, w)) > 0;
        ns[i] = 1e9 * (thread_seconds() - begin) / (double)times;
        begin = thread_seconds();
        for (size_t j = 0; right && j < times; j++)
            right = library->unpack(unpacker, w);
        ns[repetitions + i] = 1e9 * (thread_seconds() - begin) / (double)times;
    }
    right = right && memcmp(w->text, w->back, w->length) == 0;
    if (right) {
        const double pack_ns = spread_of(ns, repetitions).median,
                     unpack_ns = spread_of(ns + repetitions, repetitions).median;
        printf("    %-10s level %2d  %5.1f %% left  compress %7.1f MB/s, %8.1f us  decompress %7.1f MB/s, %8.1f us\n",
               library->name, level, 100.0 * (double)w->packed_length / (double)w->length,
               1e3 * (double)w->length / pack_ns, pack_ns / 1e3, 1e3 * (double)w->length / unpack_ns, unpack_ns / 1e3);
    }
    library->free_packer(packer);
    library->free_unpacker(unpacker);
    return right;
}

static bool measure_text(const char *name, const char *text, size_t length, const int levels[MOST_LEVELS],
                         size_t n_levels, unsigned repetitions)
{
    struct work w = {.text = text, .length = length, .capacity = length + length / 8 + 4096};
    double *ns = calloc(2 * repetitions, sizeof *ns);
    w.packed = malloc(w.capacity);
    w.back = malloc(length);
    bool right = ns && w.packed && w.back;
    printf("%s, %zu bytes\n", name, length);
    for (size_t i = 0; right && i < n_levels; i++)
        for (size_t j = 0; right && j < sizeof LIBRARIES / sizeof *LIBRARIES; j++)
            if (levels[i] <= LIBRARIES[j].highest_level)
                right = measure_level(&LIBRARIES[j], levels[i], &w, repetitions, ns);
    free(ns);
    free(w.packed);
    free(w.back);
    return right;
}

static void append_tensor(struct text *text, const struct tensor_rows *tensor)
{
    const size_t n_rows = tensor_rows_count(tensor);
    char *to = text_reserve(text, n_rows * tensor_rows_bytes(tensor));
    if (to)
        text->length += (size_t)(tensor_rows_write(to, tensor, 0, n_rows) - to);
}

/* The maps and output of a forward, as its answer has them. */
static bool answer_text(size_t length, int decimals, struct text *text)
{
    struct peaked_maps made;
    struct error error;
    if (!peaked_maps_make(&made, length, 64, 8, &error))
        return false;
    const size_t output_shape[] = {1, length, 64}, maps_shape[] = {1, 8, length, length};
    text_append_string(text, "{\"output\":");
    append_tensor(text, &(struct tensor_rows){.data = made.output,
                                              .shape = output_shape,
                                              .rank = 3,
                                              .decimals = decimals,
                                              .number_bytes = tensor_write_number_bytes(decimals)});
    text_append_string(text, ",\"attention\":");
    append_tensor(text, &(struct tensor_rows){.data = made.maps,
                                              .shape = maps_shape,
                                              .rank = 4,
                                              .decimals = decimals,
                                              .number_bytes = tensor_write_weight_bytes(decimals)});
    text_append_string(text, "}");
    peaked_maps_free(&made);
    return !text->failed;
}

/* As Python's json.dumps writes float32 numbers that became doubles. */
static bool request_text(size_t length, struct text *text)
{
    struct numpy_random random;
    numpy_random_seed(&random, 7);
    text_append_string(text, "{\"input\": [[");
    for (size_t i = 0; i < length; i++)
        for (size_t j = 0; j < 64; j++)
            text_append_format(text, "%s%.17g",
                               j   ? ", "
                               : i ? "], ["
                                   : "",
                               (double)(float)numpy_random_normal(&random));
    text_append_string(text, "]]}");
    return !text->failed;
}

static bool file_text(const char *path, struct text *text)
{
    char piece[4096];
    FILE *file = fopen(path, "rb");
    if (!file)
        return false;
    for (size_t got; (got = fread(piece, 1, sizeof piece, file)) > 0;)
        text_append(text, piece, got);
    bool read = !ferror(file) && text->length > 0;
    fclose(file);
    return read && !text->failed;
}

static size_t read_levels(const char *list, int levels[MOST_LEVELS])
{
    size_t count = 0;
    while (count < MOST_LEVELS) {
        char *end;
        long level = strtol(list, &end, 10);
        if (end == list || level < 1 || level > 12)
            return 0;
        levels[count++] = (int)level;
        if (*end != ',')
            return *end ? 0 : count;
        list = end + 1;
    }
    return 0;
}

int main(int argc, char **argv)
{
    unsigned repetitions = 9;
    int levels[MOST_LEVELS] = {1, 6}, first = 1;
    size_t n_levels = 2;
    struct error error;
    bool right = isa_choose(getenv("ATTND_ISA"), &error);
    for (; first + 1 < argc && strncmp(argv[first], "--", 2) == 0 && right; first += 2) {
        if (strcmp(argv[first], "--repetitions") == 0)
            right = (repetitions = (unsigned)strtoul(argv[first + 1], NULL, 10)) > 0;
        else
            right = strcmp(argv[first], "--levels") == 0 && (n_levels = read_levels(argv[first + 1], levels)) > 0;
    }
    if (!right) {
        fprintf(stderr, "usage: bench_gzip [--repetitions N] [--levels N,N,...] [FILE ...]\n");
        return 1;
    }
    static const struct {
        const char *name;
        size_t length;
        int decimals;
    } answers[] = {
        {"answer of 4 tokens", 4, -1}, {"answer of 64 tokens", 64, -1}, {"answer of 64 tokens, 4 decimals", 64, 4}};
    for (size_t i = 0; right && i < sizeof answers / sizeof *answers; i++) {
        struct text text = {0};
        right = answer_text(answers[i].length, answers[i].decimals, &text) &&
                measure_text(answers[i].name, text.data, text.length, levels, n_levels, repetitions);
        text_free(&text);
    }
    static const size_t requests[] = {4, 512};
    for (size_t i = 0; right && i < sizeof requests / sizeof *requests; i++) {
        struct text text = {0};
        right = request_text(requests[i], &text) &&
                measure_text("request", text.data, text.length, levels, n_levels, repetitions);
        text_free(&text);
    }
    for (int i = first; right && i < argc; i++) {
        struct text text = {0};
        right =
            file_text(argv[i], &text) && measure_text(argv[i], text.data, text.length, levels, n_levels, repetitions);
        text_free(&text);
    }
    return right ? 0 : 1;
}
