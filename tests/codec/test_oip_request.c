/* Infer requests decoded: every form of a tensor, every order of members, every fault of one. Bodies are written by
 * hand, in texts in which ' stands for ". */
#include "codec/decoded.h"
#include "codec/expect.h"
#include "codec/oip_request.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* What the last request was decoded into, and its body: tensors may lie in either. */
static struct arena arena;
static char *body;

static void free_memory(void)
{
    arena_free(&arena);
    free(body);
    body = NULL;
}

/* The first `json_length` bytes of what is decoded are JSON; SIZE_MAX: all. `offset`: from an aligned address. */
static bool decode_at(const char *json, const void *bytes, size_t n_bytes, size_t json_length, size_t offset,
                      struct oip_request *request, struct error *error)
{
    const size_t length = strlen(json) + n_bytes;
    free(body);
    body = malloc(offset + length + !length); /* just as long, so that a sanitizer sees a read behind the end */
    for (size_t i = 0; json[i]; i++)
        body[offset + i] = json[i] == '\'' ? '"' : json[i];
    if (n_bytes)
        memcpy(body + offset + strlen(json), bytes, n_bytes);
    arena_for_body(&arena, length);
    const bool right = oip_request_decode(body + offset, length, json_length, &arena, request, error);
    ck_assert(right || (arena.used == BEFORE_BODY && !request->forward.input.data && request->n_outputs == 0));
    return right;
}

static void accept(const char *json, struct oip_request *request)
{
    struct error error;
    ck_assert_msg(decode_at(json, NULL, 0, SIZE_MAX, 0, request, &error), "%s: %s", json, error.message);
    ck_assert_uint_eq(arena.used, BEFORE_BODY + held_bytes(&request->forward));
    ck_assert(!request->forward.points_into_body);
}

static void accept_bytes(const char *json, const void *bytes, size_t n_bytes, size_t offset,
                         struct oip_request *request)
{
    struct error error;
    ck_assert_msg(decode_at(json, bytes, n_bytes, strlen(json), offset, request, &error), "%s: %s", json,
                  error.message);
}

static void refuse(const char *json, enum error_code code, const char *pointer, const char *words)
{
    struct oip_request request;
    struct error error;
    ck_assert_msg(!decode_at(json, NULL, 0, SIZE_MAX, 0, &request, &error), "accepted: %s", json);
    expect_error(&error, code, pointer, words, json);
}

static void refuse_bytes(const char *json, const void *bytes, size_t n_bytes, size_t json_length, const char *pointer,
                         const char *words)
{
    struct oip_request request;
    struct error error;
    ck_assert_msg(!decode_at(json, bytes, n_bytes, json_length, 0, &request, &error), "accepted: %s", json);
    expect_error(&error, ERROR_INVALID, pointer, words, json);
}

static void expect_outputs(const struct oip_request *request, const struct oip_output *outputs, size_t count)
{
    ck_assert_uint_eq(request->n_outputs, count);
    for (size_t i = 0; i < count; i++) {
        ck_assert_str_eq(oip_output_name(request->outputs[i].kind), oip_output_name(outputs[i].kind));
        ck_assert_int_eq(request->outputs[i].binary, outputs[i].binary);
    }
}

#define INPUT "{'name':'input','datatype':'FP32','shape':[1,2,2],'data':[1,2,3,4]}"

