/* Answers to infer requests against documents that are written by hand, and bytes that are where the JSON says. In
 * these texts ' stands for ". */
#include "codec/expect.h"
#include "codec/oip_answer.h"
#include "json/number_rows.h"

#include <math.h>
#include <stdlib.h>

/* Two heads, one sequence of two queries and three keys. */
static const struct attention_shape SHAPE = {
    .d_model = 2, .num_heads = 2, .num_kv_heads = 2, .d_k = 1, .d_v = 1, .scale = 1, .projected = true};
static const struct forward_input PROBLEM = {.batch = 1, .query_length = 2, .key_length = 3};
static const struct oip_model MODEL = {"demo", "1", "d1"};

static float OUTPUT[] = {1.5f, -2, 0.1f, 1e-10f};                                               /* [1, 2, 2] */
static float ATTENTION[] = {0.5f, 0.25f, 0.25f, 0, 1, 0, 0.125f, 0.75f, 0.125f, 0, 0.5f, 0.5f}; /* [1, 2, 2, 3] */
static float HEADS[] = {1, 2, 3, 4};                                                            /* [1, 2, 2, 1] */
static float KEY[] = {1, 2, 3, 4, 5, 6};                                                        /* [1, 2, 3, 1] */

#define OUTPUT_JSON    "{'name':'output','datatype':'FP32','shape':[1,2,2],'data':[1.5,-2.0,0.1,1e-10]}"
#define ATTENTION_DATA "0.5,0.25,0.25,0.0,1.0,0.0,0.125,0.75,0.125,0.0,0.5,0.5"
#define END            "],'parameters':{'digest':'d1','fully_masked_rows':3}}"

/* What is asked for: `returned` follows from the outputs. */
static struct oip_request request_of(const struct oip_output *outputs, size_t count)
{
    struct oip_request request = {.forward = {.decimals = -1}, .n_outputs = count};
    memcpy(request.outputs, outputs, count * sizeof *outputs);
    for (size_t i = 0; i < count; i++)
        request.forward.returned |= outputs[i].kind < OIP_KEYS ? 1u << outputs[i].kind : (unsigned)RETURN_ATTENTION;
    return request;
}

/* Composes in just the memory that is predicted, and writes into memory that is just as long as the pieces say, so that
 * a sanitizer sees a write behind the end. */
static bool answer(const struct oip_request *request, const struct forward_input *problem,
                   const struct forward_result *result, char **text, size_t *length, size_t *json_length,
                   struct error *error)
{
    struct answer_pieces pieces;
    struct arena arena = {0};
    size_t bytes;
    ck_assert(arena_reserve(&arena, oip_answer_memory(request, &SHAPE, problem)));
    arena.capacity = oip_answer_memory(request, &SHAPE, problem);
    ck_assert(oip_answer_bytes(request, &SHAPE, problem, &bytes, error));
    const bool right = oip_answer_compose(request, &SHAPE, problem, result, NULL, &MODEL, &parallel_serial, &arena,
                                          &pieces, json_length, error);
    if (right) {
        ck_assert_uint_le(pieces.most, bytes);
        ck_assert_uint_le(pieces.least, pieces.most);
        *text = malloc(pieces.most);
        *length =
            (size_t)(answer_pieces_write(&pieces, answer_pieces_begin(), answer_pieces_behind(&pieces), *text) - *text);
        ck_assert_uint_ge(*length, pieces.least);
        ck_assert_int_eq(pieces.raw && pieces.exact, *json_length > 0);
    }
    arena_free(&arena);
    return right;
}

/* Demands that the answer is `json`, and behind it `bytes` [n_bytes]. */
static void expect_answer(const struct oip_request *request, const struct forward_input *problem, const char *json,
                          const void *bytes, size_t n_bytes)
{
    const struct forward_result result = {
        .output = OUTPUT, .attention = ATTENTION, .heads = HEADS, .key = KEY, .fully_masked_rows = 3};
    struct error error;
    char *text, expected[2048];
    size_t length, json_length, n = 0;
    for (; json[n]; n++)
        expected[n] = json[n] == '\'' ? '"' : json[n];
    memcpy(expected + n, bytes, n_bytes);
    ck_assert_msg(answer(request, problem, &result, &text, &length, &json_length, &error), "%s", error.message);
    ck_assert_uint_eq(json_length, n_bytes ? n : 0);
    ck_assert_msg(length == n + n_bytes && memcmp(text, expected, length) == 0, "expected %.*s, got %.*s", (int)n,
                  expected, (int)(length < n ? length : n), text);
    free(text);
}

