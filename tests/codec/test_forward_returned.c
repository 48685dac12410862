/* Which tensors an answer has, of models and of bare layers: names, order and shapes. */
#include "codec/forward_returned.h"
#include "suite.h"

#include <stdio.h>
#include <string.h>

/* Distinct extents, so that no two axes can be taken for each other. */
static const struct attention_shape SHAPE = {.d_model = 7, .num_heads = 5, .num_kv_heads = 5, .d_k = 3, .d_v = 2};

#define ALL ((1u << FORWARD_RETURN_COUNT) - 1)

/* "output [11, 13, 7]; ..." */
static void expect_list(const struct forward_request *request, const struct forward_input *problem, const char *wanted)
{
    struct returned_tensor list[RETURNED_COUNT];
    char found[1024] = "", shape[TENSOR_SHAPE_TEXT_BYTES];
    const size_t count = returned_list(request, &SHAPE, problem, NULL, list);
    for (size_t i = 0; i < count; i++)
        snprintf(found + strlen(found), sizeof found - strlen(found), "%s%s %s", i ? "; " : "", list[i].name,
                 tensor_shape_text(list[i].shape, list[i].rank, shape, sizeof shape));
    ck_assert_str_eq(found, wanted);
}

static const struct forward_input SEQUENCES = {
    .batch = 11, .query_length = 13, .key_length = 13, .self_attention = true};

START_TEST(model)
{
    uint32_t chosen[] = {1, 4};
    struct forward_request request = {.returned = ALL};
    struct forward_input problem = SEQUENCES;
    problem.num_layers = 3;
    expect_list(&request, &problem,
                "output [11, 13, 7]; attention [11, 3, 5, 13, 13]; heads [11, 3, 5, 13, 2]; query [11, 3, 5, 13, 3]; "
                "key [11, 3, 5, 13, 3]; value [11, 3, 5, 13, 2]; hidden_states [11, 4, 13, 7]");
    request.include_layers = chosen;
    request.n_include_layers = 2;
    request.include_heads = chosen;
    request.n_include_heads = 1;
    problem.rank2 = true;
    problem.batch = 1;
    expect_list(&request, &problem,
                "output [13, 7]; attention [2, 1, 13, 13]; heads [2, 1, 13, 2]; query [2, 5, 13, 3]; "
                "key [2, 5, 13, 3]; value [2, 5, 13, 2]; hidden_states [4, 13, 7]");
}
END_TEST

/* Heads that are kept are those of all layers, whichever are returned. */
START_TEST(with_rules)
{
    uint32_t chosen[] = {1};
    const struct attention_rules rules = {.keep_heads = {.kind = KEEP_COUNT}, .dropout = {.samples = 2}};
    struct forward_request request = {
        .returned = RETURN_OUTPUT | RETURN_ATTENTION, .include_layers = chosen, .n_include_layers = 1};
    struct forward_input problem = SEQUENCES;
    problem.num_layers = 3;
    problem.rules = &rules;
    expect_list(&request, &problem,
                "output [11, 13, 7]; output_std [11, 13, 7]; attention [11, 1, 5, 13, 13]; heads_used [11, 3, 5]");
    problem.num_layers = 0;
    expect_list(&request, &problem,
                "output [11, 13, 7]; output_std [11, 13, 7]; attention [11, 5, 13, 13]; heads_used [11, 5]");
}
END_TEST

/* But for hidden_states, which have an axis of their own. */
START_TEST(one_layer_has_no_axis)
{
    struct forward_request request = {.returned = ALL};
    struct forward_input problem = SEQUENCES;
    for (problem.num_layers = 0; problem.num_layers < 2; problem.num_layers++)
        expect_list(&request, &problem,
                    "output [11, 13, 7]; attention [11, 5, 13, 13]; heads [11, 5, 13, 2]; query [11, 5, 13, 3]; "
                    "key [11, 5, 13, 3]; value [11, 5, 13, 2]; hidden_states [11, 2, 13, 7]");
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("forward_returned");
    TCase *c = tcase_create("forward_returned");
    tcase_add_test(c, model);
    tcase_add_test(c, with_rules);
    tcase_add_test(c, one_layer_has_no_axis);
    suite_add_tcase(s, c);
    return s;
}
