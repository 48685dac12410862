/* Similarity beyond its values: what must hold of any matrix, the same bits on any number of lanes, cancellation,
 * memory, equal heads, heads that cannot be compared. Values are in test_similarity_golden.c. */
#include "analysis/head_similarity.h"
#include "engine/kernels/kernels.h"
#include "engine/lanes.h"
#include "engine/random.h"
#include "suite.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* In [0, 1). */
static double random_unit(struct random *random)
{
    return (double)(random_bits(random) >> 11) * 0x1p-53;
}

struct scene {
    struct forward_input rule;
    struct head_maps maps;
    struct arena prepared;
    float *weights; /* [B, H, T, T] */
    float *heads;   /* [B, H, T, d_v] */
    size_t d_v;
};

/* Rows of random weights that sum to 1. */
static void make_scene(struct scene *scene, size_t batch, size_t heads, size_t length, size_t d_v)
{
    struct error error;
    size_t bytes;
    *scene = (struct scene){
        .rule = {.batch = batch, .query_length = length, .key_length = length, .self_attention = true}, .d_v = d_v};
    scene->weights = malloc(batch * heads * length * length * sizeof(float));
    scene->heads = malloc(batch * heads * length * d_v * sizeof(float));
    ck_assert(scene->weights && scene->heads);
    struct random random = {batch + 31 * heads + 1001 * length};
    for (size_t row = 0; row < batch * heads * length; row++) {
        float *at = scene->weights + row * length;
        double sum = 0;
        for (size_t k = 0; k < length; k++)
            sum += at[k] = (float)pow(random_unit(&random), 4);
        for (size_t k = 0; k < length; k++)
            at[k] = (float)((double)at[k] / sum);
        for (size_t k = 0; k < d_v; k++)
            scene->heads[row * d_v + k] = (float)(random_unit(&random) - 0.5);
    }
    scene->maps = (struct head_maps){.rule = &scene->rule, .weights = scene->weights, .num_heads = heads};
    ck_assert(head_maps_bytes(&scene->maps, &bytes) && arena_reserve(&scene->prepared, bytes));
    ck_assert_msg(head_maps_prepare(&scene->maps, &scene->prepared, &error), "%s", error.message);
}

static void exclude(struct scene *scene, const struct position_lists *lists)
{
    struct error error;
    size_t bytes;
    arena_reset(&scene->prepared);
    scene->maps.exclude = lists;
    ck_assert(head_maps_bytes(&scene->maps, &bytes));
    arena_free(&scene->prepared);
    ck_assert(arena_reserve(&scene->prepared, bytes));
    ck_assert_msg(head_maps_prepare(&scene->maps, &scene->prepared, &error), "%s", error.message);
}

static void free_scene(struct scene *scene)
{
    free(scene->weights);
    free(scene->heads);
    arena_free(&scene->prepared);
}

/* similarity [H, H] and behind it the diversity. */
static bool run(const struct scene *scene, const struct similarity_question *question, const struct parallel *parallel,
                double *numbers, struct error *error)
{
    const size_t heads = scene->maps.num_heads;
    struct head_similarity similarity = {.similarity = numbers, .diversity = numbers + heads * heads};
    struct arena scratch = {0};
    size_t bytes;
    ck_assert(head_similarity_bytes(question, &scene->maps, scene->d_v, parallel->lanes, &bytes));
    ck_assert(arena_reserve(&scratch, bytes));
    const bool done =
        head_similarity_run(question, &scene->maps, scene->heads, scene->d_v, parallel, &scratch, &similarity, error);
    ck_assert_uint_le(scratch.used, bytes);
    arena_free(&scratch);
    return done;
}

/* Every metric on attention, then on output, pooled; then the same as means. */
enum { QUESTIONS = 2 * 2 * SIMILARITY_METRIC_COUNT };

