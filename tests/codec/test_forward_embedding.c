/* Requests against models: what tokens come as, rows of their tables, layers that are named. */
#include "codec/decoded.h"
#include "codec/expect.h"

#include <stdlib.h>

/* Two layers of three heads; tokens four wide. */
static const struct attention_shape SHAPE = {
    .d_model = 4, .num_heads = 3, .num_kv_heads = 3, .d_k = 2, .d_v = 2, .scale = 0.5f, .projected = true};

static const struct layer_shape LAYERS[] = {{.scale = 1}, {.scale = 1}};

enum kind { BERT, ROBERTA, PLAIN, IMAGES, CAUSAL, SINGLE, BARE };

/* Extents are distinct, so that none can be taken for another. */
static struct model_shape model_of(enum kind kind)
{
    struct model_shape model = {.attention = SHAPE, .num_layers = 2, .layers = LAYERS};
    struct embeddings_shape *e = &model.embeddings;
    static const struct layer_shape causal[] = {{.scale = 1}, {.scale = 1, .own_causal = true, .causal = true}};
    if (kind == BERT || kind == ROBERTA)
        *e = (struct embeddings_shape){
            .present = true, .vocabulary = 20, .width = 5, .positions = 7, .types = 2, .scale = 1};
    if (kind == BERT)
        e->position_offset = 1;
    if (kind == ROBERTA) {
        e->types = 0;
        e->count_padding_id = true;
        e->padding_id = 1;
    }
    if (kind == IMAGES)
        *e = (struct embeddings_shape){
            .present = true, .width = 4, .positions = 5, .scale = 1, .channels = 3, .image_size = 4, .patch_size = 2};
    if (kind == CAUSAL)
        model.layers = causal;
    if (kind == SINGLE)
        model.num_layers = 1;
    return model;
}

static struct arena arena;

static void free_memory(void)
{
    arena_free(&arena);
}

static void decode(const char *body, struct forward_request *request)
{
    struct error error;
    arena_for_body(&arena, strlen(body));
    ck_assert_msg(
        forward_request_decode(&(struct request_body){BODY_JSON, body, strlen(body)}, &arena, request, &error),
        "%s: %s", body, error.message);
}

static bool check(struct forward_request *q, enum kind kind, struct forward_input *problem, struct error *error)
{
    static struct model_shape model;
    model = model_of(kind);
    const struct rules_defaults defaults = {.model = kind == BARE ? NULL : &model};
    return forward_request_check(q, &SHAPE, &defaults, problem, error);
}

#define E5 "[0,0,0,0,0]"
#define T4 "[0,0,0,0]"
#define P4 "[" T4 "," T4 "," T4 "," T4 "]"

static const struct {
    enum kind kind;
    const char *body;
    size_t batch, tokens, num_layers;
    bool rank2, embedded;
} RIGHT[] = {
    {BERT, "{\"input_ids\":[[0,19,3],[1,2,3]]}", 2, 3, 2, false, true},
    {BERT, "{\"input_ids\":[0,19,3],\"token_type_ids\":[0,1,1]}", 1, 3, 2, true, true},
    {BERT, "{\"input_ids\":[1,2,3,4,5,6]}", 1, 6, 2, true, true},
    {BERT, "{\"input_ids\":[[1,2]],\"position_ids\":[6,0]}", 1, 2, 2, false, true},
    {BERT, "{\"inputs_embeds\":[[" E5 "," E5 "]],\"token_type_ids\":[[1,0]]}", 1, 2, 2, false, true},
    {BERT, "{\"inputs_embeds\":[" E5 "],\"return\":[\"hidden_states\"]}", 1, 1, 2, true, true},
    {BERT, "{\"input\":[" T4 "," T4 "],\"include_layers\":[1,0],\"head_mask\":[[1,1,0],[0,1,1]]}", 1, 2, 2, true,
     false},
    /* Padding takes no position: rows 2 to 6 are left. */
    {ROBERTA, "{\"input_ids\":[[2,3,4,5,6,1,1,1,1]]}", 1, 9, 2, false, true},
    {ROBERTA, "{\"input_ids\":[[2,3]],\"token_type_ids\":[[0,0]]}", 1, 2, 2, false, true},
    {ROBERTA, "{\"inputs_embeds\":[" E5 "," E5 "," E5 "]}", 1, 3, 2, true, true},
    {IMAGES, "{\"pixel_values\":[" P4 "," P4 "," P4 "]}", 1, 5, 2, true, true},
    {IMAGES, "{\"pixel_values\":{\"shape\":[2,3,4,4],\"dtype\":\"f16\",\"base64\":\"PIXELS\"}}", 2, 5, 2, false, true},
    {PLAIN, "{\"input\":[[" T4 "]],\"position_ids\":[1000]}", 1, 1, 2, false, false},
    {SINGLE, "{\"input\":[" T4 "],\"head_mask\":[[1,0,1]],\"include_layers\":[0]}", 1, 1, 1, true, false},
    {BARE, "{\"input\":[" T4 "],\"include_layers\":[0]}", 1, 1, 0, true, false},
};

