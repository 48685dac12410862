/* Similarity of heads, from the text of a request to the text of its answer, against values of independent programs:
 * the similarity_*.json of a float64 reference and the case_*.json of make_cases.py. */
#include "analysis/head_maps_check.h"
#include "analysis/head_similarity.h"
#include "codec/similarity_answer.h"
#include "suite.h"
#include "weights/golden.h"
#include "weights/run_forward.h"
#include "weights/weight_set.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const references[] = {
    "attention_centered", "attention_cka",          "attention_cosine", "attention_hellinger", "attention_js",
    "attention_pearson",  "causal_centered",        "causal_pearson",   "output_cka",          "output_cosine",
    "output_padding_cka", "output_padding_pearson", "output_pearson"};
static const char *const cases[] = {"all_padding",
                                    "causal",
                                    "cross",
                                    "cross_causal",
                                    "cross_causal_short",
                                    "cross_exclude",
                                    "cross_keys",
                                    "even",
                                    "even_causal",
                                    "exclude",
                                    "exclude_all",
                                    "exclude_causal",
                                    "exclude_each",
                                    "exclude_pairs",
                                    "exclude_sharp",
                                    "long",
                                    "many_heads",
                                    "nothing_left",
                                    "one_head",
                                    "one_token",
                                    "one_token_many",
                                    "padding",
                                    "padding_causal",
                                    "pairs",
                                    "pairs_causal",
                                    "plain",
                                    "sharp",
                                    "small_output",
                                    "tall",
                                    "words",
                                    "words_causal_exclude",
                                    "words_exclude",
                                    "words_padding",
                                    "words_pairs",
                                    "zero_rows",
                                    "zero_rows_words"};
enum { N_REFERENCES = sizeof references / sizeof *references, N_CASES = sizeof cases / sizeof *cases };

#define TOLERANCE 3e-6

static json_t *load(const char *kind, const char *name)
{
    char file[96];
    snprintf(file, sizeof file, "similarity/%s_%s.json", kind, name);
    return golden_load(file);
}

static void expect_number(const json_t *got, const json_t *wanted, const char *what)
{
    if (json_is_null(wanted)) {
        ck_assert_msg(json_is_null(got), "%s: got %.9g, expected null", what, json_number_value(got));
        return;
    }
    const double v = json_number_value(wanted);
    ck_assert_msg(json_is_number(got) && fabs(json_number_value(got) - v) <= TOLERANCE, "%s: got %.9g, expected %.9g",
                  what, json_number_value(got), v);
}

/* A matrix: near enough, of the same shape, symmetric to the bit, and exactly 1 on its diagonal. */
static void expect_matrix(const json_t *got, const json_t *wanted, const char *what)
{
    const size_t heads = json_array_size(wanted);
    char where[128];
    ck_assert_uint_eq(json_array_size(got), heads);
    for (size_t a = 0; a < heads; a++)
        for (size_t b = 0; b < heads; b++) {
            const json_t *value = json_array_get(json_array_get(got, a), b);
            snprintf(where, sizeof where, "%s/%zu/%zu", what, a, b);
            expect_number(value, json_array_get(json_array_get(wanted, a), b), where);
            ck_assert(json_equal(value, json_array_get(json_array_get(got, b), a)));
            if (a == b && json_is_number(value))
                ck_assert_double_eq(json_number_value(value), 1);
        }
}

/* What is asked about. */
struct scene {
    struct arena decoded;
    struct similarity_request request;
    struct forward_input rule;
    size_t num_heads, d_v;
    const float *weights, *heads;
    struct weight_set *set;
    struct forward_result result;
    float *outputs;
};