START_TEST(test_full)
{
    static const char FULL[] =
        "{'id':'a\\u00e9','model_name':'demo','model_version':null,"
        "'parameters':{'causal':true,'include_heads':[6,1],'top_k':2,'decimals':3,'priority':1,'mine':{'a':[1]}},"
        "'inputs':[{'name':'query','datatype':'FP32','shape':[1,2,2],'data':[[[1,2],[3,4]]]},"
        "{'shape':[1,3,2],'data':[5,6,7,8,9,10],'name':'key','parameters':{'mine':2},'datatype':'FP64'},"
        "{'data':[[true,0,1]],'name':'attention_mask','shape':[1,3],'datatype':'INT64'},"
        "{'name':'bias','datatype':'FP16','data':[[[0.5,0,0],[0,0,-1]]],'shape':[1,2,3],'parameters':null},"
        "{'name':'head_mask','datatype':'BF16','shape':[1],'data':[2]}],"
        "'outputs':[{'name':'value','parameters':{'binary_data':true,'classification':0}},{'name':'attention'},"
        "{'name':'heads','parameters':{'binary_data':false,'mine':[]}}]}";
    const float query[] = {1, 2, 3, 4}, key[] = {5, 6, 7, 8, 9, 10}, bias[] = {0.5f, 0, 0, 0, 0, -1};
    const uint8_t mask[] = {1, 0, 1};
    const size_t query_shape[] = {1, 2, 2}, key_shape[] = {1, 3, 2};
    const struct oip_output outputs[] = {
        {OIP_RETURN_VALUE, true}, {OIP_KEYS, false}, {OIP_WEIGHTS, false}, {OIP_RETURN_HEADS, false}};
    struct oip_request request;
    accept(FULL, &request);
    const struct forward_request *q = &request.forward;
    ck_assert_str_eq(q->id, "\"a\\u00e9\"");
    ck_assert_ptr_null(q->weights);
    ck_assert_uint_eq(q->input.rank, 0);
    ck_assert_uint_eq(q->query.rank, 3);
    ck_assert_mem_eq(q->query.shape, query_shape, sizeof query_shape);
    ck_assert_mem_eq(q->query.data, query, sizeof query);
    ck_assert_mem_eq(q->key.shape, key_shape, sizeof key_shape);
    ck_assert_mem_eq(q->key.data, key, sizeof key);
    ck_assert_uint_eq(q->attention_mask.rank, 2);
    ck_assert_mem_eq(q->attention_mask.data, mask, sizeof mask);
    ck_assert_mem_eq(q->bias.data, bias, sizeof bias);
    ck_assert_uint_eq(q->head_mask.count, 1);
    ck_assert(q->head_mask.data[0] == 2);
    ck_assert(q->causal);
    ck_assert_uint_eq(q->n_include_heads, 2);
    ck_assert_uint_eq(q->include_heads[0], 6);
    ck_assert_uint_eq(q->top_k, 2);
    ck_assert_int_eq(q->decimals, 3);
    ck_assert_uint_eq(q->returned, RETURN_VALUE | RETURN_ATTENTION | RETURN_HEADS);
    expect_outputs(&request, outputs, 4);
}
END_TEST

START_TEST(test_least)
{
    const struct oip_output outputs[] = {{OIP_RETURN_OUTPUT, false}, {OIP_RETURN_ATTENTION, false}};
    struct oip_request request;
    accept("{'inputs':[" INPUT "]}", &request);
    expect_outputs(&request, outputs, 2);
    ck_assert_uint_eq(request.forward.returned, RETURN_OUTPUT | RETURN_ATTENTION);
    ck_assert_ptr_null(request.forward.id);
    ck_assert_int_eq(request.forward.decimals, -1);
    accept("{'inputs':[" INPUT "],'outputs':[],'id':null,'parameters':null}", &request);
    expect_outputs(&request, outputs, 2);
    accept("{'inputs':[" INPUT "],'outputs':null,'id':''}", &request);
    ck_assert_str_eq(request.forward.id, "\"\"");
}
END_TEST

