/* The `tensors` of a safetensors set. */
#include "config/weights_tensors.h"
#include "config_text.h"
#include "suite.h"

#include <stdio.h>

/* The tensors on line 3. */
static void load(struct loaded *loaded, const char *members)
{
    char text[4096];
    snprintf(text, sizeof text,
             "{\"weights\": [{\"name\": \"a\", \"source\": \"safetensors\", \"path\": \"p\",\n\"num_heads\": "
             "2,\n\"tensors\": {%s}}]}",
             members);
    load_text(loaded, text, NULL);
}

START_TEST(right_combinations)
{
    static const char *const cases[] = {
        "\"W_Q\": \"q\", \"W_K\": \"k\", \"W_V\": \"v\", \"W_O\": \"o\"",
        "\"W_Q\": \"q\", \"W_K\": \"k\", \"W_V\": \"v\", \"W_O\": \"o\", \"b_Q\": \"bq\", \"b_K\": \"bk\", \"b_V\": "
        "\"bv\", \"b_O\": \"bo\"",
        "\"W_QKV\": \"w\", \"W_O\": \"o\", \"b_QKV\": \"b\", \"b_O\": \"bo\"",
        "\"W_QKV\": \"w\", \"W_O\": \"o\", \"b_Q\": \"bq\", \"b_V\": \"bv\"",
        "\"W_Q\": \"{head}.q\", \"W_K\": \"k\", \"W_V\": \"v{head}\", \"W_O\": \"o\", \"b_Q\": \"x{head}y\", \"b_K\": "
        "\"{head}\", \"b_V\": \"b.{head}\"",
        "\"W_Q\": \"{heads}\", \"W_K\": \"{}\", \"W_V\": \"same\", \"W_O\": \"same\"",
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct loaded loaded;
        load(&loaded, cases[i]);
        expect_right(&loaded);
        loaded_free(&loaded);
    }
}
END_TEST

START_TEST(all_names_arrive)
{
    static const char *const names[WEIGHT_TENSOR_COUNT] = {
        [TENSOR_W_Q] = "1", [TENSOR_W_K] = "2", [TENSOR_W_V] = "3", [TENSOR_W_O] = "4",
        [TENSOR_B_Q] = "5", [TENSOR_B_K] = "6", [TENSOR_B_V] = "7", [TENSOR_B_O] = "8"};
    struct loaded loaded;
    load(&loaded, "\"W_Q\": \"1\", \"W_K\": \"2\", \"W_V\": \"3\", \"W_O\": \"4\", \"b_Q\": \"5\", \"b_K\": \"6\", "
                  "\"b_V\": \"7\", \"b_O\": \"8\"");
    expect_right(&loaded);
    for (size_t i = 0; i < WEIGHT_TENSOR_COUNT; i++)
        ck_assert_pstr_eq(loaded.config.weights[0].tensors[i], names[i]);
    loaded_free(&loaded);
    load(&loaded, "\"W_QKV\": \"1\", \"b_QKV\": \"2\", \"W_O\": \"3\"");
    expect_right(&loaded);
    ck_assert_str_eq(loaded.config.weights[0].tensors[TENSOR_W_QKV], "1");
    ck_assert_str_eq(loaded.config.weights[0].tensors[TENSOR_B_QKV], "2");
    loaded_free(&loaded);
}
END_TEST

#define APART "\"W_Q\": \"q\", \"W_K\": \"k\", \"W_V\": \"v\", \"W_O\": \"o\""

START_TEST(wrong_combinations)
{
    static const struct {
        const char *members;
        struct expected_fault fault;
    } cases[] = {
        {"\"W_Q\": \"q\", \"W_K\": \"k\", \"W_V\": \"v\"", {3, "/weights/0/tensors", {"missing \"W_O\""}}},
        {"\"W_Q\": \"q\", \"W_V\": \"v\", \"W_O\": \"o\"", {3, "/weights/0/tensors", {"missing \"W_K\"", "W_QKV"}}},
        {"\"W_QKV\": \"q\"", {3, "/weights/0/tensors", {"missing \"W_O\""}}},
        {"\"W_QKV\": \"q\", \"W_K\": \"k\", \"W_O\": \"o\"",
         {3, "/weights/0/tensors", {"\"W_QKV\" stands for", "\"W_K\""}}},
        {APART ", \"b_QKV\": \"b\", \"b_V\": \"c\"", {3, "/weights/0/tensors", {"\"b_QKV\" stands for", "\"b_V\""}}},
        {APART ", \"W_X\": \"x\"", {3, "/weights/0/tensors/W_X", {"unknown", "did you mean \"W_Q\""}}},
        {APART ", \"b_P\": 7", {3, "/weights/0/tensors/b_P", {"unknown", "did you mean \"b_Q\""}}},
        {APART ", \"b_O\": 7", {3, "/weights/0/tensors/b_O", {"a string", "7"}}},
        {APART ", \"b_O\": \"\"", {3, "/weights/0/tensors/b_O", {"\"\""}}},
        {APART ",\n\"b_O\": \"b.{head}\"", {4, "/weights/0/tensors/b_O", {"one tensor for all heads", "b.{head}"}}},
        {"\"W_QKV\": \"{head}\", \"W_O\": \"o\"", {3, "/weights/0/tensors/W_QKV", {"one tensor for all heads"}}},
        {APART ", \"b_Q\": \"{head}{head}\"", {3, "/weights/0/tensors/b_Q", {"{head} once"}}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct loaded loaded;
        load(&loaded, cases[i].members);
        expect_faults(&loaded, &cases[i].fault, 1);
        loaded_free(&loaded);
    }
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("weights_tensors");
    TCase *c = tcase_create("weights_tensors");
    tcase_add_test(c, right_combinations);
    tcase_add_test(c, all_names_arrive);
    tcase_add_test(c, wrong_combinations);
    suite_add_tcase(s, c);
    return s;
}
