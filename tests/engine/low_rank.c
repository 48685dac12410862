/* Linformer and nystrom by their definitions: plain loops over the projections of reference.c, which share nothing with
 * the engine. */

#include "low_rank.h"

#include "lanes.h"
#include "require.h"

#include <math.h>
#include <string.h>

struct problem low_rank_problem(struct random *random, const struct attention_shape *shape,
                                const struct attention_matrices *matrices, const struct problem_limits *limits,
                                bool padded)
{
    struct problem p = problem_create(random, shape, matrices, limits);
    struct forward_input *in = &p.input;
    in->self_attention = true;
    in->key_length = in->query_length;
    in->key = in->value = in->query;
    in->causal = false;
    in->bias = NULL;
    in->mask_kind = FORWARD_MASK_NONE;
    in->mask = NULL;
    if (padded) {
        const size_t length = in->key_length;
        uint8_t *mask = problem_take(&p, in->batch * length);
        for (size_t b = 0; b < in->batch; b++) {
            const size_t kind = random_size(random, 0, 7), kept = random_size(random, 1, length);
            for (size_t i = 0; i < length; i++)
                mask[b * length + i] = kind < 2   ? i < kept
                                       : kind < 4 ? i >= length - kept
                                       : kind < 6 ? random_chance(random, 0.7)
                                                  : kind < 7;
        }
        in->mask_kind = FORWARD_MASK_KEYS;
        in->mask = mask;
    }
    return p;
}

static const float *random_matrix(struct random *random, struct problem *owner, size_t count, double deviation)
{
    float *matrix = problem_take(owner, count * sizeof *matrix);
    for (size_t i = 0; i < count; i++)
        matrix[i] = (float)(random_normal(random) * deviation);
    return matrix;
}

void random_linformer(struct random *random, struct problem *owner, size_t num_heads, size_t projected_keys,
                      size_t length, struct low_rank_rule *rule)
{
    *rule = (struct low_rank_rule){
        .kind = LOW_RANK_LINFORMER,
        .e_columns = length + random_size(random, 0, 5),
        .f_columns = length + random_size(random, 0, 5),
        .e_per_head = random_chance(random, 0.5),
        .f_per_head = random_chance(random, 0.5),
        .projected_keys = projected_keys,
    };
    const double deviation = 1 / sqrt((double)length);
    rule->e =
        random_matrix(random, owner, (rule->e_per_head ? num_heads : 1) * projected_keys * rule->e_columns, deviation);
    rule->f =
        random_matrix(random, owner, (rule->f_per_head ? num_heads : 1) * projected_keys * rule->f_columns, deviation);
}

/* One head of one sequence: rows of queries, keys and values that are kept. */
struct head {
    size_t n, d_k, d_v, columns;
    double scale;
    double *q, *k, *v; /* [n, d_k], ... */
    double *map, *z;   /* [n, columns], [n, d_v] */
};

/* to [rows, n] = softmax(scale * a b^T) */
static void soft(const double *a, const double *b, size_t rows, size_t n, size_t depth, double scale, double *to)
{
    for (size_t i = 0; i < rows; i++) {
        double top = -INFINITY, sum = 0;
        for (size_t j = 0; j < n; j++) {
            double score = 0;
            for (size_t d = 0; d < depth; d++)
                score += a[i * depth + d] * b[j * depth + d];
            to[i * n + j] = score * scale;
            top = fmax(top, to[i * n + j]);
        }
        for (size_t j = 0; j < n; j++)
            sum += to[i * n + j] = exp(to[i * n + j] - top);
        for (size_t j = 0; j < n; j++)
            to[i * n + j] /= sum;
    }
}

/* to [rows, columns] = a [rows, depth] b [depth, columns] */
static void multiply(const double *a, const double *b, size_t rows, size_t depth, size_t columns, double *to)
{
    for (size_t i = 0; i < rows; i++)
        for (size_t j = 0; j < columns; j++) {
            double sum = 0;
            for (size_t k = 0; k < depth; k++)
                sum += a[i * depth + k] * b[k * columns + j];
            to[i * columns + j] = sum;
        }
}

static double *doubles(struct problem *memory, size_t count)
{
    return problem_take(memory, count * sizeof(double));
}