/* What is asked for, in which order, and in which form. */
START_TEST(test_outputs)
{
    static const struct {
        const char *members;
        size_t count;
        struct oip_output outputs[OIP_OUTPUT_COUNT];
    } cases[] = {
        {"'parameters':{'binary_data_output':true}", 2, {{OIP_RETURN_OUTPUT, true}, {OIP_RETURN_ATTENTION, true}}},
        {"'parameters':{'top_k':1}", 3, {{OIP_RETURN_OUTPUT, false}, {OIP_KEYS, false}, {OIP_WEIGHTS, false}}},
        {"'parameters':{'return':['key','heads']}", 2, {{OIP_RETURN_HEADS, false}, {OIP_RETURN_KEY, false}}},
        {"'outputs':[{'name':'key'},{'name':'output'}]", 2, {{OIP_RETURN_KEY, false}, {OIP_RETURN_OUTPUT, false}}},
        {"'outputs':[{'name':'key','parameters':{'binary_data':false}},{'parameters':{},'name':'query'}],"
         "'parameters':{'binary_data_output':true}",
         2,
         {{OIP_RETURN_KEY, false}, {OIP_RETURN_QUERY, true}}},
        {"'outputs':[{'name':'attention_weights','parameters':{'binary_data':true}},{'name':'attention_keys'}],"
         "'parameters':{'top_k':1}",
         2,
         {{OIP_WEIGHTS, true}, {OIP_KEYS, false}}},
        {"'outputs':[{'name':'attention_keys'}],'parameters':{'top_k':9}", 1, {{OIP_KEYS, false}}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char json[512];
        struct oip_request request;
        unsigned returned = 0;
        snprintf(json, sizeof json, "{'inputs':[" INPUT "],%s}", cases[i].members);
        accept(json, &request);
        expect_outputs(&request, cases[i].outputs, cases[i].count);
        for (size_t o = 0; o < cases[i].count; o++)
            returned |=
                cases[i].outputs[o].kind < OIP_KEYS ? 1u << cases[i].outputs[o].kind : (unsigned)RETURN_ATTENTION;
        ck_assert_uint_eq(request.forward.returned, returned);
    }
}
END_TEST

/* ---- bytes */

/* 1.5 and -2 in each format. */
START_TEST(test_binary_numbers)
{
    static const unsigned char f32[] = {0, 0, 0xC0, 0x3F, 0, 0, 0, 0xC0}, f16[] = {0, 0x3E, 0, 0xC0},
                               bf16[] = {0xC0, 0x3F, 0, 0xC0},
                               f64[] = {0, 0, 0, 0, 0, 0, 0xF8, 0x3F, 0, 0, 0, 0, 0, 0, 0, 0xC0};
    static const struct {
        const char *datatype;
        const unsigned char *bytes;
        size_t length;
    } formats[] = {
        {"FP32", f32, sizeof f32}, {"FP16", f16, sizeof f16}, {"BF16", bf16, sizeof bf16}, {"FP64", f64, sizeof f64}};
    const float expected[] = {1.5f, -2};
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
        char json[256];
        struct oip_request request;
        snprintf(json, sizeof json,
                 "{'inputs':[{'name':'input','datatype':'%s','shape':[1,2],'parameters':{'binary_data_size':%zu}}]}",
                 formats[i].datatype, formats[i].length);
        accept_bytes(json, formats[i].bytes, formats[i].length, 0, &request);
        ck_assert_uint_eq(request.forward.input.count, 2);
        ck_assert_mem_eq(request.forward.input.data, expected, sizeof expected);
    }
}
END_TEST

START_TEST(test_binary_masks)
{
    static const unsigned char bytes[] = {1, 0, 1}, i32[] = {1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0},
                               i64[24] = {[0] = 1, [16] = 1};
    static const struct {
        const char *datatype;
        const unsigned char *bytes;
        size_t length;
    } formats[] = {{"BOOL", bytes, 3}, {"UINT8", bytes, 3}, {"INT32", i32, sizeof i32}, {"INT64", i64, sizeof i64}};
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
        char json[512];
        struct oip_request request;
        snprintf(json, sizeof json,
                 "{'inputs':[{'name':'attention_mask','datatype':'%s','shape':[3],'parameters':{'binary_data_size':%zu}"
                 "},{'name':'input','datatype':'FP32','shape':[3,1],'data':[1,2,3]}]}",
                 formats[i].datatype, formats[i].length);
        accept_bytes(json, formats[i].bytes, formats[i].length, 0, &request);
        ck_assert_uint_eq(request.forward.attention_mask.count, 3);
        ck_assert_mem_eq(request.forward.attention_mask.data, bytes, 3);
    }
}
END_TEST

/* Sections follow in the order of the inputs, those in JSON between them take none; what is aligned stays in place. */
START_TEST(test_binary_sections)
{
    static const char json[] =
        "{'inputs':[{'name':'query','datatype':'FP32','shape':[1,2],'parameters':{'binary_data_size':8}},"
        "{'name':'value','datatype':'FP32','shape':[1,2],'data':[7,8]},"
        "{'parameters':{'binary_data_size':8},'name':'key','shape':[1,2],'datatype':'FP32'}]}";
    const float sections[] = {1, 2, 3, 4}, value[] = {7, 8};
    for (size_t offset = 0; offset < 8; offset++) {
        struct oip_request request;
        accept_bytes(json, sections, sizeof sections, offset, &request);
        const bool aligned = (offset + strlen(json)) % 4 == 0;
        const char *bytes = body + offset + strlen(json);
        ck_assert_mem_eq(request.forward.query.data, sections, 8);
        ck_assert_mem_eq(request.forward.key.data, sections + 2, 8);
        ck_assert_mem_eq(request.forward.value.data, value, 8);
        ck_assert_int_eq(request.forward.points_into_body, aligned);
        ck_assert_int_eq((const char *)request.forward.query.data == bytes, aligned);
        ck_assert_int_eq((const char *)request.forward.key.data == bytes + 8, aligned);
        ck_assert((const char *)request.forward.value.data < body ||
                  (const char *)request.forward.value.data > bytes + 16);
    }
}
END_TEST

