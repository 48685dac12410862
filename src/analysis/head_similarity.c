/* Similarity of heads: which rows are compared together, and the numbers that their sums give. Entered by the thread
 * that runs the job. */

#include "analysis/head_similarity.h"

#include "analysis/kernel_alignment.h"
#include "analysis/similarity_blocks.h"
#include "base/size.h"

#include <float.h>
#include <math.h>
#include <string.h>

/* What is left of a head after a subtraction counts as nothing up to this part of its norm, squared: such are the
 * rounding errors of a constant. */
#define NOTHING_LEFT 1e-12

static const struct {
    const char *name;
    bool of_output;
} METRICS[SIMILARITY_METRIC_COUNT] = {
#define METRIC_ENTRY(code, name, of_output) {name, of_output},
    SIMILARITY_METRICS(METRIC_ENTRY)
#undef METRIC_ENTRY
};

const char *similarity_metric_name(enum similarity_metric metric)
{
    return METRICS[metric].name;
}

bool similarity_metric_of_output(enum similarity_metric metric)
{
    return METRICS[metric].of_output;
}

struct run {
    const struct similarity_question *question;
    struct similarity_rows rows;
    struct similarity_blocks blocks;
    struct kernel_alignment alignment;
    struct head_similarity *similarity;
    double *products;    /* [heads, heads] sums of pairs, their lower half */
    uint32_t *n_defined; /* [heads, heads] sequences with a similarity, for SIMILARITY_MEAN */
    size_t first, count; /* the rows that are compared */
    struct work work;
};

/* ---- output */

/* Tiles: the heads. A power of two that brings the rows' largest element near 1, so that float32 neither overflows nor
 * vanishes in the products; then mean and squares. NaN where an element is not finite. */
static void scale_output(const void *argument, size_t head, unsigned lane)
{
    (void)lane;
    const struct run *run = argument;
    const struct similarity_rows *rows = &run->rows;
    double largest = 0, sum = 0, squares = 0;
    int exponent;
    for (size_t i = 0; i < run->count; i++) {
        const float *z = similarity_rows_output(rows, head, run->first + i);
        for (size_t k = 0; k < rows->d_v; k++)
            if (!(fabs((double)z[k]) <= largest))
                largest = isnan(largest) ? largest : fabs((double)z[k]);
    }
    (void)frexp(isfinite(largest) ? largest : 1, &exponent);
    const double scale = isfinite(largest) ? ldexp(1, -exponent) : NAN;
    for (size_t i = 0; i < run->count; i++) {
        const float *z = similarity_rows_output(rows, head, run->first + i);
        for (size_t k = 0; k < rows->d_v; k++) {
            const double x = (double)z[k] * scale;
            sum += x;
            squares += x * x;
        }
    }
    const bool centred = run->question->metric == SIMILARITY_PEARSON;
    run->blocks.scale[head] = scale;
    run->blocks.mean[head] = centred ? sum / ((double)run->count * (double)rows->d_v) : 0;
    run->blocks.sums[head].before = squares;
}

/* ---- what the sums say */

static double entries_compared(const struct run *run)
{
    if (run->question->subject == SIMILARITY_OF_OUTPUT)
        return (double)run->count * (double)run->rows.d_v;
    return similarity_rows_allowed(&run->rows, run->first, run->count);
}

static bool check_finite(const struct run *run, struct error *error)
{
    const size_t heads = run->blocks.heads, per_layer = heads / run->blocks.layers;
    for (size_t head = 0; head < heads; head++)
        if (!isfinite(run->products[head * heads + head])) {
            error_set(error, ERROR_NOT_FINITE,
                      "the %s of head %zu is not finite: the computation is beyond float32; send smaller inputs",
                      run->question->subject == SIMILARITY_OF_OUTPUT ? "output" : "attention", head % per_layer);
            if (heads > per_layer)
                error_precede(error, "layer %zu: ", head / per_layer);
            return false;
        }
    for (size_t layer = 0; layer < run->blocks.layers; layer++)
        if (!isfinite(similarity_blocks_diversity(&run->blocks, layer)))
            return error_set(error, ERROR_NOT_FINITE,
                             "the attention is not finite: the computation is beyond float32; send smaller inputs");
    return true;
}

/* The products of vectors, after what was subtracted with rounding is subtracted to the end. */
static void finish_products(struct run *run)
{
    const size_t heads = run->blocks.heads;
    const struct head_sums *sums = run->blocks.sums;
    if (run->question->metric == SIMILARITY_PEARSON) {
        const double entries = entries_compared(run);
        for (size_t a = 0; a < heads; a++)
            for (size_t b = 0; b <= a; b++)
                run->products[a * heads + b] -= sums[a].rest * sums[b].rest / entries;
    }
}