START_TEST(test_json)
{
    const struct oip_output outputs[] = {{OIP_RETURN_OUTPUT, false}, {OIP_RETURN_ATTENTION, false}};
    struct oip_request request = request_of(outputs, 2);
    expect_answer(&request, &PROBLEM,
                  "{'model_name':'demo','model_version':'1','outputs':[" OUTPUT_JSON
                  ",{'name':'attention','datatype':'FP32','shape':[1,2,2,3],'data':[" ATTENTION_DATA "]}" END,
                  "", 0);
    request.forward.id = "\"a\\u00e9\"";
    request.forward.decimals = 2;
    expect_answer(&request, &PROBLEM,
                  "{'model_name':'demo','model_version':'1','id':'a\\u00e9','outputs':[{'name':'output','datatype':"
                  "'FP32','shape':[1,2,2],'data':[1.50,-2.00,0.10,0.00]},{'name':'attention','datatype':'FP32',"
                  "'shape':[1,2,2,3],'data':[0.50,0.25,0.25,0.00,1.00,0.00,0.12,0.75,0.12,0.00,0.50,0.50]}" END,
                  "", 0);
    ck_assert(!oip_answer_is_raw(&request));
}
END_TEST

/* In the order asked for, without the batch axis where the request had none. */
START_TEST(test_order_and_rank)
{
    const struct oip_output outputs[] = {
        {OIP_RETURN_KEY, false}, {OIP_RETURN_OUTPUT, false}, {OIP_RETURN_HEADS, false}};
    const struct oip_request request = request_of(outputs, 3);
    struct forward_input problem = PROBLEM;
    problem.rank2 = true;
    expect_answer(&request, &problem,
                  "{'model_name':'demo','model_version':'1','outputs':[{'name':'key','datatype':'FP32','shape':[2,3,1],"
                  "'data':[1.0,2.0,3.0,4.0,5.0,6.0]},{'name':'output','datatype':'FP32','shape':[2,2],'data':[1.5,-2.0,"
                  "0.1,1e-10]},{'name':'heads','datatype':'FP32','shape':[2,2,1],'data':[1.0,2.0,3.0,4.0]}" END,
                  "", 0);
}
END_TEST

START_TEST(test_binary)
{
    const struct oip_output outputs[] = {{OIP_RETURN_ATTENTION, true}, {OIP_RETURN_OUTPUT, true}};
    const struct oip_request request = request_of(outputs, 2);
    char bytes[sizeof ATTENTION + sizeof OUTPUT];
    memcpy(bytes, ATTENTION, sizeof ATTENTION);
    memcpy(bytes + sizeof ATTENTION, OUTPUT, sizeof OUTPUT);
    ck_assert(oip_answer_is_raw(&request));
    expect_answer(&request, &PROBLEM,
                  "{'model_name':'demo','model_version':'1','outputs':[{'name':'attention','datatype':'FP32','shape':"
                  "[1,2,2,3],'parameters':{'binary_data_size':48}},{'name':'output','datatype':'FP32','shape':[1,2,2],"
                  "'parameters':{'binary_data_size':16}}" END,
                  bytes, sizeof bytes);
}
END_TEST

START_TEST(test_mixed)
{
    const struct oip_output outputs[] = {{OIP_RETURN_HEADS, true}, {OIP_RETURN_OUTPUT, false}, {OIP_RETURN_KEY, true}};
    const struct oip_request request = request_of(outputs, 3);
    char bytes[sizeof HEADS + sizeof KEY];
    memcpy(bytes, HEADS, sizeof HEADS);
    memcpy(bytes + sizeof HEADS, KEY, sizeof KEY);
    ck_assert(!oip_answer_is_raw(&request));
    expect_answer(&request, &PROBLEM,
                  "{'model_name':'demo','model_version':'1','outputs':[{'name':'heads','datatype':'FP32','shape':"
                  "[1,2,2,1],'parameters':{'binary_data_size':16}}," OUTPUT_JSON
                  ",{'name':'key','datatype':'FP32','shape':[1,2,3,1],'parameters':{'binary_data_size':24}}" END,
                  bytes, sizeof bytes);
}
END_TEST