START_TEST(test_binary_faults)
{
    static const char one[] =
        "{'inputs':[{'name':'input','datatype':'FP32','shape':[1,2],'parameters':{'binary_data_size':8}}]}";
    static const char four[] =
        "{'inputs':[{'name':'input','datatype':'FP32','shape':[1,2],'parameters':{'binary_data_size':4}}]}";
    static const char both[] = "{'inputs':[{'name':'input','datatype':'FP32','shape':[1,2],'data':[1,2],"
                               "'parameters':{'binary_data_size':8}}]}";
    static const char size[] = "/inputs/0/parameters/binary_data_size";
    const float numbers[] = {1, 2, 3}, nan[] = {1, NAN};
    char words[80];
    struct oip_request request;
    struct error error;
    refuse_bytes(one, numbers, 8, SIZE_MAX - 1, NULL, "Inference-Header-Content-Length bytes");
    snprintf(words, sizeof words, "Inference-Header-Content-Length %zu %zu", strlen(one) + 9, strlen(one) + 8);
    refuse_bytes(one, numbers, 8, strlen(one) + 9, NULL, words);
    refuse_bytes(one, numbers, 7, sizeof one - 1, size, "input 8 7");
    refuse_bytes(one, numbers, 12, sizeof one - 1, "/inputs", "4 Inference-Header-Content-Length");
    refuse_bytes(four, numbers, 4, sizeof four - 1, "/inputs/0", "8 4 FP32");
    refuse_bytes(four, numbers, 8, sizeof four - 1, "/inputs/0", "8 4 FP32");
    refuse_bytes(both, numbers, 8, sizeof both - 1, "/inputs/0", "input data binary_data_size");
    refuse_bytes("{'inputs':[" INPUT "]}", numbers, 4, sizeof "{'inputs':[" INPUT "]}" - 1, "/inputs", "4");
    refuse(one, ERROR_INVALID, size, "Inference-Header-Content-Length");
    ck_assert(!decode_at(one, nan, 8, sizeof one - 1, 0, &request, &error));
    expect_error(&error, ERROR_NOT_FINITE, "/inputs/0", "1 2 finite", "NaN");
    ck_assert(!decode_at(one, numbers, 8, sizeof one - 2, 0, &request, &error));
    expect_error(&error, ERROR_NOT_JSON, NULL, NULL, "a header that cuts the JSON");
    ck_assert(!decode_at(one, (const char[]){"        "}, 8, sizeof one, 0, &request, &error));
    expect_error(&error, ERROR_INVALID, size, "8 7", "a header that takes a byte of the numbers");
}
END_TEST

/* ---- faults of the JSON */

