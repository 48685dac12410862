/* Models from files in every format and layout: what is in memory afterwards is what the same numbers put there one
 * tensor at a time. */
#include "suite.h"

#include "engine/model_parts.h"
#include "model_file.h"
#include "weights/model_digest.h"
#include "weights/model_load.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { D = 36, HEADS = 3, D_K = 12, D_FF = 150, VOCABULARY = 41, LAYERS = 2 };

static const struct layer_shape layers[LAYERS] = {[0 ... LAYERS - 1] = {
                                                      .bias_q = true,
                                                      .scale = 0.25f,
                                                      .residual = true,
                                                      .norm1 = {NORM_LAYER, true, 1e-5f},
                                                      .norm2 = {NORM_RMS, false, 1e-6f},
                                                      .ffn = {.kind = FFN_SWIGLU, .d_ff = D_FF, .bias_2 = true},
                                                  }};

static const struct model_shape shape = {
    .attention = {.d_model = D,
                  .num_heads = HEADS,
                  .num_kv_heads = HEADS,
                  .d_k = D_K,
                  .d_v = D_K,
                  .scale = 0.25f,
                  .projected = true},
    .num_layers = LAYERS,
    .layers = layers,
    .embeddings = {.present = true, .vocabulary = VOCABULARY, .width = D, .scale = 1},
    .final_norm = {NORM_LAYER, false, 1e-5f},
};

/* Numbers that all formats hold exactly. */
static double number(size_t tensor, size_t i, size_t j)
{
    return (double)((tensor * 7 + i * 13 + j * 5) % 63) / 8 - 3;
}

/* A tensor of the model and its place in a file: in a tensor of its own, or its columns in one of three times as many
 * (W_Q, W_K, W_V of a layer), which its W_Q has. */
struct wanted {
    struct tensor_slot slot;
    struct slot_extent extent;
    size_t index;
    bool transposed, fused;
};

static size_t list_wanted(struct wanted *list)
{
    size_t count = 0;
    for (size_t i = 0; i < model_tensors(&shape); i++) {
        const struct tensor_slot slot = model_tensor(&shape, i);
        const struct slot_extent extent = model_slot_extent(&shape, slot);
        if (!extent.rows)
            continue;
        const bool fused = slot.layer == 0 && (slot.slot == SLOT_W_Q || slot.slot == SLOT_W_K || slot.slot == SLOT_W_V);
        list[count++] = (struct wanted){slot, extent, i, extent.matrix && !fused && i % 2, fused};
    }
    return count;
}

/* The file's tensors, in turn of the four formats. */
static void write_file_as(const struct wanted *list, size_t count, const char *const dtypes[4], const char *name)
{
    struct file_tensor *tensors = calloc(count, sizeof *tensors);
    double *values = calloc(count * 41 * D_FF * 3, sizeof *values), *at = values;
    char(*names)[24] = calloc(count, sizeof *names);
    for (size_t i = 0; i < count; i++) {
        const struct wanted *w = &list[i];
        const size_t columns = w->fused ? 3 * w->extent.columns : w->extent.columns,
                     rows = w->transposed ? columns : w->extent.rows, across = w->transposed ? w->extent.rows : columns;
        snprintf(names[i], sizeof *names, "t%zu", i);
        tensors[i] = (struct file_tensor){names[i], dtypes[i % 4], 2, {rows, across}, at};
        for (size_t r = 0; r < rows; r++)
            for (size_t c = 0; c < across; c++)
                *at++ = w->fused        ? number(w->index + c / w->extent.columns, r, c % w->extent.columns)
                        : w->transposed ? number(w->index, c, r)
                                        : number(w->index, r, c);
    }
    struct model_file file = model_file_compose(tensors, count);
    model_folder_write_file(name, &file);
    model_file_free(&file);
    free(tensors), free(values), free(names);
}

static void write_file(const struct wanted *list, size_t count, const char *name)
{
    static const char *const dtypes[] = {"F32", "BF16", "F16", "F64"};
    write_file_as(list, count, dtypes, name);
}

struct made {
    struct safetensors_file file;
    struct model_source source;
    struct tensor_place places[LAYERS][LAYER_SLOT_COUNT];
};

