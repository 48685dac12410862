/* Fuzzes requests of /v1/heads/rollout, as JSON and, where the text is a safetensors file, as that: decoded in memory
 * of the size that was promised to suffice, checked, and, where they hold maps, rolled out and answered in every form.
 * The answer is JSON to jansson, or a right file, and no longer than was predicted. */
#include "analysis/head_maps_check.h"
#include "base/isa.h"
#include "codec/rollout_answer.h"
#include "codec/safetensors.h"
#include "engine/attention.h"
#include "forward_touch.h"

#include <jansson.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void expect_said(const struct error *error)
{
    check(error->code != ERROR_NONE && error->code != ERROR_OUT_OF_MEMORY && error->message[0]);
}

static void answer(const struct rollout_request *request, const struct rollout_found *found)
{
    struct arena arena = {0};
    struct answer_pieces pieces;
    struct error error = {0};
    struct safetensors file;
    size_t most;
    check(rollout_answer_bytes(request, found, NULL, &most));
    check(arena_reserve(&arena, rollout_answer_memory(request, NULL)));
    check(rollout_answer_compose(request, found, NULL, NULL, &arena, &pieces, &error));
    check(pieces.most <= most);
    char *text = malloc(pieces.most);
    const char *behind = answer_pieces_write(&pieces, answer_pieces_begin(), answer_pieces_behind(&pieces), text);
    check(behind <= text + pieces.most);
    if (request->analysis.forward.encoding == ENCODING_SAFETENSORS) {
        check(safetensors_open(text, (size_t)(behind - text), &file, &error) && file.count == 1);
        safetensors_close(&file);
    } else {
        json_t *root = json_loadb(text, (size_t)(behind - text),
                                  JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL | JSON_DECODE_INT_AS_REAL, NULL);
        check(root != NULL);
        json_decref(root);
    }
    free(text);
    arena_free(&arena);
}

/* Whether the maps of all layers are maps. */
static bool are_maps(const struct rollout_request *request, struct head_maps *maps)
{
    struct error error = {0};
    bool stray = false;
    for (maps->layer = 0; maps->layer < maps->num_layers; maps->layer++) {
        if (!head_maps_check(maps, analysis_request_tolerance(&request->analysis), &parallel_serial, &error)) {
            expect_said(&error);
            return false;
        }
        stray |= maps->stray;
    }
    maps->stray = stray;
    return true;
}

static void roll_out(struct rollout_request *request)
{
    struct forward_input rule;
    struct maps_extent extent;
    struct arena arena = {0};
    struct error error = {0};
    size_t bytes;
    if (!analysis_request_has_maps(&request->analysis))
        return;
    if (!rollout_request_check_maps(request, &rule, &extent, &error)) {
        expect_said(&error);
        return;
    }
    struct head_maps maps = analysis_request_maps(&request->analysis, &rule, request->analysis.attention.data, &extent);
    if (!are_maps(request, &maps) || request->analysis.attention.count > 1 << 16)
        return;
    const struct rollout rollout = {.attention = maps.weights,
                                    .batch = rule.batch,
                                    .num_layers = extent.num_layers,
                                    .num_heads = extent.num_heads,
                                    .length = rule.query_length,
                                    .fusion = request->fusion,
                                    .per_head = request->per_head,
                                    .rule = &rule,
                                    .renormalize = request->analysis.renormalize};
    float *result = calloc(rule.batch * extent.num_heads * rule.query_length * rule.query_length, sizeof *result);
    const struct rollout_found found = {&rollout, rule.rank2, result};
    check(rollout_scratch_bytes(&rollout, 1, &bytes) && arena_reserve(&arena, bytes));
    check(rollout_run(&rollout, &parallel_serial, &arena, result, &error));
    answer(request, &found);
    request->analysis.forward.encoding = ENCODING_SAFETENSORS;
    answer(request, &found);
    free(result);
    arena_free(&arena);
}

static void decode(const struct request_body *body, struct arena *arena)
{
    struct rollout_request request;
    struct error error = {0};
    if (rollout_request_decode(body, arena, &request, &error))
        roll_out(&request);
    else
        expect_refused(&error, arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct error error;
    check(engine_init(NULL, &error));
    decode_each_form(data, size, decode);
    return 0;
}
