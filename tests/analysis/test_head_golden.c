/* Statistics and links of heads, from the text of a request to the text of its answer, against values of independent
 * programs: the stats_*.json of a float64 reference, the case_*.json of make_cases.py, and what a real model's heads
 * do.
 */
#include "analysis/head_links.h"
#include "analysis/head_maps_check.h"
#include "analysis/head_statistics.h"
#include "codec/base64.h"
#include "codec/links_answer.h"
#include "codec/safetensors.h"
#include "codec/stats_answer.h"
#include "suite.h"
#include "weights/golden.h"
#include "weights/run_forward.h"
#include "weights/weight_set.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const names[] = {"stats_cross",
                                    "stats_cross_causal",
                                    "stats_from_attention",
                                    "stats_from_forward",
                                    "stats_padding_left",
                                    "stats_per_position",
                                    "stats_stderr",
                                    "stats_words",
                                    "case_all_padding",
                                    "case_causal",
                                    "case_cross",
                                    "case_cross_causal",
                                    "case_cross_causal_short",
                                    "case_cross_keys",
                                    "case_exclude",
                                    "case_exclude_all",
                                    "case_exclude_causal",
                                    "case_exclude_each",
                                    "case_exclude_pairs",
                                    "case_long",
                                    "case_nothing_left",
                                    "case_one_head",
                                    "case_one_token",
                                    "case_one_token_many",
                                    "case_padding",
                                    "case_padding_causal",
                                    "case_pairs",
                                    "case_pairs_causal",
                                    "case_plain",
                                    "case_sharp",
                                    "case_words",
                                    "case_words_causal_exclude",
                                    "case_words_padding",
                                    "case_words_pairs",
                                    "case_zero_rows",
                                    "case_zero_rows_words"};
enum { N_NAMES = sizeof names / sizeof *names, N_STATS = 8 };

static double tolerance = 2e-6; /* absolute, and relative to the value */

/* Every value of `wanted` is in `got`, near enough; null is null, and lists are as long. */
static void expect_same(const json_t *got, const json_t *wanted, const char *name)
{
    size_t i;
    const char *key;
    json_t *value;
    ck_assert_msg(got != NULL, "%s: missing", name);
    if (json_is_array(wanted)) {
        ck_assert_msg(json_is_array(got) && json_array_size(got) == json_array_size(wanted), "%s", name);
        json_array_foreach(wanted, i, value) expect_same(json_array_get(got, i), value, name);
    } else if (json_is_object(wanted)) {
        json_object_foreach((json_t *)wanted, key, value) expect_same(json_object_get(got, key), value, key);
    } else if (json_is_string(wanted)) {
        ck_assert_str_eq(json_string_value(got), json_string_value(wanted));
    } else if (json_is_null(wanted)) {
        ck_assert_msg(json_is_null(got), "%s: got %g, expected null", name, json_number_value(got));
    } else {
        const double v = json_number_value(wanted);
        ck_assert_msg(json_is_number(got) && fabs(json_number_value(got) - v) <= tolerance + tolerance * fabs(v),
                      "%s: got %.9g, expected %.9g", name, json_number_value(got), v);
    }
}

static json_t *parse(const struct text *text)
{
    json_error_t fault;
    json_t *got = json_loadb(text->data, text->length, JSON_REJECT_DUPLICATES, &fault);
    ck_assert_msg(got != NULL, "%s: %.*s", fault.text, (int)text->length, text->data);
    return got;
}

/* Where there is a weight set: its forward is the maps. */
struct maps {
    struct forward_input rule;
    struct maps_extent extent;
    struct weight_set *set;
    struct forward_result result;
    const float *weights;
};

static struct maps make_maps(const struct analysis_request *request, const json_t *weights)
{
    struct maps made = {.weights = request->attention.data};
    struct error error;
    if (analysis_request_has_maps(request)) {
        ck_assert_msg(analysis_request_check_maps(request, &made.rule, &made.extent, &error), "%s", error.message);
        return made;
    }
    char name[] = "golden";
    struct weights_config config = {
        .name = name,
        .source = WEIGHTS_NUMPY,
        .d_model = (size_t)json_integer_value(json_object_get(weights, "d_model")),
        .num_heads = (size_t)json_integer_value(json_object_get(weights, "num_heads")),
        .seed = (uint32_t)json_integer_value(json_object_get(weights, "seed")),
        .scale = json_number_value(json_object_get(weights, "scale")),
    };
    made.set = weight_set_load(&config, &error);
    ck_assert_msg(made.set != NULL, "%s", error.message);
    ck_assert_msg(
        forward_request_check(&request->forward, &made.set->shape, &made.set->rules.defaults, &made.rule, &error), "%s",
        error.message);
    made.result = run_forward(made.set->layers[0], &made.rule);
    made.weights = made.result.attention;
    made.extent.num_heads = made.set->shape.num_heads;
    return made;
}