static void open_source(struct made *made, const struct wanted *list, size_t count, const char *name)
{
    struct error error;
    char *path = model_folder_path(name);
    *made = (struct made){0};
    ck_assert_msg(safetensors_file_open(path, &made->file, &error), "%s", error.message);
    free(path);
    made->source.shape = shape;
    made->source.files = (struct model_files){.files = &made->file, .count = 1, .one = true};
    made->source.layers = made->places;
    size_t q = 0;
    for (size_t i = 0; i < count; i++) {
        const struct wanted *w = &list[i];
        char entry[24];
        q = w->fused && w->slot.slot != SLOT_W_Q ? q : i;
        snprintf(entry, sizeof entry, "t%zu", q);
        struct tensor_place place = {.file = &made->file,
                                     .entry = safetensors_find(&made->file.header, entry),
                                     .rows = w->extent.rows,
                                     .columns = w->extent.columns,
                                     .row_stride = w->extent.columns,
                                     .column_stride = 1};
        ck_assert_ptr_nonnull(place.entry);
        if (w->transposed) {
            place.row_stride = 1;
            place.column_stride = w->extent.rows;
        }
        if (w->fused) {
            place.first = (w->index - list[q].index) * w->extent.columns;
            place.row_stride = 3 * w->extent.columns;
        }
        if (w->slot.layer == MODEL_ITSELF)
            made->source.model[w->slot.slot] = place;
        else
            made->places[w->slot.layer][w->slot.slot] = place;
    }
}

static struct model *expected_model(const struct wanted *list, size_t count)
{
    struct error error;
    struct model *model = model_create(&shape, &error);
    float *rows = calloc((size_t)D_FF * D_FF, sizeof *rows);
    for (size_t t = 0; t < count; t++) {
        const struct wanted *w = &list[t];
        for (size_t i = 0; i < w->extent.rows; i++)
            for (size_t j = 0; j < w->extent.columns; j++)
                rows[i * w->extent.columns + j] = (float)number(w->index, i, j);
        model_put_rows(model, w->slot, 0, w->extent.rows, rows, w->extent.columns);
    }
    free(rows);
    return model;
}

static void compare_matrices(const struct packed_matrix *got, const struct packed_matrix *wanted)
{
    ck_assert_uint_eq(got->depth, wanted->depth);
    ck_assert_mem_eq(got->panels, wanted->panels,
                     kernels_chosen()->packed_floats(wanted->depth, wanted->columns) * sizeof(float));
    ck_assert(!got->bias == !wanted->bias);
    if (wanted->bias)
        ck_assert_mem_eq(got->bias, wanted->bias, wanted->columns * sizeof(float));
}

static void compare_layers(const struct model_layer *got, const struct model_layer *wanted)
{
    compare_matrices(&got->attention.query, &wanted->attention.query);
    compare_matrices(&got->attention.key, &wanted->attention.key);
    compare_matrices(&got->attention.value, &wanted->attention.value);
    compare_matrices(&got->attention.output, &wanted->attention.output);
    compare_matrices(&got->ffn.w_1, &wanted->ffn.w_1);
    compare_matrices(&got->ffn.w_gate, &wanted->ffn.w_gate);
    compare_matrices(&got->ffn.w_2, &wanted->ffn.w_2);
    ck_assert_mem_eq(got->norm1.gain, wanted->norm1.gain, D * sizeof(float));
    ck_assert_mem_eq(got->norm1.bias, wanted->norm1.bias, D * sizeof(float));
    ck_assert_mem_eq(got->norm2.gain, wanted->norm2.gain, D * sizeof(float));
}

START_TEST(every_format_and_layout_on_any_number_of_threads)
{
    struct wanted list[LAYERS * LAYER_SLOT_COUNT + MODEL_SLOT_COUNT];
    const size_t count = list_wanted(list);
    struct made made;
    char digests[3][DIGEST_TEXT_BYTES];
    write_file(list, count, "model.safetensors");
    open_source(&made, list, count, "model.safetensors");
    struct model *expected = expected_model(list, count);
    for (unsigned threads = 1; threads <= 3; threads++) {
        struct error error;
        struct model *model = model_load(&made.source, threads, digests[threads - 1], &error);
        ck_assert_msg(model != NULL, "%s", error.message);
        for (size_t i = 0; i < LAYERS; i++)
            compare_layers(&model->layers[i], &expected->layers[i]);
        ck_assert_mem_eq(model->embeddings.token.numbers, expected->embeddings.token.numbers,
                         (size_t)VOCABULARY * D * sizeof(float));
        ck_assert_mem_eq(model->final_norm.gain, expected->final_norm.gain, D * sizeof(float));
        ck_assert_str_eq(digests[threads - 1], digests[0]);
        model_free(model);
    }
    model_free(expected);
    safetensors_file_close(&made.file);
}
END_TEST

