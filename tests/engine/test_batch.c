/* The promise that a request gets the same bits whatever it is computed with, and the memory that takes. */

#include "engine/kernels/kernels.h"
#include "lanes.h"
#include "problem.h"
#include "suite.h"

#include <stdlib.h>
#include <string.h>

enum { PROBLEMS = 5 };

/* Several problems for one layer, and the answer of each alone on one lane. */
struct traffic {
    struct problem owner; /* of the weights */
    struct attention_layer *layer;
    struct problem problems[PROBLEMS];
    struct answer alone[PROBLEMS];
};

static void choose_variant(int i)
{
    struct error error;
    const struct kernels *variant = kernel_variants[i]->supported() ? kernel_variants[i] : &kernels_generic;
    ck_assert(engine_init(variant->name, &error));
}

static void traffic_open(struct traffic *t, uint64_t seed, const struct problem_limits *limits)
{
    struct random random = {seed};
    *t = (struct traffic){0};
    const struct attention_shape shape = random_shape(&random, limits);
    const struct attention_matrices matrices = random_matrices(&random, &shape, &t->owner);
    struct error error;
    t->layer = attention_layer_create(&shape, &matrices, &error);
    ck_assert_ptr_nonnull(t->layer);
    for (size_t i = 0; i < PROBLEMS; i++) {
        t->problems[i] = problem_create(&random, &shape, &matrices, limits);
        t->alone[i] = answer_create(&t->problems[i]);
        run_problem(t->layer, &t->problems[i], &parallel_serial, &t->alone[i]);
    }
}

static void traffic_close(struct traffic *t)
{
    for (size_t i = 0; i < PROBLEMS; i++) {
        answer_free(&t->alone[i]);
        problem_free(&t->problems[i]);
    }
    attention_layer_free(t->layer);
    problem_free(&t->owner);
}

/* Compares `count` sequences from `first` of `whole` with all of `part`. */
static void check_same_bits(const struct problem *p, const struct answer *whole, size_t first,
                            const struct answer *part, size_t count, const char *what)
{
    const struct answer_sizes sizes = answer_sizes(p);
    const float *const w[6] = {whole->output, whole->attention, whole->heads, whole->query, whole->key, whole->value};
    const float *const q[6] = {part->output, part->attention, part->heads, part->query, part->key, part->value};
    for (size_t t = 0; t < 6; t++) {
        const size_t each = sizes.n[t] / p->input.batch;
        if (q[t])
            ck_assert_msg(memcmp(w[t] + first * each, q[t], count * each * sizeof(float)) == 0,
                          "%s: tensor %zu has other bits (%s)", engine_isa(), t, what);
    }
}

static void run_together(const struct traffic *t, const size_t *order, size_t count, const struct parallel *parallel,
                         struct answer *answers)
{
    const struct forward_input *inputs[PROBLEMS];
    struct forward_result results[PROBLEMS], *result_list[PROBLEMS];
    for (size_t i = 0; i < count; i++) {
        inputs[i] = &t->problems[order[i]].input;
        results[i] = answer_result(&t->problems[order[i]], &answers[i]);
        result_list[i] = &results[i];
    }
    struct arena arena = {0};
    struct error error;
    size_t bytes;
    ck_assert(forward_scratch_bytes(attention_layer_shape(t->layer), inputs, count, parallel->lanes, &bytes));
    ck_assert(arena_reserve(&arena, bytes));
    arena.capacity = bytes;
    ck_assert(forward_run(t->layer, inputs, result_list, count, parallel, &arena, &error));
    for (size_t i = 0; i < count; i++)
        ck_assert_uint_eq(results[i].fully_masked_rows, t->alone[order[i]].fully_masked_rows);
    arena_free(&arena);
}

static const struct problem_limits limits = {
    .d_model = 96, .heads = 3, .d_k = 70, .d_v = 70, .batch = 3, .length = 130};

