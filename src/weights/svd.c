/* Cuts a layer's tensors into heads, approximates each, and puts the factors together to another layer's tensors.
 * Entered by one thread, which has others help it: each takes heads and has memory of its own for one. */

#include "weights/svd.h"

#include "base/size.h"
#include "weights/best_rank.h"
#include "weights/load_threads.h"

#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

bool svd_layer_shape(const struct attention_shape *shape, const struct low_rank_rule *rule,
                     struct attention_shape *made, struct error *error)
{
    if (!shape->projected)
        return error_set_at(
            error, ERROR_INVALID, "/low_rank",
            "low_rank svd needs matrices to approximate, and source identity has none: leave it out, or "
            "choose another source");
    if (rule->rank == 0 || rule->rank > shape->d_k)
        return error_set_at(error, ERROR_INVALID, "/low_rank/rank", "rank is %zu, expected 1 to d_k, which is %zu here",
                            rule->rank, shape->d_k);
    *made = *shape;
    made->num_kv_heads = shape->num_heads;
    made->d_k = rule->rank;
    if (rule->values)
        made->d_v = rule->rank;
    return true;
}

struct layer_tensors svd_layer_describe(const struct attention_shape *made, const struct layer_tensors *tensors)
{
    unsigned biases = 0;
    for (unsigned kind = LAYER_B_Q; kind <= LAYER_B_O; kind++)
        if (tensors->items[kind].rows)
            biases |= 1U << kind;
    return layer_tensors_describe(made, biases);
}

unsigned svd_layer_own(const struct attention_shape *shape, const struct low_rank_rule *rule)
{
    unsigned own = 1U << LAYER_W_Q | 1U << LAYER_W_K;
    if (rule->values || shape->num_kv_heads < shape->num_heads)
        own |= 1U << LAYER_W_V;
    if (rule->values)
        own |= 1U << LAYER_W_O;
    return own;
}

/* What one head's factors are computed in. */
struct scratch {
    double *left, *right; /* [width][rows] */
    double *left_factor, *right_factor;
    double *inner;
};

enum { PARTS = 5 };

static bool scratch_parts(const struct attention_shape *shape, const struct low_rank_rule *rule, size_t parts[PARTS])
{
    const size_t width = rule->values ? size_max(shape->d_k, shape->d_v) : shape->d_k;
    size_t rows, columns, factor;
    if (!size_add(shape->d_model, 1, &rows) || !size_multiply(rows, width, &columns) ||
        !size_multiply(rows, rule->rank, &factor) || !best_rank_scratch(width, &parts[4]))
        return false;
    parts[0] = parts[1] = columns;
    parts[2] = parts[3] = factor;
    return true;
}

/* More threads than heads would find nothing to do. */
static unsigned useful_threads(const struct attention_shape *shape, unsigned threads)
{
    return (unsigned)size_min(shape->num_heads, size_min(threads, LOAD_THREADS_MOST));
}

static bool head_scratch(const struct attention_shape *shape, const struct low_rank_rule *rule, size_t parts[PARTS],
                         size_t *bytes)
{
    size_t total = 0;
    if (!scratch_parts(shape, rule, parts))
        return false;
    for (size_t i = 0; i < PARTS; i++)
        if (!size_add(total, parts[i], &total))
            return false;
    return tensor_bytes(&total, 1, sizeof(double), bytes);
}

bool svd_layer_scratch(const struct attention_shape *shape, const struct low_rank_rule *rule, unsigned threads,
                       size_t *bytes)
{
    size_t parts[PARTS], head;
    return head_scratch(shape, rule, parts, &head) && size_multiply(head, useful_threads(shape, threads), bytes);
}

/* Columns `first` and on of a matrix, with the bias as one more row where there is one. */
static struct tall_matrix load_columns(const struct layer_tensor *matrix, const struct layer_tensor *bias, size_t first,
                                       size_t width, double *columns)
{
    const struct tall_matrix m = {columns, matrix->rows + bias->rows};
    for (size_t j = 0; j < width; j++) {
        for (size_t i = 0; i < matrix->rows; i++)
            columns[j * m.rows + i] = (double)matrix->data[i * matrix->columns + first + j];
        if (bias->rows)
            columns[j * m.rows + matrix->rows] = (double)bias->data[first + j];
    }
    return m;
}

static void store_columns(const double *columns, size_t rank, const struct layer_tensor *matrix,
                          const struct layer_tensor *bias, size_t first)
{
    const size_t rows = matrix->rows + bias->rows;
    for (size_t j = 0; j < rank; j++) {
        for (size_t i = 0; i < matrix->rows; i++)
            matrix->data[i * matrix->columns + first + j] = (float)columns[j * rows + i];
        if (bias->rows)
            bias->data[first + j] = (float)columns[j * rows + matrix->rows];
    }
}

/* A head's rows of W_O are columns of its transpose. */
static struct tall_matrix load_rows(const struct layer_tensor *matrix, size_t first, size_t width, double *columns)
{
    for (size_t j = 0; j < width; j++)
        for (size_t i = 0; i < matrix->columns; i++)
            columns[j * matrix->columns + i] = (double)matrix->data[(first + j) * matrix->columns + i];
    return (struct tall_matrix){columns, matrix->columns};
}

static void store_rows(const double *columns, size_t rank, const struct layer_tensor *matrix, size_t first)
{
    for (size_t i = 0; i < rank * matrix->columns; i++)
        matrix->data[first * matrix->columns + i] = (float)columns[i];
}

