/* Entries of `weights`: what each source takes, ranges, and what has to agree. */
#include "config/weights_entry.h"
#include "config_text.h"
#include "suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define TENSORS "\"tensors\": {\"W_Q\": \"q\", \"W_K\": \"k\", \"W_V\": \"v\", \"W_O\": \"o\"}"

/* The entry alone on line 2, its closing brace on line 3. */
static void load(struct loaded *loaded, const char *members)
{
    char text[4096];
    snprintf(text, sizeof text, "{\"weights\": [\n{%s\n}]}", members);
    load_text(loaded, text, NULL);
}

START_TEST(each_source)
{
    struct loaded loaded;
    load_text(&loaded,
              "{\"weights\": [\n"
              "{\"name\": \"n.1\", \"source\": \"numpy\", \"d_model\": 32, \"num_heads\": 4},\n"
              "{\"name\": \"n-2\", \"source\": \"numpy\", \"seed\": 4294967295, \"scale\": -0.5, \"d_model\": 65536, "
              "\"num_heads\": 1024, \"required\": false},\n"
              "\n"
              "{\"d_model\": 12, \"num_heads\": 3, \"scale\": 2, \"name\": \"i\", \"source\": \"identity\"},\n"
              "{\"num_kv_heads\": 2, \"d_k\": 5, \"d_v\": 7, \"name\": \"s\", \"source\": \"safetensors\", \"path\": "
              "\"/a/b.safetensors\", \"num_heads\": 6,"
              " \"layout\": \"out_in\", \"d_model\": 31, \"scale\": 0, " TENSORS "}\n"
              "]}",
              NULL);
    expect_right(&loaded);
    ck_assert_uint_eq(loaded.config.weights_count, 4);
    const struct weights_config *w = loaded.config.weights;
    ck_assert_str_eq(w[0].name, "n.1");
    ck_assert_uint_eq(w[0].seed, 42);
    ck_assert_double_eq(w[0].scale, 0.1);
    ck_assert(!w[0].has_scale);
    ck_assert(w[0].required);
    ck_assert_uint_eq(w[0].line, 2);
    ck_assert_uint_eq(w[1].seed, 4294967295U);
    ck_assert_double_eq(w[1].scale, -0.5);
    ck_assert(w[1].has_scale);
    ck_assert(!w[1].required);
    ck_assert_uint_eq(w[1].d_model, 65536);
    ck_assert_uint_eq(w[1].num_heads, 1024);
    ck_assert_int_eq(w[2].source, WEIGHTS_IDENTITY);
    ck_assert_uint_eq(w[2].d_model, 12);
    ck_assert_uint_eq(w[2].num_heads, 3);
    ck_assert_double_eq(w[2].scale, 2);
    ck_assert_uint_eq(w[2].line, 5);
    ck_assert_int_eq(w[3].source, WEIGHTS_SAFETENSORS);
    ck_assert_str_eq(w[3].path, "/a/b.safetensors");
    ck_assert_uint_eq(w[3].num_heads, 6);
    ck_assert_uint_eq(w[3].num_kv_heads, 2);
    ck_assert_uint_eq(w[3].d_k, 5);
    ck_assert_uint_eq(w[3].d_v, 7);
    ck_assert_uint_eq(w[3].d_model, 31);
    ck_assert_int_eq(w[3].layout, LAYOUT_OUT_IN);
    ck_assert(w[3].has_scale);
    ck_assert_double_eq(w[3].scale, 0);
    ck_assert_str_eq(w[3].tensors[TENSOR_W_O], "o");
    ck_assert_ptr_null(w[3].tensors[TENSOR_B_O]);
    loaded_free(&loaded);
}
END_TEST

