/* Sets of source numpy and identity through the engine, with the kernels of every instruction set, against a float64
 * reference (golden/forward). */
#include "suite.h"

#include "golden.h"
#include "run_forward.h"
#include "weights/weight_set.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const names[] = {"prototype",
                                    "prototype_rank2",
                                    "padding",
                                    "padding_left",
                                    "causal",
                                    "cross",
                                    "cross_causal",
                                    "bias",
                                    "head_mask",
                                    "fully_masked_row",
                                    "one_token",
                                    "identity",
                                    "identity_large_scores"};

enum { N_NAMES = sizeof names / sizeof *names };

static struct weight_set *load(const json_t *weights)
{
    char name[] = "golden";
    const char *source = json_string_value(json_object_get(weights, "source"));
    struct weights_config config = {
        .name = name,
        .source = strcmp(source, "numpy") == 0 ? WEIGHTS_NUMPY : WEIGHTS_IDENTITY,
        .d_model = (size_t)json_integer_value(json_object_get(weights, "d_model")),
        .num_heads = (size_t)json_integer_value(json_object_get(weights, "num_heads")),
        .seed = (uint32_t)json_integer_value(json_object_get(weights, "seed")),
        .scale = json_number_value(json_object_get(weights, "scale")),
    };
    struct error error;
    struct weight_set *set = weight_set_load(&config, &error);
    ck_assert_msg(set != NULL, "%s", error.message);
    return set;
}

struct numbers {
    float *data;
    size_t count, shape[4];
    unsigned rank; /* 0: the member is not there */
};

static struct numbers read(const json_t *object, const char *name)
{
    struct numbers numbers = {0};
    const json_t *nest = json_object_get(object, name);
    if (nest)
        numbers.data = golden_numbers(nest, &numbers.count, numbers.shape, &numbers.rank);
    return numbers;
}

/* Each case with each instruction set. */
START_TEST(golden)
{
    if (!use_kernels((size_t)_i / N_NAMES))
        return;
    char file[64];
    snprintf(file, sizeof file, "forward/%s.json", names[_i % N_NAMES]);
    json_t *document = golden_load(file);
    const json_t *request = json_object_get(document, "request"), *expect = json_object_get(document, "expect");
    struct weight_set *set = load(json_object_get(document, "weights"));
    struct numbers x = read(request, "input"), q = read(request, "query"), k = read(request, "key"),
                   v = read(request, "value");
    struct numbers mask = read(request, "attention_mask"), bias = read(request, "bias"),
                   gate = read(request, "head_mask");
    struct numbers output = read(expect, "output"), attention = read(expect, "attention");

    const struct numbers *query = x.rank ? &x : &q, *key = x.rank ? &x : &k, *value = x.rank ? &x : v.rank ? &v : &k;
    bool rank2 = query->rank == 2;
    uint8_t *allowed = calloc(mask.count + 1, 1);
    ck_assert_ptr_nonnull(allowed);
    for (size_t i = 0; i < mask.count; i++)
        allowed[i] = mask.data[i] != 0;
    const struct forward_input input = {
        .batch = rank2 ? 1 : query->shape[0],
        .query_length = query->shape[query->rank - 2],
        .key_length = key->shape[key->rank - 2],
        .rank2 = rank2,
        .self_attention = x.rank != 0,
        .causal = json_is_true(json_object_get(request, "causal")),
        .query = query->data,
        .key = key->data,
        .value = value->data,
        .mask_kind = mask.rank == 0           ? FORWARD_MASK_NONE
                     : mask.rank + rank2 == 2 ? FORWARD_MASK_KEYS
                                              : FORWARD_MASK_PAIRS,
        .mask = mask.rank ? allowed : NULL,
        .bias = bias.data,
        .bias_per_sequence = bias.rank == 4,
        .head_mask = gate.data,
    };
    struct forward_result result = run_forward(set->layers[0], &input);
    ck_assert_uint_eq(output.count, input.batch * input.query_length * set->shape.d_model);
    ck_assert_uint_eq(attention.count, input.batch * set->shape.num_heads * input.query_length * input.key_length);
    expect_close("output", result.output, output.data, output.count, false);
    expect_close("attention", result.attention, attention.data, attention.count, true);
    ck_assert_uint_eq(result.fully_masked_rows,
                      (size_t)json_integer_value(json_object_get(expect, "fully_masked_rows")));

    run_forward_free(&result);
    struct numbers *all[] = {&x, &q, &k, &v, &mask, &bias, &gate, &output, &attention};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]->data);
    free(allowed);
    weight_set_free(set);
    json_decref(document);
}
END_TEST

Suite *suite(void)
{
    Suite *suite = suite_create("weights/golden_forward");
    TCase *tcase = tcase_create("cases");
    tcase_add_loop_test(tcase, golden, 0, N_NAMES * KERNEL_VARIANT_COUNT);
    suite_add_tcase(suite, tcase);
    return suite;
}
