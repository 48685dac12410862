/* Fuzzes requests of /v1/heads/stats and /v1/heads/links, as JSON and, where the text is a safetensors file, as that:
 * decoded in memory of the size that was promised to suffice, checked, and, where they hold maps, measured and
 * answered. The answer is JSON to jansson too, and no longer than was predicted. */
#include "analysis/head_links.h"
#include "analysis/head_maps_check.h"
#include "analysis/head_statistics.h"
#include "base/isa.h"
#include "codec/links_answer.h"
#include "codec/stats_answer.h"
#include "forward_touch.h"

#include <jansson.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void expect_json(struct text *text, size_t most)
{
    check(!text->failed && text->length <= most);
    json_t *root =
        json_loadb(text->data, text->length, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL | JSON_DECODE_INT_AS_REAL, NULL);
    check(root != NULL);
    json_decref(root);
    text_free(text);
}

static void expect_said(const struct error *error)
{
    check(error->code != ERROR_NONE && error->code != ERROR_OUT_OF_MEMORY && error->message[0]);
}

/* The maps, checked. False where the request is refused, or would take long. */
static bool checked(const struct analysis_request *request, struct forward_input *rule, struct head_maps *maps)
{
    struct error error = {0};
    struct maps_extent extent;
    if (!analysis_request_has_maps(request))
        return false;
    if (!analysis_request_check_maps(request, rule, &extent, &error)) {
        expect_said(&error);
        return false;
    }
    *maps = analysis_request_maps(request, rule, request->attention.data, &extent);
    if (!head_maps_check(maps, analysis_request_tolerance(request), &parallel_serial, &error)) {
        expect_said(&error);
        return false;
    }
    return request->attention.count <= 1 << 16;
}

static void measure(const struct stats_request *request)
{
    struct forward_input rule;
    struct head_maps maps;
    struct arena arena = {0};
    struct error error = {0};
    struct text text = {0};
    size_t bytes, most;
    if (!checked(&request->analysis, &rule, &maps))
        return;
    const struct forward_request *forward = &request->analysis.forward;
    const size_t heads = forward->include_heads ? forward->n_include_heads : maps.num_heads;
    const size_t positions = heads * rule.batch * rule.query_length;
    struct stats_found found = {
        .rule = &rule,
        .n_heads = heads,
        .statistics = {calloc(heads * HEAD_STATISTIC_COUNT, sizeof(struct ratio_sums)),
                       calloc(heads, sizeof(struct head_peaks)), request->per_position ? calloc(positions, 4) : NULL,
                       request->per_position ? calloc(positions, 4) : NULL},
    };
    check(head_statistics_scratch_bytes(&maps, heads, 1, &bytes) && arena_reserve(&arena, bytes));
    if (head_statistics_run(&maps, forward->include_heads, heads, &parallel_serial, &arena, &found.statistics,
                            &error)) {
        found.n_rows = maps.n_rows;
        found.n_excluded = maps.n_excluded;
        found.aligned = maps.aligned;
        check(stats_answer_bytes(request, &rule, heads, "name", &most));
        check(stats_answer_encode(request, &found, "name", "digest", &text, &error));
        expect_json(&text, most);
    } else {
        expect_said(&error);
    }
    free(found.statistics.means);
    free(found.statistics.peaks);
    free(found.statistics.entropy_per_position);
    free(found.statistics.distance_per_position);
    arena_free(&arena);
}

static void link_up(const struct links_request *request)
{
    struct forward_input rule;
    struct head_maps maps;
    struct arena arena = {0};
    struct error error = {0};
    struct text text = {0};
    size_t bytes, most;
    if (!checked(&request->analysis, &rule, &maps))
        return;
    if (!links_request_check_tokens(request, &rule, &error)) {
        expect_said(&error);
        return;
    }
    struct head_links links = {.top_k = size_min(request->top_k, 100), .min_weight = (float)request->min_weight};
    links.links = calloc(maps.num_heads * links.top_k, sizeof *links.links);
    links.counts = calloc(maps.num_heads, sizeof *links.counts);
    check(head_links_scratch_bytes(&maps, 1, &bytes) && arena_reserve(&arena, bytes));
    if (head_links_run(&maps, &parallel_serial, &arena, &links, &error)) {
        check(links_answer_bytes(request, maps.num_heads, links.top_k, NULL, &most));
        check(links_answer_encode(request, &maps, &links, NULL, NULL, &text, &error));
        expect_json(&text, most);
    } else {
        expect_said(&error);
    }
    free(links.links);
    free(links.counts);
    arena_free(&arena);
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
        const struct request_body body = {form, (const char *)exact, size};
        struct stats_request stats;
        struct links_request links;
        if (stats_request_decode(&body, &arena, &stats, &error))
            measure(&stats);
        else
            check(error.code != ERROR_OUT_OF_MEMORY && error.message[0] && arena.used == 0);
        arena_reset(&arena);
        if (links_request_decode(&body, &arena, &links, &error))
            link_up(&links);
        else
            check(error.code != ERROR_OUT_OF_MEMORY && error.message[0] && arena.used == 0);
        arena_reset(&arena);
    }
    arena_free(&arena);
    free(exact);
    return 0;
}
