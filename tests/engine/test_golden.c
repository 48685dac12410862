/* The golden forward cases that need no weights, computed with NumPy in float64. The others are run where weights are
 * made from a seed. */

#include "engine/kernels/kernels.h"
#include "problem.h"
#include "suite.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

/* Appends the numbers of nested arrays to `to`; returns how many there are by now. */
static size_t flatten(const json_t *value, float *to, size_t count)
{
    if (!json_is_array(value)) {
        ck_assert(json_is_number(value));
        if (to)
            to[count] = (float)json_number_value(value);
        return count + 1;
    }
    for (size_t i = 0; i < json_array_size(value); i++)
        count = flatten(json_array_get(value, i), to, count);
    return count;
}

static float *tensor(struct problem *owner, const json_t *object, const char *name, size_t *count)
{
    const json_t *value = json_object_get(object, name);
    ck_assert_ptr_nonnull(value);
    *count = flatten(value, NULL, 0);
    float *numbers = problem_take(owner, *count * sizeof *numbers);
    flatten(value, numbers, 0);
    return numbers;
}

static size_t extent(const json_t *object, const char *name)
{
    return (size_t)json_integer_value(json_object_get(object, name));
}

static void check_case(const char *name)
{
    const char *golden = getenv("ATTND_GOLDEN");
    ck_assert_msg(golden, "ATTND_GOLDEN does not name the folder of golden files");
    char path[4096];
    snprintf(path, sizeof path, "%s/forward/%s.json", golden, name);
    json_error_t fault;
    json_t *root = json_load_file(path, 0, &fault);
    ck_assert_msg(root, "%s: %s", path, fault.text);
    const json_t *weights = json_object_get(root, "weights"), *request = json_object_get(root, "request"),
                 *expect = json_object_get(root, "expect");

    struct problem p = {.shape = {.d_model = extent(weights, "d_model"), .num_heads = extent(weights, "num_heads")}};
    p.shape.num_kv_heads = p.n_maps = p.shape.num_heads;
    p.shape.d_k = p.shape.d_v = p.shape.d_model / p.shape.num_heads;
    p.shape.scale = (float)(1 / __builtin_sqrt((double)p.shape.d_k));
    size_t n, n_output, n_attention;
    p.input.batch = json_array_size(json_object_get(request, "query"));
    p.input.query_length = json_array_size(json_array_get(json_object_get(request, "query"), 0));
    p.input.key_length = json_array_size(json_array_get(json_object_get(request, "key"), 0));
    p.input.query = tensor(&p, request, "query", &n);
    p.input.key = tensor(&p, request, "key", &n);
    p.input.value = tensor(&p, request, "value", &n);
    const float *output = tensor(&p, expect, "output", &n_output),
                *attention = tensor(&p, expect, "attention", &n_attention);
    ck_assert_uint_eq(n_output, answer_sizes(&p).n[0]);
    ck_assert_uint_eq(n_attention, answer_sizes(&p).n[1]);

    struct error error;
    struct attention_layer *layer = attention_layer_create(&p.shape, &p.matrices, &error);
    struct answer answer = answer_create(&p);
    run_problem(layer, &p, &parallel_serial, &answer);
    ck_assert_double_le(worst_error(answer.output, output, n_output, 1e-5), 1);
    ck_assert_double_le(worst_error(answer.attention, attention, n_attention, 1e-5), 1);
    answer_free(&answer);
    attention_layer_free(layer);
    problem_free(&p);
    json_decref(root);
}

START_TEST(identity_cases)
{
    struct error error;
    if (!isa_supported((enum isa)_i))
        return;
    ck_assert(engine_init(kernel_variants[_i]->name, &error));
    check_case("identity");
    check_case("identity_large_scores");
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("engine/golden");
    TCase *t = tcase_create("golden");
    tcase_add_loop_test(t, identity_cases, 0, KERNEL_VARIANT_COUNT);
    suite_add_tcase(s, t);
    return s;
}
