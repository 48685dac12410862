/* What rules add to answers, in each of their forms, against documents written by hand. In these texts ' stands
 * for ". */
#include "codec/expect.h"
#include "codec/forward_answer.h"
#include "codec/forward_tensors.h"
#include "codec/oip_answer.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* Two heads, one sequence of one query and three keys, which linformer makes two. */
static const struct attention_shape SHAPE = {
    .d_model = 2, .num_heads = 2, .num_kv_heads = 2, .d_k = 1, .d_v = 1, .scale = 1, .projected = true};
static const struct attention_rules SAMPLED = {
    .keep_heads = {.kind = KEEP_COUNT, .count = 1}, .dropout = {.samples = 4, .rate = 0.5}, .num_layers = 1};
static const struct attention_rules LINFORMER = {.low_rank = {.kind = LOW_RANK_LINFORMER, .projected_keys = 2}};
static const struct oip_model MODEL = {"demo", "1", "d1"};

static float OUTPUT[] = {1.5f, -2}, STD[] = {0.25f, 0}, ATTENTION[] = {0.5f, 0.5f, 1, 0};
static uint8_t USED[] = {0, 1};

static struct forward_input problem_of(const struct attention_rules *rules)
{
    return (struct forward_input){
        .batch = 1, .query_length = 1, .key_length = 3, .self_attention = true, .rules = rules};
}

static struct forward_result result_of(bool approximate)
{
    return (struct forward_result){.output = OUTPUT,
                                   .attention = ATTENTION,
                                   .output_std = STD,
                                   .heads_used = USED,
                                   .n_maps = 2,
                                   .approximate = approximate};
}

/* The pieces as one text, NUL-terminated. */
static char *write_whole(struct answer_pieces *pieces, size_t predicted)
{
    char *text = calloc(pieces->most + 1, 1);
    const size_t length =
        (size_t)(answer_pieces_write(pieces, answer_pieces_begin(), answer_pieces_behind(pieces), text) - text);
    ck_assert_uint_le(length, pieces->most);
    ck_assert_uint_le(pieces->most, predicted);
    return text;
}

/* Demands that the text holds each part, in order; ' stands for ". */
static void expect_parts(const char *text, const char *const *parts)
{
    const char *at = text;
    for (; *parts; parts++) {
        char part[512];
        snprintf(part, sizeof part, "%s", *parts);
        for (char *c = part; *c; c++)
            *c = *c == '\'' ? '"' : *c;
        const char *found = strstr(at, part);
        ck_assert_msg(found, "%s is not behind the others in %s", part, text);
        at = found + strlen(part);
    }
}

static char *answer_json(struct forward_request *request, const struct forward_input *problem,
                         const struct forward_result *result, const struct approximation *approximation)
{
    const struct forward_timing timing = {.parse_us = 1};
    const size_t memory = forward_answer_memory(request, &SHAPE, problem);
    struct arena arena = {0};
    struct answer_pieces pieces;
    struct error error;
    size_t predicted;
    ck_assert(arena_reserve(&arena, memory));
    arena.capacity = memory;
    ck_assert(forward_answer_bytes(request, &SHAPE, problem, &predicted, &error));
    ck_assert_msg(forward_answer_compose(request, &SHAPE, problem, result, approximation, "demo", "d1", &timing,
                                         &parallel_serial, &arena, &pieces, &error),
                  "%s", error.message);
    char *text = write_whole(&pieces, predicted);
    arena_free(&arena);
    return text;
}

START_TEST(test_json)
{
    struct forward_request request = {.returned = RETURN_OUTPUT | RETURN_ATTENTION, .decimals = -1};
    const struct forward_input problem = problem_of(&SAMPLED);
    const struct forward_result result = {.output = OUTPUT,
                                          .attention = (float[6]){1, 0, 0, 0, 1, 0},
                                          .output_std = STD,
                                          .heads_used = USED,
                                          .n_maps = 2};
    const struct approximation found = {0.5, NAN, 12, 4503599627370497.0};
    char *text = answer_json(&request, &problem, &result, &found);
    expect_parts(text, (const char *const[]){
                           "'shapes':{'output':[1,1,2],'output_std':[1,1,2],'attention':[1,2,1,3],'heads_used':[1,2]}",
                           ",'output':[[[1.5,-2.0]]],'output_std':[[[0.25,0.0]]],'attention':[[[[1.0,0.0,0.0]],",
                           ",'heads_used':[[0,1]],'approximation':{'output_error':0.5,'attention_error':null,'pairs':"
                           "12,'pairs_full':4503599627370497},'fully_masked_rows':0,",
                           NULL});
    ck_assert_ptr_null(strstr(text, "approximate\""));
    free(text);
    /* Neither without output: there is nothing to deviate. */
    request.returned = RETURN_ATTENTION;
    text = answer_json(&request, &problem, &result, NULL);
    ck_assert(!strstr(text, "output_std") && !strstr(text, "approximation") && strstr(text, "heads_used"));
    free(text);
}
END_TEST

