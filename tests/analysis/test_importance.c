/* All methods against the definition: the output computed again without the head, in float64 plain loops, over random
 * problems with masks of every kind, sparse patterns, and heads that sequences do without. */

#include "analysis/importance.h"

#include "analysis/random_pattern.h"
#include "engine/kernels/kernels.h"
#include "engine/lanes.h"
#include "engine/problem.h"
#include "suite.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Loop tests run once for each variant; those that cannot run here do nothing. */
static bool choose_variant(int i)
{
    struct error error;
    return isa_supported((enum isa)i) && engine_init(kernel_variants[i]->name, &error);
}

/* A problem whose heads are all wanted. */
static struct problem create(uint64_t seed, const struct problem_limits *limits)
{
    struct random random = {seed};
    const struct attention_shape shape = random_shape(&random, limits);
    struct problem p = problem_create(&random, &shape, NULL, limits);
    p.include_heads = NULL;
    p.n_maps = shape.num_heads;
    return p;
}

/* ---- the definition */

static bool pair_allowed(const struct forward_input *in, size_t b, size_t i, size_t j)
{
    if ((in->causal && j + in->query_length > i + in->key_length) || !pattern_allows(in, i, j))
        return false;
    if (in->mask_kind == FORWARD_MASK_KEYS)
        return in->mask[b * in->key_length + j] && !(in->self_attention && !in->mask[b * in->key_length + i]);
    return in->mask_kind == FORWARD_MASK_NONE || in->mask[(b * in->query_length + i) * in->key_length + j];
}

static size_t count_allowed(const struct forward_input *in, size_t b, size_t i)
{
    size_t count = 0;
    for (size_t j = 0; j < in->key_length; j++)
        count += pair_allowed(in, b, i, j);
    return count;
}

struct definition {
    const struct problem *p;
    const float *heads, *value; /* [B, H, Tq, d_v], [B, H, Tk, d_v] in float64, rounded */
    size_t n_rows;              /* scored */
    const uint8_t *used;        /* [B, H] what keep_heads has kept; NULL: all */
};

/* Element d of row i of head h of sequence b when it is ablated by `method`. */
static double replaced(const struct definition *x, enum importance_method method, size_t b, size_t h, size_t i,
                       size_t d)
{
    const struct forward_input *in = &x->p->input;
    const size_t heads = x->p->shape.num_heads, d_v = x->p->shape.d_v;
    double sum = 0;
    if (method == IMPORTANCE_MEAN) {
        for (size_t s = 0; s < in->batch; s++)
            for (size_t r = 0; r < in->query_length; r++)
                if (count_allowed(in, s, r))
                    sum += (double)x->heads[((s * heads + h) * in->query_length + r) * d_v + d];
        return sum / (double)x->n_rows;
    }
    if (method == IMPORTANCE_UNIFORM) {
        for (size_t j = 0; j < in->key_length; j++)
            if (pair_allowed(in, b, i, j))
                sum += (double)x->value[((b * heads + h) * in->key_length + j) * d_v + d];
        return sum / (double)count_allowed(in, b, i);
    }
    return 0;
}

/* y_i [d_model] with the heads of `without` ablated. */
static void output_row(const struct definition *x, enum importance_method method, const bool *without, size_t b,
                       size_t i, bool bias, double *y)
{
    const struct attention_shape *s = &x->p->shape;
    const struct forward_input *in = &x->p->input;
    for (size_t c = 0; c < s->d_model; c++)
        y[c] = bias && x->p->matrices.b_o ? (double)x->p->matrices.b_o[c] : 0;
    for (size_t h = 0; h < s->num_heads; h++)
        for (size_t d = 0; d < s->d_v; d++) {
            double z = (double)x->heads[((b * s->num_heads + h) * in->query_length + i) * s->d_v + d];
            if (without[h])
                z = replaced(x, method, b, h, i, d);
            z *= in->head_mask ? (double)in->head_mask[h] : 1;
            z *= x->used ? (double)x->used[b * s->num_heads + h] : 1;
            if (!s->projected)
                y[h * s->d_v + d] += z;
            for (size_t c = 0; s->projected && c < s->d_model; c++)
                y[c] += z * (double)x->p->matrices.w_o[(h * s->d_v + d) * s->d_model + c];
        }
}

