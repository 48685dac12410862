/* Fuzzes whole requests: decoded, checked against a small weight set, and answered with zeros. What is accepted is JSON
 * to jansson too, its tensors have the sizes that the engine will read, and neither it nor its answer needs more memory
 * than was predicted. */
#include "base/isa.h"
#include "codec/forward_answer.h"
#include "codec/forward_request.h"
#include "forward_touch.h"

#include <jansson.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void answer(const struct forward_request *request, const struct forward_input *problem)
{
    const struct forward_timing timing = {0};
    struct answer_pieces pieces;
    struct arena arena = {0};
    struct error error;
    size_t bytes;
    if (!forward_answer_bytes(request, &SHAPE, problem, &bytes, &error) || bytes > 1 << 16)
        return;
    float *zeros = calloc(bytes, sizeof *zeros); /* every number has a byte of text at least */
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
    check(arena_reserve(&arena, forward_answer_memory(request, &SHAPE, problem)));
    check(forward_answer_compose(request, &SHAPE, problem, &result, request->compare ? &COMPARED : NULL, "name",
                                 "digest", &timing, &parallel_serial, &arena, &pieces, &error));
    check(pieces.most <= bytes);
    char *text = malloc(pieces.most);
    const char *behind = answer_pieces_write(&pieces, answer_pieces_begin(), answer_pieces_behind(&pieces), text);
    json_t *root = json_loadb(text, (size_t)(behind - text),
                              JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL | JSON_DECODE_INT_AS_REAL, NULL);
    check(root != NULL);
    json_decref(root);
    free(text);
    arena_free(&arena);
    free(zeros);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct forward_request request;
    struct forward_input problem;
    struct arena arena = {0};
    struct error error = {0};
    memset(&request, 0x55, sizeof request);
    check(isa_choose(NULL, &error) && arena_reserve(&arena, forward_request_decoded_bytes(size)));
    if (!forward_request_decode(&(struct request_body){BODY_JSON, (const char *)data, size}, &arena, &request,
                                &error)) {
        check(error.code != ERROR_NONE && error.message[0] && error.code != ERROR_OUT_OF_MEMORY);
        check(arena.used == 0 && !request.input.data && !request.weights);
        arena_free(&arena);
        return 0;
    }
    check(arena.used <= forward_request_decoded_bytes(size));
    json_t *root =
        json_loadb((const char *)data, size, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL | JSON_DECODE_INT_AS_REAL, NULL);
    check(root != NULL);
    json_decref(root);
    for (size_t i = 0; i < SET_COUNT; i++)
        if (forward_request_check(&request, &SHAPE, &SETS[i], &problem, &error)) {
            touch(&request, &problem);
            answer(&request, &problem);
        }
    arena_free(&arena);
    return 0;
}