static void make_scene(struct scene *scene, const json_t *document, const char *body)
{
    struct error error;
    *scene = (struct scene){0};
    ck_assert(arena_reserve(&scene->decoded, forward_request_decoded_bytes(strlen(body))));
    ck_assert_msg(similarity_request_decode(&(struct request_body){BODY_JSON, body, strlen(body)}, &scene->decoded,
                                            &scene->request, &error),
                  "%s", error.message);
    const struct analysis_request *analysis = &scene->request.analysis;
    struct maps_extent extent;
    if (analysis_request_has_maps(analysis)) {
        ck_assert_msg(analysis_request_check_maps(analysis, &scene->rule, &extent, &error), "%s", error.message);
        scene->num_heads = extent.num_heads;
        scene->weights = analysis->attention.data;
        return;
    }
    char name[] = "golden";
    const json_t *weights = json_object_get(document, "weights");
    struct weights_config config = {
        .name = name,
        .source = WEIGHTS_NUMPY,
        .d_model = (size_t)json_integer_value(json_object_get(weights, "d_model")),
        .num_heads = (size_t)json_integer_value(json_object_get(weights, "num_heads")),
        .seed = (uint32_t)json_integer_value(json_object_get(weights, "seed")),
        .scale = json_number_value(json_object_get(weights, "scale")),
    };
    scene->set = weight_set_load(&config, &error);
    ck_assert_msg(scene->set != NULL, "%s", error.message);
    ck_assert_msg(forward_request_check(&analysis->forward, &scene->set->shape, &scene->set->rules.defaults,
                                        &scene->rule, &error),
                  "%s", error.message);
    scene->result = run_forward(scene->set->layers[0], &scene->rule);
    scene->num_heads = scene->set->shape.num_heads;
    scene->d_v = scene->set->shape.d_v;
    scene->weights = scene->result.attention;
    scene->heads = scene->result.heads;
}

/* The outputs [B, num_heads, Tq, d_v] that stand in the case. */
static void take_outputs(struct scene *scene, const json_t *heads)
{
    const size_t rows = scene->rule.query_length;
    float *to;
    scene->d_v = json_array_size(json_array_get(json_array_get(json_array_get(heads, 0), 0), 0));
    to = scene->outputs = malloc(scene->rule.batch * scene->num_heads * rows * scene->d_v * sizeof *to);
    ck_assert(to != NULL);
    for (size_t b = 0; b < scene->rule.batch; b++)
        for (size_t h = 0; h < scene->num_heads; h++)
            for (size_t t = 0; t < rows; t++)
                for (size_t k = 0; k < scene->d_v; k++)
                    *to++ = (float)json_number_value(
                        json_array_get(json_array_get(json_array_get(json_array_get(heads, b), h), t), k));
    scene->heads = scene->outputs;
}

static void free_scene(struct scene *scene)
{
    free(scene->outputs);
    if (scene->set) {
        run_forward_free(&scene->result);
        weight_set_free(scene->set);
    }
    arena_free(&scene->decoded);
}

/* The answer, or NULL with *error. */
static json_t *answer(const struct scene *scene, struct error *error)
{
    const struct similarity_request *request = &scene->request;
    const size_t heads = scene->num_heads;
    const struct maps_extent extent = {0, heads};
    const size_t most = similarity_pairs_most(request, &extent);
    double diversity;
    struct similarity_found found = {
        .extent = extent,
        .similarity = {.similarity = malloc(heads * heads * sizeof(double)), .diversity = &diversity},
        .n_clusters = &(size_t){0},
        .redundancy = malloc(heads * sizeof(double)),
        .clusters = malloc(heads * sizeof(uint32_t)),
        .pairs = malloc((most + 1) * sizeof(struct head_pair))};
    struct head_maps maps = analysis_request_maps(&request->analysis, &scene->rule, scene->weights, &extent);
    struct arena prepared = {0}, scratch = {0};
    struct text text = {0};
    size_t bytes, longest;
    json_t *got = NULL;
    ck_assert_msg(head_maps_check(&maps, analysis_request_tolerance(&request->analysis), &parallel_serial, error), "%s",
                  error->message);
    ck_assert(head_maps_bytes(&maps, &bytes) && arena_reserve(&prepared, bytes));
    ck_assert_msg(head_maps_prepare(&maps, &prepared, error), "%s", error->message);
    ck_assert(head_similarity_bytes(&request->question, &maps, scene->d_v, 1, &bytes));
    ck_assert(arena_reserve(&scratch, bytes));
    if (head_similarity_run(&request->question, &maps, scene->heads, scene->d_v, &parallel_serial, &scratch,
                            &found.similarity, error)) {
        ck_assert_uint_le(scratch.used, bytes);
        found.n_clusters[0] = head_clusters(found.similarity.similarity, heads, request->threshold, found.clusters);
        head_redundancy(found.similarity.similarity, heads, found.redundancy);
        found.n_pairs = head_pairs(found.similarity.similarity, 1, heads, found.pairs, most);
        ck_assert(similarity_answer_bytes(request, &extent, NULL, &longest));
        ck_assert(similarity_answer_encode(request, &found, NULL, NULL, &text, error));
        ck_assert_uint_le(text.length, longest);
        json_error_t fault;
        got = json_loadb(text.data, text.length, JSON_REJECT_DUPLICATES, &fault);
        ck_assert_msg(got != NULL, "%s: %.*s", fault.text, (int)text.length, text.data);
    }
    text_free(&text);
    free(found.similarity.similarity);
    free(found.redundancy);
    free(found.clusters);
    free(found.pairs);
    arena_free(&scratch);
    arena_free(&prepared);
    return got;
}