static bool question_of(int index, struct similarity_question *question)
{
    *question = (struct similarity_question){
        .metric = (enum similarity_metric)(index % SIMILARITY_METRIC_COUNT),
        .subject = (enum similarity_subject)(index / SIMILARITY_METRIC_COUNT % 2),
        .reduction = (enum similarity_reduction)(index / SIMILARITY_METRIC_COUNT / 2),
        .diversity = true,
    };
    return question->subject == SIMILARITY_OF_ATTENTION || similarity_metric_of_output(question->metric);
}

START_TEST(same_bits)
{
    static const size_t sizes[][3] = {{3, 13, 40}, {70, 5, 9}, {1, 150, 33}, {1, 3, 300}}; /* batch, heads, length */
    const uint32_t positions[] = {0, 3}, ends[] = {2};
    const struct position_lists lists = {.n_lists = 1, .ends = ends, .positions = positions};
    struct similarity_question question;
    struct error error;
    if (!question_of(_i, &question))
        return;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        struct scene scene;
        make_scene(&scene, sizes[i][0], sizes[i][1], sizes[i][2], 6);
        if (i == 1 && question.subject == SIMILARITY_OF_ATTENTION)
            exclude(&scene, &lists);
        const size_t count = sizes[i][1] * sizes[i][1] + 1;
        double *alone = malloc(count * sizeof *alone), *together = malloc(count * sizeof *together);
        ck_assert_msg(run(&scene, &question, &parallel_serial, alone, &error), "%s", error.message);
        ck_assert(alone[count - 1] > 0);
        for (unsigned n = 1; n <= LANES_MOST; n++) {
            struct lanes lanes;
            lanes_init(&lanes, n, n);
            ck_assert_msg(run(&scene, &question, &lanes.parallel, together, &error), "%s", error.message);
            ck_assert(memcmp(alone, together, count * sizeof *alone) == 0);
        }
        free(alone);
        free(together);
        free_scene(&scene);
    }
}
END_TEST

/* Copies head from[h] of sequence order[b] to head h of sequence b. */
static void rearrange(struct scene *to, const struct scene *from, const size_t *heads, const size_t *order)
{
    const size_t n_heads = to->maps.num_heads, length = to->rule.query_length, map = length * length,
                 output = length * to->d_v;
    for (size_t b = 0; b < to->rule.batch; b++)
        for (size_t head = 0; head < n_heads; head++) {
            const size_t at = b * n_heads + head, source = order[b] * n_heads + heads[head];
            memcpy(to->weights + at * map, from->weights + source * map, map * sizeof(float));
            memcpy(to->heads + at * output, from->heads + source * output, output * sizeof(float));
        }
}

/* Symmetric to the bit, 1 or undefined on the diagonal, within its range; head 2 attends evenly and puts out nothing.
 */
static void expect_matrix(const struct similarity_question *question, const double *numbers, size_t heads)
{
    const bool signs = question->metric < SIMILARITY_JS;
    for (size_t a = 0; a < heads; a++)
        for (size_t b = 0; b < heads; b++) {
            const double value = numbers[a * heads + b], mirrored = numbers[b * heads + a];
            ck_assert(value == mirrored || (isnan(value) && isnan(mirrored)));
            ck_assert(isnan(value) || (value <= 1 && value >= (signs ? -1 : 0)));
            ck_assert(a != b || isnan(value) || value == 1);
        }
}

