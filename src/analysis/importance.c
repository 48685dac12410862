/* Importance of heads: the contributions of all heads to a block of rows are computed at a time, then measured. Entered
 * by the thread that runs the job; the steps of a block bring in other lanes.
 *
 * A step's tiles write to places of their own, and blocks follow one another: every sum has one order. */

#include "analysis/importance.h"

#include "analysis/ablation.h"
#include "analysis/gram.h"
#include "analysis/pair_kernels/pair_kernels.h"
#include "analysis/scored_rows.h"
#include "base/size.h"
#include "engine/head_output.h"
#include "engine/kernels/kernels.h"
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
    const struct pair_kernels *kernels;
    enum importance_method method;
    size_t stride;                        /* columns that a head reaches, padded with zeros */
    const uint8_t *scored;                /* [B, Tq] */
    float *contributions;                 /* [num_heads, block_rows, stride] */
    double *squares;                      /* [num_heads] ||c_h||^2; norm: not used */
    const struct gram *gram;              /* <c_a, c_b>; NULL: not wanted */
    size_t block_rows, first_row, n_rows; /* rows of the block; of all B * Tq */
    double *row_squares;                  /* [block_rows] ||y_i||^2, 0 where not scored; norm: ||y_i - b_O||^2 */
    double *row_parts;                    /* norm: [block_rows, num_heads] ||c_h,i||^2 */
    size_t reader_bytes;                  /* of allowed_reader_init, of one lane */
};

static size_t contribution_stride(const struct attention_shape *shape)
{
    return kernel_padded(head_output_columns(shape));
}

static size_t rows_of_block(const struct attention_shape *shape, const struct forward_input *input)
{
    const size_t floats_a_row = shape->num_heads * contribution_stride(shape);
    const size_t rows = size_min(size_max(BLOCK_FLOATS / floats_a_row, LEAST_ROWS), MOST_ROWS);
    return size_min(rows, input->batch * input->query_length);
}

/* ---- measures */

/* 0 for a head that keep_heads has dropped in this sequence. */
static double gate_of(const struct run *run, size_t sequence, size_t head)
{
    if (run->result->heads_used && !run->result->heads_used[sequence * run->shape->num_heads + head])
        return 0;
    return run->input->head_mask ? (double)run->input->head_mask[head] : 1;
}

static float *contribution(const struct run *run, size_t head, size_t row)
{
    return run->contributions + (head * run->block_rows + row) * run->stride;
}

/* The contribution of one head to the block's rows, which may be of several sequences. Rows that are not scored have a
 * Z of 0. */
static void contribute(const struct run *run, size_t head)
{
    const size_t length = run->input->query_length;
    for (size_t done = 0, rows; done < run->n_rows; done += rows) {
        const size_t sequence = (run->first_row + done) / length, row = (run->first_row + done) % length;
        const float *z =
            run->result->heads + ((sequence * run->shape->num_heads + head) * length + row) * run->shape->d_v;
        const double gate = gate_of(run, sequence, head);
        rows = size_min(length - row, run->n_rows - done);
        if (gate == 0) { /* the head is not there, whatever its Z */
            memset(contribution(run, head, done), 0, rows * run->stride * sizeof(float));
            continue;
        }
        head_output(run->layer, head, (float)gate, z, rows, contribution(run, head, done), run->stride);
    }
}

/* Tiles: the heads. */
static void contribute_tile(const void *argument, size_t head, unsigned lane)
{
    (void)lane;
    const struct run *run = argument;
    contribute(run, head);
    if (run->squares)
        run->squares[head] += run->kernels->wide_squares(contribution(run, head, 0), run->n_rows * run->stride);
}

/* The power of two that brings contributions into the range in which float32 products and their sums are exact enough;
 * 1 for what people send. Blocks before this one count too: beside larger ones, this one may vanish. */