static void free_maps(struct maps *maps)
{
    if (!maps->set)
        return;
    run_forward_free(&maps->result);
    weight_set_free(maps->set);
}

static struct head_maps checked(const struct analysis_request *request, const struct maps *made)
{
    struct head_maps maps = analysis_request_maps(request, &made->rule, made->weights, &made->extent);
    struct error error;
    ck_assert_msg(head_maps_check(&maps, analysis_request_tolerance(request), &parallel_serial, &error), "%s",
                  error.message);
    return maps;
}

static json_t *stats_of(const char *body, const json_t *weights)
{
    struct stats_request request;
    struct error error;
    struct arena decoded = {0}, arena = {0};
    ck_assert(arena_reserve(&decoded, forward_request_decoded_bytes(strlen(body))));
    ck_assert_msg(
        stats_request_decode(&(struct request_body){BODY_JSON, body, strlen(body)}, &decoded, &request, &error), "%s",
        error.message);
    struct maps made = make_maps(&request.analysis, weights);
    struct head_maps maps = checked(&request.analysis, &made);
    const size_t heads = made.extent.num_heads, rows = made.rule.batch * made.rule.query_length;
    struct stats_found found = {
        .rule = &made.rule,
        .n_heads = heads,
        .statistics = {.means = calloc(heads * HEAD_STATISTIC_COUNT, sizeof(struct ratio_sums)),
                       .peaks = calloc(heads, sizeof(struct head_peaks)),
                       .entropy_per_position = request.per_position ? calloc(heads * rows, sizeof(float)) : NULL,
                       .distance_per_position = request.per_position ? calloc(heads * rows, sizeof(float)) : NULL}};
    size_t bytes, most;
    ck_assert(head_statistics_scratch_bytes(&maps, heads, 1, &bytes));
    ck_assert(arena_reserve(&arena, bytes));
    ck_assert_msg(head_statistics_run(&maps, NULL, heads, &parallel_serial, &arena, &found.statistics, &error), "%s",
                  error.message);
    found.n_rows = maps.n_rows;
    found.n_excluded = maps.n_excluded;
    found.aligned = maps.aligned;
    struct text text = {0};
    ck_assert(stats_answer_bytes(&request, &made.rule, heads, NULL, &most));
    ck_assert(stats_answer_encode(&request, &found, NULL, NULL, &text, &error));
    ck_assert_uint_le(text.length, most);
    json_t *got = parse(&text);
    text_free(&text);
    free(found.statistics.means);
    free(found.statistics.peaks);
    free(found.statistics.entropy_per_position);
    free(found.statistics.distance_per_position);
    free_maps(&made);
    arena_free(&arena);
    arena_free(&decoded);
    return got;
}

static json_t *links_of(const char *body)
{
    struct links_request request;
    struct error error;
    struct arena decoded = {0}, arena = {0};
    ck_assert(arena_reserve(&decoded, forward_request_decoded_bytes(strlen(body))));
    ck_assert_msg(
        links_request_decode(&(struct request_body){BODY_JSON, body, strlen(body)}, &decoded, &request, &error), "%s",
        error.message);
    struct maps made = make_maps(&request.analysis, NULL);
    struct head_maps maps = checked(&request.analysis, &made);
    struct head_links links = {.links = malloc(made.extent.num_heads * request.top_k * sizeof *links.links),
                               .counts = malloc(made.extent.num_heads * sizeof *links.counts),
                               .top_k = request.top_k,
                               .min_weight = (float)request.min_weight};
    size_t bytes, most;
    ck_assert(head_links_scratch_bytes(&maps, 1, &bytes));
    ck_assert(arena_reserve(&arena, bytes));
    ck_assert_msg(head_links_run(&maps, &parallel_serial, &arena, &links, &error), "%s", error.message);
    struct text text = {0};
    ck_assert(links_answer_bytes(&request, made.extent.num_heads, request.top_k, NULL, &most));
    ck_assert(links_answer_encode(&request,
                                  &(struct links_found){.extent = made.extent,
                                                        .links = links,
                                                        .shift = maps.shift,
                                                        .n_rows = maps.n_rows,
                                                        .n_excluded = maps.n_excluded},
                                  NULL, NULL, &text, &error));
    ck_assert_uint_le(text.length, most);
    json_t *got = parse(&text);
    text_free(&text);
    free(links.links);
    free(links.counts);
    arena_free(&arena);
    arena_free(&decoded);
    return got;
}

static json_t *load(size_t name)
{
    char file[64];
    snprintf(file, sizeof file, "heads/%s.json", names[name]);
    return golden_load(file);
}