/* Heads and sequences in another order: the same matrix in that order. */
START_TEST(in_any_order)
{
    enum { BATCH = 3, HEADS = 37, LENGTH = 21, D_V = 4 };
    struct similarity_question question;
    struct error error;
    if (!question_of(_i, &question))
        return;
    double *plain = malloc((HEADS * HEADS + 1) * sizeof *plain), *other = malloc((HEADS * HEADS + 1) * sizeof *other);
    struct scene scene, moved;
    make_scene(&scene, BATCH, HEADS, LENGTH, D_V);
    make_scene(&moved, BATCH, HEADS, LENGTH, D_V);
    for (size_t b = 0; b < BATCH; b++) {
        float *even = scene.weights + (b * HEADS + 2) * LENGTH * LENGTH;
        for (size_t i = 0; i < LENGTH * LENGTH; i++)
            even[i] = 1.0f / LENGTH;
        memset(scene.heads + (b * HEADS + 2) * LENGTH * D_V, 0, LENGTH * D_V * sizeof(float));
    }
    ck_assert_msg(run(&scene, &question, &parallel_serial, plain, &error), "%s", error.message);
    expect_matrix(&question, plain, HEADS);
    const bool even_is_defined = question.subject == SIMILARITY_OF_ATTENTION &&
                                 (question.metric == SIMILARITY_COSINE || question.metric == SIMILARITY_JS ||
                                  question.metric == SIMILARITY_HELLINGER);
    ck_assert(isnan(plain[2 * HEADS + 2]) == !even_is_defined && isnan(plain[3]) == false);
    for (uint64_t seed = 1; seed <= 4; seed++) {
        struct random random = {seed};
        size_t heads[HEADS], order[BATCH];
        random_order(&random, heads, HEADS);
        random_order(&random, order, BATCH);
        rearrange(&moved, &scene, heads, order);
        ck_assert_msg(run(&moved, &question, &parallel_serial, other, &error), "%s", error.message);
        expect_matrix(&question, other, HEADS);
        for (size_t a = 0; a < HEADS; a++)
            for (size_t b = 0; b < HEADS; b++) {
                const double wanted = plain[heads[a] * HEADS + heads[b]], got = other[a * HEADS + b];
                ck_assert_msg(fabs(got - wanted) < 1e-6 || (isnan(got) && isnan(wanted)), "%zu, %zu: %.9g, not %.9g", a,
                              b, got, wanted);
            }
        ck_assert(fabs(other[HEADS * HEADS] - plain[HEADS * HEADS]) < 1e-6);
    }
    free_scene(&moved);
    free_scene(&scene);
    free(other);
    free(plain);
}
END_TEST

/* Means over sequences are those of each alone, and so are pooled means over rows, sequences being as long. */
START_TEST(of_each_sequence_alone)
{
    enum { BATCH = 4, HEADS = 6, LENGTH = 17, D_V = 3 };
    struct similarity_question question;
    struct error error;
    double whole[HEADS * HEADS + 1], one[HEADS * HEADS + 1], sum[HEADS * HEADS + 1] = {0};
    if (!question_of(_i, &question))
        return;
    if (question.reduction == SIMILARITY_POOLED && question.metric != SIMILARITY_JS &&
        question.metric != SIMILARITY_HELLINGER)
        return;
    struct scene scene, alone;
    make_scene(&scene, BATCH, HEADS, LENGTH, D_V);
    make_scene(&alone, 1, HEADS, LENGTH, D_V);
    ck_assert_msg(run(&scene, &question, &parallel_serial, whole, &error), "%s", error.message);
    for (size_t b = 0; b < BATCH; b++) {
        const size_t heads[HEADS] = {0, 1, 2, 3, 4, 5};
        rearrange(&alone, &scene, heads, &b);
        ck_assert_msg(run(&alone, &question, &parallel_serial, one, &error), "%s", error.message);
        for (size_t i = 0; i <= HEADS * HEADS; i++)
            sum[i] += one[i];
    }
    for (size_t i = 0; i <= HEADS * HEADS; i++)
        ck_assert_msg(fabs(sum[i] / BATCH - whole[i]) < 1e-6, "%zu: %.9g, not %.9g", i, whole[i], sum[i] / BATCH);
    free_scene(&alone);
    free_scene(&scene);
}
END_TEST

