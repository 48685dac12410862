/* A layer of a real model, from a file of the layout [out, in] with biases, against its reference implementation
 * (golden/real). */
#include "suite.h"

#include "codec/safetensors.h"
#include "golden.h"
#include "run_forward.h"
#include "weights/weight_set.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ATTENTION "encoder.layer.0.attention."

static struct weight_set *load(void)
{
    static char name[] = "minilm-0", w_q[] = ATTENTION "self.query.weight", b_q[] = ATTENTION "self.query.bias",
                w_k[] = ATTENTION "self.key.weight", b_k[] = ATTENTION "self.key.bias",
                w_v[] = ATTENTION "self.value.weight", b_v[] = ATTENTION "self.value.bias",
                w_o[] = ATTENTION "output.dense.weight", b_o[] = ATTENTION "output.dense.bias";
    struct weights_config config = {
        .name = name,
        .source = WEIGHTS_SAFETENSORS,
        .path = golden_path("real/minilm-layer0.safetensors"),
        .num_heads = 12,
        .layout = LAYOUT_OUT_IN,
        .tensors = {[TENSOR_W_Q] = w_q,
                    [TENSOR_B_Q] = b_q,
                    [TENSOR_W_K] = w_k,
                    [TENSOR_B_K] = b_k,
                    [TENSOR_W_V] = w_v,
                    [TENSOR_B_V] = b_v,
                    [TENSOR_W_O] = w_o,
                    [TENSOR_B_O] = b_o},
    };
    struct error error;
    struct weight_set *set = weight_set_load(&config, &error);
    ck_assert_msg(set != NULL, "%s", error.message);
    free(config.path);
    return set;
}

/* The whole file; fresh memory. */
static char *read_file(const char *name, size_t *size)
{
    char *path = golden_path(name), *bytes = malloc((size_t)1 << 20);
    FILE *file = fopen(path, "rb");
    ck_assert_ptr_nonnull(bytes);
    ck_assert_ptr_nonnull(file);
    *size = fread(bytes, 1, (size_t)1 << 20, file);
    fclose(file);
    free(path);
    return bytes;
}

/* NULL when the case has none. Fresh memory. */
static float *numbers(const struct safetensors *header, const char *name, size_t *count)
{
    const struct safetensors_entry *entry = safetensors_find(header, name);
    if (!entry)
        return NULL;
    float *to = malloc(entry->bytes);
    ck_assert_ptr_nonnull(to);
    ck_assert_int_eq(entry->dtype, DTYPE_F32);
    memcpy(to, entry->data, entry->bytes);
    *count = entry->count;
    return to;
}

static const char *const names[] = {"real/cat-layer0.safetensors", "real/batch-layer0.safetensors"};
enum { N_NAMES = sizeof names / sizeof *names };

/* Each file with the kernels of each instruction set. */
START_TEST(sentences)
{
    if (!use_kernels((size_t)_i / N_NAMES))
        return;
    struct weight_set *set = load();
    struct safetensors header;
    struct error error;
    size_t size, count = 0, output_count = 0, attention_count = 0, mask_count = 0;
    char *bytes = read_file(names[_i % N_NAMES], &size);
    ck_assert_msg(safetensors_open(bytes, size, &header, &error), "%s", error.message);
    const struct safetensors_entry *entry = safetensors_find(&header, "input");
    ck_assert_uint_eq(entry->shape[2], 384);
    ck_assert_uint_eq(set->shape.d_model, 384);
    ck_assert_uint_eq(set->shape.d_k, 32);
    ck_assert_uint_eq(set->parameters, 4 * (384 * 384 + 384));
    ck_assert(set->bias);

    float *x = numbers(&header, "input", &count), *output = numbers(&header, "output", &output_count);
    float *attention = numbers(&header, "attention", &attention_count),
          *mask = numbers(&header, "attention_mask", &mask_count);
    uint8_t *allowed = calloc(mask_count + 1, 1);
    ck_assert_ptr_nonnull(allowed);
    for (size_t i = 0; i < mask_count; i++)
        allowed[i] = mask[i] != 0;
    const struct forward_input input = {
        .batch = entry->shape[0],
        .query_length = entry->shape[1],
        .key_length = entry->shape[1],
        .self_attention = true,
        .query = x,
        .key = x,
        .value = x,
        .mask_kind = mask ? FORWARD_MASK_KEYS : FORWARD_MASK_NONE,
        .mask = mask ? allowed : NULL,
    };
    struct forward_result result = run_forward(set->layers[0], &input);
    ck_assert_uint_eq(output_count, count);
    ck_assert_uint_eq(attention_count, input.batch * 12 * input.query_length * input.key_length);
    expect_close("output", result.output, output, output_count, true);
    expect_close("attention", result.attention, attention, attention_count, true);
    run_forward_free(&result);
    free(allowed);
    free(x);
    free(output);
    free(attention);
    free(mask);
    safetensors_close(&header);
    free(bytes);
    weight_set_free(set);
}
END_TEST

Suite *suite(void)
{
    Suite *suite = suite_create("weights/real_model");
    TCase *tcase = tcase_create("minilm");
    tcase_add_loop_test(tcase, sentences, 0, N_NAMES * KERNEL_VARIANT_COUNT);
    suite_add_tcase(suite, tcase);
    return suite;
}