/* The output of the heads in use, in place of all heads'. */
static void use_heads(const struct definition *x, float *output /* [B, Tq, d_model], NULL: not wanted */)
{
    const struct forward_input *in = &x->p->input;
    const size_t d_model = x->p->shape.d_model;
    const bool nobody[64] = {false};
    double *y = malloc(d_model * sizeof *y);
    for (size_t row = 0; output && row < in->batch * in->query_length; row++) {
        output_row(x, IMPORTANCE_ZERO, nobody, row / in->query_length, row % in->query_length, true, y);
        for (size_t c = 0; c < d_model; c++)
            output[row * d_model + c] = (float)y[c];
    }
    free(y);
}

/* ||y - y without||_F / ||y||_F, or its row-wise mean for `norm`. */
static double change_of(const struct definition *x, enum importance_method method, const bool *without)
{
    const struct forward_input *in = &x->p->input;
    const size_t d_model = x->p->shape.d_model;
    const bool norm = method == IMPORTANCE_NORM, nobody[64] = {false};
    double *y = malloc(2 * d_model * sizeof *y), *other = y + d_model, changes = 0, all = 0, ratios = 0;
    size_t n_ratios = 0;
    for (size_t b = 0; b < in->batch; b++)
        for (size_t i = 0; i < in->query_length; i++) {
            if (!count_allowed(in, b, i))
                continue;
            double change = 0, size = 0;
            output_row(x, method, nobody, b, i, !norm, y);
            output_row(x, method, without, b, i, !norm, other);
            for (size_t c = 0; c < d_model; c++) {
                change += (y[c] - other[c]) * (y[c] - other[c]);
                size += y[c] * y[c];
            }
            changes += change;
            all += size;
            if (size > 0) {
                ratios += sqrt(change / size);
                n_ratios++;
            }
        }
    free(y);
    if (norm)
        return n_ratios ? ratios / (double)n_ratios : NAN;
    return all > 0 ? sqrt(changes) / sqrt(all) : NAN;
}

/* ---- what is tested */

struct found {
    struct importance importance;
    struct forward_result result;
    struct answer answer;
};

static struct found found_create(const struct problem *p, bool plan)
{
    struct found f = {.answer = answer_create(p)};
    f.result = answer_result(p, &f.answer);
    f.importance.importance = malloc(p->shape.num_heads * sizeof(double));
    f.importance.plan = plan ? malloc(p->shape.num_heads * sizeof(struct prune_step)) : NULL;
    return f;
}

static void found_free(struct found *f)
{
    answer_free(&f->answer);
    free(f->importance.importance);
    free(f->importance.plan);
}

/* The same problem without a pattern: what is allowed is said by *mask, fresh memory. */
static struct forward_input under_mask(const struct problem *p, uint8_t **mask)
{
    struct forward_input input = p->input;
    *mask = NULL;
    if (!input.rules)
        return input;
    uint8_t *at = *mask = malloc(input.batch * input.query_length * input.key_length);
    for (size_t b = 0; b < input.batch; b++)
        for (size_t i = 0; i < input.query_length; i++)
            for (size_t j = 0; j < input.key_length; j++)
                *at++ = pair_allowed(&input, b, i, j);
    input.mask_kind = FORWARD_MASK_PAIRS;
    input.mask = *mask;
    input.rules = NULL;
    return input;
}