START_TEST(test_right)
{
    char body[1024], *at;
    struct forward_request q;
    struct forward_input problem;
    struct error error;
    strcpy(body, RIGHT[_i].body);
    if ((at = strstr(body, "PIXELS"))) { /* 96 numbers of two bytes are 256 characters */
        memset(at, 'A', 256);
        strcpy(at + 256, "\"}}");
    }
    decode(body, &q);
    memset(&problem, 0x55, sizeof problem);
    ck_assert_msg(check(&q, RIGHT[_i].kind, &problem, &error), "%s: %s", body, error.message);
    ck_assert_uint_eq(problem.batch, RIGHT[_i].batch);
    ck_assert_uint_eq(problem.query_length, RIGHT[_i].tokens);
    ck_assert_uint_eq(problem.key_length, RIGHT[_i].tokens);
    ck_assert_uint_eq(problem.num_layers, RIGHT[_i].num_layers);
    ck_assert(problem.rank2 == RIGHT[_i].rank2);
    ck_assert(problem.self_attention);
    ck_assert_ptr_eq(problem.embedding, RIGHT[_i].embedded ? &q.embedding : NULL);
    ck_assert_ptr_eq(q.embedding.ids, q.input_ids.data);
    ck_assert_ptr_eq(q.embedding.embeds, q.inputs_embeds.data);
    ck_assert_ptr_eq(q.embedding.pixels, q.pixel_values.data);
    ck_assert_ptr_eq(q.embedding.type_ids, q.token_type_ids.data);
    ck_assert_ptr_eq(problem.position_ids, q.position_ids.data);
    ck_assert(problem.head_mask_per_layer == (q.head_mask.rank == 2));
}
END_TEST