static double factor_into_range(const struct run *run)
{
    double largest = 0;
    for (size_t head = 0; head < run->shape->num_heads; head++)
        largest = fmax(largest, run->squares[head]);
    if (largest == 0 || !isfinite(largest) || (largest > 1e-12 && largest < 1e36))
        return 1;
    return ldexp(1, -ilogb(largest) / 2);
}

/* Tiles: the parts of the Gram matrix, each with rows of its own. Contributions may not be what they were afterwards.
 */
static void gram_tile(const void *argument, size_t part, unsigned lane)
{
    (void)lane;
    const struct run *run = argument;
    const size_t first = part * run->n_rows / run->gram->parts, end = (part + 1) * run->n_rows / run->gram->parts;
    const size_t floats = (end - first) * run->stride;
    const double factor = factor_into_range(run);
    if (floats == 0)
        return;
    for (size_t head = 0; factor != 1 && head < run->shape->num_heads; head++)
        for (size_t i = 0; i < floats; i++)
            contribution(run, head, first)[i] = (float)(contribution(run, head, first)[i] * factor);
    run->kernels->products(contribution(run, 0, first), run->block_rows * run->stride, run->shape->num_heads, floats,
                           1 / (factor * factor), gram_part(run->gram, part), NULL);
}

/* ||bias + the sum of all heads' contributions to a row||^2. */
static double sum_of_heads_squares(const struct run *run, size_t row, const float *bias)
{
    enum { CHUNK = 512 };
    double sums[CHUNK] __attribute__((aligned(64))), squares[2] = {0};
    for (size_t first = 0; first < run->stride; first += CHUNK) {
        const size_t count = size_min(CHUNK, run->stride - first);
        memset(sums, 0, sizeof sums);
        if (bias)
            run->kernels->add(sums, bias + first, count);
        for (size_t head = 0; head < run->shape->num_heads; head++)
            run->kernels->add(sums, contribution(run, head, row) + first, count);
        for (size_t k = 0; k < count; k += 2) {
            squares[0] += sums[k] * sums[k];
            squares[1] += sums[k + 1] * sums[k + 1];
        }
    }
    return squares[0] + squares[1];
}

static double output_squares(const struct run *run, size_t row)
{
    const size_t d_model = run->shape->d_model;
    const float *y = run->result->output + row * d_model;
    double squares = 0;
    for (size_t i = 0; i < d_model; i++)
        squares += (double)y[i] * (double)y[i];
    return squares;
}

/* Tiles: the block's rows. */
static void row_tile(const void *argument, size_t row, unsigned lane)
{
    (void)lane;
    const struct run *run = argument;
    const bool norm = run->method == IMPORTANCE_NORM;
    if (!run->scored[run->first_row + row]) {
        run->row_squares[row] = 0;
        if (norm)
            memset(run->row_parts + row * run->shape->num_heads, 0, run->shape->num_heads * sizeof *run->row_parts);
        return;
    }
    if (importance_needs_output(run->method)) {
        run->row_squares[row] = run->result->output ? output_squares(run, run->first_row + row) : 0;
        return;
    }
    double sum = 0;
    for (size_t head = 0; head < run->shape->num_heads && (norm || !run->shape->projected); head++) {
        const double part = run->kernels->wide_squares(contribution(run, head, row), run->stride);
        sum += part;
        if (norm)
            run->row_parts[row * run->shape->num_heads + head] = part;
    }
    /* Without projections no two heads share a column. */
    run->row_squares[row] =
        run->shape->projected ? sum_of_heads_squares(run, row, norm ? NULL : head_output_bias(run->layer)) : sum;
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
    for (run->first_row = 0; run->first_row < total; run->first_row += run->n_rows) {
        run->n_rows = size_min(run->block_rows, total - run->first_row);
        const double floats = (double)run->n_rows * (double)run->stride * (double)heads;
        if (!work_split(work, heads, 2 * floats * (double)run->shape->d_v, contribute_tile, run) ||
            !work_split(work, run->n_rows, 4 * floats, row_tile, run) ||
            (run->gram && !work_split(work, run->gram->parts, floats * (double)heads, gram_tile, run)))
            return false;
        for (size_t row = 0; row < run->n_rows; row++) {
            *output_total += run->row_squares[row];
            if (run->row_parts)
                *n_ratios += add_ratios(run, row, ratios);
        }
    }
    return true;
}

