/* Rules against a weight set's shape and defaults, and against the rest of a request. */
#include "codec/decoded.h"
#include "codec/expect.h"

#include <stdio.h>

static const struct attention_shape SHAPE = {
    .d_model = 4, .num_heads = 2, .num_kv_heads = 2, .d_k = 4, .d_v = 2, .scale = 0.5f, .projected = true};
static const struct attention_shape ODD = {
    .d_model = 4, .num_heads = 2, .num_kv_heads = 2, .d_k = 3, .d_v = 2, .scale = 0.5f, .projected = true};

static struct arena arena;

static void free_memory(void)
{
    arena_free(&arena);
}

#define T1      "[0,0,0,0]"
#define X3      "[" T1 "," T1 "," T1 "]"
#define INPUT   "\"input\":[" X3 "," X3 "]"
#define CROSS   "\"query\":[" T1 "," T1 "],\"key\":" X3
#define LINEAR  "\"low_rank\":{\"kind\":\"linformer\",\"E\":[[1,2,3]],\"F\":[[1,2,3,4]]}"
#define NYSTROM "\"low_rank\":{\"kind\":\"nystrom\",\"landmarks\":2}"
#define P2      "\"position\":{\"kind\":\"learned\",\"P\":[" T1 "," T1 "]}"

static bool check_with(const char *members, const struct attention_shape *shape, const struct rules_defaults *defaults,
                       struct forward_request *request, struct forward_input *problem, struct error *error)
{
    static char body[4096];
    struct error decoding;
    snprintf(body, sizeof body, "{%s}", members);
    arena_for_body(&arena, strlen(body));
    ck_assert_msg(
        forward_request_decode(&(struct request_body){BODY_JSON, body, strlen(body)}, &arena, request, &decoding),
        "%s: %s", body, decoding.message);
    return forward_request_check(request, shape, defaults, problem, error);
}

static struct forward_input check_right(const char *members, const struct rules_defaults *defaults)
{
    static struct forward_request request;
    struct forward_input problem;
    struct error error;
    ck_assert_msg(check_with(members, &SHAPE, defaults, &request, &problem, &error), "%s: %s at %s", members,
                  error.message, error.pointer);
    return problem;
}

START_TEST(test_tensors)
{
    struct forward_input in = check_right(
        INPUT ",\"position\":{\"kind\":\"learned\",\"P\":[" T1 "," T1 "," T1 "," T1 "],\"offset\":1}", NULL);
    ck_assert(in.rules->position.table_rows == 4 && in.rules->position.table[15] == 0 && in.rules->num_layers == 1);
    in = check_right(INPUT ",\"position\":{\"kind\":\"relative\",\"R\":[[1,2],[3,4],[5,6]]}", NULL);
    ck_assert(in.rules->position.table_rows == 3 && in.rules->position.table[5] == 6);
    in = check_right(INPUT ",\"position\":{\"kind\":\"t5\",\"R\":[[1,2],[3,4],[5,6],[7,8]],\"max_distance\":2}", NULL);
    ck_assert(in.rules->position.table_rows == 4);
    in = check_right(INPUT ",\"low_rank\":{\"kind\":\"linformer\",\"E\":[[1,2,3],[1,2,3]],"
                           "\"F\":[[[1,2,3,4],[1,2,3,4]],[[1,2,3,4],[1,2,3,9]]]}",
                     NULL);
    const struct low_rank_rule *low = &in.rules->low_rank;
    ck_assert(low->projected_keys == 2 && low->e_columns == 3 && low->f_columns == 4 && !low->e_per_head &&
              low->f_per_head && low->e[5] == 3 && low->f[15] == 9);
    ck_assert_uint_eq(forward_map_columns(&in), 2);
}
END_TEST

START_TEST(test_off)
{
    ck_assert_ptr_null(
        check_right(INPUT ",\"position\":null,\"pattern\":{\"kind\":\"full\"},\"dropout\":null", NULL).rules);
    ck_assert_ptr_null(check_right(INPUT, NULL).rules);
    ck_assert(!check_right(INPUT ",\"causal\":null", NULL).causal);
}
END_TEST