/* The members of blocks are kept as they are written, and faults in them have their lines. */
START_TEST(sets_of_many_layers)
{
    struct loaded loaded;
    load_text(
        &loaded,
        "{\"weights\": [\n"
        "{\"name\": \"h\", \"source\": \"huggingface\", \"path\": \"/models/bert\", \"dropout\": {\"rate\": 0}},\n"
        "{\"name\": \"b\", \"source\": \"blocks\", \"path\": \"/b.safetensors\", \"num_heads\": 2, \"causal\": true,\n"
        " \"num_layers\": 2, \"layout\": \"out_in\", \"final_norm\": null,\n"
        " \"layer\": {\"tensors\": {},\n"
        "            \"pattern\": {\"kind\": \"window\",\n"
        "                        \"left\": 1}},\n"
        " \"layers\": [{},\n"
        "            {\"scale\": 1,\n"
        "             \"pattern\": {\"right\":\n"
        "                          2}}],\n"
        " \"embeddings\": {\"token\": \"t\"}}\n"
        "]}",
        NULL);
    expect_right(&loaded);
    const struct weights_config *h = &loaded.config.weights[0], *b = h + 1;
    ck_assert_int_eq(h->source, WEIGHTS_HUGGINGFACE);
    ck_assert_str_eq(h->path, "/models/bert");
    ck_assert_str_eq(h->dropout.text, "{\"rate\": 0}");
    ck_assert_int_eq(b->source, WEIGHTS_BLOCKS);
    ck_assert_uint_eq(b->num_layers, 2);
    ck_assert_int_eq(b->layout, LAYOUT_OUT_IN);
    ck_assert(b->causal);
    ck_assert_str_eq(b->embeddings.text, "{\"token\": \"t\"}");
    ck_assert_uint_eq(b->layers.length, strlen(b->layers.text));
    ck_assert_ptr_null(b->final_norm.text);
    ck_assert_uint_eq(weights_entry_line(b, "/num_layers"), b->line);
    ck_assert_uint_eq(weights_entry_line(b, "/layer"), 5);
    ck_assert_uint_eq(weights_entry_line(b, "/layer/pattern/left"), 7);
    ck_assert_uint_eq(weights_entry_line(b, "/layer/pattern/none"), 6);
    ck_assert_uint_eq(weights_entry_line(b, "/layers/0"), 8);
    ck_assert_uint_eq(weights_entry_line(b, "/layers/1"), 9);
    ck_assert_uint_eq(weights_entry_line(b, "/layers/1/pattern/right"), 10);
    ck_assert_uint_eq(weights_entry_line(b, "/layers/2"), 8);
    loaded_free(&loaded);
}
END_TEST

START_TEST(wrong_sets_of_many_layers)
{
    struct loaded loaded;
    load(&loaded, "\"name\": \"b\", \"source\": \"blocks\"");
    EXPECT_FAULTS(&loaded, {2, "/weights/0", {"num_heads"}}, {2, "/weights/0", {"path"}},
                  {2, "/weights/0", {"num_layers"}}, {2, "/weights/0", {"layer"}});
    loaded_free(&loaded);
    load(&loaded, "\"name\": \"b\", \"source\": \"blocks\", \"path\": \"p\", \"num_heads\": 1,\n\"num_layers\": 4097, "
                  "\"layer\": [],\n\"layers\": {}, \"tensors\": {},\n\"embeddings\": 1");
    EXPECT_FAULTS(&loaded, {3, "/weights/0/num_layers", {"4096", "4097"}}, {3, "/weights/0/layer", {"object", "array"}},
                  {4, "/weights/0/layers", {"array", "object"}}, {4, "/weights/0/tensors", {"safetensors", "blocks"}},
                  {5, "/weights/0/embeddings", {"object"}});
    loaded_free(&loaded);
    load(&loaded, "\"name\": \"h\", \"source\": \"huggingface\", \"num_heads\": 2,\n\"causal\": true, \"layer\": {}");
    EXPECT_FAULTS(&loaded, {2, "/weights/0/num_heads", {"huggingface"}}, {3, "/weights/0/causal", {"huggingface"}},
                  {3, "/weights/0/layer", {"blocks", "huggingface"}}, {2, "/weights/0", {"path"}});
    loaded_free(&loaded);
}
END_TEST

START_TEST(paths_are_beside_the_file)
{
    char folder[] = "/tmp/attnd-test-XXXXXX", file[64], expected[64];
    struct loaded loaded;
    ck_assert_ptr_nonnull(mkdtemp(folder));
    snprintf(file, sizeof file, "%s/attnd.json", folder);
    FILE *f = fopen(file, "w");
    ck_assert_ptr_nonnull(f);
    fputs("{\"weights\": [{\"name\": \"s\", \"source\": \"safetensors\", \"num_heads\": 1, \"path\": "
          "\"sub/m.safetensors\", " TENSORS "}]}",
          f);
    fclose(f);
    load_flags(&loaded, &(struct config_flags){.file = file}, NULL);
    expect_right(&loaded);
    snprintf(expected, sizeof expected, "%s/sub/m.safetensors", folder);
    ck_assert_str_eq(loaded.config.weights[0].path, expected);
    loaded_free(&loaded);

    /* A file named without a folder: the path as it stands. */
    ck_assert_int_eq(chdir(folder), 0);
    load_flags(&loaded, &(struct config_flags){.file = "attnd.json"}, NULL);
    expect_right(&loaded);
    ck_assert_str_eq(loaded.config.weights[0].path, "sub/m.safetensors");
    loaded_free(&loaded);
    ck_assert_int_eq(unlink(file), 0);
    ck_assert_int_eq(rmdir(folder), 0);
}
END_TEST

