/* From tiles of attention weights to live sums: see live_observer.h. A sequence whose rows come in several units is
 * summed up under a lock, once a unit; all else is a lane's own until it turns to another input. */
#include "analysis/live_observer.h"

#include "analysis/live_kernels/live_kernels.h"
#include "base/isa.h"
#include "base/size.h"

#include <math.h>
#include <stdatomic.h>
#include <string.h>

/* Sequences of up to so many rows always come in one unit: no unit that is one of several has fewer (attend_divide.c).
 */
#define ROWS_OF_A_UNIT ((size_t)16)

struct observed_input {
    struct head_maps maps; /* what is allowed: the weights come tile by tile */
    struct row_facts facts;
    struct row_sums *sequences; /* [B, num_heads]: of those that come in several units; NULL: none can */
    struct live_sums sums;      /* of the lanes that have turned to another input */
};

struct observer_lane {
    size_t input; /* whose rows came last; SIZE_MAX: nobody's */
    struct live_sums sums;
    struct row_sums *rows; /* [num_heads]: of the unit */
};

struct live_observer {
    size_t num_heads, count;
    unsigned n_lanes;
    const struct forward_input *const *asked; /* [count] */
    const struct live_kernels *kernels;
    struct observed_input *inputs; /* [count] */
    struct observer_lane *lanes;   /* [n_lanes] */
    atomic_flag lock;              /* of the inputs' sums */
};

static struct head_maps maps_of(const struct forward_input *input, size_t num_heads)
{
    return (struct head_maps){.rule = input, .num_heads = num_heads};
}

static bool comes_in_units(const struct forward_input *input)
{
    return input->query_length > ROWS_OF_A_UNIT;
}

static bool sequences_bytes(const struct forward_input *input, size_t num_heads, size_t *bytes)
{
    *bytes = 0;
    return !comes_in_units(input) ||
           tensor_bytes((size_t[]){input->batch, num_heads}, 2, sizeof(struct row_sums), bytes);
}

static bool add_input_bytes(const struct forward_input *input, size_t num_heads, size_t sums, size_t *total)
{
    const struct head_maps maps = maps_of(input, num_heads);
    size_t maps_bytes, facts, sequences;
    return head_maps_bytes(&maps, &maps_bytes) && row_facts_bytes(&maps, &facts) &&
           sequences_bytes(input, num_heads, &sequences) && size_add(*total, maps_bytes, total) &&
           size_add(*total, facts, total) && arena_need(total, sequences) && arena_need(total, sums);
}

bool live_observer_bytes(size_t num_heads, const struct forward_input *const *inputs, size_t count, unsigned lanes,
                         size_t *bytes)
{
    size_t total = 0, sums, rows, lane = 0, all;
    if (!live_sums_bytes(1, num_heads, &sums) ||
        !tensor_bytes((size_t[]){num_heads}, 1, sizeof(struct row_sums), &rows) || !arena_need(&lane, sums) ||
        !arena_need(&lane, rows) || !size_multiply(lane, lanes, &all))
        return false;
    for (size_t i = 0; i < count; i++)
        if (inputs[i]->observed && !add_input_bytes(inputs[i], num_heads, sums, &total))
            return false;
    if (!size_add(total, all, &total) || !arena_need(&total, sizeof(struct live_observer)) ||
        !arena_need(&total, count * sizeof(struct observed_input)) ||
        !arena_need(&total, lanes * sizeof(struct observer_lane)))
        return false;
    *bytes = total;
    return true;
}

static bool take_sums(size_t num_heads, struct arena *arena, struct live_sums *sums)
{
    size_t bytes;
    live_sums_bytes(1, num_heads, &bytes); /* did not overflow when it was counted */
    void *memory = arena_take(arena, bytes);
    if (memory)
        live_sums_lay(sums, 1, num_heads, memory);
    return memory;
}

static bool take_input(const struct live_observer *observer, const struct forward_input *asked, struct arena *arena,
                       struct observed_input *input)
{
    size_t bytes;
    struct error ignored;
    *input = (struct observed_input){.maps = maps_of(asked, observer->num_heads)};
    if (!head_maps_prepare(&input->maps, arena, &ignored) || !row_facts_make(&input->maps, arena, &input->facts) ||
        !take_sums(observer->num_heads, arena, &input->sums))
        return false;
    if (!comes_in_units(asked))
        return true;
    sequences_bytes(asked, observer->num_heads, &bytes);
    input->sequences = arena_take(arena, bytes);
    if (input->sequences)
        memset(input->sequences, 0, bytes);
    return input->sequences;
}

static bool take_lane(const struct live_observer *observer, struct arena *arena, struct observer_lane *lane)
{
    lane->input = SIZE_MAX;
    lane->rows = arena_take(arena, observer->num_heads * sizeof *lane->rows);
    return take_sums(observer->num_heads, arena, &lane->sums) && lane->rows;
}