/* The two largest of each row, ties to the smaller key; k beyond the row is the whole row. */
START_TEST(test_top_k)
{
    const struct oip_output json[] = {{OIP_KEYS, false}, {OIP_WEIGHTS, false}},
                            both[] = {{OIP_WEIGHTS, true}, {OIP_KEYS, true}}, keys[] = {{OIP_KEYS, true}};
    const float weights[] = {0.5f, 0.25f, 1, 0, 0.75f, 0.125f, 0.5f, 0.5f};
    const int32_t indices[] = {0, 1, 1, 0, 1, 0, 1, 2};
    char bytes[sizeof weights + sizeof indices];
    struct oip_request request = request_of(json, 2);
    request.forward.top_k = 2;
    expect_answer(&request, &PROBLEM,
                  "{'model_name':'demo','model_version':'1','outputs':[{'name':'attention_keys','datatype':'INT32',"
                  "'shape':[1,2,2,2],'data':[0,1,1,0,1,0,1,2]},{'name':'attention_weights','datatype':'FP32','shape':"
                  "[1,2,2,2],'data':[0.5,0.25,1.0,0.0,0.75,0.125,0.5,0.5]}" END,
                  "", 0);
    request = request_of(both, 2);
    request.forward.top_k = 2;
    memcpy(bytes, weights, sizeof weights);
    memcpy(bytes + sizeof weights, indices, sizeof indices);
    expect_answer(&request, &PROBLEM,
                  "{'model_name':'demo','model_version':'1','outputs':[{'name':'attention_weights','datatype':'FP32',"
                  "'shape':[1,2,2,2],'parameters':{'binary_data_size':32}},{'name':'attention_keys','datatype':'INT32',"
                  "'shape':[1,2,2,2],'parameters':{'binary_data_size':32}}" END,
                  bytes, sizeof bytes);
    const int32_t all[] = {0, 1, 2, 1, 0, 2, 1, 0, 2, 1, 2, 0};
    request = request_of(keys, 1);
    request.forward.top_k = 7;
    expect_answer(&request, &PROBLEM,
                  "{'model_name':'demo','model_version':'1','outputs':[{'name':'attention_keys','datatype':'INT32',"
                  "'shape':[1,2,2,3],'parameters':{'binary_data_size':48}}" END,
                  all, sizeof all);
}
END_TEST

/* JSON cannot carry it, bytes can. */
START_TEST(test_not_finite)
{
    float output[] = {1, 2, INFINITY, 4};
    const struct forward_result result = {.output = output};
    struct oip_output outputs[] = {{OIP_RETURN_OUTPUT, false}};
    struct oip_request request = request_of(outputs, 1);
    struct error error;
    char *text;
    size_t length, json_length;
    ck_assert(!answer(&request, &PROBLEM, &result, &text, &length, &json_length, &error));
    expect_error(&error, ERROR_NOT_FINITE, NULL, "output binary_data", "infinity");
    ck_assert_ptr_nonnull(strstr(error.message, "output[0][1][0] is infinity"));
    outputs[0].binary = true;
    request = request_of(outputs, 1);
    ck_assert(answer(&request, &PROBLEM, &result, &text, &length, &json_length, &error));
    ck_assert_uint_eq(length, json_length + sizeof output);
    ck_assert_mem_eq(text + json_length, output, sizeof output);
    free(text);
}
END_TEST

/* Any arena that is too small is an error, and is not overrun. */
START_TEST(test_memory)
{
    const struct oip_output outputs[] = {{OIP_KEYS, true}, {OIP_RETURN_OUTPUT, false}, {OIP_WEIGHTS, false}};
    const struct forward_result result = {.output = OUTPUT, .attention = ATTENTION};
    struct oip_request request = request_of(outputs, 3);
    struct answer_pieces pieces;
    struct arena arena = {0};
    struct error error;
    size_t json_length, capacity = 0;
    request.forward.top_k = 2;
    const size_t enough = oip_answer_memory(&request, &SHAPE, &PROBLEM);
    ck_assert(arena_reserve(&arena, enough));
    for (;; capacity += ARENA_ALIGNMENT) {
        arena.capacity = capacity;
        arena.used = 0;
        if (oip_answer_compose(&request, &SHAPE, &PROBLEM, &result, NULL, &MODEL, &parallel_serial, &arena, &pieces,
                               &json_length, &error))
            break;
        ck_assert_int_eq(error.code, ERROR_OUT_OF_MEMORY);
    }
    ck_assert_uint_le(capacity, enough);
    ck_assert_uint_gt(capacity, 1024);
    arena_free(&arena);
}
END_TEST

START_TEST(test_too_large)
{
    const struct oip_output outputs[] = {{OIP_RETURN_ATTENTION, false}, {OIP_RETURN_OUTPUT, true}};
    const struct oip_request request = request_of(outputs, 2);
    const struct forward_input problem = {
        .batch = (size_t)1 << 20, .query_length = (size_t)1 << 20, .key_length = (size_t)1 << 20};
    struct error error;
    size_t bytes;
    ck_assert(!oip_answer_bytes(&request, &SHAPE, &problem, &bytes, &error));
    expect_error(&error, ERROR_TOO_LARGE, NULL, "attention outputs", "2^60 numbers");
    ck_assert_uint_eq(oip_answer_memory(&request, &SHAPE, &problem), SIZE_MAX);
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("oip_answer");
    TCase *c = tcase_create("oip_answer");
    tcase_add_test(c, test_json);
    tcase_add_test(c, test_order_and_rank);
    tcase_add_test(c, test_binary);
    tcase_add_test(c, test_mixed);
    tcase_add_test(c, test_top_k);
    tcase_add_test(c, test_not_finite);
    tcase_add_test(c, test_memory);
    tcase_add_test(c, test_too_large);
    suite_add_tcase(s, c);
    return s;
}