START_TEST(company_and_lanes_change_no_bit)
{
    choose_variant(_i);
    size_t most_tiles = 0;
    for (unsigned lanes = 1; lanes <= LANES_MOST; lanes++) {
        struct traffic t;
        traffic_open(&t, 100 + lanes, &limits);
        struct random random = {lanes};
        size_t order[PROBLEMS];
        for (size_t i = 0; i < PROBLEMS; i++) {
            const size_t j = random_size(&random, 0, i);
            order[i] = order[j];
            order[j] = i;
        }
        const size_t count = random_size(&random, 1, PROBLEMS);
        struct answer together[PROBLEMS];
        for (size_t i = 0; i < count; i++)
            together[i] = answer_create(&t.problems[order[i]]);
        struct lanes threads;
        lanes_init(&threads, lanes, lanes);
        run_together(&t, order, count, &threads.parallel, together);
        for (size_t i = 0; i < count; i++) {
            const struct problem *p = &t.problems[order[i]];
            check_same_bits(p, &t.alone[order[i]], 0, &together[i], p->input.batch, "together on several lanes");
            answer_free(&together[i]);
        }
        most_tiles = threads.largest_region > most_tiles ? threads.largest_region : most_tiles;
        traffic_close(&t);
    }
    ck_assert_uint_ge(most_tiles, 8); /* the work was split */
}
END_TEST

/* The sequence of a batch as an input of its own. */
static struct problem one_sequence(const struct problem *p, size_t b)
{
    struct problem one = *p;
    struct forward_input *in = &one.input;
    const size_t rows = b * in->query_length, d_model = p->shape.d_model;
    in->batch = 1;
    in->query += rows * d_model;
    in->key += b * in->key_length * d_model;
    in->value += b * in->key_length * d_model;
    if (in->mask)
        in->mask += (in->mask_kind == FORWARD_MASK_KEYS ? b : rows) * in->key_length;
    if (in->bias && in->bias_per_sequence)
        in->bias += p->shape.num_heads * rows * in->key_length;
    return one;
}

START_TEST(a_sequence_alone_has_the_bits_it_has_in_a_batch)
{
    choose_variant(_i);
    for (uint64_t seed = 0; seed < 6; seed++) {
        struct traffic t;
        traffic_open(&t, 200 + seed, &limits);
        for (size_t i = 0; i < PROBLEMS; i++) {
            const struct problem *p = &t.problems[i];
            size_t fully_masked_rows = 0;
            for (size_t b = p->input.batch; b-- > 0;) {
                const struct problem one = one_sequence(p, b);
                struct answer answer = answer_create(&one);
                run_problem(t.layer, &one, &parallel_serial, &answer);
                check_same_bits(p, &t.alone[i], b, &answer, 1, "a sequence alone");
                fully_masked_rows += answer.fully_masked_rows;
                answer_free(&answer);
            }
            ck_assert_uint_eq(fully_masked_rows, t.alone[i].fully_masked_rows);
        }
        traffic_close(&t);
    }
}
END_TEST

/* Each result alone, and the maps of all heads beside those of some. */
START_TEST(what_is_returned_changes_no_bit)
{
    choose_variant(_i);
    for (uint64_t seed = 0; seed < 6; seed++) {
        struct traffic t;
        traffic_open(&t, 300 + seed, &limits);
        for (size_t i = 0; i < PROBLEMS; i++)
            for (size_t tensor = 0; tensor < 7; tensor++) {
                struct problem p = t.problems[i];
                struct answer answer = answer_create(&p), wanted = answer;
                float **const members[6] = {&wanted.output, &wanted.attention, &wanted.heads,
                                            &wanted.query,  &wanted.key,       &wanted.value};
                for (size_t m = 0; m < 6; m++)
                    if (m != tensor)
                        *members[m] = NULL;
                if (tensor == 6) {
                    wanted.output = answer.output;
                    p.n_maps = 0;
                }
                run_problem(t.layer, &p, &parallel_serial, &wanted);
                check_same_bits(&t.problems[i], &t.alone[i], 0, &wanted, p.input.batch, "one result only");
                answer_free(&answer);
            }
        traffic_close(&t);
    }
}
END_TEST

