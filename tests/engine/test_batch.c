/* The memory that a batch takes: exactly what was asked for, and not with the square of the length. That a batch
 * changes no bit is tested in test_same_bits.c. */

#include "engine/kernels/kernels.h"
#include "problem.h"
#include "suite.h"

static const struct problem_limits limits = {
    .d_model = 96, .heads = 3, .d_k = 70, .d_v = 70, .batch = 3, .length = 130};

START_TEST(scratch_is_exact)
{
    struct error error = {0};
    if (!isa_supported((enum isa)_i))
        return;
    ck_assert(engine_init(kernel_variants[_i]->name, &error));
    for (uint64_t seed = 0; seed < 20; seed++) {
        struct random random = {500 + seed};
        struct problem owner = {0};
        const struct attention_shape shape = random_shape(&random, &limits);
        const struct attention_matrices matrices = random_matrices(&random, &shape, &owner);
        struct attention_layer *layer = attention_layer_create(&shape, &matrices, &error);
        ck_assert_ptr_nonnull(layer);
        struct problem problems[2];
        struct answer answers[2];
        struct forward_result results[2], *list[2];
        const struct forward_input *inputs[2];
        for (size_t i = 0; i < 2; i++) {
            problems[i] = problem_create(&random, &shape, &matrices, &limits);
            answers[i] = answer_create(&problems[i]);
            results[i] = answer_result(&problems[i], &answers[i]);
            list[i] = &results[i];
            inputs[i] = &problems[i].input;
        }
        for (size_t count = 1; count <= 2; count++) {
            size_t bytes;
            struct arena arena = {0};
            ck_assert(forward_scratch_bytes(&shape, inputs, count, 1, &bytes));
            ck_assert(arena_reserve(&arena, bytes));
            const size_t capacity = arena.capacity;
            arena.capacity = bytes;
            ck_assert(forward_run(layer, inputs, list, count, &parallel_serial, &arena, &error));
            ck_assert_uint_eq(arena.used, bytes);
            arena_reset(&arena);
            arena.capacity = bytes - ARENA_ALIGNMENT;
            ck_assert(!forward_run(layer, inputs, list, count, &parallel_serial, &arena, &error));
            ck_assert_int_eq(error.code, ERROR_OUT_OF_MEMORY);
            arena.capacity = capacity;
            arena_free(&arena);
        }
        for (size_t i = 0; i < 2; i++) {
            answer_free(&answers[i]);
            problem_free(&problems[i]);
        }
        attention_layer_free(layer);
        problem_free(&owner);
    }
}
END_TEST

START_TEST(scratch_grows_with_tokens_not_with_their_square)
{
    const struct attention_shape shape = {
        .d_model = 768, .num_heads = 12, .num_kv_heads = 12, .d_k = 64, .d_v = 64, .scale = 0.125f, .projected = true};
    size_t bytes[2];
    for (size_t i = 0; i < 2; i++) {
        const struct forward_input input = {
            .batch = 1, .query_length = (size_t)8192 << i, .key_length = (size_t)8192 << i, .self_attention = true};
        const struct forward_input *inputs[] = {&input};
        ck_assert(forward_scratch_bytes(&shape, inputs, 1, 2, &bytes[i]));
        const size_t rows = input.query_length, internal = 4 * rows * (768 + 16) * 4; /* Q, K, V and the heads */
        const size_t lane = rows * 64 * 2 * 4 + 12 * (rows + 32) * 4 +
                            65536; /* keys and values of a head, a tile of 12 rows, little else */
        ck_assert_uint_ge(bytes[i], internal);
        ck_assert_uint_le(bytes[i], internal + 2 * lane);
    }
    ck_assert_uint_le(bytes[1], 2 * bytes[0]);
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("engine/batch");
    TCase *t = tcase_create("batch");
    tcase_set_timeout(t, 60);
    tcase_add_loop_test(t, scratch_is_exact, 0, KERNEL_VARIANT_COUNT);
    tcase_add_test(t, scratch_grows_with_tokens_not_with_their_square);
    suite_add_tcase(s, t);
    return s;
}
