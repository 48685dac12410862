/* Importance of heads: the contributions of all heads to a block of rows are computed at a time, then measured. Entered
 * by the thread that runs the job; the steps of a block bring in other lanes.
 *
 * A step's tiles write to places of their own, and blocks follow one another: every sum has one order. */

#include "analysis/importance.h"

#include "analysis/ablation.h"
#include "analysis/scored_rows.h"
#include "base/size.h"
#include "engine/head_output.h"
#include "engine/split.h"

#include <float.h>
#include <math.h>
#include <string.h>

/* Contributions that are held at once, in floats (4 MiB: about a core's L2 and its share of L3), unless that is fewer
 * than LEAST_ROWS rows: each block reads W_O once. More than MOST_ROWS save no more of that. */
#define BLOCK_FLOATS ((size_t)1 << 20)
#define LEAST_ROWS   ((size_t)16)
#define MOST_ROWS    ((size_t)192)

static const char *const METHOD_NAMES[IMPORTANCE_METHOD_COUNT] = {
#define METHOD_NAME(code, name) name,
    IMPORTANCE_METHODS(METHOD_NAME)
#undef METHOD_NAME
};

const char *importance_method_name(enum importance_method method)
{
    return METHOD_NAMES[method];
}

struct run {
    const struct attention_layer *layer;
    const struct attention_shape *shape;
    const struct forward_input *input;
    const struct forward_result *result;
    enum importance_method method;
    size_t columns;                       /* that a head reaches */
    const uint8_t *scored;                /* [B, Tq] */
    float *contributions;                 /* [num_heads, block_rows, columns] */
    double *gram;                         /* [num_heads, num_heads], its lower half; without a plan [num_heads] */
    size_t gram_stride;                   /* between neighbours on the diagonal */
    size_t block_rows, first_row, n_rows; /* rows of the block; of all B * Tq */
    double *output_squares;               /* ||y||^2 of the block */
    double *row_squares;                  /* norm: [block_rows] ||y_i - b_O||^2 */
    double *row_parts;                    /* norm: [block_rows, num_heads] ||c_h,i||^2 */
};

static size_t rows_of_block(const struct attention_shape *shape, const struct forward_input *input)
{
    const size_t floats_a_row = shape->num_heads * head_output_columns(shape);
    const size_t rows = size_min(size_max(BLOCK_FLOATS / floats_a_row, LEAST_ROWS), MOST_ROWS);
    return size_min(rows, input->batch * input->query_length);
}

/* ---- measures */