/* With `x` the forward is that of its problem, and its heads in use. */
static bool run(const struct problem *p, const struct attention_layer *layer, enum importance_method method,
                const struct definition *x, const struct parallel *parallel, size_t less_arena, struct found *f,
                struct error *error)
{
    const struct forward_input *input = x ? &x->p->input : &p->input;
    struct forward_result wanted = {.heads = f->answer.heads, .n_maps = p->n_maps}, *result = &wanted;
    struct arena arena = {0};
    size_t bytes;
    if (importance_needs_output(method))
        wanted.output = f->answer.output;
    if (importance_needs_value(method))
        wanted.value = f->answer.value;
    ck_assert(forward_scratch_bytes(&p->shape, &input, 1, 1, &bytes));
    ck_assert(arena_reserve(&arena, bytes));
    ck_assert(forward_run(layer, &input, &result, 1, &parallel_serial, &arena, error));
    arena_free(&arena);
    if (x && x->used) {
        use_heads(x, wanted.output);
        wanted.heads_used = (uint8_t *)x->used;
    }
    input = &p->input;
    ck_assert(importance_scratch_bytes(&p->shape, input, method, f->importance.plan, parallel->lanes, &bytes));
    ck_assert(arena_reserve(&arena, bytes - less_arena));
    bool right = importance_run(layer, input, method, &wanted, parallel, &arena, &f->importance, error);
    if (right)
        ck_assert_uint_eq(arena.used, bytes);
    arena_free(&arena);
    return right;
}

/* `condition`: how much larger the parts are than what they add up to; the engine's float32 rounding is relative to the
 * parts. */
static void expect(double got, double wanted, double condition, const char *what, size_t head, const struct problem *p,
                   uint64_t seed)
{
    const bool right = isnan(wanted) ? isnan(got) : fabs(got - wanted) <= condition * (2e-5 + 2e-5 * fabs(wanted));
    ck_assert_msg(
        right,
        "%s, seed %llu: %s of head %zu is %.9g, expected %.9g (B %zu Tq %zu Tk %zu D %zu H %zu/%zu d_v %zu mask "
        "%d causal %d)",
        engine_isa(), (unsigned long long)seed, what, head, got, wanted, p->input.batch, p->input.query_length,
        p->input.key_length, p->shape.d_model, p->shape.num_heads, p->shape.num_kv_heads, p->shape.d_v,
        (int)p->input.mask_kind, p->input.causal);
}

/* Each step of the plan is what the definition says of it, and no other head would have changed less. */
static void check_plan(const struct definition *x, const struct prune_step *plan, uint64_t seed)
{
    bool removed[64] = {false};
    for (size_t step = 0; step < x->p->shape.num_heads; step++) {
        const size_t head = plan[step].head;
        ck_assert(!removed[head]);
        for (size_t other = 0; other < x->p->shape.num_heads; other++)
            if (!removed[other]) {
                removed[other] = true;
                ck_assert(!(change_of(x, IMPORTANCE_ZERO, removed) < plan[step].change - 1e-4));
                removed[other] = false;
            }
        removed[head] = true;
        expect(plan[step].change, change_of(x, IMPORTANCE_ZERO, removed), 1, "change", head, x->p, seed);
    }
}

static void check(uint64_t seed, const struct problem_limits *limits, bool plan)
{
    struct error error;
    struct problem p = create(seed, limits);
    struct attention_layer *layer = attention_layer_create(&p.shape, &p.matrices, &error);
    struct answer reference = answer_create(&p);
    struct random random = {seed + 1000000};
    uint32_t global[2];
    const struct attention_rules rules = {.pattern = random_sparse_pattern(&random, limits->length, global)};
    if (random_chance(&random, 0.4))
        p.input.rules = &rules;
    struct problem masked = p;
    uint8_t *mask;
    masked.input = under_mask(&p, &mask);
    reference_forward(&masked, &reference);
    struct definition x = {.p = &masked, .heads = reference.heads, .value = reference.value};
    uint8_t used[64 * 64];
    for (size_t i = 0; i < p.input.batch * p.shape.num_heads; i++)
        used[i] = random_chance(&random, 0.7);
    if (random_chance(&random, 0.4))
        x.used = used;
    const size_t all = p.input.batch * p.input.query_length;
    for (size_t row = 0; row < all; row++)
        x.n_rows += count_allowed(&masked.input, row / p.input.query_length, row % p.input.query_length) > 0;
    for (unsigned m = 0; m < IMPORTANCE_METHOD_COUNT; m++) {
        const enum importance_method method = (enum importance_method)m;
        struct found f = found_create(&p, plan && method == IMPORTANCE_ZERO);
        ck_assert_msg(run(&p, layer, method, &x, &parallel_serial, 0, &f, &error), "%s", error.message);
        double wanted[64], parts = 0;
        for (size_t head = 0; head < p.shape.num_heads; head++) {
            bool without[64] = {false};
            without[head] = true;
            parts += wanted[head] = change_of(&x, method, without);
        }
        for (size_t head = 0; head < p.shape.num_heads; head++)
            expect(f.importance.importance[head], wanted[head], method == IMPORTANCE_NORM ? 1 + parts : 1,
                   importance_method_name(method), head, &p, seed);
        ck_assert_uint_eq(f.importance.n_rows, x.n_rows);
        ck_assert_uint_eq(f.importance.n_excluded, all - x.n_rows);
        if (f.importance.plan)
            check_plan(&x, f.importance.plan, seed);
        found_free(&f);
    }
    free(mask);
    answer_free(&reference);
    attention_layer_free(layer);
    problem_free(&p);
}