START_TEST(test_faults)
{
    static const struct {
        const char *json;
        enum error_code code;
        const char *pointer, *words;
    } faults[] = {
        {"", ERROR_NOT_JSON, NULL, NULL},
        {"{", ERROR_NOT_JSON, NULL, NULL},
        {"[]", ERROR_INVALID, "", "object array"},
        {"{}", ERROR_INVALID, "/inputs", "inputs input"},
        {"{'inputs':[]}", ERROR_INVALID, "/inputs", "inputs input"},
        {"{'inputs':{}}", ERROR_INVALID, "/inputs", "array object"},
        {"{'inputs':[7]}", ERROR_INVALID, "/inputs/0", "object number"},
        {"{'inputs':[" INPUT "]} x", ERROR_NOT_JSON, NULL, NULL},
        {"{'inputs':[" INPUT "],'output':[]}", ERROR_UNKNOWN_MEMBER, "/output", "output outputs"},
        {"{'inputs':[" INPUT "],'inputs':[]}", ERROR_DUPLICATE_MEMBER, "/inputs", "inputs"},
        {"{'inputs':[" INPUT "],'id':1.5}", ERROR_INVALID, "/id", "integer"},
        {"{'inputs':[" INPUT "," INPUT "]}", ERROR_DUPLICATE_MEMBER, "/inputs/1/name", "input twice"},
        {"{'inputs':[{'name':'inptu','datatype':'FP32','shape':[1,1],'data':[1]}]}", ERROR_UNKNOWN_MEMBER,
         "/inputs/0/name", "inptu input"},
        {"{'inputs':[{'name':'causal','datatype':'BOOL','shape':[1],'data':[1]}]}", ERROR_INVALID, "/inputs/0/name",
         "causal parameters"},
        {"{'inputs':[{'name':7}]}", ERROR_INVALID, "/inputs/0/name", "string number"},
        {"{'inputs':[{'datatype':'FP32','shape':[1,1],'data':[1]}]}", ERROR_INVALID, "/inputs/0", "name"},
        {"{'inputs':[{'name':'input','datatype':'FP32','data':[1]}]}", ERROR_INVALID, "/inputs/0", "shape"},
        {"{'inputs':[{'name':'input','shape':[1,1],'data':[1]}]}", ERROR_INVALID, "/inputs/0", "datatype"},
        {"{'inputs':[{'name':'input','datatype':'FP32','shape':[1,1]}]}", ERROR_INVALID, "/inputs/0", "input data"},
        {"{'inputs':[{'name':'input','datatype':'FP32','shape':[1,1],'dta':[1]}]}", ERROR_UNKNOWN_MEMBER,
         "/inputs/0/dta", "dta data"},
        {"{'inputs':[{'name':'input','datatype':'BYTES','shape':[1,1],'data':['a']}]}", ERROR_INVALID,
         "/inputs/0/datatype", "BYTES FP32 INT64"},
        {"{'inputs':[{'name':'input','datatype':'f32','shape':[1,1],'data':[1]}]}", ERROR_INVALID, "/inputs/0/datatype",
         "f32 FP32"},
        {"{'inputs':[{'name':'input','datatype':'INT64','shape':[1,1],'data':[1]}]}", ERROR_INVALID, "/inputs/0/data",
         "input INT64 FP32"},
        {"{'inputs':[{'data':[1],'name':'input','datatype':'INT64','shape':[1,1]}]}", ERROR_INVALID, "/inputs/0/data",
         "input INT64 FP32"},
        {"{'inputs':[{'name':'input','datatype':'FP32','shape':[],'data':[1]}]}", ERROR_INVALID, "/inputs/0/shape",
         "empty"},
        {"{'inputs':[{'name':'input','datatype':'FP32','shape':[1,0],'data':[1]}]}", ERROR_INVALID, "/inputs/0/shape/1",
         "0 1"},
        {"{'inputs':[{'name':'input','datatype':'FP32','shape':[1,-1],'data':[1]}]}", ERROR_INVALID,
         "/inputs/0/shape/1", "1"},
        {"{'inputs':[{'name':'input','datatype':'FP32','shape':[1,1,1,1,1,1],'data':[1]}]}", ERROR_INVALID, NULL,
         "5 axes"},
        {"{'inputs':[{'name':'input','datatype':'FP32','shape':[1,1,1,1],'data':[1]}]}", ERROR_INVALID, "/inputs/0",
         "4 3"},
        {"{'inputs':[{'name':'input','datatype':'FP32','shape':[4294967296,4294967296],'data':[1]}]}", ERROR_INVALID,
         "/inputs/0/shape", "memory"},
        {"{'inputs':[{'name':'input','datatype':'FP32','shape':[1,3],'data':[1,2]}]}", ERROR_INVALID, "/inputs/0/data",
         "3 2"},
        {"{'inputs':[{'name':'input','datatype':'FP32','shape':[2,1],'data':[[1,2]]}]}", ERROR_INVALID,
         "/inputs/0/data", "2 1"},
        {"{'inputs':[{'data':[[1,2],[3]],'name':'input','datatype':'FP32','shape':[2,1]}]}", ERROR_INVALID,
         "/inputs/0/data/1", "ragged"},
        {"{'inputs':[{'name':'input','datatype':'FP32','shape':[1,2],'data':[1,true]}]}", ERROR_INVALID,
         "/inputs/0/data/1", "number"},
        {"{'inputs':[{'name':'input','datatype':'FP32','shape':[1,2],'data':[1,1e39]}]}", ERROR_NOT_FINITE,
         "/inputs/0/data/1", NULL},
        {"{'inputs':[{'name':'input','datatype':'FP32','shape':[1,2],'data':'AAAA'}]}", ERROR_INVALID, "/inputs/0/data",
         "array string"},
        {"{'inputs':[" INPUT ",{'name':'attention_mask','datatype':'BOOL','shape':[1,2],'data':[1,2]}]}", ERROR_INVALID,
         "/inputs/1/data/1", "2"},
        {"{'inputs':[{'name':'input','datatype':'FP32','shape':[1,2],'parameters':{'shared_memory_region':'r'}}]}",
         ERROR_INVALID, "/inputs/0/parameters/shared_memory_region", "shared memory"},
        {"{'inputs':[{'name':'input','datatype':'FP32','shape':[1,2],'parameters':{'binary_data_size':-8}}]}",
         ERROR_INVALID, "/inputs/0/parameters/binary_data_size", "0"},
        {"{'inputs':[{'name':'query','datatype':'FP32','shape':[1,2],'data':[1,2]}]}", ERROR_INVALID, NULL,
         "query key"},
        {"{'inputs':[{'name':'key','datatype':'FP32','shape':[1,2],'data':[1,2]}," INPUT "]}", ERROR_INVALID,
         "/inputs/0", "input key"},
        {"{'inputs':[" INPUT "],'parameters':{'causal':1}}", ERROR_INVALID, "/parameters/causal", "true false"},
        {"{'inputs':[" INPUT "],'parameters':{'top_k':0}}", ERROR_INVALID, "/parameters/top_k", "0 1"},
        {"{'inputs':[" INPUT "],'parameters':{'include_heads':[]}}", ERROR_INVALID, "/parameters/include_heads",
         "head"},
        {"{'inputs':[" INPUT "],'parameters':{'decimals':10}}", ERROR_INVALID, "/parameters/decimals", "10"},
        {"{'inputs':[" INPUT "],'parameters':{'binary_data_output':1}}", ERROR_INVALID,
         "/parameters/binary_data_output", "true"},
        {"{'inputs':[" INPUT "],'parameters':{'x':1,'x':1}}", ERROR_DUPLICATE_MEMBER, "/parameters/x", "x"},
        {"{'inputs':[" INPUT "],'parameters':{'return':['outptu']}}", ERROR_INVALID, "/parameters/return/0",
         "outptu output"},
        {"{'inputs':[" INPUT "],'parameters':{'return':['output']},'outputs':[{'name':'key'}]}", ERROR_INVALID,
         "/parameters/return", "outputs"},
        {"{'inputs':[" INPUT "],'outputs':[{'name':'outptu'}]}", ERROR_UNKNOWN_MEMBER, "/outputs/0/name",
         "outptu output"},
        {"{'inputs':[" INPUT "],'outputs':[{}]}", ERROR_INVALID, "/outputs/0", "name"},
        {"{'inputs':[" INPUT "],'outputs':[{'name':'output'},{'name':'output'}]}", ERROR_INVALID, "/outputs/1/name",
         "output twice"},
        {"{'inputs':[" INPUT "],'outputs':[{'name':'output'},{'name':'attention_keys'}]}", ERROR_INVALID,
         "/outputs/1/name", "attention_keys top_k"},
        {"{'inputs':[" INPUT "],'outputs':[{'name':'attention_keys'},{'name':'attention'}],'parameters':{'top_k':1}}",
         ERROR_INVALID, "/outputs/1/name", "attention_keys twice"},
        {"{'inputs':[" INPUT "],'outputs':[{'name':'output','parameters':{'classification':3}}]}", ERROR_INVALID,
         "/outputs/0/parameters/classification", "classification"},
        {"{'inputs':[" INPUT "],'outputs':[{'name':'output','parameters':{'binary_data':'yes'}}]}", ERROR_INVALID,
         "/outputs/0/parameters/binary_data", "true string"},
        {"{'inputs':[" INPUT "],'outputs':[{'name':'output','parameters':{'shared_memory_region':'r'}}]}",
         ERROR_INVALID, "/outputs/0/parameters/shared_memory_region", "shared memory"},
    };
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++)
        refuse(faults[i].json, faults[i].code, faults[i].pointer, faults[i].words);
}
END_TEST

