/* Files that are wrong: each is refused with a text that names the tensor or the file, what was found and what was
 * expected. */
#include "suite.h"

#include "model_file.h"
#include "weights/weight_set.h"

#include <ctype.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define FILE_NAME "set.safetensors"
#define MOST      8

/* clang-format off */
/* The good file: d_model 8, 2 heads; 256 bytes a matrix, W_Q from 0, W_K from 256, W_V from 512, W_O from 768, the end
 * at 1024. */
#define W_Q F32("W_Q", 8, 8)
#define W_K F32("W_K", 8, 8)
#define W_V F32("W_V", 8, 8)
#define W_O F32("W_O", 8, 8)

#define GOOD {W_Q, W_K, W_V, W_O}
#define F32(name, rows, columns) {name, "F32", 2, {rows, columns}, NULL}

static const double infinite_at_3[8] = {0, 0, 0, INFINITY, 0, 0, 0, 0};
static const double nan_at_last[64] = {[63] = NAN};
static const double huge_at_8[64] = {[8] = 1e39};
static const double rounds_to_infinity[64] = {
    [1] = 3.4028235677973366e38}; /* halfway between the largest float32 and 2^128 */

#define NAMED(q, k, v, o) [TENSOR_W_Q] = q, [TENSOR_W_K] = k, [TENSOR_W_V] = v, [TENSOR_W_O] = o
#define NAMES {NAMED("W_Q", "W_K", "W_V", "W_O")}
#define NAMES_AND_B_Q {NAMED("W_Q", "W_K", "W_V", "W_O"), [TENSOR_B_Q] = "b_Q"}
#define FUSED {[TENSOR_W_QKV] = "W_QKV", [TENSOR_W_O] = "W_O"}
#define PER_HEAD {NAMED("h.{head}.W_Q", "h.{head}.W_K", "h.{head}.W_V", "W_O")}
#define HEADS(name) F32("h.0." name, 8, 4), F32("h.1." name, 8, 4)

/* As the header of the good file has it. */
#define OF_W_V(shape) "\"shape\": [" shape "], \"data_offsets\": [512"

