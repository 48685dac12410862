/* The golden cases, from the text of a request to the text of its answer, against a float64 reference. */
#include "analysis/importance.h"

#include "codec/importance_answer.h"
#include "codec/importance_request.h"
#include "suite.h"
#include "weights/golden.h"
#include "weights/run_forward.h"
#include "weights/weight_set.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const names[] = {"zero",           "uniform",           "mean",           "norm",
                                    "head_mask_zero", "head_mask_uniform", "head_mask_mean", "head_mask_norm",
                                    "padding_zero",   "padding_uniform",   "padding_mean",   "padding_norm",
                                    "prune_plan"};
enum { N_NAMES = sizeof names / sizeof *names };

/* Every number of `wanted` is in `got`, near enough; integers exactly. */
static void expect_same(const json_t *got, const json_t *wanted, const char *name)
{
    size_t i;
    const char *key;
    json_t *value;
    ck_assert_msg(got != NULL, "%s: missing", name);
    if (json_is_array(wanted)) {
        ck_assert_uint_eq(json_array_size(got), json_array_size(wanted));
        json_array_foreach(wanted, i, value) expect_same(json_array_get(got, i), value, name);
    } else if (json_is_object(wanted)) {
        json_object_foreach((json_t *)wanted, key, value) expect_same(json_object_get(got, key), value, key);
    } else if (json_is_integer(wanted)) {
        ck_assert_int_eq(json_integer_value(got), json_integer_value(wanted));
    } else {
        const double v = json_number_value(wanted);
        ck_assert_msg(json_is_number(got) && fabs(json_number_value(got) - v) <= 1e-5 + 1e-5 * fabs(v),
                      "%s: got %.9g, expected %.9g", name, json_number_value(got), v);
    }
}

static struct weight_set *load(const json_t *weights)
{
    char name[] = "golden";
    struct error error;
    struct weights_config config = {
        .name = name,
        .source = WEIGHTS_NUMPY,
        .d_model = (size_t)json_integer_value(json_object_get(weights, "d_model")),
        .num_heads = (size_t)json_integer_value(json_object_get(weights, "num_heads")),
        .seed = (uint32_t)json_integer_value(json_object_get(weights, "seed")),
        .scale = json_number_value(json_object_get(weights, "scale")),
    };
    struct weight_set *set = weight_set_load(&config, &error);
    ck_assert_msg(set != NULL, "%s", error.message);
    return set;
}

/* Each case with the kernels of each instruction set. */
START_TEST(golden)
{
    if (!use_kernels((size_t)_i / N_NAMES))
        return;
    char file[64];
    snprintf(file, sizeof file, "importance/importance_%s.json", names[_i % N_NAMES]);
    json_t *document = golden_load(file);
    struct weight_set *set = load(json_object_get(document, "weights"));
    char *body = json_dumps(json_object_get(document, "request"), 0);
    const size_t heads = set->shape.num_heads;

    struct importance_request request;
    struct forward_input input;
    const struct forward_input *inputs = &input;
    struct error error;
    struct arena decoded = {0};
    ck_assert(arena_reserve(&decoded, forward_request_decoded_bytes(strlen(body))));
    ck_assert_msg(
        importance_request_decode(&(struct request_body){BODY_JSON, body, strlen(body)}, &decoded, &request, &error),
        "%s", error.message);
    ck_assert_msg(forward_request_check(&request.forward, &set->shape, &set->rules.defaults, &input, &error), "%s",
                  error.message);
    const size_t rows = input.batch * input.query_length, floats = rows * set->shape.d_model;
    struct forward_result result = {.output = malloc(floats * sizeof(float)),
                                    .heads = malloc(floats * sizeof(float)),
                                    .value = malloc(floats * sizeof(float)),
                                    .n_maps = heads},
                          *results = &result;
    struct importance importance = {.importance = malloc(heads * sizeof(double)),
                                    .plan = request.prune_plan ? malloc(heads * sizeof(struct prune_step)) : NULL};
    struct arena arena = {0};
    size_t bytes, own;
    ck_assert(forward_scratch_bytes(&set->shape, &inputs, 1, 1, &bytes));
    ck_assert(importance_scratch_bytes(&set->shape, &input, request.method, request.prune_plan, 1, &own));
    ck_assert(arena_reserve(&arena, bytes + own));
    ck_assert(forward_run(set->layers[0], &inputs, &results, 1, &parallel_serial, &arena, &error));
    ck_assert_msg(
        importance_run(set->layers[0], &input, request.method, &result, &parallel_serial, &arena, &importance, &error),
        "%s", error.message);

    struct text text = {0};
    size_t most;
    ck_assert(importance_answer_bytes(&request, heads, set->name, &most));
    ck_assert(importance_answer_encode(&request, &(struct importance_found){0, heads, importance}, set->name,
                                       set->digest, &text, &error));
    ck_assert_uint_le(text.length, most);
    json_error_t fault;
    json_t *got = json_loadb(text.data, text.length, JSON_REJECT_DUPLICATES, &fault), *flat = json_array();
    ck_assert_msg(got != NULL, "%s", fault.text);
    for (size_t head = 0; head < heads; head++) {
        const json_t *entry = json_array_get(json_object_get(got, "heads"), head);
        ck_assert_int_eq(json_integer_value(json_object_get(entry, "head")), (json_int_t)head);
        json_array_append(flat, json_object_get(entry, "importance"));
    }
    json_object_set_new(got, "importance", flat);
    expect_same(got, json_object_get(document, "expect"), names[_i % N_NAMES]);
    ck_assert_int_eq(json_integer_value(json_object_get(got, "n_rows")) +
                         json_integer_value(json_object_get(got, "n_excluded")),
                     (json_int_t)rows);

    json_decref(got);
    text_free(&text);
    arena_free(&arena);
    free(result.output);
    free(result.heads);
    free(result.value);
    free(importance.importance);
    free(importance.plan);
    arena_free(&decoded);
    free(body);
    weight_set_free(set);
    json_decref(document);
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("analysis/golden");
    TCase *t = tcase_create("golden");
    tcase_add_loop_test(t, golden, 0, N_NAMES * KERNEL_VARIANT_COUNT);
    suite_add_tcase(s, t);
    return s;
}