/* Rules are parameters, as objects or as their texts; positions are an input. */
START_TEST(test_rules)
{
    struct oip_request request;
    static const int64_t wide[] = {5, 6};
    accept("{'inputs':[" INPUT "],'parameters':{'position':{'kind':'rope','base':5},'pattern':'{\\'kind\\':"
           "\\'block\\',\\'size\\':2,\\'global\\':[1]}','dropout':'null','low_rank':null,'compare':'full'}}",
           &request);
    const struct forward_rules *rules = request.forward.rules;
    ck_assert(request.forward.compare && rules);
    ck_assert_uint_eq(rules->asked.named, RULE_POSITION | RULE_PATTERN | RULE_DROPOUT | RULE_LOW_RANK);
    ck_assert(rules->asked.rules.position.base == 5 && rules->asked.rules.pattern.size == 2 &&
              rules->asked.rules.pattern.global[0] == 1 && rules->asked.rules.dropout.samples == 0);
    accept("{'inputs':[" INPUT ",{'name':'position_ids','datatype':'INT32','shape':[1,2],'data':[[3,4294967295]]}],"
           "'outputs':[{'name':'heads_used'},{'name':'output_std'}]}",
           &request);
    ck_assert(request.forward.position_ids.rank == 2 && request.forward.position_ids.shape[1] == 2 &&
              request.forward.position_ids.data[1] == UINT32_MAX);
    ck_assert(request.named_outputs && request.forward.returned == RETURN_OUTPUT);
    accept_bytes(
        "{'inputs':[{'name':'position_ids','datatype':'INT64','shape':[2],'parameters':{'binary_data_size':16}}," INPUT
        "]}",
        wide, sizeof wide, 0, &request);
    ck_assert(request.forward.position_ids.rank == 1 && request.forward.position_ids.data[1] == 6);
}
END_TEST