static const struct fault_case {
    const char *what;
    struct file_tensor tensors[MOST];
    const char *names[WEIGHT_TENSOR_COUNT];
    size_t num_heads, num_kv_heads, d_k, d_model; /* 0 heads: 2 */
    enum weights_layout layout;
    const char *change[2]; /* in the header: from, to */
    int64_t cut;           /* bytes left away at the end; < 0: zeros that are added */
    const char *pointer;
    const char *words[5]; /* all of them; numbers stand alone */
} cases[] = {
    {"cut short by 24 bytes", GOOD, NAMES, .cut = 24, .pointer = "/path", .words = {"W_O", "1024", "1000"}},
    {"bytes behind", GOOD, NAMES, .cut = -16, .pointer = "/path", .words = {"W_O", "16"}},
    {"overlap", GOOD, NAMES,
     .change = {"[256, 512]", "[128, 384]"}, .pointer = "/path", .words = {"W_K", "W_Q", "128", "256"}},
    {"hole", GOOD, NAMES,
     .change = {"[768, 1024]", "[832, 1088]"}, .cut = -64, .pointer = "/path", .words = {"W_O", "W_V", "832", "64"}},
    {"beyond the file", {W_Q, W_K, W_V, W_O, F32("other", 4, 4)}, NAMES,
     .cut = 64, .pointer = "/path", .words = {"other", "1088", "1024"}},
    {"ends before it begins", GOOD, NAMES,
     .change = {"[768, 1024]", "[1024, 768]"}, .pointer = "/path", .words = {"W_O", "1024", "768"}},
    {"not the shape's size", GOOD, NAMES,
     .change = {OF_W_V("8, 8"), OF_W_V("8, 7")}, .pointer = "/path", .words = {"W_V", "256", "224"}},
    {"shape overflows", GOOD, NAMES,
     .change = {OF_W_V("8, 8"), OF_W_V("4294967296, 4294967296")}, .pointer = "/path", .words = {"W_V", "overflow"}},
    {"not JSON", GOOD, NAMES,
     .change = {"\"shape\": [8, 8]", "\"shape\": [8, 8}"}, .pointer = "/path", .words = {"JSON"}},
    {"twice one name", GOOD, NAMES, .change = {"\"W_O\"", "\"W_Q\""}, .pointer = "/path", .words = {"W_Q"}},

    {"dtype I32", {W_Q, W_K, {"W_V", "I32", 2, {8, 8}, NULL}, W_O}, NAMES,
     .pointer = "/tensors/W_V", .words = {"W_V", "I32", "F32, F16, BF16 or F64"}},
    {"dtype F8", {W_Q, W_K, {"W_V", "U8", 2, {8, 8}, NULL}, W_O}, NAMES,
     .change = {"U8", "F8_E4M3"}, .pointer = "/tensors/W_V", .words = {"W_V", "F8_E4M3", "F32"}},
    {"W_K of 8 x 6", {W_Q, F32("W_K", 8, 6), W_V, W_O}, NAMES,
     .pointer = "/tensors/W_K", .words = {"W_K", "[8, 6]", "[8, 8]", "num_kv_heads * d_k"}},
    {"W_O of 6 x 8", {W_Q, W_K, W_V, F32("W_O", 6, 8)}, NAMES,
     .pointer = "/tensors/W_O", .words = {"W_O", "[6, 8]", "[8, 8]", "num_heads * d_v"}},
    {"W_V of rank 1", {W_Q, W_K, {"W_V", "F32", 1, {64}, NULL}, W_O}, NAMES,
     .pointer = "/tensors/W_V", .words = {"W_V", "[64]", "[8, 8]"}},
    {"W_Q of rank 1", {{"W_Q", "F32", 1, {64}, NULL}, W_K, W_V, W_O}, NAMES,
     .pointer = "/tensors/W_Q", .words = {"W_Q", "[64]", "[d_model, columns]"}},
    {"W_Q of rank 1, d_model known", {{"W_Q", "F32", 1, {64}, NULL}, W_K, W_V, W_O}, NAMES,
     .d_model = 8, .pointer = "/tensors/W_Q", .words = {"W_Q", "[64]", "[8, 8]"}},
    {"empty W_Q", {F32("W_Q", 0, 8), W_K, W_V, W_O}, NAMES, .pointer = "/tensors/W_Q", .words = {"W_Q", "[0, 8]"}},
    {"d_model that is not the file's", GOOD, NAMES,
     .d_model = 16, .d_k = 4, .pointer = "/tensors/W_Q", .words = {"W_Q", "[8, 8]", "[16, 8]"}},
    {"b_Q of 7", {W_Q, W_K, W_V, W_O, {"b_Q", "F32", 1, {7}, NULL}}, NAMES_AND_B_Q,
     .pointer = "/tensors/b_Q", .words = {"b_Q", "[7]", "[8]", "[num_heads * d_k]"}},
    {"b_Q of rank 2", {W_Q, W_K, W_V, W_O, F32("b_Q", 1, 8)}, NAMES_AND_B_Q,
     .pointer = "/tensors/b_Q", .words = {"b_Q", "[1, 8]", "[8]"}},
    {"W_QKV of 8 x 23", {F32("W_QKV", 8, 23), W_O}, FUSED,
     .pointer = "/tensors/W_QKV", .words = {"W_QKV", "[8, 23]", "[8, 24]", "(num_heads + num_kv_heads) * d_k"}},
    {"one head of 8 x 3", {HEADS("W_Q"), F32("h.0.W_K", 8, 4), F32("h.1.W_K", 8, 3), HEADS("W_V"), W_O}, PER_HEAD,
     .pointer = "/tensors/W_K", .words = {"h.1.W_K", "[8, 3]", "[8, 4]", "[d_model, d_k]"}},
    {"one head missing", {HEADS("W_Q"), F32("h.0.W_K", 8, 4), HEADS("W_V"), W_O}, PER_HEAD,
     .pointer = "/tensors/W_K", .words = {"h.1.W_K", "did you mean"}},
    {"the first head missing", {HEADS("W_K"), HEADS("W_V"), W_O}, PER_HEAD,
     .pointer = "/tensors/W_Q", .words = {"h.0.W_Q"}},
    {"{head} in W_O", GOOD, {NAMED("W_Q", "W_K", "W_V", "W_O.{head}")},
     .pointer = "/tensors/W_O", .words = {"W_O.{head}"}},
    {"not in the file, and none is near", GOOD, {NAMED("W_Q", "encoder.key", "W_V", "W_O")},
     .pointer = "/tensors/W_K", .words = {"encoder.key", "4", "W_Q"}},
    {"not in the file, and one is near", GOOD, {NAMED("W_Q", "W_KK", "W_V", "W_O")},
     .pointer = "/tensors/W_K", .words = {"W_KK", "did you mean \"W_K\"?"}},
    {"an empty file", {{0}}, NAMES, .pointer = "/tensors/W_Q", .words = {"W_Q", "0"}},
    {"no name for W_O", GOOD, {[TENSOR_W_Q] = "W_Q", [TENSOR_W_K] = "W_K", [TENSOR_W_V] = "W_V"},
     .pointer = "/tensors", .words = {"W_O"}},
    {"no name for W_V", GOOD, {[TENSOR_W_Q] = "W_Q", [TENSOR_W_K] = "W_K", [TENSOR_W_O] = "W_O"},
     .pointer = "/tensors", .words = {"W_V"}},

    {"the other layout", {F32("W_Q", 12, 8), F32("W_K", 12, 8), F32("W_V", 12, 8), F32("W_O", 8, 12)}, NAMES,
     .d_k = 6, .pointer = "/tensors/W_Q", .words = {"W_Q", "[12, 8]", "[12, 12]", "\"layout\": \"out_in\" would fit"}},
    {"the other layout, by out_in", {F32("W_Q", 8, 12), F32("W_K", 8, 12), F32("W_V", 8, 12), F32("W_O", 12, 8)}, NAMES,
     .d_k = 6, .layout = LAYOUT_OUT_IN, .pointer = "/tensors/W_Q",
     .words = {"W_Q", "[8, 12]", "\"layout\": \"in_out\" would fit"}},
    {"the other layout, fused", {F32("W_QKV", 24, 8), W_O}, FUSED,
     .pointer = "/tensors/W_QKV", .words = {"[24, 8]", "[24, 72]", "\"layout\": \"out_in\" would fit"}},
    {"the other layout, of keys alone", {W_Q, F32("W_K", 4, 8), F32("W_V", 4, 8), W_O}, NAMES,
     .num_kv_heads = 1, .pointer = "/tensors/W_K", .words = {"[4, 8]", "[8, 4]", "\"layout\": \"out_in\" would fit"}},

    {"not divisible", GOOD, NAMES, .num_heads = 3, .pointer = "/num_heads", .words = {"8", "3"}},
    {"num_kv_heads", GOOD, NAMES, .num_heads = 4, .num_kv_heads = 3, .pointer = "/num_kv_heads", .words = {"4", "3"}},
    {"a head count that nothing has", GOOD, PER_HEAD,
     .num_heads = SIZE_MAX / 2, .d_k = 4, .d_model = 8, .words = {"9223372036854775807"}},

    {"beyond float32", {W_Q, W_K, {"W_V", "F64", 2, {8, 8}, huge_at_8}, W_O}, NAMES,
     .pointer = "/tensors/W_V", .words = {"W_V", "1e+39", "[1, 0]", "float32"}},
    {"rounds beyond float32", {W_Q, W_K, {"W_V", "F64", 2, {8, 8}, rounds_to_infinity}, W_O}, NAMES,
     .pointer = "/tensors/W_V", .words = {"W_V", "3.40282e+38", "[0, 1]"}},
    {"NaN", {W_Q, W_K, W_V, {"W_O", "F32", 2, {8, 8}, nan_at_last}}, NAMES,
     .layout = LAYOUT_OUT_IN, .pointer = "/tensors/W_O", .words = {"W_O", "nan", "[7, 7]"}},
    {"NaN in bfloat16", {W_Q, W_K, W_V, {"W_O", "BF16", 2, {8, 8}, nan_at_last}}, NAMES,
     .pointer = "/tensors/W_O", .words = {"W_O", "nan", "[7, 7]"}},
    {"infinity in bfloat16", {W_Q, W_K, W_V, W_O, {"b_Q", "BF16", 1, {8}, infinite_at_3}}, NAMES_AND_B_Q,
     .pointer = "/tensors/b_Q", .words = {"b_Q", "inf", "[3]"}},
    {"infinity in float16", {W_Q, W_K, W_V, W_O, {"b_Q", "F16", 1, {8}, infinite_at_3}}, NAMES_AND_B_Q,
     .pointer = "/tensors/b_Q", .words = {"b_Q", "inf", "[3]"}},
};
/* clang-format on */