/* ||y||^2, by what all heads add, before their Z is replaced. */
static bool sum_output(const struct run *run, struct work *work, double *output_total)
{
    struct run whole = *run;
    size_t n_ratios;
    whole.method = IMPORTANCE_ZERO;
    whole.squares = NULL;
    whole.gram = NULL;
    return for_each_block(&whole, work, output_total, NULL, &n_ratios);
}

/* Sums of squares of float32 numbers are finite in float64, unless the numbers are not. */
static bool check_finite(const double *sums, size_t num_heads, double output, struct error *error)
{
    for (size_t head = 0; head < num_heads; head++)
        if (!isfinite(sums[head]))
            return error_set(error, ERROR_NOT_FINITE,
                             "what head %zu adds to the output is not finite: the computation is beyond float32; send "
                             "smaller inputs, or leave the head out with head_mask",
                             head);
    return isfinite(output) || error_set(error, ERROR_NOT_FINITE,
                                         "the output is not finite: the computation is beyond float32; send smaller "
                                         "inputs");
}

/* Z less what replaces it. */
static bool ablate(const struct run *run, size_t n_scored, double *sums, char *readers, struct work *work)
{
    const struct ablation ablation = {
        .input = run->input,
        .shape = run->shape,
        .scored = run->scored,
        .n_scored = n_scored,
        .heads = run->result->heads,
        .value = run->result->value,
        .sums = sums,
        .readers = readers,
        .reader_bytes = run->reader_bytes,
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

enum piece { SCORED, CONTRIBUTIONS, CROSS, SUMS, ROW_SQUARES, ROW_PARTS, READERS, PIECES };

static bool list_pieces(const struct attention_shape *shape, const struct forward_input *input,
                        enum importance_method method, bool plan, unsigned lanes, size_t bytes[PIECES])
{
    const bool norm = method == IMPORTANCE_NORM, sums = method == IMPORTANCE_MEAN || method == IMPORTANCE_UNIFORM;
    size_t floats_a_row, reader;
    if (!size_multiply(shape->num_heads, contribution_stride(shape), &floats_a_row) ||
        !allowed_reader_bytes(input, &reader))
        return false;
    const size_t heads = shape->num_heads, rows = rows_of_block(shape, input), real = sizeof(double);
    return tensor_bytes((size_t[]){input->batch, input->query_length}, 2, 1, &bytes[SCORED]) &&
           tensor_bytes((size_t[]){rows, floats_a_row}, 2, sizeof(float), &bytes[CONTRIBUTIONS]) &&
           tensor_bytes((size_t[]){heads, plan}, 2, real, &bytes[CROSS]) &&
           tensor_bytes((size_t[]){lanes, shape->d_v, sums}, 3, real, &bytes[SUMS]) &&
           tensor_bytes((size_t[]){rows}, 1, real, &bytes[ROW_SQUARES]) &&
           tensor_bytes((size_t[]){rows, heads, norm}, 3, real, &bytes[ROW_PARTS]) &&
           tensor_bytes((size_t[]){lanes, reader}, 2, 1, &bytes[READERS]);
}

static size_t parts_of_gram(const struct attention_shape *shape, const struct forward_input *input)
{
    return gram_parts(shape->num_heads, rows_of_block(shape, input));
}

bool importance_scratch_bytes(const struct attention_shape *shape, const struct forward_input *input,
                              enum importance_method method, bool plan, unsigned lanes, size_t *bytes)
{
    size_t pieces[PIECES], total = 0, gram = 0;
    if (!list_pieces(shape, input, method, plan, lanes, pieces) ||
        (plan && !gram_bytes(shape->num_heads, parts_of_gram(shape, input), &gram)))
        return false;
    for (size_t i = 0; i < PIECES; i++)
        if (!arena_need(&total, pieces[i]))
            return false;
    return size_add(total, gram, bytes);
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
        flop += ablation_uniform_flop(shape, input);
    return flop < DBL_MAX ? flop : DBL_MAX;
}

/* `squares` [heads] are the diagonal: they are those that the heads' importance is made of. */
static void make_plan(const struct gram *gram, const double *squares, double size, struct prune_step *plan,
                      double *cross)
{
    const size_t heads = gram->heads;
    double *total = gram_part(gram, 0);
    gram_total(gram, total);
    for (size_t head = 0; head < heads; head++) {
        total[head * heads + head] = squares[head];
        for (size_t other = 0; other < head; other++)
            total[other * heads + head] = total[head * heads + other];
    }
    prune_plan(total, heads, size, plan, cross);
}

bool importance_run(const struct attention_layer *layer, const struct forward_input *input,
                    enum importance_method method, const struct forward_result *result, const struct parallel *parallel,
                    struct arena *arena, struct importance *importance, struct error *error)
{
    const struct attention_shape *shape = attention_layer_shape(layer);
    const size_t heads = shape->num_heads;
    const bool plan = importance->plan != NULL;
    const bool norm = method == IMPORTANCE_NORM;
    struct work work = {.parallel = parallel};
    size_t bytes[PIECES], n_ratios = 0;
    void *pieces[PIECES];
    struct gram gram = {0};
    if (!list_pieces(shape, input, method, plan, parallel->lanes, bytes) || !take_pieces(arena, bytes, pieces) ||
        (plan && !gram_init(&gram, heads, parts_of_gram(shape, input), arena)))
        return error_out_of_memory(error);
    double output_total = 0, *measured = importance->importance; /* [heads] */
    for (size_t head = 0; head < heads; head++)
        measured[head] = 0;
    struct run run = {
        .layer = layer,
        .shape = shape,
        .input = input,
        .result = result,
        .kernels = pair_kernels_of(isa_chosen()),
        .method = method,
        .stride = contribution_stride(shape),
        .scored = pieces[SCORED],
        .contributions = pieces[CONTRIBUTIONS],
        .squares = norm ? NULL : measured,
        .gram = plan && shape->projected ? &gram : NULL, /* without projections all but its diagonal is 0 */
        .block_rows = rows_of_block(shape, input),
        .row_squares = pieces[ROW_SQUARES],
        .row_parts = pieces[ROW_PARTS],
    };
    allowed_reader_bytes(input, &run.reader_bytes);
    if (run.stride > head_output_columns(shape))
        memset(run.contributions, 0, bytes[CONTRIBUTIONS]);
    if (plan)
        gram_clear(&gram);

    size_t n_rows = 0;
    if (!scored_rows(input, pieces[READERS], run.reader_bytes, &work, pieces[SCORED], &n_rows) ||
        (importance_needs_output(method) && !result->output && !sum_output(&run, &work, &output_total)) ||
        !ablate(&run, n_rows, pieces[SUMS], pieces[READERS], &work) ||
        !for_each_block(&run, &work, &output_total, measured, &n_ratios))
        return error_cancelled(error);
    if (!check_finite(measured, heads, norm ? 0 : output_total, error))
        return false;

    const double size = sqrt(output_total);
    if (plan)
        make_plan(&gram, measured, size, importance->plan, pieces[CROSS]);
    for (size_t head = 0; head < heads; head++)
        if (norm)
            measured[head] = n_ratios > 0 ? measured[head] / (double)n_ratios : NAN;
        else
            measured[head] = size > 0 ? sqrt(measured[head]) / size : NAN;
    importance->n_rows = n_rows;
    importance->n_excluded = input->batch * input->query_length - n_rows;
    return true;
}