struct live_observer *live_observer_create(size_t num_heads, const struct forward_input *const *inputs, size_t count,
                                           unsigned lanes, struct arena *arena, struct error *error)
{
    struct live_observer *observer = arena_take(arena, sizeof *observer);
    struct observed_input *observed = arena_take(arena, count * sizeof *observed);
    struct observer_lane *own = arena_take(arena, lanes * sizeof *own);
    bool taken = observer && observed && own;
    if (taken)
        *observer = (struct live_observer){.num_heads = num_heads,
                                           .count = count,
                                           .n_lanes = lanes,
                                           .asked = inputs,
                                           .kernels = live_kernels_of(isa_chosen()),
                                           .inputs = observed,
                                           .lanes = own,
                                           .lock = ATOMIC_FLAG_INIT};
    for (size_t i = 0; i < count && taken; i++)
        taken = !inputs[i]->observed || take_input(observer, inputs[i], arena, &observed[i]);
    for (unsigned i = 0; i < lanes && taken; i++)
        taken = take_lane(observer, arena, &own[i]);
    if (taken)
        return observer;
    error_out_of_memory(error);
    return NULL;
}

/* ---- on the lanes */

static void lock(struct live_observer *observer)
{
    while (atomic_flag_test_and_set_explicit(&observer->lock, memory_order_acquire))
        ;
}

static void unlock(struct live_observer *observer)
{
    atomic_flag_clear_explicit(&observer->lock, memory_order_release);
}

static void turn_to(struct live_observer *observer, struct observer_lane *lane, size_t input)
{
    if (lane->input == input)
        return;
    if (lane->input != SIZE_MAX) {
        lock(observer);
        live_sums_merge(&observer->inputs[lane->input].sums, &lane->sums);
        unlock(observer);
    }
    if (input != SIZE_MAX)
        live_sums_clear(&lane->sums);
    lane->input = input;
}

static size_t index_of(const struct live_observer *observer, const struct forward_input *input)
{
    size_t i = 0;
    while (observer->asked[i] != input)
        i++;
    return i;
}

static void add_mass(struct row_sums *sums, enum row_set rows, enum head_statistic mass, enum head_statistic uniform,
                     float weight, double even)
{
    sums->rows[rows] += 1;
    sums->sum[mass] += (double)weight;
    sums->sum[uniform] += even;
}

/* The values of one row of n allowed keys; `at`: the row in the input's facts. */
static void add_row(const struct observed_input *input, size_t at, size_t n, const struct live_measures *m,
                    struct row_sums *sums)
{
    const uint8_t keys = input->facts.keys[at];
    const double even = 1 / (double)n;
    sums->rows[ROWS_SCORED] += 1;
    sums->sum[STATISTIC_ENTROPY] += m->entropy;
    sums->sum[STATISTIC_EFFECTIVE_KEYS] += exp(m->entropy);
    sums->sum[STATISTIC_CONFIDENCE] += (double)m->largest;
    sums->sum[STATISTIC_DISTANCE] += m->distance;
    sums->sum[STATISTIC_SIGNED_DISTANCE] += m->signed_distance;
    sums->sum[STATISTIC_UNIFORM_DISTANCE] += input->facts.uniform_distance[at];
    if (n > 1) {
        const double root = sqrt((double)n);
        sums->rows[ROWS_CHOOSING] += 1;
        sums->sum[STATISTIC_NORMALIZED_ENTROPY] += m->entropy / input->facts.logarithms[n];
        sums->sum[STATISTIC_HOYER] += (root - 1 / sqrt(m->squares)) / (root - 1);
    }
    if (keys & ROW_HAS_PREVIOUS)
        add_mass(sums, ROWS_PREVIOUS, STATISTIC_PREVIOUS_MASS, STATISTIC_UNIFORM_PREVIOUS_MASS, m->previous, even);
    if (keys & ROW_HAS_NEXT)
        add_mass(sums, ROWS_NEXT, STATISTIC_NEXT_MASS, STATISTIC_UNIFORM_NEXT_MASS, m->next, even);
    if (keys & ROW_HAS_SELF)
        add_mass(sums, ROWS_SELF, STATISTIC_SELF_MASS, STATISTIC_UNIFORM_SELF_MASS, m->itself, even);
    if (keys & ROW_HAS_FIRST)
        add_mass(sums, ROWS_FIRST, STATISTIC_FIRST_MASS, STATISTIC_UNIFORM_FIRST_MASS, m->first, even);
}

static void see_row(const struct live_observer *observer, struct observer_lane *lane, const struct observed_rows *rows,
                    size_t i)
{
    const struct observed_input *input = &observer->inputs[lane->input];
    const ptrdiff_t limit = rows->key_limit + (ptrdiff_t)(i * rows->key_step);
    const size_t row = rows->first_row + i, n = input->maps.sequences[rows->sequence].n_allowed[row];
    float *weights = rows->weights + i * rows->stride;
    struct live_measures measures;
    if (n == 0) {
        memset(weights, 0, rows->stride * sizeof *weights);
        return;
    }
    const struct live_row seen = {
        .weights = weights,
        .n_keys = size_min((size_t)limit, rows->n_computed), /* n > 0 keys are below it */
        .width = rows->stride,
        .inverse = rows->inverse[i],
        .even = 1.0f / (float)n,
        .allowed = rows->allowed ? rows->allowed + i * rows->n_keys : NULL,
        .place = (ptrdiff_t)row,
    };
    observer->kernels->see_row(&seen, &measures);
    add_row(input, rows->sequence * rows->input->query_length + row, n, &measures, &lane->rows[rows->head]);
}