START_TEST(agrees_with_the_definition)
{
    const struct problem_limits limits = {.d_model = 20, .heads = 4, .d_k = 8, .d_v = 8, .batch = 3, .length = 9};
    if (!choose_variant(_i))
        return;
    for (uint64_t seed = 1; seed <= 150; seed++)
        check(seed, &limits, true);
}
END_TEST

/* More rows than a block has. */
START_TEST(agrees_over_many_blocks)
{
    const struct problem_limits limits = {.d_model = 12, .heads = 2, .d_k = 4, .d_v = 4, .batch = 40, .length = 14};
    if (!choose_variant(_i))
        return;
    size_t large = 0;
    for (uint64_t seed = 1; seed <= 12; seed++) {
        struct problem p = create(seed, &limits);
        large += p.input.batch * p.input.query_length > 192;
        problem_free(&p);
        check(seed, &limits, false);
    }
    ck_assert_uint_gt(large, 3);
}
END_TEST

/* ---- lanes */

static const struct problem_limits SPLIT = {.d_model = 80, .heads = 6, .d_k = 8, .d_v = 24, .batch = 4, .length = 130};

START_TEST(same_bits_on_any_number_of_lanes)
{
    struct error error;
    size_t regions = 0, problems = 0;
    ck_assert(engine_init(NULL, &error));
    for (uint64_t seed = 1; problems < 5; seed++) {
        struct problem p = create(seed, &SPLIT);
        if (importance_flop(&p.shape, &p.input, IMPORTANCE_ZERO, false) < 5e6) { /* too small to be split */
            problem_free(&p);
            continue;
        }
        problems++;
        struct attention_layer *layer = attention_layer_create(&p.shape, &p.matrices, &error);
        const size_t heads = p.shape.num_heads;
        for (unsigned m = 0; m < IMPORTANCE_METHOD_COUNT; m++) {
            const enum importance_method method = (enum importance_method)m;
            struct found alone = found_create(&p, method == IMPORTANCE_ZERO);
            ck_assert(run(&p, layer, method, NULL, &parallel_serial, 0, &alone, &error));
            for (unsigned n = 1; n <= LANES_MOST; n++) {
                struct lanes lanes;
                struct found f = found_create(&p, method == IMPORTANCE_ZERO);
                lanes_init(&lanes, n, seed * 100 + n);
                ck_assert(run(&p, layer, method, NULL, &lanes.parallel, 0, &f, &error));
                ck_assert_mem_eq(f.importance.importance, alone.importance.importance, heads * sizeof(double));
                for (size_t step = 0; f.importance.plan && step < heads; step++) {
                    ck_assert_uint_eq(f.importance.plan[step].head, alone.importance.plan[step].head);
                    ck_assert_mem_eq(&f.importance.plan[step].change, &alone.importance.plan[step].change,
                                     sizeof(double));
                }
                regions += n > 1 && lanes.largest_region > 1;
                found_free(&f);
            }
            found_free(&alone);
        }
        attention_layer_free(layer);
        problem_free(&p);
    }
    ck_assert_uint_gt(regions, 100); /* the work was really split */
}
END_TEST