/* The kept rows of a padded sequence are those of the sequence without its padding. */
START_TEST(padding_changes_no_bit_of_the_rest)
{
    choose_variant(_i);
    for (uint64_t seed = 0; seed < 12; seed++) {
        struct random random = {400 + seed};
        const struct attention_shape shape = random_shape(&random, &limits);
        struct problem p = problem_create(&random, &shape, NULL, &limits), bare;
        const size_t length = p.input.query_length, d_model = shape.d_model;
        uint8_t *mask = problem_take(&p, length);
        float *kept_x = problem_take(&p, length * d_model * sizeof *kept_x);
        size_t *kept = problem_take(&p, length * sizeof *kept), n = 0;
        for (size_t i = 0; i < length; i++)
            mask[i] = seed % 3 == 0 ? i < (length + 1) / 2 : seed % 3 == 1 ? i >= length / 2 : i % 3 != 1;
        for (size_t i = 0; i < length; i++)
            if (mask[i]) {
                memcpy(kept_x + n * d_model, p.input.query + i * d_model, d_model * sizeof *kept_x);
                kept[n++] = i;
            }
        p.input = (struct forward_input){.batch = 1,
                                         .query_length = length,
                                         .key_length = length,
                                         .self_attention = true,
                                         .causal = seed % 2,
                                         .query = p.input.query,
                                         .key = p.input.query,
                                         .value = p.input.query,
                                         .mask_kind = FORWARD_MASK_KEYS,
                                         .mask = mask};
        bare = p;
        bare.input.mask_kind = FORWARD_MASK_NONE;
        bare.input.query_length = bare.input.key_length = n;
        bare.input.query = bare.input.key = bare.input.value = kept_x;
        struct error error;
        struct attention_layer *layer = attention_layer_create(&shape, &p.matrices, &error);
        struct answer padded = answer_create(&p), unpadded = answer_create(&bare);
        run_problem(layer, &p, &parallel_serial, &padded);
        run_problem(layer, &bare, &parallel_serial, &unpadded);
        for (size_t i = 0; i < n; i++) {
            ck_assert_int_eq(
                memcmp(padded.output + kept[i] * d_model, unpadded.output + i * d_model, d_model * sizeof(float)), 0);
            for (size_t m = 0; m < p.n_maps; m++)
                for (size_t j = 0; j < n; j++)
                    ck_assert(padded.attention[(m * length + kept[i]) * length + kept[j]] ==
                              unpadded.attention[(m * n + i) * n + j]);
        }
        answer_free(&padded);
        answer_free(&unpadded);
        attention_layer_free(layer);
        problem_free(&p);
    }
}
END_TEST

START_TEST(scratch_is_exact)
{
    choose_variant(_i);
    for (uint64_t seed = 0; seed < 20; seed++) {
        struct traffic t;
        traffic_open(&t, 500 + seed, &limits);
        const struct attention_shape *shape = attention_layer_shape(t.layer);
        const struct forward_input *inputs[2] = {&t.problems[0].input, &t.problems[1].input};
        struct answer answers[2] = {answer_create(&t.problems[0]), answer_create(&t.problems[1])};
        struct forward_result results[2] = {answer_result(&t.problems[0], &answers[0]),
                                            answer_result(&t.problems[1], &answers[1])};
        struct forward_result *list[2] = {&results[0], &results[1]};
        for (size_t count = 1; count <= 2; count++) {
            size_t bytes;
            struct arena arena = {0};
            struct error error = {0};
            ck_assert(forward_scratch_bytes(shape, inputs, count, 1, &bytes));
            ck_assert(arena_reserve(&arena, bytes));
            const size_t capacity = arena.capacity;
            arena.capacity = bytes;
            ck_assert(forward_run(t.layer, inputs, list, count, &parallel_serial, &arena, &error));
            ck_assert_uint_eq(arena.used, bytes);
            arena_reset(&arena);
            arena.capacity = bytes - ARENA_ALIGNMENT;
            ck_assert(!forward_run(t.layer, inputs, list, count, &parallel_serial, &arena, &error));
            ck_assert_int_eq(error.code, ERROR_OUT_OF_MEMORY);
            arena.capacity = capacity;
            arena_free(&arena);
        }
        answer_free(&answers[0]);
        answer_free(&answers[1]);
        traffic_close(&t);
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
    tcase_add_loop_test(t, company_and_lanes_change_no_bit, 0, KERNEL_VARIANT_COUNT);
    tcase_add_loop_test(t, a_sequence_alone_has_the_bits_it_has_in_a_batch, 0, KERNEL_VARIANT_COUNT);
    tcase_add_loop_test(t, what_is_returned_changes_no_bit, 0, KERNEL_VARIANT_COUNT);
    tcase_add_loop_test(t, padding_changes_no_bit_of_the_rest, 0, KERNEL_VARIANT_COUNT);
    tcase_add_loop_test(t, scratch_is_exact, 0, KERNEL_VARIANT_COUNT);
    tcase_add_test(t, scratch_grows_with_tokens_not_with_their_square);
    suite_add_tcase(s, t);
    return s;
}
