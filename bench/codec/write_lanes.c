/* How much sooner a large answer is written by several workers than by one: the pieces of an answer, range by range as
 * a stream takes them, as tiles of the server's own pool. Wall time.
 * usage: bench_write_lanes [LANES] (2 where it is left out) */
#include "../lanes.h"
#include "../samples.h"
#include "base/clock.h"
#include "codec/answer_pieces.h"
#include "engine/attention.h"
#include "peaked_maps.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define REPETITIONS 31
#define RANGE_BYTES ((size_t)256 << 10) /* a slot of a stream */
#define MOST_RANGES 512

struct writing {
    struct answer_pieces *pieces;
    struct answer_cursor at[MOST_RANGES + 1];
    char *text[MOST_RANGES];
    size_t count;
};

static void write_range(void *argument, size_t index, unsigned lane)
{
    struct writing *writing = argument;
    (void)lane;
    answer_pieces_write(writing->pieces, writing->at[index], writing->at[index + 1], writing->text[index]);
}

static void write_all(const struct parallel *parallel, void *argument)
{
    struct writing *writing = argument;
    parallel->run(parallel->context, writing->count, write_range, writing);
}

/* Every range into memory of its own, as many as a ring has, touched before. */
static bool share_out(struct writing *writing, char *ring, size_t slots)
{
    struct answer_cursor cursor = answer_pieces_begin();
    for (writing->count = 0; !answer_pieces_at_end(writing->pieces, cursor); writing->count++) {
        if (writing->count == MOST_RANGES)
            return false;
        writing->at[writing->count] = cursor;
        writing->text[writing->count] = ring + writing->count % slots * RANGE_BYTES;
        answer_pieces_advance(writing->pieces, &cursor, RANGE_BYTES);
    }
    writing->at[writing->count] = cursor;
    return true;
}

static bool measure_shape(const char *name, size_t length, size_t d_model, size_t heads, unsigned count,
                          struct lanes *one, struct lanes *many, struct error *error)
{
    enum { SLOTS = 8 };
    struct peaked_maps made;
    struct answer_pieces pieces;
    struct arena arena = {0};
    static struct writing writing;
    static double alone[REPETITIONS], shared[REPETITIONS], ratios[REPETITIONS];
    const size_t shape[] = {heads, length, length};
    char *ring = malloc(SLOTS * RANGE_BYTES);
    bool right = ring && arena_reserve(&arena, 4096) && answer_pieces_init(&pieces, &arena, 1, 64);
    if (!right)
        error_out_of_memory(error);
    if (!right || !peaked_maps_make(&made, length, d_model, heads, error))
        goto end;
    memset(ring, 0, SLOTS * RANGE_BYTES);
    const struct tensor_rows rows = {
        .data = made.maps, .shape = shape, .rank = 3, .decimals = -1, .number_bytes = tensor_write_weight_bytes(-1)};
    answer_pieces_add_rows(&pieces, &rows);
    writing.pieces = &pieces;
    right = answer_pieces_end(&pieces) && share_out(&writing, ring, SLOTS);
    for (int i = -1; right && i < REPETITIONS; i++) {
        const uint64_t begin = clock_ns();
        right = lanes_run(one, 1e9, write_all, &writing, error);
        const uint64_t middle = clock_ns();
        right = right && lanes_run(many, 1e9, write_all, &writing, error);
        if (i >= 0) {
            alone[i] = (double)(middle - begin) / 1e6;
            shared[i] = (double)(clock_ns() - middle) / 1e6;
            ratios[i] = alone[i] / shared[i];
        }
    }
    if (right) {
        const struct spread ratio = spread_of(ratios, REPETITIONS);
        printf(
            "%s maps [1,%zu,%zu,%zu], %zu ranges: %.2f ms with 1 worker, %.2f ms with %u; ratio %.2f (%.2f to %.2f)\n",
            name, heads, length, length, writing.count, spread_of(alone, REPETITIONS).median,
            spread_of(shared, REPETITIONS).median, count, ratio.median, ratio.low, ratio.high);
    }
    peaked_maps_free(&made);
end:
    arena_free(&arena);
    free(ring);
    return right;
}

int main(int argc, char **argv)
{
    const unsigned count = argc > 1 ? (unsigned)strtoul(argv[1], NULL, 10) : 2;
    struct error error = {0};
    struct lanes *one = NULL, *many = NULL;
    bool right = count > 0 && engine_init(getenv("ATTND_ISA"), &error) && (one = lanes_create(1, &error)) &&
                 (many = lanes_create(count, &error)) && measure_shape("S3", 128, 768, 12, count, one, many, &error) &&
                 measure_shape("S5", 512, 512, 8, count, one, many, &error);
    if (!right)
        fprintf(stderr, "%s: %s\n", argv[0], error.message);
    lanes_free(one);
    lanes_free(many);
    return right ? EXIT_SUCCESS : EXIT_FAILURE;
}