/* In four chains: they are independent of each other, so that they need not wait for one another. */
static double dot(const float *a, const float *b, size_t count)
{
    double sums[4] = {0};
    size_t i = 0;
    for (; i + 4 <= count; i += 4)
        for (size_t k = 0; k < 4; k++)
            sums[k] += (double)a[i + k] * (double)b[i + k];
    for (; i < count; i++)
        sums[0] += (double)a[i] * (double)b[i];
    return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

static double gate_of(const struct run *run, size_t head)
{
    return run->input->head_mask ? (double)run->input->head_mask[head] : 1;
}

static float *contribution(const struct run *run, size_t head, size_t row)
{
    return run->contributions + (head * run->block_rows + row) * run->columns;
}

/* ||y||^2 over the block's scored rows. */
static double output_squares(const struct run *run)
{
    const size_t d_model = run->shape->d_model;
    double squares = 0;
    for (size_t row = run->first_row; row < run->first_row + run->n_rows; row++)
        if (run->scored[row]) {
            const float *y = run->result->output + row * d_model;
            squares += dot(y, y, d_model);
        }
    return squares;
}

/* The contribution of one head to the block's rows, which may be of several sequences. Rows that are not scored have a
 * Z of 0. */
static void contribute(const struct run *run, size_t head)
{
    const double gate = gate_of(run, head);
    if (gate == 0) { /* the head is not there, whatever its Z */
        memset(contribution(run, head, 0), 0, run->n_rows * run->columns * sizeof(float));
        return;
    }
    const size_t length = run->input->query_length;
    for (size_t done = 0, rows; done < run->n_rows; done += rows) {
        const size_t sequence = (run->first_row + done) / length, row = (run->first_row + done) % length;
        const float *z =
            run->result->heads + ((sequence * run->shape->num_heads + head) * length + row) * run->shape->d_v;
        rows = size_min(length - row, run->n_rows - done);
        head_output(run->layer, head, (float)gate, z, rows, contribution(run, head, done));
    }
}

/* Tiles: the heads, and behind them the output. */
static void contribute_tile(const void *argument, size_t index, unsigned lane)
{
    (void)lane;
    const struct run *run = argument;
    if (index == run->shape->num_heads) {
        *run->output_squares = output_squares(run);
        return;
    }
    contribute(run, index);
    if (run->gram) {
        const float *c = contribution(run, index, 0);
        run->gram[index * run->gram_stride] += dot(c, c, run->n_rows * run->columns);
    }
}

/* Tiles: the rows of the Gram matrix below the diagonal, the longest first. */
static void gram_tile(const void *argument, size_t index, unsigned lane)
{
    (void)lane;
    const struct run *run = argument;
    const size_t head = run->shape->num_heads - 1 - index;
    for (size_t other = 0; other < head; other++)
        run->gram[head * run->shape->num_heads + other] +=
            dot(contribution(run, head, 0), contribution(run, other, 0), run->n_rows * run->columns);
}

/* ||sum over the heads of their contributions to a row||^2: y_i - b_O without the rounding that b_O would bring. */
static double row_squares(const struct run *run, size_t row)
{
    enum { CHUNK = 64 };
    double squares = 0;
    for (size_t first = 0; first < run->columns; first += CHUNK) {
        const size_t count = size_min(CHUNK, run->columns - first);
        double sums[CHUNK] = {0};
        for (size_t head = 0; head < run->shape->num_heads; head++) {
            const float *c = contribution(run, head, row) + first;
            for (size_t k = 0; k < count; k++)
                sums[k] += (double)c[k];
        }
        for (size_t k = 0; k < count; k++)
            squares += sums[k] * sums[k];
    }
    return squares;
}

/* Tiles: the block's rows. */
static void norm_tile(const void *argument, size_t row, unsigned lane)
{
    (void)lane;
    const struct run *run = argument;
    double *parts = run->row_parts + row * run->shape->num_heads, sum = 0;
    for (size_t head = 0; head < run->shape->num_heads; head++) {
        const float *c = contribution(run, head, row);
        sum += parts[head] = dot(c, c, run->columns);
    }
    /* Without projections no two heads share a column. */
    run->row_squares[row] = run->shape->projected ? row_squares(run, row) : sum;
}

/* ---- blocks */

/* Adds ||c_h,i|| / ||y_i - b_O|| of a row. False when it has none. */
static bool add_ratios(const struct run *run, size_t row, double *ratios /* [num_heads] */)
{
    const size_t heads = run->shape->num_heads;
    const double *parts = run->row_parts + row * heads, whole = run->row_squares[row];
    if (whole == 0)
        return false;
    for (size_t head = 0; head < heads; head++)
        if (isfinite(whole))
            ratios[head] += sqrt(parts[head] / whole);
        else if (!isfinite(parts[head])) /* this one is to blame */
            ratios[head] = NAN;
    return true;
}

static bool for_each_block(struct run *run, struct work *work, double *output_total, double *ratios, size_t *n_ratios)
{
    const size_t heads = run->shape->num_heads, total = run->input->batch * run->input->query_length;
    const bool pairs = run->gram_stride > 1 && run->shape->projected;
    for (run->first_row = 0; run->first_row < total; run->first_row += run->n_rows) {
        run->n_rows = size_min(run->block_rows, total - run->first_row);
        const double floats = (double)run->n_rows * (double)run->columns * (double)heads;
        if (!work_split(work, heads + importance_needs_output(run->method), 2 * floats * (double)run->shape->d_v,
                        contribute_tile, run) ||
            (pairs && !work_split(work, heads, floats * (double)heads, gram_tile, run)) ||
            (run->row_parts && !work_split(work, run->n_rows, 4 * floats, norm_tile, run)))
            return false;
        *output_total += *run->output_squares;
        for (size_t row = 0; run->row_parts && row < run->n_rows; row++)
            *n_ratios += add_ratios(run, row, ratios);
    }
    return true;
}

/* Sums of squares of float32 numbers are finite in float64, unless the numbers are not. */
static bool check_finite(const double *sums, size_t stride, size_t num_heads, double output, struct error *error)
{
    for (size_t head = 0; head < num_heads; head++)
        if (!isfinite(sums[head * stride]))
            return error_set(error, ERROR_NOT_FINITE,
                             "what head %zu adds to the output is not finite: the computation is beyond float32; send "
                             "smaller inputs, or leave the head out with head_mask",
                             head);
    return isfinite(output) || error_set(error, ERROR_NOT_FINITE,
                                         "the output is not finite: the computation is beyond float32; send smaller "
                                         "inputs");
}

/* Z less what replaces it. */
static bool ablate(const struct run *run, size_t n_scored, double *sums, struct work *work)
{
    const struct ablation ablation = {
        .input = run->input,
        .num_heads = run->shape->num_heads,
        .d_v = run->shape->d_v,
        .scored = run->scored,
        .n_scored = n_scored,
        .heads = run->result->heads,
        .value = run->result->value,
        .sums = sums,
    };
    switch (run->method) {
    case IMPORTANCE_UNIFORM:
        return ablation_subtract_uniform(&ablation, work);
    case IMPORTANCE_MEAN:
        return ablation_subtract_mean(&ablation, work);
    default:
        return true;
    }
}

/* ---- memory */

enum piece { SCORED, CONTRIBUTIONS, GRAM, CROSS, SUMS, ROW_SQUARES, ROW_PARTS, PIECES };

static bool list_pieces(const struct attention_shape *shape, const struct forward_input *input,
                        enum importance_method method, bool plan, unsigned lanes, size_t bytes[PIECES])
{
    const bool norm = method == IMPORTANCE_NORM, sums = method == IMPORTANCE_MEAN || method == IMPORTANCE_UNIFORM;
    size_t floats_a_row;
    if (!size_multiply(shape->num_heads, head_output_columns(shape), &floats_a_row))
        return false;
    const size_t heads = shape->num_heads, rows = rows_of_block(shape, input), real = sizeof(double);
    return tensor_bytes((size_t[]){input->batch, input->query_length}, 2, 1, &bytes[SCORED]) &&
           tensor_bytes((size_t[]){rows, floats_a_row}, 2, sizeof(float), &bytes[CONTRIBUTIONS]) &&
           tensor_bytes((size_t[]){heads, plan ? heads : 1, !norm}, 3, real, &bytes[GRAM]) &&
           tensor_bytes((size_t[]){heads, plan}, 2, real, &bytes[CROSS]) &&
           tensor_bytes((size_t[]){lanes, shape->d_v, sums}, 3, real, &bytes[SUMS]) &&
           tensor_bytes((size_t[]){rows, norm}, 2, real, &bytes[ROW_SQUARES]) &&
           tensor_bytes((size_t[]){rows, heads, norm}, 3, real, &bytes[ROW_PARTS]);
}

bool importance_scratch_bytes(const struct attention_shape *shape, const struct forward_input *input,
                              enum importance_method method, bool plan, unsigned lanes, size_t *bytes)
{
    size_t pieces[PIECES], total = 0;
    if (!list_pieces(shape, input, method, plan, lanes, pieces))
        return false;
    for (size_t i = 0; i < PIECES; i++)
        if (!arena_need(&total, pieces[i]))
            return false;
    *bytes = total;
    return true;
}

static bool take_pieces(struct arena *arena, const size_t bytes[PIECES], void *pieces[PIECES])
{
    for (size_t i = 0; i < PIECES; i++)
        if (!(pieces[i] = bytes[i] ? arena_take(arena, bytes[i]) : NULL) && bytes[i])
            return false;
    return true;
}

double importance_flop(const struct attention_shape *shape, const struct forward_input *input,
                       enum importance_method method, bool plan)
{
    const double rows = (double)input->batch * (double)input->query_length, heads = (double)shape->num_heads,
                 columns = (double)head_output_columns(shape);
    double flop = rows * heads * columns * (plan ? heads : 2);
    if (shape->projected)
        flop += 2 * rows * heads * (double)shape->d_v * columns;
    if (method == IMPORTANCE_UNIFORM)
        flop += ablation_uniform_flop(input, shape->num_heads, shape->d_v);
    return flop < DBL_MAX ? flop : DBL_MAX;
}

bool importance_run(const struct attention_layer *layer, const struct forward_input *input,
                    enum importance_method method, const struct forward_result *result, const struct parallel *parallel,
                    struct arena *arena, struct importance *importance, struct error *error)
{
    const struct attention_shape *shape = attention_layer_shape(layer);
    const size_t heads = shape->num_heads;
    const bool plan = importance->plan != NULL;
    struct work work = {.parallel = parallel};
    size_t bytes[PIECES], n_ratios = 0;
    void *pieces[PIECES];
    if (!list_pieces(shape, input, method, plan, parallel->lanes, bytes) || !take_pieces(arena, bytes, pieces))
        return error_out_of_memory(error);
    struct run run = {
        .layer = layer,
        .shape = shape,
        .input = input,
        .result = result,
        .method = method,
        .columns = head_output_columns(shape),
        .scored = pieces[SCORED],
        .contributions = pieces[CONTRIBUTIONS],
        .gram = pieces[GRAM],
        .gram_stride = plan ? heads + 1 : 1,
        .block_rows = rows_of_block(shape, input),
        .row_squares = pieces[ROW_SQUARES],
        .row_parts = pieces[ROW_PARTS],
    };
    double block_squares = 0, output_total = 0, *measured = importance->importance; /* [heads] */
    run.output_squares = &block_squares;
    if (run.gram)
        memset(run.gram, 0, bytes[GRAM]);
    for (size_t head = 0; head < heads; head++)
        measured[head] = 0;

    const size_t n_rows = scored_rows(input, pieces[SCORED]);
    if (!ablate(&run, n_rows, pieces[SUMS], &work) || !for_each_block(&run, &work, &output_total, measured, &n_ratios))
        return error_set(error, ERROR_CLIENT_GONE,
                         "The computation was cancelled: nobody waits for its result any more.");
    const bool norm = method == IMPORTANCE_NORM;
    if (!check_finite(norm ? measured : run.gram, norm ? 1 : run.gram_stride, heads, output_total, error))
        return false;

    const double size = sqrt(output_total);
    for (size_t head = 0; head < heads; head++)
        if (norm)
            measured[head] = n_ratios > 0 ? measured[head] / (double)n_ratios : NAN;
        else
            measured[head] = size > 0 ? sqrt(run.gram[head * run.gram_stride]) / size : NAN;
    if (plan) {
        for (size_t head = 0; head < heads; head++)
            for (size_t other = 0; other < head; other++)
                run.gram[other * heads + head] = run.gram[head * heads + other];
        prune_plan(run.gram, heads, size, importance->plan, pieces[CROSS]);
    }
    importance->n_rows = n_rows;
    importance->n_excluded = input->batch * input->query_length - n_rows;
    return true;
}
