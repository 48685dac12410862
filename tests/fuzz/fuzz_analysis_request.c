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

/* The maps of the layers that are asked for, checked. False where the request is refused, or would take long. */
static bool checked(const struct analysis_request *request, struct forward_input *rule, struct maps_extent *extent,
                    struct head_maps *maps)
{
    struct error error = {0};
    bool stray = false;
    if (!analysis_request_has_maps(request))
        return false;
    if (!analysis_request_check_maps(request, rule, extent, &error)) {
        expect_said(&error);
        return false;
    }
    *maps = analysis_request_maps(request, rule, request->attention.data, extent);
    for (size_t place = 0; place < size_max(extent->num_layers, 1); place++) {
        maps->layer = forward_request_layer(&request->forward, place);
        if (!head_maps_check(maps, analysis_request_tolerance(request), &parallel_serial, &error)) {
            expect_said(&error);
            return false;
        }
        stray |= maps->stray;
    }
    maps->stray = stray;
    return request->attention.count <= 1 << 16;
}

static void measure(const struct stats_request *request)
{
    struct forward_input rule;
    struct maps_extent extent;
    struct head_maps maps;
    struct arena arena = {0};
    struct error error = {0};
    struct text text = {0};
    size_t bytes, most;
    bool measured = true;
    if (!checked(&request->analysis, &rule, &extent, &maps))
        return;
    const struct forward_request *forward = &request->analysis.forward;
    const size_t heads = forward->include_heads ? forward->n_include_heads : maps.num_heads,
                 layers = size_max(extent.num_layers, 1), entries = layers * heads;
    const size_t positions = rule.batch * rule.query_length;
    struct stats_found found = {
        .rule = &rule,
        .num_layers = extent.num_layers,
        .n_heads = heads,
        .statistics = {calloc(entries * HEAD_STATISTIC_COUNT, sizeof(struct ratio_sums)),
                       calloc(entries, sizeof(struct head_peaks)),
                       request->per_position ? calloc(entries * positions, 4) : NULL,
                       request->per_position ? calloc(entries * positions, 4) : NULL},
    };
    for (size_t place = 0; place < layers && measured; place++) {
        const size_t first = place * heads;
        const struct head_statistics *all = &found.statistics;
        struct head_statistics one = {all->means + first * HEAD_STATISTIC_COUNT, all->peaks + first,
                                      request->per_position ? all->entropy_per_position + first * positions : NULL,
                                      request->per_position ? all->distance_per_position + first * positions : NULL};
        maps.layer = forward_request_layer(forward, place);
        check(head_statistics_scratch_bytes(&maps, heads, 1, &bytes) && arena_reserve(&arena, bytes));
        measured = head_statistics_run(&maps, forward->include_heads, heads, &parallel_serial, &arena, &one, &error);
        arena_free(&arena);
    }
    if (measured) {
        found.n_rows = maps.n_rows;
        found.n_excluded = maps.n_excluded;
        found.aligned = maps.aligned;
        check(stats_answer_bytes(request, &rule, entries, "name", &most));
        check(stats_answer_encode(request, &found, "name", "digest", &text, &error));
        expect_json(&text, most);
    } else {
        expect_said(&error);
    }
    free(found.statistics.means);
    free(found.statistics.peaks);
    free(found.statistics.entropy_per_position);
    free(found.statistics.distance_per_position);
}

static void link_up(const struct links_request *request)
{
    struct forward_input rule;
    struct links_found found = {0};
    struct head_maps maps;
    struct arena arena = {0};
    struct error error = {0};
    struct text text = {0};
    size_t bytes, most;
    bool linked = true;
    if (!checked(&request->analysis, &rule, &found.extent, &maps))
        return;
    if (!links_request_check_tokens(request, &rule, &error)) {
        expect_said(&error);
        return;
    }
    const size_t layers = size_max(found.extent.num_layers, 1), entries = layers * maps.num_heads;
    found.links = (struct head_links){.top_k = size_min(request->top_k, 100), .min_weight = (float)request->min_weight};
    found.links.links = calloc(entries * found.links.top_k, sizeof *found.links.links);
    found.links.counts = calloc(entries, sizeof *found.links.counts);
    for (size_t place = 0; place < layers && linked; place++) {
        struct head_links one = found.links;
        one.links += place * maps.num_heads * one.top_k;
        one.counts += place * maps.num_heads;
        maps.layer = forward_request_layer(&request->analysis.forward, place);
        check(head_links_scratch_bytes(&maps, 1, &bytes) && arena_reserve(&arena, bytes));
        linked = head_links_run(&maps, &parallel_serial, &arena, &one, &error);
        arena_free(&arena);
    }
    if (linked) {
        found.shift = maps.shift;
        check(links_answer_bytes(request, entries, found.links.top_k, NULL, &most));
        check(links_answer_encode(request, &found, NULL, NULL, &text, &error));
        expect_json(&text, most);
    } else {
        expect_said(&error);
    }
    free(found.links.links);
    free(found.links.counts);
}

static void decode(const struct request_body *body, struct arena *arena)
{
    struct stats_request stats;
    struct links_request links;
    struct error error = {0};
    if (stats_request_decode(body, arena, &stats, &error))
        measure(&stats);
    else
        expect_refused(&error, arena);
    arena_reset(arena);
    if (links_request_decode(body, arena, &links, &error))
        link_up(&links);
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
