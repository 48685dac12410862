/* Fuzzes requests given as safetensors: decoded, checked against a small weight set, and answered with zeros in the
 * same form. What is accepted has the sizes that the engine will read, and neither it, nor jansson while it is read,
 * nor the answer needs more memory than was predicted; the answer is a right file. */
#include "codec/forward_tensors.h"
#include "codec/importance_request.h"
#include "codec/safetensors.h"
#include "forward_touch.h"

#include <jansson.h>
#include <stdint.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The heap that jansson holds, and has held at most. Each piece has its size before it. */
static size_t held, most_held;
#define SIZE_BEFORE 16

static void *take(size_t size)
{
    char *memory = malloc(SIZE_BEFORE + size);
    if (!memory)
        return NULL;
    memcpy(memory, &size, sizeof size);
    held += size;
    most_held = held > most_held ? held : most_held;
    return memory + SIZE_BEFORE;
}

static void give(void *memory)
{
    size_t size;
    if (!memory)
        return;
    memcpy(&size, (char *)memory - SIZE_BEFORE, sizeof size);
    held -= size;
    free((char *)memory - SIZE_BEFORE);
}

/* Numbers of the largest result that is made up here. */
#define MOST_NUMBERS ((size_t)1 << 20)

static void answer(const struct forward_request *request, const struct forward_input *problem)
{
    const struct forward_timing timing = {0};
    struct answer_pieces pieces;
    struct safetensors file;
    struct arena arena = {0};
    struct error error;
    size_t bytes;
    if (!forward_tensors_bytes(request, &SHAPE, problem, &bytes, &error) || bytes > 1 << 16 ||
        problem->batch * SHAPE.num_heads * problem->query_length * problem->key_length > MOST_NUMBERS)
        return;
    float *zeros = calloc(MOST_NUMBERS, sizeof *zeros);
    const struct forward_result result = {.output = zeros,
                                          .attention = zeros,
                                          .heads = zeros,
                                          .query = zeros,
                                          .key = zeros,
                                          .value = zeros,
                                          .hidden_states = zeros,
                                          .output_std = zeros,
                                          .heads_used = (void *)zeros,
                                          .approximate = true};
    check(arena_reserve(&arena, forward_tensors_memory(request, &SHAPE, problem)));
    check(forward_tensors_compose(request, &SHAPE, problem, &result, request->compare ? &COMPARED : NULL, "name",
                                  "digest", &timing, &parallel_serial, &arena, &pieces, &error));
    check(pieces.most <= bytes && pieces.raw && pieces.exact);
    char *text = malloc(pieces.most);
    const char *behind = answer_pieces_write(&pieces, answer_pieces_begin(), answer_pieces_behind(&pieces), text);
    check(behind == text + pieces.most);
    check(safetensors_open(text, pieces.most, &file, &error));
    check(file.count >= 1 && file.metadata_count >= 5);
    safetensors_close(&file);
    free(text);
    arena_free(&arena);
    free(zeros);
}

/* The other route's table, over the same file. */
static void importance(const struct request_body *body, struct arena *arena)
{
    struct importance_request request;
    struct error error = {0};
    arena_reset(arena);
    if (!importance_request_decode(body, arena, &request, &error))
        check(error.code != ERROR_NONE && error.message[0] && error.code != ERROR_OUT_OF_MEMORY && arena->used == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    /* Memory of just its size, aligned as a body's is: tensors are used in place. */
    uint8_t *exact = malloc(size + !size);
    const struct request_body body = {BODY_SAFETENSORS, (const char *)exact, size};
    struct forward_request request;
    struct forward_input problem;
    struct arena arena = {0};
    struct error error = {0};
    json_set_alloc_funcs(take, give);
    held = most_held = 0;
    if (size)
        memcpy(exact, data, size);
    memset(&request, 0x55, sizeof request);
    check(arena_reserve(&arena, forward_request_decoded_bytes(size)));
    const bool right = forward_request_decode(&body, &arena, &request, &error);
    check(held == 0 && most_held <= request_body_heap_bytes(&body) + 4096);
    if (!right) {
        check(error.code != ERROR_NONE && error.message[0] && error.code != ERROR_OUT_OF_MEMORY);
        check(arena.used == 0 && !request.input.data && !request.weights);
    } else {
        check(arena.used <= forward_request_decoded_bytes(size));
        for (size_t i = 0; i < SET_COUNT; i++)
            if (forward_request_check(&request, &SHAPE, &SETS[i], &problem, &error)) {
                touch(&request, &problem);
                answer(&request, &problem);
            }
    }
    importance(&body, &arena);
    arena_free(&arena);
    free(exact);
    return 0;
}
