/* Fuzzes requests of /v1/heads/similarity, as JSON and, where the text is a safetensors file, as that: decoded in
 * memory of the size that was promised to suffice, checked, and, where they hold maps, compared and answered. The
 * answer is JSON to jansson too, and no longer than was predicted. */
#include "analysis/head_maps_check.h"
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
    check(similarity_answer_bytes(request, found->num_heads, "name", &most));
    check(similarity_answer_encode(request, found, "name", "digest", &text, &error) && text.length <= most);
    json_t *root =
        json_loadb(text.data, text.length, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL | JSON_DECODE_INT_AS_REAL, NULL);
    check(root != NULL);
    json_decref(root);
    text_free(&text);
}

/* The maps are prepared. */
static void compare(const struct similarity_request *request, const struct head_maps *maps)
{
    const size_t heads = maps->num_heads, pairs = size_min(similarity_pairs_most(request, heads), 4096);
    struct similarity_found found = {.similarity = {.similarity = calloc(heads * heads, sizeof(double))},
                                     .num_heads = heads,
                                     .redundancy = calloc(heads, sizeof(double)),
                                     .clusters = calloc(heads, sizeof(uint32_t)),
                                     .pairs = calloc(pairs + 1, sizeof(struct head_pair))};
    struct arena scratch = {0};
    struct error error = {0};
    size_t bytes;
    check(head_similarity_bytes(&request->question, maps, 0, 1, &bytes) && arena_reserve(&scratch, bytes));
    if (head_similarity_run(&request->question, maps, NULL, 0, &parallel_serial, &scratch, &found.similarity, &error)) {
        check_matrix(found.similarity.similarity, heads);
        found.n_clusters = head_clusters(found.similarity.similarity, heads, request->threshold, found.clusters);
        head_redundancy(found.similarity.similarity, heads, found.redundancy);
        found.n_pairs = head_pairs(found.similarity.similarity, heads, found.pairs, pairs);
        answer(request, &found);
    } else {
        expect_said(&error);
    }
    free(found.similarity.similarity);
    free(found.redundancy);
    free(found.clusters);
    free(found.pairs);
    arena_free(&scratch);
}

static void check_and_compare(const struct similarity_request *request)
{
    const struct analysis_request *analysis = &request->analysis;
    struct forward_input rule;
    struct arena prepared = {0};
    struct error error = {0};
    struct maps_extent extent;
    size_t bytes;
    if (!analysis_request_has_maps(analysis))
        return;
    check(request->question.subject == SIMILARITY_OF_ATTENTION);
    if (!analysis_request_check_maps(analysis, &rule, &extent, &error)) {
        expect_said(&error);
        return;
    }
    struct head_maps maps = analysis_request_maps(analysis, &rule, analysis->attention.data, &extent);
    if (!head_maps_check(&maps, analysis_request_tolerance(analysis), &parallel_serial, &error)) {
        expect_said(&error);
        return;
    }
    if (analysis->attention.count > 1 << 16 || extent.num_heads > 256)
        return; /* would take long */
    check(head_maps_bytes(&maps, &bytes) && arena_reserve(&prepared, bytes));
    if (head_maps_prepare(&maps, &prepared, &error))
        compare(request, &maps);
    else
        expect_said(&error);
    arena_free(&prepared);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t *exact = malloc(size + !size);
    struct arena arena = {0};
    struct error error = {0};
    if (size)
        memcpy(exact, data, size);
    check(isa_choose(NULL, &error) && arena_reserve(&arena, forward_request_decoded_bytes(size)));
    for (enum body_form form = BODY_JSON; form <= BODY_SAFETENSORS; form++) {
        struct similarity_request request;
        if (similarity_request_decode(&(struct request_body){form, (const char *)exact, size}, &arena, &request,
                                      &error))
            check_and_compare(&request);
        else
            check(error.code != ERROR_OUT_OF_MEMORY && error.message[0] && arena.used == 0);
        arena_reset(&arena);
    }
    arena_free(&arena);
    free(exact);
    return 0;
}