START_TEST(test_rule_faults)
{
    static char longest[40000];
    refuse("{'inputs':[" INPUT "],'parameters':{'pattern':{'kind':'windw'}}}", ERROR_INVALID,
           "/parameters/pattern/kind", "window");
    refuse("{'inputs':[" INPUT "],'parameters':{'pattern':'{\\'kind\\':\\'windw\\'}'}}", ERROR_INVALID,
           "/parameters/pattern/kind", "window");
    refuse("{'inputs':[" INPUT "],'parameters':{'pattern':'window'}}", ERROR_NOT_JSON, "/parameters/pattern",
           "pattern JSON");
    refuse("{'inputs':[" INPUT "],'parameters':{'pattern':'{\\'kind\\':'}}", ERROR_NOT_JSON, NULL, "pattern JSON");
    refuse("{'inputs':[" INPUT "],'parameters':{'pattern':'nu\\u0000ll'}}", ERROR_INVALID, "/parameters/pattern",
           "U 0000");
    refuse("{'inputs':[" INPUT "],'parameters':{'dropout':{'rate':1}}}", ERROR_INVALID, "/parameters/dropout/rate",
           "rate");
    refuse("{'inputs':[" INPUT "],'parameters':{'compare':'ful'}}", ERROR_INVALID, "/parameters/compare", "full");
    refuse("{'inputs':[" INPUT "],'parameters':{'pattern':null,'pattern':null}}", ERROR_DUPLICATE_MEMBER, NULL,
           "pattern");
    refuse("{'inputs':[" INPUT ",{'name':'position_ids','datatype':'FP32','shape':[2],'data':[0,1]}]}", ERROR_INVALID,
           "/inputs/1/data", "position_ids FP32 INT32 INT64");
    refuse("{'inputs':[" INPUT ",{'name':'position_ids','datatype':'INT32','shape':[2],'data':[0,1.5]}]}",
           ERROR_INVALID, "/inputs/1/data/1", "1.5");
    refuse("{'inputs':[" INPUT ",{'name':'position_ids','datatype':'INT32','shape':[3],'data':[0,1]}]}", ERROR_INVALID,
           "/inputs/1/data", "2 3");
    refuse("{'inputs':[" INPUT ",{'name':'position_ids','datatype':'INT32','shape':[1,1,2],'data':[0,1]}]}",
           ERROR_INVALID, "/inputs/1/data", "3 2");
    const int at = snprintf(longest, sizeof longest, "{'inputs':[" INPUT "],'parameters':{'pattern':'");
    memset(longest + at, ' ', 16384);
    strcpy(longest + at + 16384, "null'}}");
    refuse(longest, ERROR_INVALID, "/parameters/pattern", "16388 16383 object");
}
END_TEST