static void linformer_head(const struct low_rank_rule *rule, size_t h, struct head *head)
{
    const size_t projected = rule->projected_keys;
    struct problem memory = {0};
    double *k = doubles(&memory, projected * head->d_k), *v = doubles(&memory, projected * head->d_v);
    for (size_t i = 0; i < projected; i++) {
        const float *e = rule->e + ((rule->e_per_head ? h * projected : 0) + i) * rule->e_columns;
        const float *f = rule->f + ((rule->f_per_head ? h * projected : 0) + i) * rule->f_columns;
        for (size_t j = 0; j < head->n; j++) {
            for (size_t d = 0; d < head->d_k; d++)
                k[i * head->d_k + d] += (double)e[j] * head->k[j * head->d_k + d];
            for (size_t d = 0; d < head->d_v; d++)
                v[i * head->d_v + d] += (double)f[j] * head->v[j * head->d_v + d];
        }
    }
    soft(head->q, k, head->n, projected, head->d_k, head->scale, head->map);
    multiply(head->map, v, head->n, projected, head->d_v, head->z);
    problem_free(&memory);
}

static void segment_means(const double *rows, size_t n, size_t m, size_t columns, double *means)
{
    const size_t least = n / m, shorter = m - n % m;
    for (size_t l = 0, at = 0; l < m; l++) {
        const size_t count = l < shorter ? least : least + 1;
        for (size_t i = 0; i < count; i++, at++)
            for (size_t d = 0; d < columns; d++)
                means[l * columns + d] += rows[at * columns + d] / (double)count;
    }
}

/* (diagonal I - x) */
static void subtract(double diagonal, double *x, size_t m)
{
    for (size_t i = 0; i < m; i++)
        for (size_t j = 0; j < m; j++)
            x[i * m + j] = (i == j ? diagonal : 0) - x[i * m + j];
}

static void pseudo_inverse(const double *a, size_t m, size_t iterations, double *z)
{
    struct problem memory = {0};
    double *az = doubles(&memory, m * m), *x = doubles(&memory, m * m), *y = doubles(&memory, m * m);
    double rows = 0, columns = 0;
    for (size_t i = 0; i < m; i++) {
        double row = 0, column = 0;
        for (size_t j = 0; j < m; j++) {
            row += fabs(a[i * m + j]);
            column += fabs(a[j * m + i]);
        }
        rows = fmax(rows, row);
        columns = fmax(columns, column);
    }
    for (size_t i = 0; i < m; i++)
        for (size_t j = 0; j < m; j++)
            z[i * m + j] = a[j * m + i] / (rows * columns);
    for (size_t n = 0; n < iterations; n++) {
        multiply(a, z, m, m, m, az);
        memcpy(x, az, m * m * sizeof *x);
        subtract(7, x, m);
        multiply(az, x, m, m, m, y);
        subtract(15, y, m);
        multiply(az, y, m, m, m, x);
        subtract(13, x, m);
        multiply(z, x, m, m, m, y);
        for (size_t i = 0; i < m * m; i++)
            z[i] = y[i] / 4;
    }
    problem_free(&memory);
}

static void nystrom_head(const struct low_rank_rule *rule, struct head *head)
{
    const size_t m = rule->landmarks, n = head->n;
    struct problem memory = {0};
    if (n <= m) {
        soft(head->q, head->k, n, n, head->d_k, head->scale, head->map);
    } else {
        double *q = doubles(&memory, m * head->d_k), *k = doubles(&memory, m * head->d_k),
               *left = doubles(&memory, n * m), *middle = doubles(&memory, m * m), *inverse = doubles(&memory, m * m),
               *right = doubles(&memory, m * n), *both = doubles(&memory, n * m);
        segment_means(head->q, n, m, head->d_k, q);
        segment_means(head->k, n, m, head->d_k, k);
        soft(head->q, k, n, m, head->d_k, head->scale, left);
        soft(q, k, m, m, head->d_k, head->scale, middle);
        soft(q, head->k, m, n, head->d_k, head->scale, right);
        pseudo_inverse(middle, m, rule->iterations, inverse);
        multiply(left, inverse, n, m, m, both);
        multiply(both, right, n, m, n, head->map);
    }
    multiply(head->map, head->v, n, n, head->d_v, head->z);
    problem_free(&memory);
}

/* The positions of a sequence that are computed, in order. */
static size_t kept_positions(const struct forward_input *in, size_t b, size_t *kept)
{
    size_t n = 0;
    for (size_t i = 0; i < in->key_length; i++)
        if (in->mask_kind == FORWARD_MASK_NONE || in->mask[b * in->key_length + i])
            kept[n++] = i;
    return n;
}