START_TEST(reference)
{
    if (!use_kernels((size_t)_i / N_REFERENCES))
        return;
    const char *name = references[_i % N_REFERENCES];
    json_t *document = load("similarity", name), *expect = json_object_get(document, "expect");
    char *body = json_dumps(json_object_get(document, "request"), 0);
    struct scene scene;
    struct error error;
    make_scene(&scene, document, body);
    json_t *got = answer(&scene, &error);
    ck_assert_msg(got != NULL, "%s: %s", name, error.message);
    expect_matrix(json_object_get(got, "similarity"), json_object_get(expect, "similarity"), name);
    if (json_object_get(expect, "diversity"))
        expect_number(json_object_get(got, "diversity"), json_object_get(expect, "diversity"), "diversity");
    json_decref(got);
    free_scene(&scene);
    free(body);
    json_decref(document);
}
END_TEST

static unsigned index_of(const json_t *answer_of_case, const char *member, const char *const *names, unsigned count)
{
    const char *name = json_string_value(json_object_get(answer_of_case, member));
    unsigned i = 0;
    while (i < count && strcmp(names[i], name) != 0)
        i++;
    ck_assert_msg(i < count, "%s", name);
    return i;
}

/* All metrics, on attention and output, pooled and mean. */
START_TEST(independent)
{
    if (!use_kernels((size_t)_i / N_CASES))
        return;
    const char *name = cases[_i % N_CASES], *metrics[SIMILARITY_METRIC_COUNT];
    json_t *document = load("case", name), *wanted;
    char *body = json_dumps(json_object_get(document, "request"), 0), what[96];
    struct scene scene;
    struct error error;
    size_t i;
    for (unsigned m = 0; m < SIMILARITY_METRIC_COUNT; m++)
        metrics[m] = similarity_metric_name((enum similarity_metric)m);
    make_scene(&scene, document, body);
    if (json_object_get(document, "heads"))
        take_outputs(&scene, json_object_get(document, "heads"));
    ck_assert_uint_ge(json_array_size(json_object_get(document, "answers")), 12);
    json_array_foreach(json_object_get(document, "answers"), i, wanted)
    {
        struct similarity_question *question = &scene.request.question;
        question->metric = (enum similarity_metric)index_of(wanted, "metric", metrics, SIMILARITY_METRIC_COUNT);
        question->subject = (enum similarity_subject)index_of(wanted, "on", similarity_subject_names, 2);
        question->reduction = (enum similarity_reduction)index_of(wanted, "reduce", similarity_reduction_names, 2);
        snprintf(what, sizeof what, "%s: %s on %s, %s", name, metrics[question->metric],
                 similarity_subject_names[question->subject], similarity_reduction_names[question->reduction]);
        json_t *got = answer(&scene, &error);
        if (json_is_null(json_object_get(wanted, "similarity"))) { /* features of different lengths */
            ck_assert_msg(!got && error.code == ERROR_INVALID, "%s", what);
            ck_assert_str_eq(error.pointer, "/metric");
            continue;
        }
        ck_assert_msg(got != NULL, "%s: %s", what, error.message);
        expect_matrix(json_object_get(got, "similarity"), json_object_get(wanted, "similarity"), what);
        expect_number(json_object_get(got, "diversity"), json_object_get(document, "diversity"), "diversity");
        expect_number(json_object_get(got, "n_rows"), json_object_get(document, "n_rows"), "n_rows");
        expect_number(json_object_get(got, "n_excluded"), json_object_get(document, "n_excluded"), "n_excluded");
        json_decref(got);
    }
    free_scene(&scene);
    free(body);
    json_decref(document);
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("analysis/similarity_golden");
    TCase *t = tcase_create("golden");
    tcase_add_loop_test(t, reference, 0, N_REFERENCES * KERNEL_VARIANT_COUNT);
    tcase_add_loop_test(t, independent, 0, N_CASES * KERNEL_VARIANT_COUNT);
    suite_add_tcase(s, t);
    return s;
}