START_TEST(cancelled_at_any_time)
{
    struct error error;
    struct problem p = create(2, &SPLIT);
    ck_assert(engine_init(NULL, &error));
    struct attention_layer *layer = attention_layer_create(&p.shape, &p.matrices, &error);
    for (unsigned m = 0; m < IMPORTANCE_METHOD_COUNT; m++) {
        size_t after = 0;
        for (bool done = false; !done; after++) {
            struct lanes lanes;
            struct found f = found_create(&p, m == IMPORTANCE_ZERO);
            lanes_init(&lanes, 2, after);
            lanes.cancel_after = after;
            done = run(&p, layer, (enum importance_method)m, NULL, &lanes.parallel, 0, &f, &error);
            ck_assert(done || error.code == ERROR_CLIENT_GONE);
            found_free(&f);
        }
        ck_assert_uint_gt(after, 2);
    }
    attention_layer_free(layer);
    problem_free(&p);
}
END_TEST

START_TEST(arena_too_small)
{
    struct error error;
    const struct problem_limits limits = {.d_model = 20, .heads = 4, .d_k = 8, .d_v = 8, .batch = 3, .length = 9};
    ck_assert(engine_init(NULL, &error));
    struct problem p = create(5, &limits);
    struct attention_layer *layer = attention_layer_create(&p.shape, &p.matrices, &error);
    for (unsigned m = 0; m < IMPORTANCE_METHOD_COUNT; m++) {
        struct found f = found_create(&p, m == IMPORTANCE_ZERO);
        ck_assert(!run(&p, layer, (enum importance_method)m, NULL, &parallel_serial, 64, &f, &error));
        ck_assert_int_eq(error.code, ERROR_OUT_OF_MEMORY);
        found_free(&f);
    }
    attention_layer_free(layer);
    problem_free(&p);
}
END_TEST

/* ---- the edges */

/* One token of two heads with d_v 1 and d_model 1: y = w_0 v_0 + w_1 v_1, x = 1. */
static bool run_two_heads_with_plan(float w_0, float w_1, float v_0, float v_1, const float *head_mask,
                                    const uint8_t *mask, enum importance_method method, double importance[2],
                                    struct prune_step *plan /* [2], or NULL */, struct error *error)
{
    static const float none[2] = {0, 0}, x[1] = {1};
    const float w_v[2] = {v_0, v_1}, w_o[2] = {w_0, w_1};
    struct problem p = {
        .shape = {.projected = true, .d_model = 1, .num_heads = 2, .num_kv_heads = 2, .d_k = 1, .d_v = 1, .scale = 1},
        .matrices = {.w_q = none, .w_k = none, .w_v = w_v, .w_o = w_o},
        .input = {.batch = 1,
                  .query_length = 1,
                  .key_length = 1,
                  .self_attention = true,
                  .query = x,
                  .key = x,
                  .value = x,
                  .head_mask = head_mask,
                  .mask = mask,
                  .mask_kind = mask ? FORWARD_MASK_PAIRS : FORWARD_MASK_NONE},
        .n_maps = 2,
    };
    struct attention_layer *layer = attention_layer_create(&p.shape, &p.matrices, error);
    struct found f = found_create(&p, plan);
    bool right = run(&p, layer, method, NULL, &parallel_serial, 0, &f, error);
    memcpy(importance, f.importance.importance, 2 * sizeof *importance);
    if (plan)
        memcpy(plan, f.importance.plan, 2 * sizeof *plan);
    found_free(&f);
    attention_layer_free(layer);
    return right;
}

static bool run_two_heads(float w_0, float w_1, float v_0, float v_1, const float *head_mask, const uint8_t *mask,
                          enum importance_method method, double importance[2], struct error *error)
{
    return run_two_heads_with_plan(w_0, w_1, v_0, v_1, head_mask, mask, method, importance, NULL, error);
}