/* A request's member takes the place of the set's; the others stay. */
START_TEST(test_defaults)
{
    static const struct attention_rules rules = {.position = {.kind = POSITION_ROPE, .base = 10},
                                                 .pattern = {.kind = PATTERN_WINDOW, .left = 2, .right = 3},
                                                 .dropout = {.samples = 4, .rate = 0.5},
                                                 .num_layers = 1};
    const struct rules_defaults set = {.rules = &rules, .causal = true};
    struct forward_input in = check_right(INPUT, &set);
    ck_assert(in.rules == &rules && in.causal);
    in = check_right(INPUT ",\"causal\":false", &set);
    ck_assert(in.rules == &rules && !in.causal);
    ck_assert(!check_right(INPUT ",\"causal\":null", &set).causal);
    in = check_right(INPUT ",\"pattern\":{\"kind\":\"block\",\"size\":2}", &set);
    ck_assert(in.rules != &rules && in.rules->pattern.kind == PATTERN_BLOCK && in.rules->pattern.left == 0 &&
              in.rules->position.kind == POSITION_ROPE && in.rules->position.base == 10 &&
              in.rules->dropout.samples == 4);
    in = check_right(INPUT ",\"position\":null,\"dropout\":null", &set);
    ck_assert(in.rules->position.kind == POSITION_NONE && in.rules->pattern.left == 2 &&
              in.rules->dropout.samples == 0);
    ck_assert_ptr_null(check_right(INPUT ",\"position\":null,\"dropout\":null,\"pattern\":null", &set).rules);
}
END_TEST

START_TEST(test_importance)
{
    static const double stored[] = {1, 2};
    const struct rules_defaults set = {.importance = stored};
    struct forward_input in = check_right(INPUT ",\"keep_heads\":{\"count\":1,\"by\":\"importance\"}", &set);
    ck_assert_ptr_eq(in.rules->keep_heads.importance, stored);
}
END_TEST

START_TEST(test_position_ids)
{
    struct forward_input in = check_right(INPUT ",\"position_ids\":[[0,1,4294967295],[3,4,5]]", NULL);
    ck_assert(in.positions_per_sequence && in.position_ids[2] == UINT32_MAX && in.position_ids[5] == 5);
    in = check_right(INPUT ",\"position_ids\":[7,8,9]", NULL);
    ck_assert(!in.positions_per_sequence && in.position_ids[2] == 9);
    in = check_right("\"input\":" X3 ",\"position_ids\":{\"shape\":[3],\"dtype\":\"i32\",\"base64\":"
                     "\"AQAAAAIAAAADAAAA\"}",
                     NULL);
    ck_assert(!in.positions_per_sequence && in.position_ids[0] == 1 && in.position_ids[2] == 3);
    in = check_right(INPUT "," P2 ",\"position_ids\":[[0,1,1],[1,0,0]]", NULL);
    ck_assert(in.positions_per_sequence);
}
END_TEST

