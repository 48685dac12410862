/* Fuzzes infer requests: two bytes that say how much of the rest is JSON (65535: all), then the body. Decoded, checked
 * against a small weight set, and answered with zeros. What is accepted has the sizes that the engine will read, and
 * neither it nor its answer needs more memory than was predicted; the answer is JSON to jansson, and the bytes behind
 * it are as many as it says. */
#include "base/isa.h"
#include "codec/oip_answer.h"
#include "codec/oip_index.h"
#include "codec/oip_request.h"
#include "forward_touch.h"

#include <jansson.h>
#include <stdint.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Numbers of the largest result that is made up here. */
#define MOST_NUMBERS ((size_t)1 << 16)

static void check_answer(const struct oip_request *request, const char *text, size_t length, size_t json_length)
{
    size_t binary = 0;
    json_t *root = json_loadb(text, json_length ? json_length : length,
                              JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL | JSON_DECODE_INT_AS_REAL, NULL);
    check(root != NULL);
    const json_t *outputs = json_object_get(root, "outputs");
    check(json_array_size(outputs) == request->n_outputs);
    for (size_t i = 0; i < request->n_outputs; i++) {
        const json_t *output = json_array_get(outputs, i), *shape = json_object_get(output, "shape"),
                     *data = json_object_get(output, "data");
        size_t count = 1;
        for (size_t axis = 0; axis < json_array_size(shape); axis++)
            count *= (size_t)json_number_value(json_array_get(shape, axis));
        check(request->outputs[i].binary == !data && (!data || json_array_size(data) == count));
        binary += data ? 0 : 4 * count;
    }
    json_decref(root);
    check(json_length ? json_length + binary == length : binary == 0);
}

static void answer(const struct oip_request *request, const struct forward_input *problem)
{
    const struct oip_model model = {"name", "1", "digest"};
    struct answer_pieces pieces;
    struct arena arena = {0};
    struct error error;
    size_t bytes, json_length;
    if (!oip_answer_bytes(request, &SHAPE, problem, &bytes, &error) || bytes > 1 << 16 ||
        problem->batch * 2 * SHAPE.num_heads * problem->query_length * problem->key_length > MOST_NUMBERS)
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
    const size_t memory = oip_answer_memory(request, &SHAPE, problem);
    check(arena_reserve(&arena, memory));
    arena.capacity = memory;
    check(oip_answer_compose(request, &SHAPE, problem, &result, request->forward.compare ? &COMPARED : NULL, &model,
                             &parallel_serial, &arena, &pieces, &json_length, &error));
    check(pieces.most <= bytes);
    char *text = malloc(pieces.most);
    const char *behind = answer_pieces_write(&pieces, answer_pieces_begin(), answer_pieces_behind(&pieces), text);
    check_answer(request, text, (size_t)(behind - text), json_length);
    free(text);
    arena_free(&arena);
    free(zeros);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct oip_request request;
    struct forward_input problem;
    struct arena arena = {0};
    struct error error = {0};
    bool ready;
    if (size < 2)
        return 0;
    const size_t said = data[0] | (size_t)data[1] << 8, length = size - 2;
    char *body = malloc(length + !length); /* of just its size, aligned as a body is: tensors are used in place */
    if (length)
        memcpy(body, data + 2, length);
    memset(&request, 0x55, sizeof request);
    check(isa_choose(NULL, &error) && arena_reserve(&arena, forward_request_decoded_bytes(length)));
    if (!oip_request_decode(body, length, said == UINT16_MAX ? SIZE_MAX : said, &arena, &request, &error)) {
        check(error.code != ERROR_NONE && error.message[0] && error.code != ERROR_OUT_OF_MEMORY);
        check(arena.used == 0 && !request.forward.input.data && request.n_outputs == 0);
    } else {
        check(arena.used <= forward_request_decoded_bytes(length));
        check(request.n_outputs >= 1 && request.n_outputs <= OIP_OUTPUT_COUNT);
        if (forward_request_check(&request.forward, &SHAPE, &SETS[size % SET_COUNT], &problem, &error)) {
            touch(&request.forward, &problem);
            if (oip_request_settle(&request, &problem, &error))
                answer(&request, &problem);
            check(request.n_outputs >= 1 && request.n_outputs <= OIP_OUTPUT_COUNT);
        } else {
            oip_request_place(&request, &error);
        }
    }
    oip_index_decode(body, length, &ready, &error);
    arena_free(&arena);
    free(body);
    return 0;
}