/* Whether the head has a direction to compare. */
static bool is_defined(const struct run *run, size_t head)
{
    const struct kernel_alignment *alignment = &run->alignment;
    const double square = run->products[head * (run->blocks.heads + 1)];
    switch (run->question->metric) {
    case SIMILARITY_CKA:
        return square > 0 && alignment->centred[head] > NOTHING_LEFT * alignment->before[head];
    case SIMILARITY_PEARSON:
    case SIMILARITY_CENTERED:
        return square > 0 && square > NOTHING_LEFT * run->blocks.sums[head].before;
    case SIMILARITY_COSINE:
        return square > 0;
    default:
        return true;
    }
}

static double similarity_of(const struct run *run, size_t a, size_t b)
{
    const size_t heads = run->blocks.heads;
    const double aa = run->products[a * heads + a], bb = run->products[b * heads + b],
                 ab = run->products[a * heads + b], rows = (double)run->count;
    switch (run->question->metric) {
    case SIMILARITY_JS:
        return fmin(1 - (0.5 * (aa + bb) - ab) / rows / M_LN2, 1);
    case SIMILARITY_HELLINGER:
        return fmin(1 - ab / rows * M_SQRT1_2, 1);
    default:
        return fmax(fmin(ab / sqrt(aa * bb), 1), -1);
    }
}

/* Adds the similarities of the rows that were compared. */
static void add_similarities(struct run *run)
{
    const size_t heads = run->blocks.heads;
    for (size_t a = 0; a < heads; a++)
        for (size_t b = 0; b <= a && is_defined(run, a); b++)
            if (is_defined(run, b)) {
                run->similarity->similarity[a * heads + b] += a == b ? 1 : similarity_of(run, a, b);
                run->n_defined[a * heads + b]++;
            }
}

static bool compare(struct run *run, size_t first, size_t count, struct error *error)
{
    struct similarity_blocks *blocks = &run->blocks;
    const size_t heads = blocks->heads;
    const bool cka = run->question->metric == SIMILARITY_CKA;
    run->first = first;
    run->count = count;
    memset(blocks->sums, 0, heads * sizeof *blocks->sums);
    if (run->question->subject == SIMILARITY_OF_OUTPUT) {
        const double floats = (double)heads * (double)count * (double)run->rows.d_v;
        if (!work_split(&run->work, heads, 2 * SPLIT_FLOP_PER_FLOAT * floats, scale_output, run))
            goto cancelled;
    } else {
        blocks->shift =
            run->question->metric == SIMILARITY_PEARSON ? (float)((double)count / entries_compared(run)) : NAN;
    }
    if (!similarity_blocks_run(blocks, first, count, &run->work) ||
        (cka && !kernel_alignment_run(&run->alignment, first, count, &run->work)))
        goto cancelled;
    if (cka)
        kernel_alignment_total(&run->alignment, run->products);
    else
        gram_total(&blocks->gram, run->products);
    if (!check_finite(run, error))
        return false;
    finish_products(run);
    add_similarities(run);
    return true;
cancelled:
    return error_cancelled(error);
}

/* Pooled features have the same columns in all sequences. */
static bool check_columns(const struct run *run, struct error *error)
{
    const struct similarity_rows *rows = &run->rows;
    const struct head_sequence *sequences = rows->maps->sequences;
    if (run->question->metric != SIMILARITY_CKA || run->question->reduction != SIMILARITY_POOLED ||
        run->question->subject != SIMILARITY_OF_ATTENTION)
        return true;
    for (size_t i = 1; i < rows->count; i++) {
        const size_t first = rows->list[0].sequence, other = rows->list[i].sequence;
        if (sequences[first].n_keys != sequences[other].n_keys)
            return error_set_at(error, ERROR_INVALID, "/metric",
                                "cka needs the same number of keys in all sequences, and sequence %zu has %zu and "
                                "sequence %zu has %zu: send \"reduce\": \"mean\", or another metric",
                                first, sequences[first].n_keys, other, sequences[other].n_keys);
    }
    return true;
}

static double diversity_of(const struct run *run, size_t layer)
{
    if (!run->rows.count || !run->question->diversity)
        return NAN;
    return fmax(similarity_blocks_diversity(&run->blocks, layer) / (double)run->rows.count, 0);
}

/* Means, both halves, and NaN where nothing is defined. */
static void finish(struct run *run)
{
    const size_t heads = run->blocks.heads;
    double *similarity = run->similarity->similarity;
    for (size_t a = 0; a < heads; a++)
        for (size_t b = 0; b <= a; b++) {
            const uint32_t n = run->n_defined[a * heads + b];
            similarity[a * heads + b] = n ? similarity[a * heads + b] / n : NAN;
            similarity[b * heads + a] = similarity[a * heads + b];
        }
    run->similarity->n_rows = run->rows.count;
    run->similarity->n_excluded = run->rows.n_excluded;
    for (size_t layer = 0; layer < run->blocks.layers; layer++)
        run->similarity->diversity[layer] = diversity_of(run, layer);
}

/* ---- memory */

static size_t most_rows(const struct similarity_question *question, const struct head_maps *maps)
{
    size_t rows = 0;
    if (question->reduction == SIMILARITY_MEAN)
        return size_max(maps->longest_rows, 1);
    for (size_t b = 0; b < maps->rule->batch; b++)
        rows += maps->sequences[b].n_rows;
    return size_max(rows, 1);
}