START_TEST(wrong_entries)
{
    static const struct {
        const char *members;
        struct expected_fault fault;
    } cases[] = {
        {"\"source\": \"numpy\", \"d_model\": 4, \"num_heads\": 2", {2, "/weights/0", {"missing \"name\""}}},
        {"\"name\": \"a\", \"d_model\": 4, \"num_heads\": 2",
         {2, "/weights/0", {"missing \"source\"", "\"numpy\"", "\"safetensors\""}}},
        {"\"name\": \"a\",\n\"source\": \"nunpy\", \"d_model\": 4, \"num_heads\": 2, \"seed\": 1, \"path\": \"x\"",
         {3, "/weights/0/source", {"\"nunpy\"", "did you mean \"numpy\"", "\"identity\""}}},
        {"\"name\": \"a\", \"source\": 1, \"d_model\": 4, \"num_heads\": 2",
         {2, "/weights/0/source", {"a string", "1"}}},
        {"\"name\": \"a\", \"source\": \"numpy\", \"d_model\": 4", {2, "/weights/0", {"missing \"num_heads\""}}},
        {"\"name\": \"a\", \"source\": \"identity\", \"num_heads\": 4", {2, "/weights/0", {"missing \"d_model\""}}},
        {"\"name\": \"a\", \"source\": \"safetensors\", \"num_heads\": 4, " TENSORS,
         {2, "/weights/0", {"missing \"path\""}}},
        {"\"name\": \"a\", \"source\": \"safetensors\", \"num_heads\": 4, \"path\": \"p\"",
         {2, "/weights/0", {"missing \"tensors\"", "W_QKV"}}},
        {"\"name\": \"a\", \"source\": \"safetensors\", \"num_heads\": 4, \"path\": \"\", " TENSORS,
         {2, "/weights/0/path", {"\"\""}}},
        {"\"name\": \"\", \"source\": \"numpy\", \"d_model\": 4, \"num_heads\": 2",
         {2, "/weights/0/name", {"1 to 64", "\"\""}}},
        {"\"name\": \"a b\", \"source\": \"numpy\", \"d_model\": 4, \"num_heads\": 2",
         {2, "/weights/0/name", {"1 to 64", "\"a b\""}}},
        {"\"name\": \"a\\u0000b\", \"source\": \"numpy\", \"d_model\": 4, \"num_heads\": 2",
         {2, "/weights/0/name", {""}}},
        {"\"name\": \"0123456789012345678901234567890123456789012345678901234567890123x\", \"source\": \"numpy\", "
         "\"d_model\": 4, \"num_heads\": 2",
         {2, "/weights/0/name", {"1 to 64"}}},
        {"\"name\": \"a\", \"source\": \"numpy\", \"d_model\": 64, \"num_heads\": 8, \"sede\": 1",
         {2, "/weights/0/sede", {"unknown", "\"seed\""}}},
        {"\"name\": \"a\", \"source\": \"identity\", \"d_model\": 64, \"num_heads\": 8, \"seed\": 1",
         {2, "/weights/0/seed", {"belongs to source numpy", "identity"}}},
        {"\"name\": \"a\",\n\"layout\": \"in_out\", \"d_model\": 64, \"num_heads\": 8, \"source\": \"numpy\"",
         {3, "/weights/0/layout", {"belongs to source safetensors", "numpy"}}},
        {"\"name\": \"a\", \"source\": \"numpy\", \"seed\": -1, \"d_model\": 64, \"num_heads\": 8",
         {2, "/weights/0/seed", {"from 0 to 4294967295, got -1"}}},
        {"\"name\": \"a\", \"source\": \"numpy\", \"seed\": 4294967296, \"d_model\": 64, \"num_heads\": 8",
         {2, "/weights/0/seed", {"got 4294967296"}}},
        {"\"name\": \"a\", \"source\": \"numpy\", \"scale\": 1e7, \"d_model\": 64, \"num_heads\": 8",
         {2, "/weights/0/scale", {"got 1e7"}}},
        {"\"name\": \"a\", \"source\": \"numpy\", \"d_model\": 65537, \"num_heads\": 1",
         {2, "/weights/0/d_model", {"from 1 to 65536, got 65537"}}},
        {"\"name\": \"a\", \"source\": \"numpy\", \"d_model\": 64, \"num_heads\": 0",
         {2, "/weights/0/num_heads", {"from 1 to 1024, got 0"}}},
        {"\"name\": \"a\", \"source\": \"numpy\", \"d_model\": [64], \"num_heads\": 1",
         {2, "/weights/0/d_model", {"got an array"}}},
        {"\"name\": \"a\", \"source\": \"numpy\", \"required\": 0, \"d_model\": 64, \"num_heads\": 1",
         {2, "/weights/0/required", {"true or false, got 0"}}},
        {"\"name\": \"a\", \"source\": \"numpy\",\n\"d_model\": 64,\n\"num_heads\": 7",
         {4, "/weights/0/num_heads", {"64", "7"}}},
        {"\"name\": \"a\", \"source\": \"safetensors\", \"path\": \"p\", \"d_model\": 64, \"num_heads\": 7, " TENSORS,
         {2, "/weights/0/num_heads", {"64", "7", "d_k"}}},
        {"\"name\": \"a\", \"source\": \"safetensors\", \"path\": \"p\", \"num_heads\": 4, \"num_kv_heads\": "
         "3, " TENSORS,
         {2, "/weights/0/num_kv_heads", {"4", "3"}}},
        {"\"name\": \"a\", \"source\": \"safetensors\", \"path\": \"p\", \"num_heads\": 4, \"layout\": "
         "\"sideways\", " TENSORS,
         {2, "/weights/0/layout", {"\"sideways\"", "\"in_out\"", "\"out_in\""}}},
        {"\"name\": \"a\", \"source\": \"safetensors\", \"path\": \"p\", \"num_heads\": 4, \"tensors\": []",
         {2, "/weights/0/tensors", {"an object", "an array"}}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct loaded loaded;
        load(&loaded, cases[i].members);
        expect_faults(&loaded, &cases[i].fault, 1);
        loaded_free(&loaded);
    }
}
END_TEST

START_TEST(one_entry_many_faults)
{
    struct loaded loaded;
    load_text(
        &loaded,
        "{\"weights\": [5,\n"
        "{\"name\": \"a\", \"source\": \"numpy\", \"d_model\": \"x\",\n\"num_heads\": 0, \"foo\": {\"bar\": []}},\n"
        "{\"name\": \"a\", \"source\": \"numpy\", \"d_model\": 9, \"num_heads\": 3}]}",
        NULL);
    EXPECT_FAULTS(&loaded, {1, "/weights/0", {"an object", "5"}}, {2, "/weights/1/d_model", {"\"x\""}},
                  {3, "/weights/1/num_heads", {"got 0"}}, {3, "/weights/1/foo", {"unknown"}},
                  {4, "/weights/2/name", {"\"a\"", "/weights/1"}});
    loaded_free(&loaded);
}
END_TEST

START_TEST(a_member_given_twice)
{
    struct loaded loaded;
    load(&loaded, "\"name\": \"a\", \"source\": \"numpy\",\n\"source\": \"identity\", \"seed\": -1, \"d_model\": 4, "
                  "\"num_heads\": 1");
    EXPECT_FAULTS(&loaded, {3, "/weights/0/source", {"source"}}, {3, "/weights/0/seed", {"-1"}});
    loaded_free(&loaded);
    load(&loaded, "\"name\": \"a\", \"source\": \"safetensors\", \"path\": \"p\", \"num_heads\": 1, \"tensors\": "
                  "{\"W_O\": \"a\",\n\"W_O\": \"b\"}");
    EXPECT_FAULTS(&loaded, {3, "/weights/0/tensors/W_O", {"W_O"}});
    loaded_free(&loaded);
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("weights_entry");
    TCase *c = tcase_create("weights_entry");
    tcase_add_test(c, each_source);
    tcase_add_test(c, paths_are_beside_the_file);
    tcase_add_test(c, wrong_entries);
    tcase_add_test(c, sets_of_many_layers);
    tcase_add_test(c, wrong_sets_of_many_layers);
    tcase_add_test(c, one_entry_many_faults);
    tcase_add_test(c, a_member_given_twice);
    suite_add_tcase(s, c);
    return s;
}
