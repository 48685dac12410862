/* The promise that a request gets the same bits whatever it is computed with: in what order the sequences of a batch
 * are, how the batch is cut, on how many threads, what is returned beside, with or without padding. */

#include "engine/kernels/kernels.h"
#include "lanes.h"
#include "problem.h"
#include "suite.h"

#include <stdlib.h>
#include <string.h>

enum { PROBLEMS = 5, TRAFFICS = 6 };

static const struct problem_limits limits = {
    .d_model = 96, .heads = 3, .d_k = 70, .d_v = 70, .batch = 4, .length = 130};

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
    const struct kernels *variant = isa_supported((enum isa)i) ? kernel_variants[i] : &kernels_generic;
    ck_assert(engine_init(variant->name, &error));
}

static void traffic_open(struct traffic *t, uint64_t seed)
{
    struct random random = {seed};
    *t = (struct traffic){0};
    const struct attention_shape shape = random_shape(&random, &limits);
    const struct attention_matrices matrices = random_matrices(&random, &shape, &t->owner);
    struct error error;
    t->layer = attention_layer_create(&shape, &matrices, &error);
    ck_assert_ptr_nonnull(t->layer);
    for (size_t i = 0; i < PROBLEMS; i++) {
        t->problems[i] = problem_create(&random, &shape, &matrices, &limits);
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

/* Any of the problems in any order, on every number of threads. */
START_TEST(company_and_lanes_change_no_bit)
{
    choose_variant(_i);
    size_t most_tiles = 0;
    for (uint64_t seed = 0; seed < TRAFFICS; seed++) {
        struct traffic t;
        traffic_open(&t, 100 + seed);
        struct random random = {seed};
        for (unsigned lanes = 1; lanes <= LANES_MOST; lanes++) {
            size_t order[PROBLEMS];
            random_order(&random, order, PROBLEMS);
            const size_t count = random_size(&random, 1, PROBLEMS);
            struct answer together[PROBLEMS];
            for (size_t i = 0; i < count; i++)
                together[i] = answer_create(&t.problems[order[i]]);
            struct lanes threads;
            lanes_init(&threads, lanes, seed * LANES_MOST + lanes);
            run_together(&t, order, count, &threads.parallel, together);
            for (size_t i = 0; i < count; i++) {
                const struct problem *p = &t.problems[order[i]];
                check_same_bits(p, &t.alone[order[i]], 0, &together[i], p->input.batch, "together on several lanes");
                answer_free(&together[i]);
            }
            most_tiles = threads.largest_region > most_tiles ? threads.largest_region : most_tiles;
        }
        traffic_close(&t);
    }
    ck_assert_uint_ge(most_tiles, 8); /* the work was split */
}
END_TEST

/* Sequences `first` to `first + count - 1` of a batch as an input of their own. */
static struct problem some_sequences(const struct problem *p, size_t first, size_t count)
{
    struct problem some = *p;
    struct forward_input *in = &some.input;
    const size_t rows = first * in->query_length, keys = first * in->key_length, d_model = p->shape.d_model;
    in->batch = count;
    in->query += rows * d_model;
    in->key += keys * d_model;
    in->value += keys * d_model;
    if (in->mask)
        in->mask += in->mask_kind == FORWARD_MASK_KEYS ? keys : rows * in->key_length;
    if (in->bias && in->bias_per_sequence)
        in->bias += p->shape.num_heads * rows * in->key_length;
    return some;
}

/* Cut at every point, computed as two inputs of one run, the later part first, and each part alone. */
START_TEST(splitting_a_batch_changes_no_bit)
{
    choose_variant(_i);
    for (uint64_t seed = 0; seed < TRAFFICS; seed++) {
        struct traffic t;
        traffic_open(&t, 200 + seed);
        for (size_t i = 0; i < PROBLEMS; i++) {
            const struct problem *p = &t.problems[i];
            for (size_t at = 1; at < p->input.batch; at++) {
                struct traffic parts = t;
                const size_t first[2] = {0, at}, count[2] = {at, p->input.batch - at}, order[2] = {1, 0};
                struct answer together[2];
                size_t fully_masked_rows = 0;
                for (size_t n = 0; n < 2; n++) {
                    parts.problems[n] = some_sequences(p, first[n], count[n]);
                    parts.alone[n] = answer_create(&parts.problems[n]);
                    run_problem(t.layer, &parts.problems[n], &parallel_serial, &parts.alone[n]);
                    check_same_bits(p, &t.alone[i], first[n], &parts.alone[n], count[n], "a part alone");
                    fully_masked_rows += parts.alone[n].fully_masked_rows;
                }
                ck_assert_uint_eq(fully_masked_rows, t.alone[i].fully_masked_rows);
                for (size_t n = 0; n < 2; n++)
                    together[n] = answer_create(&parts.problems[order[n]]);
                run_together(&parts, order, 2, &parallel_serial, together);
                for (size_t n = 0; n < 2; n++) {
                    check_same_bits(p, &t.alone[i], first[order[n]], &together[n], count[order[n]], "parts together");
                    answer_free(&together[n]);
                    answer_free(&parts.alone[n]);
                }
            }
        }
        traffic_close(&t);
    }
}
END_TEST

/* Blocks of `bytes` in another order; NULL of NULL. The memory is the owner's. */
static const void *reordered(struct problem *owner, const void *from, size_t bytes, const size_t *order, size_t count)
{
    if (!from)
        return NULL;
    char *to = problem_take(owner, count * bytes);
    for (size_t b = 0; b < count; b++)
        memcpy(to + b * bytes, (const char *)from + order[b] * bytes, bytes);
    return to;
}

static struct problem permuted(const struct problem *p, const size_t *order, struct problem *owner)
{
    struct problem other = *p;
    struct forward_input *in = &other.input;
    const size_t d_model = p->shape.d_model, pairs = in->query_length * in->key_length;
    in->query = reordered(owner, p->input.query, in->query_length * d_model * sizeof(float), order, in->batch);
    in->key = in->query;
    if (p->input.key != p->input.query)
        in->key = reordered(owner, p->input.key, in->key_length * d_model * sizeof(float), order, in->batch);
    in->value = in->key;
    if (p->input.value != p->input.key)
        in->value = reordered(owner, p->input.value, in->key_length * d_model * sizeof(float), order, in->batch);
    in->mask =
        reordered(owner, p->input.mask, in->mask_kind == FORWARD_MASK_KEYS ? in->key_length : pairs, order, in->batch);
    if (in->bias_per_sequence)
        in->bias = reordered(owner, p->input.bias, p->shape.num_heads * pairs * sizeof(float), order, in->batch);
    return other;
}

START_TEST(permuting_a_batch_permutes_its_results)
{
    choose_variant(_i);
    for (uint64_t seed = 0; seed < TRAFFICS; seed++) {
        struct traffic t;
        traffic_open(&t, 200 + seed);
        struct random random = {seed};
        for (size_t i = 0; i < PROBLEMS; i++) {
            const struct problem *p = &t.problems[i];
            struct problem owner = {0};
            size_t order[16];
            ck_assert_uint_le(p->input.batch, 16);
            random_order(&random, order, p->input.batch);
            const struct problem other = permuted(p, order, &owner);
            struct answer answer = answer_create(&other);
            struct lanes threads;
            lanes_init(&threads, (unsigned)random_size(&random, 1, LANES_MOST), seed);
            run_problem(t.layer, &other, &threads.parallel, &answer);
            for (size_t b = 0; b < p->input.batch; b++) {
                const struct answer_sizes sizes = answer_sizes(p);
                float *const tensors[6] = {answer.output, answer.attention, answer.heads,
                                           answer.query,  answer.key,       answer.value};
                float *one[6];
                for (size_t n = 0; n < 6; n++)
                    one[n] = tensors[n] + b * (sizes.n[n] / p->input.batch);
                const struct answer sequence = {one[0], one[1], one[2], one[3], one[4], one[5], 0};
                check_same_bits(p, &t.alone[i], order[b], &sequence, 1, "in another order");
            }
            ck_assert_uint_eq(answer.fully_masked_rows, t.alone[i].fully_masked_rows);
            answer_free(&answer);
            problem_free(&owner);
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
        traffic_open(&t, 300 + seed);
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

/* The random problems of the tests above have all that can differ, in batches of more than one sequence. */
START_TEST(problems_cover_what_there_is)
{
    enum {
        PADDING,
        HIDDEN_KEYS,
        PAIRS,
        CAUSAL,
        CAUSAL_CROSS,
        BIAS,
        BIAS_PER_SEQUENCE,
        HEAD_MASK,
        GROUPED,
        WIDTHS_DIFFER,
        ODD_WIDTH,
        IDENTITY,
        SOME_MAPS,
        VALUE_APART,
        FEATURES
    };
    size_t seen[FEATURES] = {0};
    choose_variant(0);
    for (uint64_t seed = 0; seed < TRAFFICS; seed++) {
        struct traffic t;
        traffic_open(&t, 200 + seed);
        for (size_t i = 0; i < PROBLEMS; i++) {
            const struct attention_shape *s = &t.problems[i].shape;
            const struct forward_input *in = &t.problems[i].input;
            if (in->batch < 2)
                continue;
            seen[PADDING] += in->mask_kind == FORWARD_MASK_KEYS && in->self_attention;
            seen[HIDDEN_KEYS] += in->mask_kind == FORWARD_MASK_KEYS && !in->self_attention;
            seen[PAIRS] += in->mask_kind == FORWARD_MASK_PAIRS;
            seen[CAUSAL] += in->causal;
            seen[CAUSAL_CROSS] += in->causal && in->query_length != in->key_length;
            seen[BIAS] += in->bias && !in->bias_per_sequence;
            seen[BIAS_PER_SEQUENCE] += in->bias && in->bias_per_sequence;
            seen[HEAD_MASK] += in->head_mask != NULL;
            seen[GROUPED] += s->num_heads != s->num_kv_heads;
            seen[WIDTHS_DIFFER] += s->d_k != s->d_v;
            seen[ODD_WIDTH] += s->d_k % 2 == 1;
            seen[IDENTITY] += !s->projected;
            seen[SOME_MAPS] += t.problems[i].include_heads != NULL;
            seen[VALUE_APART] += in->value != in->key;
        }
        traffic_close(&t);
    }
    for (size_t f = 0; f < FEATURES; f++)
        ck_assert_msg(seen[f] > 0, "feature %zu of the list is in no problem", f);
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("engine/same_bits");
    TCase *t = tcase_create("same_bits");
    tcase_set_timeout(t, 60);
    tcase_add_loop_test(t, company_and_lanes_change_no_bit, 0, KERNEL_VARIANT_COUNT);
    tcase_add_loop_test(t, splitting_a_batch_changes_no_bit, 0, KERNEL_VARIANT_COUNT);
    tcase_add_loop_test(t, permuting_a_batch_permutes_its_results, 0, KERNEL_VARIANT_COUNT);
    tcase_add_loop_test(t, what_is_returned_changes_no_bit, 0, KERNEL_VARIANT_COUNT);
    tcase_add_loop_test(t, padding_changes_no_bit_of_the_rest, 0, KERNEL_VARIANT_COUNT);
    tcase_add_test(t, problems_cover_what_there_is);
    suite_add_tcase(s, t);
    return s;
}