/* Places that the check against the weights names are found again in this protocol's request. */
START_TEST(test_places)
{
    static const struct {
        const char *json, *pointer;
    } cases[] = {
        {"{'inputs':[{'name':'input','datatype':'FP32','shape':[1,3],'data':[1,2,3]}]}", "/inputs/0"},
        {"{'inputs':[{'name':'attention_mask','datatype':'BOOL','shape':[3],'data':[1,1,1]},"
         "{'name':'input','datatype':'FP32','shape':[1,2],'data':[1,2]}]}",
         "/inputs/0"},
        {"{'inputs':[{'name':'key','datatype':'FP32','shape':[1,2],'data':[1,2]},"
         "{'name':'query','datatype':'FP32','shape':[1,1],'data':[1]}]}",
         "/inputs/1"},
        {"{'inputs':[" INPUT "],'parameters':{'include_heads':[0,5]}}", "/parameters/include_heads/1"},
        {"{'inputs':[" INPUT "],'parameters':{'keep_heads':{'count':3}}}", "/parameters/keep_heads/count"},
        {"{'inputs':[" INPUT ",{'name':'position_ids','datatype':'INT32','shape':[3],'data':[0,1,2]}]}", "/inputs/1"},
    };
    const struct attention_shape shape = {.d_model = 2, .num_heads = 2, .num_kv_heads = 2, .d_k = 1, .d_v = 1};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct oip_request request;
        struct forward_input problem;
        struct error error;
        accept(cases[i].json, &request);
        ck_assert(!forward_request_check(&request.forward, &shape, NULL, &problem, &error));
        oip_request_place(&request, &error);
        expect_error(&error, ERROR_INVALID, cases[i].pointer, NULL, cases[i].json);
    }
    struct oip_request request = {0};
    struct error error;
    error_set_at(&error, ERROR_INVALID, "/input_ids/1/30", "9 is no token id");
    oip_request_place(&request, &error);
    ck_assert_str_eq(error.pointer, "/inputs/0");
    ck_assert_str_eq(error.message, "element [1,30]: 9 is no token id");
    error_set(&error, ERROR_INVALID, "no place");
    oip_request_place(&request, &error);
    ck_assert(!error.has_pointer);
    error_set_at(&error, ERROR_INVALID, "", "the whole");
    oip_request_place(&request, &error);
    ck_assert_str_eq(error.pointer, "");
}
END_TEST

/* A body that is cut anywhere is refused, and read nowhere behind its end (a sanitizer looks). */
START_TEST(test_cut)
{
    static const char json[] = "{'id':'7','parameters':{'causal':true,'include_heads':[0]},'inputs':[" INPUT
                               ",{'data':[[true,0]],'name':'attention_mask','shape':[1,2],'datatype':'INT64'}],"
                               "'outputs':[{'name':'value','parameters':{'binary_data':true}}]}";
    for (size_t length = 0; length < sizeof json - 1; length++) {
        char cut[sizeof json];
        struct oip_request request;
        struct error error;
        memcpy(cut, json, length);
        cut[length] = '\0';
        ck_assert(!decode_at(cut, NULL, 0, SIZE_MAX, 0, &request, &error));
        ck_assert_int_eq(error.code, ERROR_NOT_JSON);
    }
}
END_TEST

/* An arena that is too small is an error. */
START_TEST(test_memory)
{
    static const char json[] = "{\"id\":\"7\",\"inputs\":[{\"name\":\"input\",\"datatype\":\"FP32\",\"shape\":[2,1],"
                               "\"data\":[1,2]}],\"parameters\":{\"include_heads\":[0]}}";
    struct oip_request request;
    struct error error;
    arena_free(&arena);
    ck_assert(arena_reserve(&arena, 4096));
    size_t capacity = 0;
    for (;; capacity += ARENA_ALIGNMENT) {
        arena.capacity = capacity;
        if (oip_request_decode(json, sizeof json - 1, SIZE_MAX, &arena, &request, &error))
            break;
        ck_assert_int_eq(error.code, ERROR_OUT_OF_MEMORY);
        ck_assert_uint_eq(arena.used, 0);
    }
    ck_assert_uint_eq(capacity, 3 * ARENA_ALIGNMENT);
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("oip_request");
    TCase *c = tcase_create("oip_request");
    tcase_add_checked_fixture(c, NULL, free_memory);
    tcase_add_test(c, test_full);
    tcase_add_test(c, test_least);
    tcase_add_test(c, test_outputs);
    tcase_add_test(c, test_binary_numbers);
    tcase_add_test(c, test_binary_masks);
    tcase_add_test(c, test_binary_sections);
    tcase_add_test(c, test_binary_faults);
    tcase_add_test(c, test_faults);
    tcase_add_test(c, test_rules);
    tcase_add_test(c, test_rule_faults);
    tcase_add_test(c, test_places);
    tcase_add_test(c, test_cut);
    tcase_add_test(c, test_memory);
    suite_add_tcase(s, c);
    return s;
}