static void start(void)
{
    struct error error;
    model_folder_make();
    if (!engine_init(NULL, &error))
        abort();
}

/* A number must stand alone: 8 is not found in 128. */
static bool found(const char *word, const char *text)
{
    bool is_number = isdigit((unsigned char)word[0]) && strspn(word, "0123456789") == strlen(word);
    for (const char *at = text; (at = strstr(at, word)); at++)
        if (!is_number ||
            ((at == text || !isdigit((unsigned char)at[-1])) && !isdigit((unsigned char)at[strlen(word)])))
            return true;
    return false;
}

static void expect(const struct weights_config *config, const char *what, const char *pointer,
                   const char *const words[5])
{
    struct error error = {.code = ERROR_NONE};
    ck_assert_msg(weight_set_load(config, &error) == NULL, "%s: it was loaded", what);
    ck_assert_msg(strncmp(error.message, FILE_NAME ": ", strlen(FILE_NAME ": ")) == 0, "%s: no file: %s", what,
                  error.message);
    for (size_t i = 0; i < 5 && words[i]; i++)
        ck_assert_msg(found(words[i], error.message), "%s: no %s in: %s", what, words[i], error.message);
    ck_assert_msg(error.has_pointer == (pointer != NULL) && (!pointer || strcmp(error.pointer, pointer) == 0),
                  "%s: pointer %s", what, error.has_pointer ? error.pointer : "none");
    ck_assert_msg(error.code == ERROR_INVALID || error.code == ERROR_BAD_ENCODING || error.code == ERROR_NOT_FINITE ||
                      error.code == ERROR_IO,
                  "%s: code %s", what, error_slug(error.code));
}