START_TEST(undefined_is_nan)
{
    static const float no_heads[2] = {0, 0};
    static const uint8_t no_keys[1] = {0};
    const enum importance_method method = (enum importance_method)_i;
    double got[2];
    struct error error;
    ck_assert(engine_init(NULL, &error));
    ck_assert(run_two_heads(1, 1, 3, 4, no_heads, NULL, method, got, &error));
    ck_assert(isnan(got[0]) && isnan(got[1]));
    ck_assert(run_two_heads(1, 1, 3, 4, NULL, no_keys, method, got, &error));
    ck_assert(isnan(got[0]) && isnan(got[1]));
    ck_assert(run_two_heads(1, 1, 3, 1, NULL, NULL, method, got, &error));
    const bool itself = method == IMPORTANCE_MEAN || method == IMPORTANCE_UNIFORM; /* one row is its own mean */
    ck_assert_double_eq_tol(got[0], itself ? 0 : 0.75, 1e-7);
    ck_assert_double_eq_tol(got[1], itself ? 0 : 0.25, 1e-7);
}
END_TEST

/* Beyond float32 inside: the head is named, and left out by its head_mask it does no harm. */
START_TEST(not_finite)
{
    static const float without_1[2] = {1, 0};
    const enum importance_method method = _i ? IMPORTANCE_NORM : IMPORTANCE_ZERO;
    double got[2];
    struct error error;
    ck_assert(engine_init(NULL, &error));
    ck_assert(!run_two_heads(1, 3e38f, 2, 3e38f, NULL, NULL, method, got, &error));
    ck_assert_int_eq(error.code, ERROR_NOT_FINITE);
    ck_assert_ptr_nonnull(strstr(error.message, "head 1"));
    ck_assert(run_two_heads(1, 3e38f, 2, 3e38f, without_1, NULL, method, got, &error));
    ck_assert(got[0] == 1 && got[1] == 0);
    /* What is large and finite is no fault. */
    ck_assert(run_two_heads(3e19f, 1e19f, 1e18f, 1e18f, NULL, NULL, method, got, &error));
    ck_assert_double_eq_tol(got[0], 0.75, 1e-6);
}
END_TEST

/* What float32 can hold and its square cannot: too large, too small. */
START_TEST(squares_beyond_float32)
{
    const float size = _i ? 1e19f : 1e-19f;
    double got[2];
    struct prune_step plan[2];
    struct error error;
    ck_assert(engine_init(NULL, &error));
    ck_assert(run_two_heads_with_plan(3 * size, size, size, size, NULL, NULL, IMPORTANCE_ZERO, got, plan, &error));
    ck_assert_double_eq_tol(got[0], 0.75, 1e-6);
    ck_assert_double_eq_tol(got[1], 0.25, 1e-6);
    ck_assert_uint_eq(plan[0].head, 1);
    ck_assert_double_eq_tol(plan[0].change, 0.25, 1e-6);
    ck_assert_double_eq_tol(plan[1].change, 1, 1e-6);
    ck_assert(run_two_heads(3 * size, size, size, size, NULL, NULL, IMPORTANCE_NORM, got, &error));
    ck_assert_double_eq_tol(got[0], 0.75, 1e-6);
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("analysis/importance");
    TCase *t = tcase_create("importance");
    tcase_add_loop_test(t, agrees_with_the_definition, 0, KERNEL_VARIANT_COUNT);
    tcase_add_loop_test(t, agrees_over_many_blocks, 0, KERNEL_VARIANT_COUNT);
    tcase_add_test(t, same_bits_on_any_number_of_lanes);
    tcase_add_test(t, cancelled_at_any_time);
    tcase_add_test(t, arena_too_small);
    tcase_add_loop_test(t, undefined_is_nan, 0, IMPORTANCE_METHOD_COUNT);
    tcase_add_loop_test(t, not_finite, 0, 2);
    tcase_add_loop_test(t, squares_beyond_float32, 0, 2);
    suite_add_tcase(s, t);
    return s;
}