static void digest_of(const struct wanted *list, size_t count, const char *dtype, char digest[DIGEST_TEXT_BYTES])
{
    const char *const dtypes[] = {dtype, dtype, dtype, dtype};
    struct made made;
    struct error error;
    write_file_as(list, count, dtypes, "same.safetensors");
    open_source(&made, list, count, "same.safetensors");
    struct model *model = model_load(&made.source, 2, digest, &error);
    ck_assert_msg(model, "%s", error.message);
    model_free(model);
    safetensors_file_close(&made.file);
}

/* The numbers of these tensors have the same value in every format. */
START_TEST(the_digest_does_not_follow_format_and_layout)
{
    struct wanted list[LAYERS * LAYER_SLOT_COUNT + MODEL_SLOT_COUNT];
    const size_t count = list_wanted(list);
    char digest[DIGEST_TEXT_BYTES], other[DIGEST_TEXT_BYTES];
    digest_of(list, count, "F32", digest);
    digest_of(list, count, "BF16", other);
    ck_assert_str_eq(digest, other);
    for (size_t i = 0; i < count; i++) {
        list[i].transposed = list[i].extent.matrix && !list[i].transposed;
        list[i].fused = false;
    }
    digest_of(list, count, "F64", other);
    ck_assert_str_eq(digest, other);
    list[0].index += 1000;
    digest_of(list, count, "F32", other);
    ck_assert_str_ne(digest, other);
}
END_TEST

START_TEST(the_digest_follows_numbers_and_shape)
{
    struct wanted list[LAYERS * LAYER_SLOT_COUNT + MODEL_SLOT_COUNT];
    const size_t count = list_wanted(list);
    struct layer_shape other_layers[LAYERS] = {layers[0], layers[1]};
    struct made made;
    struct error error;
    char digest[DIGEST_TEXT_BYTES], other[DIGEST_TEXT_BYTES];
    open_source(&made, list, count, "model.safetensors");
    model_free(model_load(&made.source, 1, digest, &error));
    other_layers[1].scale = 0.5f;
    made.source.shape.layers = other_layers;
    model_free(model_load(&made.source, 1, other, &error));
    ck_assert_str_ne(digest, other);
    made.source.shape.layers = layers;
    made.source.model[SLOT_FINAL_GAIN].entry = made.places[1][SLOT_NORM1_GAIN].entry;
    model_free(model_load(&made.source, 1, other, &error));
    ck_assert_str_ne(digest, other);
    safetensors_file_close(&made.file);
}
END_TEST

START_TEST(what_is_wrong_is_named)
{
    static double values[VOCABULARY * D];
    struct wanted list[LAYERS * LAYER_SLOT_COUNT + MODEL_SLOT_COUNT];
    const size_t count = list_wanted(list);
    struct made made;
    struct error error;
    char digest[DIGEST_TEXT_BYTES], *path;
    values[5 * D + 7] = INFINITY;
    struct file_tensor tensor = {"tokens", "F32", 2, {VOCABULARY, D}, values};
    struct model_file file = model_file_compose(&tensor, 1);
    model_folder_write_file("infinite.safetensors", &file);
    model_file_free(&file);
    open_source(&made, list, count, "model.safetensors");
    struct safetensors_file infinite;
    path = model_folder_path("infinite.safetensors");
    ck_assert(safetensors_file_open(path, &infinite, &error));
    free(path);
    made.source.model[SLOT_TOKEN].file = &infinite;
    made.source.model[SLOT_TOKEN].entry = safetensors_find(&infinite.header, "tokens");
    for (unsigned threads = 1; threads <= 3; threads++) {
        ck_assert_ptr_null(model_load(&made.source, threads, digest, &error));
        ck_assert_int_eq(error.code, ERROR_NOT_FINITE);
        ck_assert_msg(strstr(error.message, "\"tokens\"") && strstr(error.message, "[5, 7]"), "%s", error.message);
    }
    safetensors_file_close(&infinite);
    safetensors_file_close(&made.file);
}
END_TEST