START_TEST(test_base64_and_rank)
{
    struct forward_request request = {
        .returned = RETURN_OUTPUT | RETURN_ATTENTION, .decimals = -1, .encoding = ENCODING_BASE64};
    struct forward_input problem = problem_of(&SAMPLED);
    struct forward_result result = {.output = OUTPUT,
                                    .attention = (float[6]){1, 0, 0, 0, 1, 0},
                                    .output_std = STD,
                                    .heads_used = USED,
                                    .n_maps = 2};
    problem.rank2 = true;
    char *text = answer_json(&request, &problem, &result, NULL);
    expect_parts(text, (const char *const[]){"'output_std':{'shape':[1,2],'dtype':'f32','base64':'AACAPgAAAAA='}",
                                             "'heads_used':{'shape':[2],'dtype':'i32','base64':'AAAAAAEAAAA='}", NULL});
    free(text);
}
END_TEST

START_TEST(test_approximate)
{
    struct forward_request request = {.returned = RETURN_OUTPUT | RETURN_ATTENTION, .decimals = -1};
    const struct forward_input problem = problem_of(&LINFORMER);
    const struct forward_result result = result_of(true);
    char *text = answer_json(&request, &problem, &result, NULL);
    expect_parts(text, (const char *const[]){"'attention':[1,2,1,2]}", "'attention':[[[[0.5,0.5]],[[1.0,0.0]]]]",
                                             ",'approximate':true,'fully_masked_rows':0", NULL});
    ck_assert(!strstr(text, "output_std") && !strstr(text, "heads_used"));
    free(text);
    request.returned = RETURN_OUTPUT; /* it is said of the maps */
    text = answer_json(&request, &problem, &result, NULL);
    ck_assert_ptr_null(strstr(text, "approximate"));
    free(text);
    request.returned = RETURN_ATTENTION; /* of two columns no more than two can be kept */
    request.top_k = 3;
    text = answer_json(&request, &problem, &result, NULL);
    expect_parts(text,
                 (const char *const[]){"'attention':{'shape':[1,2,1,2],'top_k':2,'keys':[[[[0,1]],[[0,1]]]]", NULL});
    free(text);
}
END_TEST

/* A standard deviation that is none is refused as the output is. */
START_TEST(test_not_finite)
{
    static float infinite[] = {0, INFINITY};
    struct forward_request request = {.returned = RETURN_OUTPUT, .decimals = -1};
    const struct forward_input problem = problem_of(&SAMPLED);
    struct forward_result result = result_of(false);
    const struct forward_timing timing = {0};
    struct arena arena = {0};
    struct answer_pieces pieces;
    struct error error;
    result.output_std = infinite;
    ck_assert(arena_reserve(&arena, forward_answer_memory(&request, &SHAPE, &problem)));
    ck_assert(!forward_answer_compose(&request, &SHAPE, &problem, &result, NULL, "demo", "d1", &timing,
                                      &parallel_serial, &arena, &pieces, &error));
    ck_assert_int_eq(error.code, ERROR_NOT_FINITE);
    ck_assert_msg(strstr(error.message, "output_std[0][0][1] is infinity"), "%s", error.message);
    arena_free(&arena);
}
END_TEST

START_TEST(test_safetensors)
{
    struct forward_request request = {.returned = RETURN_OUTPUT | RETURN_ATTENTION, .decimals = -1};
    struct forward_input problem = problem_of(&SAMPLED);
    struct forward_result result = result_of(true);
    const struct forward_timing timing = {.parse_us = 1};
    const struct approximation found = {0.5, 0.25, 12, 13};
    struct attention_rules rules = SAMPLED;
    rules.low_rank = LINFORMER.low_rank; /* in no request together, but each is seen */
    problem.rules = &rules;
    const size_t memory = forward_tensors_memory(&request, &SHAPE, &problem);
    struct arena arena = {0};
    struct answer_pieces pieces;
    struct error error;
    size_t predicted;
    ck_assert(arena_reserve(&arena, memory));
    arena.capacity = memory;
    ck_assert(forward_tensors_bytes(&request, &SHAPE, &problem, &predicted, &error));
    ck_assert_msg(forward_tensors_compose(&request, &SHAPE, &problem, &result, &found, "demo", "d1", &timing,
                                          &parallel_serial, &arena, &pieces, &error),
                  "%s", error.message);
    char *file = write_whole(&pieces, predicted);
    expect_parts(
        file + 8,
        (const char *const[]){
            ",'approximate':'true','approximation':'{\\'output_error\\':0.5,\\'attention_error\\':0.25,\\'pairs\\':12,"
            "\\'pairs_full\\':13}','fully_masked_rows':'0'",
            "'output':{'dtype':'F32','shape':[1,1,2],'data_offsets':[0,8]}",
            "'output_std':{'dtype':'F32','shape':[1,1,2],'data_offsets':[8,16]}",
            "'attention':{'dtype':'F32','shape':[1,2,1,2],'data_offsets':[16,32]}",
            "'heads_used':{'dtype':'I32','shape':[1,2],'data_offsets':[32,40]}", NULL});
    static const uint32_t used[] = {0, 1};
    ck_assert_mem_eq(file + pieces.most - 8, used, 8);
    ck_assert_mem_eq(file + pieces.most - 32, STD, 8);
    free(file);
    arena_free(&arena);
}
END_TEST