static const struct {
    const char *members;
    bool odd; /* d_k 3 */
    const char *pointer, *words;
} WRONG[] = {
    {INPUT ",\"position\":{\"kind\":\"rope\",\"dims\":3}", false, "/position/dims", "3 even 4"},
    {INPUT ",\"position\":{\"kind\":\"rope\",\"dims\":6}", false, "/position/dims", "6 4"},
    {INPUT ",\"position\":{\"kind\":\"rope\"}", true, "/position", "3 dims"},
    {INPUT ",\"position\":{\"kind\":\"rope\",\"dims\":4}", true, "/position/dims", "4 3"},
    {INPUT ",\"position\":{\"kind\":\"learned\",\"P\":[[1,2,3]]}", false, "/position/P", "d_model 4"},
    {INPUT ",\"position\":{\"kind\":\"learned\",\"P\":[1,2,3,4]}", false, "/position/P", "d_model 4"},
    {INPUT ",\"position\":{\"kind\":\"relative\",\"R\":[[1,2],[3,4]]}", false, "/position/R", "2 odd"},
    {INPUT ",\"position\":{\"kind\":\"relative\",\"R\":[[1,2,3]]}", false, "/position/R", "num_heads 2"},
    {INPUT ",\"position\":{\"kind\":\"t5\",\"R\":[[1,2,3],[1,2,3]]}", false, "/position/R", "num_heads 2"},
    {INPUT ",\"position\":{\"kind\":\"t5\",\"R\":[[1,2],[3,4]]}", false, "/position/R", "2 4"},
    {INPUT ",\"position\":{\"kind\":\"t5\",\"R\":[[1,2],[3,4],[5,6],[7,8],[9,0]]}", false, "/position/R", "5 even"},
    {INPUT ",\"position\":{\"kind\":\"t5\",\"R\":[[1,2]],\"bidirectional\":false}", false, "/position/R", "1 2"},
    {INPUT ",\"position\":{\"kind\":\"t5\",\"R\":[[1,2],[3,4],[5,6],[7,8]],\"bidirectional\":false,\"max_distance\":2}",
     false, "/position/max_distance", "2"},
    {INPUT "," P2, false, "/input", "2 rows"},
    {INPUT ",\"position\":{\"kind\":\"learned\",\"P\":[" T1 "," T1 "," T1 "," T1 "],\"offset\":2}", false, "/input",
     "offset 2 4"},
    {INPUT ",\"position\":{\"kind\":\"learned\",\"P\":[" T1 "],\"offset\":9007199254740992}", false, "/input", "1"},
    {"\"query\":" X3 ",\"key\":[" T1 "]," P2, false, "/query", "query 2"},
    {"\"query\":[" T1 "],\"key\":" X3 "," P2, false, "/key", "key 2"},
    {"\"query\":[" T1 "],\"key\":" X3 ",\"causal\":true," P2, false, "/query", "query 2"},
    {"\"query\":" X3 ",\"key\":[" T1 "],\"causal\":true," P2, false, "/query", "query -2"},
    {INPUT "," P2 ",\"position_ids\":[[0,1,1],[0,1,2]]", false, "/position_ids/1/2", "2"},
    {INPUT "," P2 ",\"position_ids\":[0,1,2]", false, "/position_ids/2", "2"},
    {INPUT ",\"position_ids\":[0,1]", false, "/position_ids", "2 3"},
    {INPUT ",\"position_ids\":[[0,1,2]]", false, "/position_ids", "1 2 3"},
    {"\"input\":" X3 ",\"position_ids\":[[0,1,2]]", false, "/position_ids", "1 3"},
    {CROSS ",\"position_ids\":[0,1]", false, "/position_ids", "input query"},
    {INPUT ",\"keep_heads\":{\"count\":3}", false, "/keep_heads/count", "3 2"},
    {INPUT ",\"keep_heads\":{\"count\":1,\"by\":\"importance\"}", false, "/keep_heads/by", "head_importance"},
    {INPUT ",\"low_rank\":{\"kind\":\"linformer\",\"E\":[1,2],\"F\":[[1,2,3]]}", false, "/low_rank/E", "2 k"},
    {INPUT ",\"low_rank\":{\"kind\":\"linformer\",\"E\":[[1,2,3]],\"F\":[[[1,2,3]]]}", false, "/low_rank/F", "2 k"},
    {INPUT ",\"low_rank\":{\"kind\":\"linformer\",\"E\":[[1,2,3]],\"F\":[[1,2,3],[1,2,3]]}", false, "/low_rank/F",
     "2 1"},
    {INPUT ",\"low_rank\":{\"kind\":\"linformer\",\"E\":[[1,2,3]],\"F\":[[1,2]]}", false, "/input", "3 F 2"},
    {INPUT ",\"low_rank\":{\"kind\":\"linformer\",\"E\":[[1]],\"F\":[[1,2]]}", false, "/input", "3 E 1"},
    {INPUT ",\"causal\":true," NYSTROM, false, "/low_rank", "nystrom causal"},
    {CROSS "," NYSTROM, false, "/low_rank", "nystrom query"},
    {INPUT ",\"bias\":{\"shape\":[2,3,3],\"data\":[0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0]}," NYSTROM, false, "/low_rank",
     "nystrom bias"},
    {INPUT ",\"position\":{\"kind\":\"alibi\"}," NYSTROM, false, "/low_rank", "nystrom position alibi"},
    {INPUT ",\"pattern\":{\"kind\":\"top_k\",\"k\":1}," NYSTROM, false, "/low_rank", "nystrom pattern"},
    {INPUT ",\"keep_heads\":{\"count\":1}," NYSTROM, false, "/low_rank", "nystrom keep_heads"},
    {INPUT ",\"dropout\":{\"rate\":0}," NYSTROM, false, "/low_rank", "nystrom dropout"},
    {"\"input\":" X3 ",\"attention_mask\":[[1,1,1],[1,1,1],[1,1,1]]," NYSTROM, false, "/low_rank",
     "nystrom attention_mask"},
    {"\"input\":" X3 ",\"attention_mask\":[1,1,1]," LINEAR, false, "/low_rank", "linformer attention_mask"},
};