/* Finite as float32, infinite when rounded to bfloat16; the number below is the largest that is not. */
START_TEST(what_bfloat16_cannot_hold_is_named)
{
    static double values[VOCABULARY * D];
    struct wanted list[LAYERS * LAYER_SLOT_COUNT + MODEL_SLOT_COUNT];
    const size_t count = list_wanted(list);
    const float least = 0x1.ffp127f;
    for (int i = 0; i < 3; i++) {
        struct made made;
        struct safetensors_file large;
        struct error error;
        char digest[DIGEST_TEXT_BYTES], *path = model_folder_path("large.safetensors");
        values[5 * D + 7] = -(double)(i ? least : nextafterf(least, 0));
        struct file_tensor tensor = {"tokens", "F32", 2, {VOCABULARY, D}, values};
        struct model_file file = model_file_compose(&tensor, 1);
        model_folder_write_file("large.safetensors", &file);
        model_file_free(&file);
        open_source(&made, list, count, "model.safetensors");
        ck_assert(safetensors_file_open(path, &large, &error));
        free(path);
        made.source.shape.precision = i == 2 ? PRECISION_F32 : PRECISION_BF16;
        made.source.model[SLOT_TOKEN].file = &large;
        made.source.model[SLOT_TOKEN].entry = safetensors_find(&large.header, "tokens");
        struct model *model = model_load(&made.source, 2, digest, &error);
        ck_assert(!model == (i == 1));
        if (i == 1) {
            ck_assert_int_eq(error.code, ERROR_NOT_FINITE);
            ck_assert_str_eq(error.pointer, "/precision");
            ck_assert_msg(strstr(error.message, "\"tokens\"") && strstr(error.message, "bfloat16"), "%s",
                          error.message);
        }
        model_free(model);
        safetensors_file_close(&large);
        safetensors_file_close(&made.file);
    }
}
END_TEST

START_TEST(the_shard_is_named)
{
    struct wanted list[LAYERS * LAYER_SLOT_COUNT + MODEL_SLOT_COUNT];
    const size_t count = list_wanted(list);
    struct made made;
    struct error error;
    char digest[DIGEST_TEXT_BYTES], first[] = "first.safetensors", second[] = "second.safetensors",
                                    *names[] = {first, second};
    open_source(&made, list, count, "model.safetensors");
    struct safetensors_file shards[2] = {made.file, made.file};
    made.source.files = (struct model_files){.files = shards, .count = 2, .names = names};
    for (size_t i = 0; i < count; i++)
        (list[i].slot.layer == MODEL_ITSELF ? &made.source.model[list[i].slot.slot]
                                            : &made.places[list[i].slot.layer][list[i].slot.slot])
            ->file = &shards[1];
    char *path = model_folder_path("model.safetensors");
    ck_assert_int_eq(truncate(path, 4000), 0);
    free(path);
    ck_assert_ptr_null(model_load(&made.source, 2, digest, &error));
    ck_assert_int_eq(error.code, ERROR_IO);
    ck_assert_str_eq(error.pointer, "/path");
    ck_assert_msg(strncmp(error.message, "second.safetensors: ", 20) == 0, "%s", error.message);
    safetensors_file_close(&made.file);
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("model_load");
    TCase *c = tcase_create("model_load");
    tcase_add_unchecked_fixture(c, model_folder_make, model_folder_remove);
    tcase_add_test(c, every_format_and_layout_on_any_number_of_threads);
    tcase_add_test(c, the_digest_does_not_follow_format_and_layout);
    tcase_add_test(c, the_digest_follows_numbers_and_shape);
    tcase_add_test(c, what_is_wrong_is_named);
    tcase_add_test(c, what_bfloat16_cannot_hold_is_named);
    tcase_add_test(c, the_shard_is_named);
    suite_add_tcase(s, c);
    return s;
}