/* Wherever it is asked whether to go on, it stops. */
START_TEST(cancelled)
{
    struct similarity_question question;
    struct scene scene;
    struct error error;
    struct lanes lanes;
    double numbers[13 * 13 + 1];
    const uint32_t positions[] = {1}, ends[] = {1};
    const struct position_lists lists = {.n_lists = 1, .ends = ends, .positions = positions};
    if (!question_of(_i, &question))
        return;
    make_scene(&scene, 3, 13, 40, 6);
    if (question.subject == SIMILARITY_OF_ATTENTION)
        exclude(&scene, &lists);
    lanes_init(&lanes, 2, 1);
    ck_assert(run(&scene, &question, &lanes.parallel, numbers, &error));
    const size_t asked = atomic_load(&lanes.n_asked);
    ck_assert_uint_ge(asked, 1);
    for (size_t after = 0; after < asked; after += asked / 7 + 1) {
        lanes_init(&lanes, 1, 1);
        lanes.cancel_after = after;
        ck_assert(!run(&scene, &question, &lanes.parallel, numbers, &error));
        ck_assert_int_eq(error.code, ERROR_CLIENT_GONE);
    }
    free_scene(&scene);
}
END_TEST

/* Cut short by one unit anywhere, the arena is found too small. */
START_TEST(little_memory)
{
    struct similarity_question question;
    struct scene scene;
    struct error error;
    double numbers[4 * 4 + 1];
    struct head_similarity similarity = {.similarity = numbers, .diversity = numbers + 4 * 4};
    struct arena scratch = {0};
    size_t bytes;
    if (!question_of(_i, &question))
        return;
    make_scene(&scene, 2, 4, 10, 3);
    ck_assert(head_similarity_bytes(&question, &scene.maps, 3, 1, &bytes));
    for (size_t less = 0; less < bytes; less += 1 + bytes / 50) {
        ck_assert(arena_reserve(&scratch, less));
        const bool fits = scratch.capacity >= bytes;
        error.code = ERROR_NONE;
        if (head_similarity_run(&question, &scene.maps, scene.heads, 3, &parallel_serial, &scratch, &similarity,
                                &error))
            ck_assert(fits);
        else
            ck_assert_int_eq(error.code, ERROR_OUT_OF_MEMORY);
        arena_free(&scratch);
    }
    free_scene(&scene);
}
END_TEST

/* Equal heads are alike to the last bit, wherever they stand, and no other pair is. */
START_TEST(equal_heads)
{
    enum { HEADS = 61, LENGTH = 37 };
    struct similarity_question question;
    struct scene scene;
    struct error error;
    const size_t map = LENGTH * LENGTH;
    double *numbers = malloc((HEADS * HEADS + 1) * sizeof *numbers);
    if (!question_of(_i, &question)) {
        free(numbers);
        return;
    }
    make_scene(&scene, 2, HEADS, LENGTH, 5);
    for (size_t b = 0; b < 2; b++)
        for (size_t head = 0; head < HEADS; head += 20) { /* 0, 20, 40, 60 */
            memcpy(scene.weights + (b * HEADS + head) * map, scene.weights + b * HEADS * map, map * sizeof(float));
            memcpy(scene.heads + (b * HEADS + head) * LENGTH * 5, scene.heads + b * HEADS * LENGTH * 5,
                   LENGTH * 5 * sizeof(float));
        }
    ck_assert_msg(run(&scene, &question, &parallel_serial, numbers, &error), "%s", error.message);
    for (size_t a = 0; a < HEADS; a++)
        for (size_t b = 0; b < HEADS; b++) {
            const bool equal = a == b || (a % 20 == 0 && b % 20 == 0);
            ck_assert_msg((numbers[a * HEADS + b] == 1) == equal, "%zu, %zu: %.17g", a, b, numbers[a * HEADS + b]);
        }
    free_scene(&scene);
    free(numbers);
}
END_TEST