static double *kept_rows(struct problem *memory, const float *from, const size_t *kept, size_t n, size_t columns)
{
    double *rows = doubles(memory, n * columns);
    for (size_t i = 0; i < n; i++)
        for (size_t d = 0; d < columns; d++)
            rows[i * columns + d] = (double)from[kept[i] * columns + d];
    return rows;
}

static void answer_head(const struct problem *p, struct answer *a, size_t b, size_t h, const size_t *kept,
                        const struct head *head, double *joined)
{
    const struct forward_input *in = &p->input;
    const size_t length = in->query_length, columns = forward_map_columns(in);
    const bool by_position = in->rules->low_rank.kind == LOW_RANK_NYSTROM;
    for (size_t place = 0; place < p->n_maps; place++) {
        if ((p->include_heads ? p->include_heads[place] : place) != h)
            continue;
        const size_t plane = b * p->n_maps + place;
        memset(a->attention + plane * length * columns, 0, length * columns * sizeof(float));
        memset(a->heads + plane * length * head->d_v, 0, length * head->d_v * sizeof(float));
        for (size_t i = 0; i < head->n; i++) {
            const size_t row = plane * length + kept[i];
            for (size_t j = 0; j < head->columns; j++)
                a->attention[row * columns + (by_position ? kept[j] : j)] = (float)head->map[i * head->columns + j];
            for (size_t d = 0; d < head->d_v; d++)
                a->heads[row * head->d_v + d] = (float)head->z[i * head->d_v + d];
        }
    }
    const double gate = in->head_mask ? (double)in->head_mask[h] : 1;
    for (size_t i = 0; i < head->n; i++)
        for (size_t d = 0; d < head->d_v; d++)
            joined[(i * p->shape.num_heads + h) * head->d_v + d] = gate * head->z[i * head->d_v + d];
}

static void answer_output(const struct problem *p, struct answer *a, size_t b, const size_t *kept, size_t n,
                          const double *joined)
{
    const struct attention_shape *s = &p->shape;
    const size_t depth = s->num_heads * s->d_v;
    memset(a->output + b * p->input.query_length * s->d_model, 0,
           p->input.query_length * s->d_model * sizeof *a->output);
    for (size_t i = 0; i < n; i++)
        for (size_t c = 0; c < s->d_model; c++) {
            double sum = p->matrices.b_o && s->projected ? (double)p->matrices.b_o[c] : 0;
            for (size_t d = 0; s->projected && d < depth; d++)
                sum += joined[i * depth + d] * (double)p->matrices.w_o[d * s->d_model + c];
            a->output[(b * p->input.query_length + kept[i]) * s->d_model + c] =
                (float)(s->projected ? sum : joined[i * depth + c]);
        }
}

void reference_low_rank(const struct problem *p, struct answer *a)
{
    const struct attention_shape *s = &p->shape;
    const struct forward_input *in = &p->input;
    const struct low_rank_rule *rule = &in->rules->low_rank;
    struct problem plain = *p;
    plain.input.rules = NULL;
    plain.n_maps = 0; /* of it the projections are taken, which are each query head's own */
    reference_forward(&plain, a);
    for (size_t b = 0; b < in->batch; b++) {
        struct problem memory = {0};
        size_t *kept = problem_take(&memory, in->key_length * sizeof *kept);
        const size_t n = kept_positions(in, b, kept);
        double *joined = doubles(&memory, n * s->num_heads * s->d_v);
        for (size_t h = 0; h < s->num_heads; h++) {
            struct problem of_head = {0};
            const size_t plane = (b * s->num_heads + h) * in->key_length;
            struct head head = {
                .n = n,
                .d_k = s->d_k,
                .d_v = s->d_v,
                .columns = rule->kind == LOW_RANK_LINFORMER ? rule->projected_keys : n,
                .scale = (double)s->scale,
                .q = kept_rows(&of_head, a->query + plane * s->d_k, kept, n, s->d_k),
                .k = kept_rows(&of_head, a->key + plane * s->d_k, kept, n, s->d_k),
                .v = kept_rows(&of_head, a->value + plane * s->d_v, kept, n, s->d_v),
            };
            head.map = doubles(&of_head, n * head.columns);
            head.z = doubles(&of_head, n * s->d_v);
            if (rule->kind == LOW_RANK_LINFORMER)
                linformer_head(rule, h, &head);
            else
                nystrom_head(rule, &head);
            answer_head(p, a, b, h, kept, &head, joined);
            problem_free(&of_head);
        }
        answer_output(p, a, b, kept, n, joined);
        problem_free(&memory);
    }
}