static void make_scores(const struct attention_shape *shape, const struct layer_tensor *from,
                        const struct layer_tensor *to, size_t head, size_t rank, const struct scratch *s)
{
    const size_t kv_head = head / (shape->num_heads / shape->num_kv_heads);
    const struct tall_matrix left =
        load_columns(&from[LAYER_W_Q], &from[LAYER_B_Q], head * shape->d_k, shape->d_k, s->left);
    const struct tall_matrix right =
        load_columns(&from[LAYER_W_K], &from[LAYER_B_K], kv_head * shape->d_k, shape->d_k, s->right);
    best_rank(left, right, shape->d_k, rank, s->left_factor, s->right_factor, s->inner);
    store_columns(s->left_factor, rank, &to[LAYER_W_Q], &to[LAYER_B_Q], head * rank);
    store_columns(s->right_factor, rank, &to[LAYER_W_K], &to[LAYER_B_K], head * rank);
}

static void make_values(const struct attention_shape *shape, const struct layer_tensor *from,
                        const struct layer_tensor *to, size_t head, size_t rank, const struct scratch *s)
{
    const size_t kv_head = head / (shape->num_heads / shape->num_kv_heads);
    const struct tall_matrix left =
        load_columns(&from[LAYER_W_V], &from[LAYER_B_V], kv_head * shape->d_v, shape->d_v, s->left);
    const struct tall_matrix right = load_rows(&from[LAYER_W_O], head * shape->d_v, shape->d_v, s->right);
    best_rank(left, right, shape->d_v, rank, s->left_factor, s->right_factor, s->inner);
    store_columns(s->left_factor, rank, &to[LAYER_W_V], &to[LAYER_B_V], head * rank);
    store_rows(s->right_factor, rank, &to[LAYER_W_O], head * rank);
}

/* Each query head gets its own copy of the values that it reads. */
static void copy_values(const struct attention_shape *shape, const struct layer_tensor *from,
                        const struct layer_tensor *to)
{
    const size_t group = shape->num_heads / shape->num_kv_heads, d_v = shape->d_v;
    for (unsigned kind = LAYER_W_V; kind <= LAYER_B_V; kind += LAYER_B_V - LAYER_W_V)
        for (size_t i = 0; i < from[kind].rows; i++)
            for (size_t head = 0; head < shape->num_heads; head++)
                memcpy(to[kind].data + i * to[kind].columns + head * d_v,
                       from[kind].data + i * from[kind].columns + head / group * d_v, d_v * sizeof(float));
    memcpy(to[LAYER_W_O].data, from[LAYER_W_O].data, from[LAYER_W_O].rows * from[LAYER_W_O].columns * sizeof(float));
}

static bool check_finite(const struct layer_tensors *tensors, struct error *error)
{
    static const char *const names[] = {"W_Q", "W_K", "W_V", "W_O", "b_Q", "b_K", "b_V", "b_O"};
    for (unsigned kind = 0; kind < LAYER_TENSOR_COUNT; kind++) {
        const struct layer_tensor *tensor = &tensors->items[kind];
        for (size_t i = 0; i < tensor->rows * tensor->columns; i++)
            if (!isfinite(tensor->data[i]))
                return error_set_at(error, ERROR_NOT_FINITE, "/low_rank",
                                    "low_rank svd makes a number of %s that is not a finite float32, from weights that "
                                    "are too large: leave it out, or scale the weights",
                                    names[kind]);
    }
    return true;
}

/* A layer on its way. */
struct making {
    const struct attention_shape *shape;
    const struct low_rank_rule *rule;
    const struct layer_tensor *from, *to;
    size_t parts[PARTS], bytes; /* of a thread's scratch: doubles of each part, and bytes of all */
    atomic_size_t next;
    atomic_bool failed; /* memory ran out */
};

static void *make_heads(void *argument)
{
    struct making *m = argument;
    double *memory = malloc(m->bytes);
    if (!memory) {
        atomic_store(&m->failed, true);
        return NULL;
    }
    struct scratch s;
    double **const arrays[PARTS] = {&s.left, &s.right, &s.left_factor, &s.right_factor, &s.inner};
    for (size_t i = 0, at = 0; i < PARTS; at += m->parts[i++])
        *arrays[i] = memory + at;
    for (size_t head; (head = atomic_fetch_add(&m->next, 1)) < m->shape->num_heads && !atomic_load(&m->failed);) {
        make_scores(m->shape, m->from, m->to, head, m->rule->rank, &s);
        if (m->rule->values)
            make_values(m->shape, m->from, m->to, head, m->rule->rank, &s);
    }
    free(memory);
    return NULL;
}

bool svd_layer_make(const struct attention_shape *shape, const struct layer_tensors *tensors,
                    const struct low_rank_rule *rule, unsigned threads, struct attention_shape *made,
                    struct layer_tensors *made_tensors, struct error *error)
{
    struct attention_shape new_shape;
    if (!svd_layer_shape(shape, rule, &new_shape, error))
        return false;
    struct layer_tensors new = svd_layer_describe(&new_shape, tensors);
    struct making making = {.shape = shape, .rule = rule, .from = tensors->items, .to = new.items};
    if (!head_scratch(shape, rule, making.parts, &making.bytes))
        return error_out_of_memory(error);
    if (!layer_tensors_allocate(&new, error))
        goto fail;
    load_threads_run(useful_threads(shape, threads), make_heads, &making);
    if (making.failed) {
        error_out_of_memory(error);
        goto fail;
    }
    if (!rule->values)
        copy_values(shape, tensors->items, new.items);
    if (tensors->items[LAYER_B_O].rows)
        memcpy(new.items[LAYER_B_O].data, tensors->items[LAYER_B_O].data, shape->d_model * sizeof(float));
    if (!check_finite(&new, error))
        goto fail;
    *made = new_shape;
    *made_tensors = new;
    return true;
fail:
    layer_tensors_free(&new);
    return false;
}