/* All heads agree: nothing is lost by taking one. */
START_TEST(no_diversity)
{
    struct similarity_question question = {.metric = SIMILARITY_JS, .diversity = true};
    struct scene scene;
    struct error error;
    double numbers[7 * 7 + 1];
    make_scene(&scene, 1, 7, 20, 3);
    for (size_t head = 1; head < 7; head++)
        memcpy(scene.weights + head * 400, scene.weights, 400 * sizeof(float));
    ck_assert(run(&scene, &question, &parallel_serial, numbers, &error));
    ck_assert(numbers[49] >= 0 && numbers[49] < 1e-12);
    /* Each on a key of its own: as much as there can be. */
    memset(scene.weights, 0, 7 * 400 * sizeof(float));
    for (size_t head = 0; head < 7; head++)
        for (size_t row = 0; row < 20; row++)
            scene.weights[head * 400 + row * 20 + head] = 1;
    ck_assert(run(&scene, &question, &parallel_serial, numbers, &error));
    ck_assert(fabs(numbers[49] - log(7)) < 1e-6);
    ck_assert(fabs(numbers[1]) < 1e-6); /* no key in common */
    question.diversity = false;
    ck_assert(run(&scene, &question, &parallel_serial, numbers, &error));
    ck_assert(isnan(numbers[49]) && fabs(numbers[1]) < 1e-6);
    free_scene(&scene);
}
END_TEST

START_TEST(not_finite)
{
    struct similarity_question question;
    struct scene scene;
    struct error error;
    double numbers[4 * 4 + 1];
    if (!question_of(_i, &question))
        return;
    make_scene(&scene, 2, 4, 10, 3);
    const float wrong[] = {NAN, INFINITY};
    for (size_t i = 0; i < 2; i++) {
        float *at = question.subject == SIMILARITY_OF_OUTPUT ? scene.heads + (4 + 2) * 30 + 7
                                                             : scene.weights + (4 + 2) * 100 + 7;
        const float right = *at;
        *at = wrong[i];
        ck_assert(!run(&scene, &question, &parallel_serial, numbers, &error));
        ck_assert_int_eq(error.code, ERROR_NOT_FINITE);
        *at = right;
    }
    free_scene(&scene);
}
END_TEST

/* The work of a question grows with all that it is about, and is never infinite. */
START_TEST(work)
{
    struct similarity_question question;
    if (!question_of(_i, &question))
        return;
    const double least = head_similarity_flop(&question, 4, 2, 10, 10, 3);
    ck_assert(least > 0);
    ck_assert(head_similarity_flop(&question, 8, 2, 10, 10, 3) > least);
    ck_assert(head_similarity_flop(&question, 4, 4, 10, 10, 3) > least);
    ck_assert(head_similarity_flop(&question, 4, 2, 20, 10, 3) > least);
    ck_assert(head_similarity_flop(&question, 4, 2, 10, 20, 3) > least);
    ck_assert(isfinite(head_similarity_flop(&question, SIZE_MAX, SIZE_MAX, SIZE_MAX, SIZE_MAX, SIZE_MAX)));
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("analysis/head_similarity");
    TCase *t = tcase_create("all");
    tcase_set_timeout(t, 60);
    tcase_add_loop_test(t, same_bits, 0, QUESTIONS);
    tcase_add_loop_test(t, in_any_order, 0, QUESTIONS);
    tcase_add_loop_test(t, of_each_sequence_alone, 0, QUESTIONS);
    tcase_add_loop_test(t, cancelled, 0, QUESTIONS);
    tcase_add_loop_test(t, little_memory, 0, QUESTIONS);
    tcase_add_loop_test(t, equal_heads, 0, QUESTIONS);
    tcase_add_test(t, no_diversity);
    tcase_add_loop_test(t, not_finite, 0, QUESTIONS);
    tcase_add_loop_test(t, work, 0, QUESTIONS);
    suite_add_tcase(s, t);
    return s;
}