START_TEST(refused)
{
    const struct fault_case *wrong = &cases[_i];
    char name[] = "only";
    struct weights_config config = {
        .name = name,
        .source = WEIGHTS_SAFETENSORS,
        .path = model_folder_path(FILE_NAME),
        .num_heads = wrong->num_heads ? wrong->num_heads : 2,
        .num_kv_heads = wrong->num_kv_heads,
        .d_k = wrong->d_k,
        .d_model = wrong->d_model,
        .layout = wrong->layout,
    };
    for (size_t i = 0; i < WEIGHT_TENSOR_COUNT; i++)
        config.tensors[i] = (char *)wrong->names[i];
    size_t count = 0, size;
    while (count < MOST && wrong->tensors[count].name)
        count++;
    struct model_file file = model_file_compose(wrong->tensors, count);
    if (wrong->change[0])
        model_file_replace(&file, wrong->change[0], wrong->change[1]);
    file.data_bytes = (size_t)((int64_t)file.data_bytes - wrong->cut);
    unsigned char *bytes = model_file_bytes(&file, &size);
    model_folder_write(FILE_NAME, bytes, size);
    expect(&config, wrong->what, wrong->pointer, wrong->words);
    free(bytes);
    model_file_free(&file);
    free(config.path);
}
END_TEST

