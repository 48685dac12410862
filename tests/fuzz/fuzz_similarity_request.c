/* Fuzzes requests of /v1/heads/similarity, as JSON and, where the text is a safetensors file, as that: decoded in
 * memory of the size that was promised to suffice, checked, and, where they hold maps, compared and answered. The
 * answer is JSON to jansson too, and no longer than was predicted. */
#include "analysis/head_maps_check.h"
#include "analysis/layer_similarity.h"
#include "base/isa.h"
#include "codec/similarity_answer.h"
#include "forward_touch.h"

#include <jansson.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void expect_said(const struct error *error)
{
    check(error->code != ERROR_NONE && error->code != ERROR_OUT_OF_MEMORY && error->message[0]);
}

/* Symmetric, within [-1, 1] but for rows that do not quite sum to 1, 1 on the diagonal. */
static void check_matrix(const double *similarity, size_t heads)
{
    for (size_t a = 0; a < heads; a++)
        for (size_t b = 0; b < heads; b++) {
            const double value = similarity[a * heads + b];
            check(isnan(value) ? isnan(similarity[b * heads + a]) : value == similarity[b * heads + a]);
            check(isnan(value) || (value >= -1.2 && value <= 1 && (a != b || value == 1)));
        }
}

static void answer(const struct similarity_request *request, const struct similarity_found *found)
{
    struct text text = {0};
    struct error error = {0};
    size_t most;
    check(similarity_answer_bytes(request, &found->extent, "name", &most));
    check(similarity_answer_encode(request, found, "name", "digest", &text, &error) && text.length <= most);
    json_t *root =
        json_loadb(text.data, text.length, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL | JSON_DECODE_INT_AS_REAL, NULL);
    check(root != NULL);
    json_decref(root);
    text_free(&text);
}

/* Fills the matrices, the maps of each layer being prepared. */
static bool fill(const struct similarity_request *request, const struct head_maps *maps, struct similarity_found *found,
                 struct error *error)
{
    const size_t heads = found->extent.num_heads, layers = size_max(found->extent.num_layers, 1);
    struct head_similarity *all = &found->similarity;
    struct arena scratch = {0};
    size_t bytes;
    bool filled = true;
    if (found->extent.num_layers && request->across == SIMILARITY_ACROSS_MODEL) {
        check(layer_similarity_bytes(&request->question, maps, layers, 0, 1, &bytes) && arena_reserve(&scratch, bytes));
        filled =
            layer_similarity_run(&request->question, maps, layers, NULL, 0, &parallel_serial, &scratch, all, error);
        check(scratch.used <= bytes);
        arena_free(&scratch);
        return filled;
    }
    for (size_t layer = 0; layer < layers && filled; layer++) {
        struct head_similarity one = {.similarity = all->similarity + layer * heads * heads,
                                      .diversity = all->diversity + layer};
        check(head_similarity_bytes(&request->question, &maps[layer], 0, 1, &bytes) && arena_reserve(&scratch, bytes));
        filled =
            head_similarity_run(&request->question, &maps[layer], NULL, 0, &parallel_serial, &scratch, &one, error);
        arena_free(&scratch);
    }
    return filled;
}

static void compare(const struct similarity_request *request, const struct head_maps *maps,
                    const struct maps_extent *extent)
{
    const struct similarity_blocks_of blocks = similarity_blocks_compared(request, extent);
    const size_t pairs = size_min(similarity_pairs_most(request, extent), 4096), all = blocks.count * blocks.heads;
    struct similarity_found found = {.similarity = {.similarity = calloc(all * blocks.heads, sizeof(double)),
                                                    .diversity = calloc(all, sizeof(double))},
                                     .extent = *extent,
                                     .redundancy = calloc(all, sizeof(double)),
                                     .clusters = calloc(all, sizeof(uint32_t)),
                                     .n_clusters = calloc(blocks.count, sizeof(size_t)),
                                     .pairs = calloc(pairs + 1, sizeof(struct head_pair))};
    struct error error = {0};
    if (fill(request, maps, &found, &error)) {
        for (size_t block = 0; block < blocks.count; block++) {
            const double *matrix = found.similarity.similarity + block * blocks.heads * blocks.heads;
            check_matrix(matrix, blocks.heads);
            found.n_clusters[block] =
                head_clusters(matrix, blocks.heads, request->threshold, found.clusters + block * blocks.heads);
            head_redundancy(matrix, blocks.heads, found.redundancy + block * blocks.heads);
        }
        found.n_pairs = head_pairs(found.similarity.similarity, blocks.count, blocks.heads, found.pairs, pairs);
        answer(request, &found);
    } else {
        expect_said(&error);
    }
    free(found.similarity.similarity);
    free(found.similarity.diversity);
    free(found.redundancy);
    free(found.clusters);
    free(found.n_clusters);
    free(found.pairs);
}

#define LAYERS_MOST 16

static void check_and_compare(const struct similarity_request *request)
{
    const struct analysis_request *analysis = &request->analysis;
    struct forward_input rule;
    struct maps_extent extent;
    struct head_maps layers[LAYERS_MOST];
    struct arena prepared[LAYERS_MOST] = {{0}};
    struct error error = {0};
    bool right = true, stray = false;
    size_t bytes;
    if (!analysis_request_has_maps(analysis))
        return;
    check(request->question.subject == SIMILARITY_OF_ATTENTION);
    if (!analysis_request_check_maps(analysis, &rule, &extent, &error)) {
        expect_said(&error);
        return;
    }
    const size_t count = size_max(extent.num_layers, 1);
    if (analysis->attention.count > 1 << 16 || count > LAYERS_MOST || count * extent.num_heads > 256)
        return; /* would take long */
    for (size_t layer = 0; layer < count && right; layer++) {
        layers[layer] = analysis_request_maps(analysis, &rule, analysis->attention.data, &extent);
        layers[layer].layer = forward_request_layer(&analysis->forward, layer);
        right = head_maps_check(&layers[layer], analysis_request_tolerance(analysis), &parallel_serial, &error);
        stray |= layers[layer].stray;
    }
    for (size_t layer = 0; layer < count && right; layer++) {
        layers[layer].stray = stray;
        check(head_maps_bytes(&layers[layer], &bytes) && arena_reserve(&prepared[layer], bytes));
        right = head_maps_prepare(&layers[layer], &prepared[layer], &error);
    }
    if (right)
        compare(request, layers, &extent);
    else
        expect_said(&error);
    for (size_t layer = 0; layer < LAYERS_MOST; layer++)
        arena_free(&prepared[layer]);
}

static void decode(const struct request_body *body, struct arena *arena)
{
    struct similarity_request request;
    struct error error = {0};
    if (similarity_request_decode(body, arena, &request, &error))
        check_and_compare(&request);
    else
        expect_refused(&error, arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct error error;
    check(isa_choose(NULL, &error));
    decode_each_form(data, size, decode);
    return 0;
}