/* A whole sequence of one head. */
static void add_sequence(struct live_sums *sums, size_t head, const struct row_sums *rows)
{
    for (size_t i = 0; i < LIVE_STATISTIC_COUNT; i++) {
        const enum head_statistic statistic = live_statistics[i];
        ratio_sums_add(&sums->statistics[head * LIVE_STATISTIC_COUNT + i], rows->sum[statistic],
                       rows->rows[head_statistic_kinds[statistic].rows]);
    }
    for (size_t i = 0; i < LIVE_BASELINE_COUNT && head == 0; i++) {
        const enum head_statistic statistic = live_baselines[i];
        ratio_sums_add(&sums->baselines[i], rows->sum[statistic], rows->rows[head_statistic_kinds[statistic].rows]);
    }
}

static void add_row_sums(struct row_sums *sums, const struct row_sums *other)
{
    for (size_t i = 0; i < HEAD_STATISTIC_COUNT; i++)
        sums->sum[i] += other->sum[i];
    for (size_t i = 0; i < ROW_SET_COUNT; i++)
        sums->rows[i] += other->rows[i];
}

/* The unit is over: all heads have come. */
static void add_unit(struct live_observer *observer, struct observer_lane *lane, const struct observed_rows *rows)
{
    const size_t heads = rows->num_heads;
    const float *weights = rows->weights - (heads - 1) * rows->head_stride;
    observer->kernels->add_products(weights, rows->head_stride, heads, rows->n_rows * rows->stride,
                                    lane->sums.products);
    lane->sums.counts.sequences = 1; /* it is not empty; live_observer_finish counts */
    if (rows->n_rows == rows->n_queries) {
        for (size_t head = 0; head < heads; head++)
            add_sequence(&lane->sums, head, &lane->rows[head]);
        return;
    }
    struct row_sums *sequence = observer->inputs[lane->input].sequences + rows->sequence * heads;
    lock(observer);
    for (size_t head = 0; head < heads; head++)
        add_row_sums(&sequence[head], &lane->rows[head]);
    unlock(observer);
}

static void see_rows(void *context, const struct observed_rows *rows, unsigned lane_index)
{
    struct live_observer *observer = context;
    struct observer_lane *lane = &observer->lanes[lane_index];
    if (rows->head == 0)
        turn_to(observer, lane, index_of(observer, rows->input));
    lane->rows[rows->head] = (struct row_sums){0};
    for (size_t i = 0; i < rows->n_rows; i++)
        see_row(observer, lane, rows, i);
    if (rows->head + 1 == rows->num_heads)
        add_unit(observer, lane, rows);
}

struct forward_observer live_observer_interface(struct live_observer *observer)
{
    return (struct forward_observer){see_rows, observer};
}

/* ---- the end */

static bool is_finite(const struct live_sums *sums)
{
    for (size_t head = 0; head < sums->num_heads; head++) {
        if (!isfinite(live_sums_product(sums, 0, head, head)))
            return false;
        for (size_t i = 0; i < LIVE_STATISTIC_COUNT; i++)
            if (!isfinite(sums->statistics[head * LIVE_STATISTIC_COUNT + i].z))
                return false;
    }
    return true;
}

static struct live_counts count(const struct head_maps *maps)
{
    struct live_counts counts = {.rows = (double)maps->n_rows, .excluded = (double)maps->n_excluded};
    for (size_t b = 0; b < maps->rule->batch; b++) {
        const struct head_sequence *sequence = &maps->sequences[b];
        size_t scored = 0;
        for (size_t row = 0; row < sequence->n_rows; row++) {
            const uint32_t n = sequence->n_allowed[row];
            scored += n > 0;
            counts.allowed += (double)n;
            counts.even += n > 0 ? 1 / (double)n : 0;
        }
        counts.sequences += scored > 0;
    }
    return counts;
}

bool live_observer_finish(struct live_observer *observer, size_t index, struct live_sums *sums)
{
    struct observed_input *input = &observer->inputs[index];
    for (unsigned i = 0; i < observer->n_lanes; i++)
        turn_to(observer, &observer->lanes[i], SIZE_MAX);
    live_sums_merge(sums, &input->sums);
    if (sums->counts.sequences == 0) /* all of it came in several units, or there is none */
        live_sums_clear(sums);
    for (size_t b = 0; b < input->maps.rule->batch && input->sequences; b++)
        for (size_t head = 0; head < observer->num_heads; head++)
            add_sequence(sums, head, &input->sequences[b * observer->num_heads + head]);
    sums->counts = count(&input->maps);
    return is_finite(sums);
}