/* The good file, and it alone, is taken: else the refusals above would prove nothing. */
static struct weights_config good(void)
{
    static char name[] = "only", q[] = "W_Q", k[] = "W_K", v[] = "W_V", o[] = "W_O";
    return (struct weights_config){
        .name = name,
        .source = WEIGHTS_SAFETENSORS,
        .path = model_folder_path(FILE_NAME),
        .num_heads = 2,
        .tensors = {[TENSOR_W_Q] = q, [TENSOR_W_K] = k, [TENSOR_W_V] = v, [TENSOR_W_O] = o},
    };
}

static unsigned char *good_bytes(size_t *size)
{
    /* A tensor that no set names may have any dtype. */
    const struct file_tensor tensors[] = {W_Q, W_K, W_V, W_O, {"position_ids", "I64", 2, {1, 3}, NULL}};
    struct model_file file = model_file_compose(tensors, 5);
    unsigned char *bytes = model_file_bytes(&file, size);
    model_file_free(&file);
    return bytes;
}

START_TEST(right)
{
    struct weights_config config = good();
    struct error error;
    size_t size;
    unsigned char *bytes = good_bytes(&size);
    model_folder_write(FILE_NAME, bytes, size);
    struct weight_set *set = weight_set_load(&config, &error);
    ck_assert_msg(set != NULL, "%s", error.message);
    ck_assert_uint_eq(set->parameters, 256);
    weight_set_free(set);
    free(bytes);
    free(config.path);
}
END_TEST

/* Cut at every length: always an error, never a crash. */
START_TEST(cut_anywhere)
{
    struct weights_config config = good();
    size_t size;
    unsigned char *bytes = good_bytes(&size);
    static const char *const none[5] = {NULL};
    for (size_t length = 0; length < size; length += length < 700 ? 1 : 97) {
        model_folder_write(FILE_NAME, bytes, length);
        expect(&config, "cut", "/path", none);
    }
    free(bytes);
    free(config.path);
}
END_TEST

START_TEST(header_length)
{
    struct weights_config config = good();
    size_t size;
    unsigned char *bytes = good_bytes(&size);
    static const struct {
        uint64_t length;
        const char *words[5];
    } lengths[] = {{5000, {"5000"}},
                   {UINT64_C(1) << 62, {"4611686018427387904"}},
                   {UINT64_MAX, {"18446744073709551615"}},
                   {0, {"JSON"}},
                   {1, {"JSON"}}};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        memcpy(bytes, &lengths[i].length, sizeof lengths[i].length);
        model_folder_write(FILE_NAME, bytes, size);
        expect(&config, "header length", "/path", lengths[i].words);
    }
    free(bytes);
    free(config.path);
}
END_TEST

START_TEST(no_regular_file)
{
    static const char *const missing[5] = {"No such file"}, *const folder[5] = {"a folder"},
                             *const pipe[5] = {"not a regular file"};
    struct weights_config config = good();
    remove(config.path);
    expect(&config, "no file", "/path", missing);
    ck_assert_int_eq(mkdir(config.path, 0700), 0);
    expect(&config, "a folder", "/path", folder);
    remove(config.path);
    ck_assert_int_eq(mkfifo(config.path, 0600), 0);
    expect(&config, "a pipe", "/path", pipe);
    remove(config.path);
    free(config.path);
}
END_TEST

Suite *suite(void)
{
    Suite *suite = suite_create("weights/safetensors_faults");
    TCase *tcase = tcase_create("refused");
    tcase_add_unchecked_fixture(tcase, start, model_folder_remove);
    tcase_add_test(tcase, right);
    tcase_add_loop_test(tcase, refused, 0, sizeof cases / sizeof *cases);
    tcase_add_test(tcase, cut_anywhere);
    tcase_add_test(tcase, header_length);
    tcase_add_test(tcase, no_regular_file);
    suite_add_tcase(suite, tcase);
    return suite;
}