START_TEST(test_wrong)
{
    struct forward_request request;
    struct forward_input problem;
    struct error error;
    ck_assert_msg(!check_with(WRONG[_i].members, WRONG[_i].odd ? &ODD : &SHAPE, NULL, &request, &problem, &error),
                  "%s was accepted", WRONG[_i].members);
    expect_error(&error, ERROR_INVALID, WRONG[_i].pointer, WRONG[_i].words, WRONG[_i].members);
}
END_TEST

/* Where the low rank is the set's, the fault is the member's that does not go with it. */
static const struct {
    const char *members, *pointer;
} AGAINST_DEFAULT[] = {
    {INPUT ",\"causal\":true", "/causal"},
    {CROSS, "/query"},
    {INPUT ",\"bias\":{\"shape\":[2,3,3],\"data\":[0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0]}", "/bias"},
    {INPUT ",\"position\":{\"kind\":\"alibi\"}", "/position"},
    {INPUT ",\"pattern\":{\"kind\":\"block\",\"size\":1}", "/pattern"},
    {INPUT ",\"keep_heads\":{\"mass\":1}", "/keep_heads"},
    {INPUT ",\"dropout\":{\"rate\":0.5}", "/dropout"},
    {"\"input\":" X3 ",\"attention_mask\":[[1,1,1],[1,1,1],[1,1,1]]", "/attention_mask"},
};

START_TEST(test_against_default)
{
    static const struct attention_rules rules = {.low_rank = {.kind = LOW_RANK_NYSTROM, .landmarks = 2},
                                                 .num_layers = 1};
    const struct rules_defaults set = {.rules = &rules};
    struct forward_request request;
    struct forward_input problem;
    struct error error;
    ck_assert(!check_with(AGAINST_DEFAULT[_i].members, &SHAPE, &set, &request, &problem, &error));
    expect_error(&error, ERROR_INVALID, AGAINST_DEFAULT[_i].pointer, "nystrom null", AGAINST_DEFAULT[_i].members);
}
END_TEST

/* What goes with low rank: positions that are no bias, padding. */
START_TEST(test_low_rank_with)
{
    check_right(INPUT ",\"position\":{\"kind\":\"rope\"},\"attention_mask\":[[1,1,0],[1,1,1]]," NYSTROM, NULL);
    check_right(INPUT ",\"position\":{\"kind\":\"sinusoidal\"}," LINEAR, NULL);
}
END_TEST

START_TEST(test_svd)
{
    static const struct attention_rules rules = {.low_rank = {.kind = LOW_RANK_SVD, .rank = 1}, .num_layers = 1};
    const struct rules_defaults set = {.rules = &rules};
    struct forward_request request;
    struct forward_input problem;
    struct error error;
    ck_assert(!check_with(INPUT ",\"position\":{\"kind\":\"rope\"}", &SHAPE, &set, &request, &problem, &error));
    expect_error(&error, ERROR_INVALID, "/position", "svd rope", "rope");
    check_right(INPUT ",\"position\":{\"kind\":\"rope\"},\"low_rank\":null", &set);
    ck_assert_int_eq(check_right(CROSS ",\"causal\":true,\"position\":{\"kind\":\"alibi\"}", &set).rules->low_rank.kind,
                     LOW_RANK_SVD);
}
END_TEST

START_TEST(test_maps)
{
    struct error error;
    struct forward_input in = check_right(INPUT "," NYSTROM, NULL);
    ck_assert(!forward_request_check_maps(&in, &error));
    expect_error(&error, ERROR_INVALID, "/low_rank", "nystrom", "maps");
    in = check_right(INPUT ",\"pattern\":{\"kind\":\"top_k\",\"k\":1}", NULL);
    ck_assert(forward_request_check_maps(&in, &error));
    in = check_right(INPUT, NULL);
    ck_assert(forward_request_check_maps(&in, &error));
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("forward_rules");
    TCase *c = tcase_create("forward_rules");
    tcase_add_checked_fixture(c, NULL, free_memory);
    tcase_add_test(c, test_tensors);
    tcase_add_test(c, test_off);
    tcase_add_test(c, test_defaults);
    tcase_add_test(c, test_importance);
    tcase_add_test(c, test_position_ids);
    tcase_add_loop_test(c, test_wrong, 0, sizeof WRONG / sizeof *WRONG);
    tcase_add_loop_test(c, test_against_default, 0, sizeof AGAINST_DEFAULT / sizeof *AGAINST_DEFAULT);
    tcase_add_test(c, test_low_rank_with);
    tcase_add_test(c, test_svd);
    tcase_add_test(c, test_maps);
    suite_add_tcase(s, c);
    return s;
}