/* Sizes of everything, and *bytes of memory in all. */
static bool plan(struct run *run, const struct head_maps *maps, size_t d_v, unsigned lanes, size_t *bytes)
{
    const struct similarity_question *question = run->question;
    const size_t rows = most_rows(question, maps), square[] = {maps->num_heads, maps->num_heads};
    size_t list, blocks, alignment = 0, products, defined, total = 0;
    run->blocks.metric = question->metric;
    run->blocks.diversity = question->diversity;
    run->blocks.layers = size_max(question->num_layers, 1);
    run->blocks.subject = run->alignment.subject = question->subject;
    if (!similarity_rows_bytes(maps, lanes, &list) ||
        !similarity_blocks_plan(&run->blocks, maps, d_v, rows, lanes, &blocks) ||
        (question->metric == SIMILARITY_CKA &&
         !kernel_alignment_plan(&run->alignment, maps, d_v, rows, lanes, &alignment)) ||
        !tensor_bytes(square, 2, sizeof(double), &products) || !tensor_bytes(square, 2, sizeof(uint32_t), &defined))
        return false;
    const size_t all[] = {list, blocks, alignment, products, defined};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (!arena_need(&total, all[i]))
            return false;
    *bytes = total;
    return true;
}

bool head_similarity_bytes(const struct similarity_question *question, const struct head_maps *maps, size_t d_v,
                           unsigned lanes, size_t *bytes)
{
    struct run run = {.question = question};
    return plan(&run, maps, d_v, lanes, bytes);
}

/* All but the list of rows. */
static bool take(struct run *run, unsigned lanes, struct arena *arena)
{
    const size_t square = run->blocks.heads * run->blocks.heads;
    run->blocks.rows = run->alignment.rows = &run->rows;
    if (!similarity_blocks_take(&run->blocks, lanes, arena) ||
        (run->question->metric == SIMILARITY_CKA && !kernel_alignment_take(&run->alignment, lanes, arena)) ||
        !(run->products = arena_take(arena, square * sizeof *run->products)) ||
        !(run->n_defined = arena_take(arena, square * sizeof *run->n_defined)))
        return false;
    run->alignment.scale = run->blocks.scale;
    memset(run->n_defined, 0, square * sizeof *run->n_defined);
    return true;
}

double head_similarity_flop(const struct similarity_question *question, size_t num_heads, size_t batch,
                            size_t query_length, size_t key_length, size_t d_v)
{
    const bool output = question->subject == SIMILARITY_OF_OUTPUT, mean = question->reduction == SIMILARITY_MEAN;
    const double heads = (double)num_heads, sequences = (double)batch, rows = sequences * (double)query_length,
                 columns = output ? (double)d_v : (double)key_length;
    const size_t features = output ? d_v : key_length;
    double flop = SIMILARITY_READ_FLOP * heads * rows * ((double)key_length + columns);
    if (question->metric == SIMILARITY_CKA)
        flop += mean ? sequences * kernel_alignment_flop(num_heads, (double)query_length, features)
                     : kernel_alignment_flop(num_heads, rows, features);
    else if (similarity_by_products(question->metric))
        flop += heads * heads * rows * columns;
    else
        flop += (question->metric == SIMILARITY_JS ? SIMILARITY_JS_FLOP : SIMILARITY_HELLINGER_FLOP) * heads * heads /
                2 * rows * columns;
    if (mean)
        flop += 32 * sequences * heads * heads;
    return flop < DBL_MAX ? flop : DBL_MAX;
}

bool head_similarity_run(const struct similarity_question *question, const struct head_maps *maps, const float *heads,
                         size_t d_v, const struct parallel *parallel, struct arena *arena,
                         struct head_similarity *similarity, struct error *error)
{
    struct run run = {.question = question, .similarity = similarity, .work = {.parallel = parallel}};
    size_t bytes;
    bool enough;
    if (!plan(&run, maps, d_v, parallel->lanes, &bytes))
        return error_out_of_memory(error);
    if (!similarity_rows_list(&run.rows, maps, arena, &run.work, &enough))
        return error_cancelled(error);
    if (!enough || !take(&run, parallel->lanes, arena))
        return error_out_of_memory(error);
    run.rows.heads = heads;
    run.rows.d_v = d_v;
    memset(similarity->similarity, 0, run.blocks.heads * run.blocks.heads * sizeof *similarity->similarity);
    if (!check_columns(&run, error))
        return false;
    if (question->reduction == SIMILARITY_POOLED) {
        if (run.rows.count && !compare(&run, 0, run.rows.count, error))
            return false;
    } else {
        for (size_t b = 0; b < maps->rule->batch; b++) {
            const size_t first = run.rows.starts[b], count = run.rows.starts[b + 1] - first;
            if (count && !compare(&run, first, count, error))
                return false;
        }
    }
    finish(&run);
    return true;
}