/* Each case with the kernels of each instruction set. */
START_TEST(stats)
{
    if (!use_kernels((size_t)_i / N_NAMES))
        return;
    const size_t name = (size_t)_i % N_NAMES;
    json_t *document = load(name), *request = json_object_get(document, "request");
    if (name >= N_STATS) {
        json_object_set_new(request, "stderr", json_true());
        json_object_set_new(request, "per_position", json_true());
    }
    char *body = json_dumps(request, 0);
    json_t *got = stats_of(body, json_object_get(document, "weights"));
    if (name < N_STATS) {
        expect_same(got, json_object_get(document, "expect"), names[name]);
    } else {
        expect_same(json_object_get(got, "heads"), json_object_get(document, "heads"), names[name]);
        expect_same(json_object_get(got, "n_rows"), json_object_get(document, "n_rows"), names[name]);
        expect_same(json_object_get(got, "n_excluded"), json_object_get(document, "n_excluded"), names[name]);
    }
    json_decref(got);
    json_decref(document);
    free(body);
}
END_TEST

START_TEST(links)
{
    json_t *document = load((size_t)_i), *request = json_object_get(document, "request"), *wanted, *entry;
    size_t head, i;
    json_object_set(request, "top_k", json_object_get(document, "top_k"));
    json_object_set(request, "min_weight", json_object_get(document, "min_weight"));
    char *body = json_dumps(request, 0);
    json_t *got = links_of(body), *heads = json_object_get(got, "heads");
    ck_assert_uint_eq(json_array_size(heads), json_array_size(json_object_get(document, "links")));
    json_array_foreach(json_object_get(document, "links"), head, wanted)
    {
        json_t *listed = json_object_get(json_array_get(heads, head), "links");
        expect_same(listed, wanted, names[_i]);
        json_array_foreach(listed, i, entry) ck_assert_uint_eq(json_object_size(entry), 4); /* no labels were sent */
    }
    json_decref(got);
    json_decref(document);
    free(body);
}
END_TEST

/* Heads of layer 0 of a model whose maps its reference implementation computed (golden/real). */
static json_t *tensor_of(const char *file, const char *name)
{
    struct safetensors header;
    struct error error;
    char *path = golden_path(file), *bytes = malloc((size_t)1 << 20), *text;
    FILE *opened = fopen(path, "rb");
    ck_assert_ptr_nonnull(opened);
    const size_t size = fread(bytes, 1, (size_t)1 << 20, opened);
    fclose(opened);
    ck_assert_msg(safetensors_open(bytes, size, &header, &error), "%s", error.message);
    const struct safetensors_entry *entry = safetensors_find(&header, name);
    json_t *tensor = NULL;
    if (entry) {
        const size_t length = base64_encoded_length(entry->bytes);
        json_t *shape = json_array();
        for (unsigned i = 0; i < entry->rank; i++)
            json_array_append_new(shape, json_integer((json_int_t)entry->shape[i]));
        text = malloc(length);
        base64_encode(text, entry->data, entry->bytes);
        tensor = json_pack("{s:o, s:s, s:s%}", "shape", shape, "dtype", "f32", "base64", text, length);
        free(text);
    }
    safetensors_close(&header);
    free(bytes);
    free(path);
    return tensor;
}

START_TEST(real_model)
{
    json_t *document = golden_load("real/heads-layer0.json"), *entry;
    size_t i;
    tolerance = 2e-5;
    ck_assert_uint_eq(json_array_size(document), 4);
    json_array_foreach(document, i, entry)
    {
        const char *name = json_string_value(json_object_get(entry, "case"));
        json_t *request = json_object_get(entry, "request");
        char file[64];
        snprintf(file, sizeof file, "real/%s-layer0.safetensors", name);
        json_object_set_new(request, "attention", tensor_of(file, "attention"));
        json_t *mask = tensor_of(file, "attention_mask");
        if (mask)
            json_object_set_new(request, "attention_mask", mask);
        char *body = json_dumps(request, 0);
        const bool wants_links = json_object_get(request, "tokens") != NULL;
        json_t *got = wants_links ? links_of(body) : stats_of(body, NULL);
        expect_same(got, json_object_get(entry, "expect"), name);
        if (!wants_links) { /* the one that looks back */
            const json_t *head = json_array_get(json_object_get(got, "heads"), 2);
            ck_assert(json_real_value(json_object_get(head, "previous_mass")) > 0.8);
            ck_assert(json_real_value(json_object_get(head, "uniform_previous_mass")) < 0.25);
            ck_assert_int_eq(json_integer_value(json_object_get(head, "best_offset")), -1);
        }
        json_decref(got);
        free(body);
    }
    json_decref(document);
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("analysis/head_golden");
    TCase *t = tcase_create("golden");
    tcase_add_loop_test(t, stats, 0, N_NAMES * KERNEL_VARIANT_COUNT);
    tcase_add_loop_test(t, links, N_STATS, N_NAMES);
    tcase_add_test(t, real_model);
    suite_add_tcase(s, t);
    return s;
}