enum { TENSORS = 6 };
static const char *const names[TENSORS] = {"output", "attention", "heads", "query", "key", "value"};

void require_close(const struct problem *problem, const struct answer *got, const struct answer *expected,
                   double tolerance, const char *what)
{
    const struct answer_sizes sizes = answer_sizes(problem);
    const float *const a[TENSORS] = {got->output, got->attention, got->heads, got->query, got->key, got->value};
    const float *const b[TENSORS] = {expected->output, expected->attention, expected->heads,
                                     expected->query,  expected->key,       expected->value};
    for (size_t t = 0; t < TENSORS; t++) {
        const double worst = worst_error(a[t], b[t], sizes.n[t], tolerance);
        require(worst <= 1, "%s, %s: %s is %g of the tolerance off", engine_isa(), what, names[t], worst);
        require(a[t][sizes.n[t]] == ANSWER_UNWRITTEN, "%s, %s: behind %s was written", engine_isa(), what, names[t]);
    }
    require(got->fully_masked_rows == expected->fully_masked_rows, "%s: %zu rows are fully masked, not %zu", what,
            got->fully_masked_rows, expected->fully_masked_rows);
}

void require_same_bits(const struct problem *problem, const struct answer *a, const struct answer *b, const char *what)
{
    const struct answer_sizes sizes = answer_sizes(problem);
    const float *const x[TENSORS] = {a->output, a->attention, a->heads, a->query, a->key, a->value};
    const float *const y[TENSORS] = {b->output, b->attention, b->heads, b->query, b->key, b->value};
    for (size_t t = 0; t < TENSORS; t++)
        require(memcmp(x[t], y[t], sizes.n[t] * sizeof(float)) == 0, "%s, %s: %s has other bits", engine_isa(), what,
                names[t]);
}

enum { COMPANY = 3 };

static void run_together(const struct attention_layer *layer, const struct problem *problems,
                         const struct parallel *parallel, struct answer *answers)
{
    const struct forward_input *inputs[COMPANY];
    struct forward_result results[COMPANY], *listed[COMPANY];
    struct arena arena = {0};
    struct error error = {0};
    size_t bytes;
    for (size_t i = 0; i < COMPANY; i++) {
        inputs[i] = &problems[i].input;
        results[i] = answer_result(&problems[i], &answers[i]);
        listed[i] = &results[i];
    }
    require(forward_scratch_bytes(attention_layer_shape(layer), inputs, COMPANY, parallel->lanes, &bytes),
            "the size overflows");
    require(arena_reserve(&arena, bytes), "no memory for %zu bytes", bytes);
    arena.capacity = bytes;
    require(forward_run(layer, inputs, listed, COMPANY, parallel, &arena, &error), "%s", error.message);
    arena_free(&arena);
}

void require_same_in_company(struct random *random, const struct attention_shape *shape,
                             const struct attention_matrices *matrices, const struct problem_limits *limits,
                             const struct attention_rules *rules)
{
    struct problem problems[COMPANY];
    struct answer together[COMPANY], alone[COMPANY];
    struct error error = {0};
    struct attention_layer *layer = attention_layer_create(shape, matrices, &error);
    require(layer, "%s", error.message);
    for (size_t n = 0; n < COMPANY; n++) {
        problems[n] =
            low_rank_problem(random, shape, matrices, limits, n == 1 && rules->low_rank.kind == LOW_RANK_NYSTROM);
        problems[n].input.rules = rules;
        together[n] = answer_create(&problems[n]);
        alone[n] = answer_create(&problems[n]);
        run_problem(layer, &problems[n], &parallel_serial, &alone[n]);
    }
    struct lanes lanes;
    lanes_init(&lanes, 3, random_size(random, 0, 1000));
    run_together(layer, problems, &lanes.parallel, together);
    for (size_t n = 0; n < COMPANY; n++) {
        require_same_bits(&problems[n], &alone[n], &together[n], "company");
        answer_free(&alone[n]);
        answer_free(&together[n]);
        problem_free(&problems[n]);
    }
    attention_layer_free(layer);
}