static char *answer_oip(struct oip_request *request, const struct forward_input *problem,
                        const struct approximation *approximation, size_t *json_length)
{
    const struct forward_result result = result_of(true);
    struct arena arena = {0};
    struct answer_pieces pieces;
    struct error error;
    size_t predicted;
    ck_assert_msg(oip_request_settle(request, problem, &error), "%s", error.message);
    const size_t memory = oip_answer_memory(request, &SHAPE, problem);
    ck_assert(arena_reserve(&arena, memory));
    arena.capacity = memory;
    ck_assert(oip_answer_bytes(request, &SHAPE, problem, &predicted, &error));
    ck_assert_msg(oip_answer_compose(request, &SHAPE, problem, &result, approximation, &MODEL, &parallel_serial, &arena,
                                     &pieces, json_length, &error),
                  "%s", error.message);
    char *text = write_whole(&pieces, predicted);
    arena_free(&arena);
    return text;
}

START_TEST(test_oip)
{
    const struct forward_input problem = problem_of(&SAMPLED);
    const struct approximation found = {0, 0.25, 12, 13};
    struct oip_request request = {.forward = {.decimals = -1, .returned = RETURN_OUTPUT},
                                  .outputs = {{OIP_RETURN_OUTPUT, false}},
                                  .n_outputs = 1};
    size_t json_length;
    char *text = answer_oip(&request, &problem, &found, &json_length);
    expect_parts(text, (const char *const[]){
                           "{'name':'output','datatype':'FP32','shape':[1,1,2],'data':[1.5,-2.0]},{'name':'output_std',"
                           "'datatype':'FP32','shape':[1,1,2],'data':[0.25,0.0]},{'name':'heads_used','datatype':"
                           "'INT32','shape':[1,2],'data':[0,1]}],'parameters':{'digest':'d1','approximation':"
                           "'{\\'output_error\\':0.0,\\'attention_error\\':0.25,\\'pairs\\':12,\\'pairs_full\\':13}',"
                           "'fully_masked_rows':0}}",
                           NULL});
    free(text);

    /* As they were named, in that order and as bytes. */
    request = (struct oip_request){.forward = {.decimals = -1, .returned = RETURN_OUTPUT},
                                   .outputs = {{OIP_HEADS_USED, true}, {OIP_OUTPUT_STD, true}},
                                   .n_outputs = 2,
                                   .named_outputs = true};
    text = answer_oip(&request, &problem, NULL, &json_length);
    expect_parts(text,
                 (const char *const[]){
                     "{'name':'heads_used','datatype':'INT32','shape':[1,2],'parameters':{'binary_data_size':8}},"
                     "{'name':'output_std','datatype':'FP32','shape':[1,1,2],'parameters':{'binary_data_size':8}}",
                     NULL});
    static const uint32_t used[] = {0, 1};
    ck_assert_mem_eq(text + json_length, used, 8);
    ck_assert_mem_eq(text + json_length + 8, STD, 8);
    free(text);
}
END_TEST

START_TEST(test_oip_without_the_rule)
{
    const struct forward_input problem = problem_of(NULL), low = problem_of(&LINFORMER);
    struct oip_request request = {.forward = {.decimals = -1, .returned = RETURN_OUTPUT},
                                  .outputs = {{OIP_RETURN_OUTPUT, false}, {OIP_OUTPUT_STD, false}},
                                  .output_at = {0, 1},
                                  .n_outputs = 2,
                                  .named_outputs = true};
    struct error error;
    ck_assert(!oip_request_settle(&request, &problem, &error));
    expect_error(&error, ERROR_INVALID, "/outputs/1/name", "output_std dropout", "output_std");
    request.outputs[1].kind = OIP_HEADS_USED;
    ck_assert(!oip_request_settle(&request, &low, &error));
    expect_error(&error, ERROR_INVALID, "/outputs/1/name", "heads_used keep_heads", "heads_used");
    request = (struct oip_request){.forward = {.decimals = -1, .returned = RETURN_ATTENTION},
                                   .outputs = {{OIP_RETURN_ATTENTION, false}},
                                   .n_outputs = 1};
    size_t json_length;
    char *text = answer_oip(&request, &low, NULL, &json_length);
    expect_parts(text, (const char *const[]){"'shape':[1,2,1,2],'data':[0.5,0.5,1.0,0.0]",
                                             "'digest':'d1','approximate':true,'fully_masked_rows'", NULL});
    free(text);
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("rules_answer");
    TCase *c = tcase_create("rules_answer");
    tcase_add_test(c, test_json);
    tcase_add_test(c, test_base64_and_rank);
    tcase_add_test(c, test_approximate);
    tcase_add_test(c, test_not_finite);
    tcase_add_test(c, test_safetensors);
    tcase_add_test(c, test_oip);
    tcase_add_test(c, test_oip_without_the_rule);
    suite_add_tcase(s, c);
    return s;
}