static const struct {
    enum kind kind;
    const char *body, *pointer, *words;
} WRONG[] = {
    {BERT, "{\"input_ids\":[[1,2,3],[4,5,20]]}", "/input_ids/1/2", "20 0 19"},
    {BERT, "{\"input_ids\":[1,4294967295]}", "/input_ids/1", "4294967295 19"},
    {BERT, "{\"input_ids\":[1,2,3,4,5,6,7]}", "/input_ids", "7 6"},
    {BERT, "{\"inputs_embeds\":[" E5 "," E5 "," E5 "," E5 "," E5 "," E5 "," E5 "]}", "/inputs_embeds", "7 6"},
    {BERT, "{\"input_ids\":[[1,2]],\"position_ids\":[[1,7]]}", "/position_ids/0/1", "7 6"},
    {BERT, "{\"input_ids\":[[1,2]],\"position_ids\":[1,7]}", "/position_ids/1", "7 6"},
    {BERT, "{\"input_ids\":[[1,2]],\"token_type_ids\":[[0,2]]}", "/token_type_ids/0/1", "2 0 1"},
    {BERT, "{\"input_ids\":[[1,2]],\"token_type_ids\":[0,1]}", "/token_type_ids", "2 1"},
    {BERT, "{\"input\":[" T4 "],\"token_type_ids\":[0]}", "/token_type_ids", "input_ids input"},
    {BERT, "{\"inputs_embeds\":[" T4 "]}", "/inputs_embeds", "4 5"},
    {BERT, "{\"inputs_embeds\":" E5 "}", "/inputs_embeds", "5"},
    {BERT, "{\"pixel_values\":[" P4 "]}", "/pixel_values", "input_ids"},
    {BERT, "{\"query\":[" T4 "],\"key\":[" T4 "]}", "/query", "input"},
    {BERT, "{\"input_ids\":[1],\"head_mask\":[[1,1,1]]}", "/head_mask", "1 3 2"},
    {BERT, "{\"input_ids\":[1],\"include_layers\":[0,2]}", "/include_layers/1", "2 0 1"},
    {BERT, "{\"input_ids\":[1],\"include_layers\":[1,1]}", "/include_layers/1", "1 twice"},
    {BERT, "{\"input_ids\":[1],\"include_layers\":[-5]}", "/include_layers/0", "-5"},
    {BERT, "{\"input_ids\":[1,2],\"attention_mask\":[1]}", "/attention_mask", "1 2"},
    {ROBERTA, "{\"input_ids\":[2,3,4,5,6,7]}", "/input_ids", "6 5"},
    /* More padding than positions. */
    {ROBERTA, "{\"input_ids\":[[1,1,1,1,1,1,1,1,1,1],[2,3,4,5,6,7,1,1,1,1]]}", "/input_ids", "6 padding 5"},
    {ROBERTA, "{\"input_ids\":[2],\"token_type_ids\":[1]}", "/token_type_ids/0", "1 0"},
    {IMAGES, "{\"input_ids\":[1]}", "/input_ids", "pixel_values"},
    {IMAGES, "{\"inputs_embeds\":[" T4 "]}", "/inputs_embeds", "pixel_values"},
    {IMAGES, "{\"pixel_values\":[" P4 "," P4 "]}", "/pixel_values", "2 3 4"},
    {IMAGES, "{\"pixel_values\":[" P4 "," P4 "," P4 "],\"position_ids\":[0,1,2,3,4]}", "/position_ids", "pixel_values"},
    {IMAGES, "{\"pixel_values\":[" P4 "," P4 "," P4 "],\"token_type_ids\":[0,0,0,0,0]}", "/token_type_ids",
     "pixel_values"},
    {PLAIN, "{\"input_ids\":[1]}", "/input_ids", "input"},
    {BARE, "{\"input_ids\":[1]}", "/input_ids", "input"},
    {BARE, "{\"input\":[" T4 "],\"include_layers\":[1]}", "/include_layers/0", "1 0"},
    {BARE, "{\"input\":[" T4 "],\"head_mask\":[[1,1,1]]}", "/head_mask", "1 3"},
    {BARE, "{\"query\":[" T4 "],\"key\":[" T4 "],\"return\":[\"hidden_states\"]}", "/return", "hidden_states input"},
    /* Rules against those of a layer. */
    {CAUSAL, "{\"input\":[" T4 "," T4 "],\"low_rank\":{\"kind\":\"nystrom\",\"landmarks\":1}}", "/low_rank", "causal"},
    {BERT, "{\"input_ids\":[1,2,3],\"position\":{\"kind\":\"learned\",\"P\":[" T4 "," T4 "]}}", "/input_ids", "2"},
};

START_TEST(test_wrong)
{
    struct forward_request q;
    struct forward_input problem;
    struct error error;
    decode(WRONG[_i].body, &q);
    ck_assert_msg(!check(&q, WRONG[_i].kind, &problem, &error), "%s was accepted", WRONG[_i].body);
    expect_error(&error, ERROR_INVALID, WRONG[_i].pointer, WRONG[_i].words, WRONG[_i].body);
}
END_TEST

/* What a request says goes for all layers, and what it does not say is each layer's own. */
START_TEST(test_given)
{
    struct forward_request q;
    struct forward_input problem;
    struct error error;
    decode("{\"input\":[" T4 "," T4 "],\"causal\":false,\"low_rank\":{\"kind\":\"nystrom\",\"landmarks\":1}}", &q);
    ck_assert_msg(check(&q, CAUSAL, &problem, &error), "%s", error.message);
    ck_assert(problem.causal_given && !problem.causal);
    decode("{\"input\":[" T4 "]}", &q);
    ck_assert(check(&q, CAUSAL, &problem, &error));
    ck_assert(!problem.causal_given && !problem.rules);
    /* null switches off what layers have of their own: that is a rule, though it allows everything. */
    decode("{\"input\":[" T4 "],\"pattern\":null}", &q);
    ck_assert(check(&q, CAUSAL, &problem, &error));
    ck_assert(problem.rules && problem.rules->pattern_given && !problem.rules->position_given);
    ck_assert_int_eq(problem.rules->pattern.kind, PATTERN_FULL);
    ck_assert_uint_eq(problem.rules->num_layers, 2);
    ck_assert(check(&q, BARE, &problem, &error));
    ck_assert_ptr_null(problem.rules);
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("forward_embedding");
    TCase *c = tcase_create("forward_embedding");
    tcase_add_checked_fixture(c, NULL, free_memory);
    tcase_add_loop_test(c, test_right, 0, sizeof RIGHT / sizeof *RIGHT);
    tcase_add_loop_test(c, test_wrong, 0, sizeof WRONG / sizeof *WRONG);
    tcase_add_test(c, test_given);
    suite_add_tcase(s, c);
    return s;
}
