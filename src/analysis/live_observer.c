/* From tiles of attention weights to live sums: see live_observer.h. A sequence whose rows may come in several units is
 * summed up under a lock, once a unit; all else is a lane's own until it turns to another input. A lane that is the
 * only one adds to the caller's sums at once. */
#include "analysis/live_observer.h"

#include "analysis/live_facts.h"
#include "analysis/live_kernels/live_kernels.h"
#include "analysis/scored_rows.h"
#include "base/isa.h"
#include "base/size.h"

#include <math.h>
#include <stdatomic.h>
#include <string.h>

/* Sequences of up to so many rows always come in one unit: no unit that is one of several has fewer (attend_divide.c).
 */
#define ROWS_OF_A_UNIT ((size_t)16)

struct observed_input {
    struct live_facts *facts; /* [parts] */
    double *sequences;        /* [B, parts, LIVE_STATISTIC_COUNT, columns]: sums over rows, where a sequence may come in
                                 several        units, or layers; NULL: none can */
    struct live_sums *sums;   /* the caller's: of the lanes that have turned to another input */
};

struct observer_lane {
    size_t input;           /* whose rows came last; SIZE_MAX: nobody's */
    struct live_sums *sums; /* its own, or the input's */
    struct live_sums own;
    double *y;             /* [parts, LIVE_STATISTIC_COUNT, columns]: sums over the rows of the unit */
    struct live_rows rows; /* of the unit, those of the head that came last */
};

struct live_observer {
    const struct model_shape *model; /* NULL: one bare layer */
    struct live_shape shape;         /* of all sums; they have that many parts, whose y has so many doubles: */
    size_t parts, part_doubles, count;
    unsigned n_lanes;
    const struct forward_input *const *asked; /* [count] */
    const struct live_kernels *kernels;
    struct observed_input *inputs; /* [count] */
    struct observer_lane *lanes;   /* [n_lanes] */
    atomic_flag lock;              /* of the inputs' sums */
};

/* The input as the layers of a part see it. */
static struct forward_input seen_by(const struct model_shape *model, size_t part, const struct forward_input *asked,
                                    struct attention_rules *rules)
{
    return model ? model_layer_input(model, part, asked, rules) : *asked;
}

/* The first part in which rows see the same keys as in this one. */
static size_t first_alike(const struct model_shape *model, size_t part, const struct forward_input *asked)
{
    struct attention_rules rules, others;
    const struct forward_input seen = seen_by(model, part, asked, &rules);
    for (size_t n = 0; n < part; n++) {
        const struct forward_input other = seen_by(model, n, asked, &others);
        if (same_allowed_keys(&seen, &other))
            return n;
    }
    return part;
}

struct live_shape live_observer_shape(const struct model_shape *model, size_t num_heads,
                                      const struct forward_input *own)
{
    struct live_shape shape = {.num_layers = model ? model->num_layers : 1, .num_heads = num_heads};
    for (size_t n = 1; n < shape.num_layers && !shape.by_layer; n++)
        shape.by_layer = first_alike(model, n, own) > 0;
    return shape;
}

static size_t parts_of(struct live_shape shape)
{
    return shape.by_layer ? shape.num_layers : 1;
}

static bool comes_in_units(const struct forward_input *input, size_t num_layers)
{
    return num_layers > 1 || input->query_length > ROWS_OF_A_UNIT;
}

/* Sums over rows of a part, [LIVE_STATISTIC_COUNT, columns], are as large as the offsets of live_sums; *all: of all
 * parts. */
static bool row_sums_doubles(struct live_shape shape, size_t *part, size_t *all)
{
    size_t heads;
    return size_multiply(shape.by_layer ? 1 : shape.num_layers, shape.num_heads, &heads) &&
           size_add(heads, LIVE_MEANS_PADDING - 1, &heads) &&
           size_multiply(heads / LIVE_MEANS_PADDING * LIVE_MEANS_PADDING, LIVE_STATISTIC_COUNT, part) &&
           size_multiply(*part, parts_of(shape), all);
}

static bool sequences_bytes(const struct forward_input *input, struct live_shape shape, size_t *bytes)
{
    size_t part, all;
    *bytes = 0;
    return !comes_in_units(input, shape.num_layers) ||
           (row_sums_doubles(shape, &part, &all) &&
            tensor_bytes((size_t[]){input->batch, all}, 2, sizeof(double), bytes));
}

static bool add_input_bytes(const struct model_shape *model, struct live_shape shape, const struct forward_input *input,
                            size_t *total)
{
    size_t facts, sequences;
    for (size_t part = 0; part < parts_of(shape); part++) {
        struct attention_rules rules;
        const struct forward_input seen = seen_by(model, part, input, &rules);
        if (first_alike(model, part, input) == part &&
            (!live_facts_bytes(&seen, &facts) || !size_add(*total, facts, total)))
            return false;
    }
    return sequences_bytes(input, shape, &sequences) && arena_need(total, sequences) &&
           arena_need(total, parts_of(shape) * sizeof(struct live_facts));
}

bool live_observer_bytes(const struct model_shape *model, struct live_shape shape,
                         const struct forward_input *const *inputs, size_t count, unsigned lanes, size_t *bytes)
{
    size_t total = 0, sums, part, rows, lane = 0, all;
    if (!live_sums_bytes(shape, &sums) || !row_sums_doubles(shape, &part, &rows) ||
        !size_multiply(rows, sizeof(double), &rows) || !arena_need(&lane, lanes > 1 ? sums : 0) ||
        !arena_need(&lane, rows) || !size_multiply(lane, lanes, &all))
        return false;
    for (size_t i = 0; i < count; i++)
        if (inputs[i]->observed && !add_input_bytes(model, shape, inputs[i], &total))
            return false;
    if (!size_add(total, all, &total) || !arena_need(&total, sizeof(struct live_observer)) ||
        !arena_need(&total, count * sizeof(struct observed_input)) ||
        !arena_need(&total, lanes * sizeof(struct observer_lane)))
        return false;
    *bytes = total;
    return true;
}

static bool take_input(const struct live_observer *observer, const struct forward_input *asked, struct arena *arena,
                       struct live_sums *sums, struct observed_input *input)
{
    size_t bytes;
    *input = (struct observed_input){.facts = arena_take(arena, observer->parts * sizeof *input->facts), .sums = sums};
    if (!input->facts)
        return false;
    for (size_t part = 0; part < observer->parts; part++) {
        const size_t alike = first_alike(observer->model, part, asked);
        struct attention_rules rules;
        const struct forward_input seen = seen_by(observer->model, part, asked, &rules);
        if (alike < part)
            input->facts[part] = input->facts[alike];
        else if (!live_facts_make(&seen, arena, &input->facts[part]))
            return false;
    }
    if (!comes_in_units(asked, observer->shape.num_layers))
        return true;
    sequences_bytes(asked, observer->shape, &bytes);
    input->sequences = arena_take(arena, bytes);
    if (input->sequences)
        memset(input->sequences, 0, bytes);
    return input->sequences;
}

static bool take_lane(const struct live_observer *observer, struct arena *arena, struct observer_lane *lane)
{
    size_t sums;
    if (!live_sums_bytes(observer->shape, &sums))
        return false;
    *lane = (struct observer_lane){.input = SIZE_MAX,
                                   .y = arena_take(arena, observer->parts * observer->part_doubles * sizeof *lane->y)};
    if (!lane->y || observer->n_lanes == 1)
        return lane->y;
    void *memory = arena_take(arena, sums);
    if (memory)
        live_sums_lay(&lane->own, observer->shape, memory);
    return memory;
}

struct live_observer *live_observer_create(const struct model_shape *model, struct live_shape shape,
                                           const struct forward_input *const *inputs, size_t count, unsigned lanes,
                                           struct live_sums *const *sums, struct arena *arena, struct error *error)
{
    struct live_observer *observer = arena_take(arena, sizeof *observer);
    struct observed_input *observed = arena_take(arena, count * sizeof *observed);
    struct observer_lane *own = arena_take(arena, lanes * sizeof *own);
    size_t part_doubles, all;
    bool taken = observer && observed && own && row_sums_doubles(shape, &part_doubles, &all);
    if (taken)
        *observer = (struct live_observer){.model = model,
                                           .shape = shape,
                                           .parts = parts_of(shape),
                                           .part_doubles = part_doubles,
                                           .count = count,
                                           .n_lanes = lanes,
                                           .asked = inputs,
                                           .kernels = live_kernels_of(isa_chosen()),
                                           .inputs = observed,
                                           .lanes = own,
                                           .lock = ATOMIC_FLAG_INIT};
    for (size_t i = 0; i < count && taken; i++)
        taken = !inputs[i]->observed || take_input(observer, inputs[i], arena, sums[i], &observed[i]);
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

/* What the lane has of its own goes to its input. */
static void turn_away(struct live_observer *observer, struct observer_lane *lane)
{
    if (lane->input != SIZE_MAX && lane->sums == &lane->own) {
        lock(observer);
        live_sums_merge(observer->inputs[lane->input].sums, &lane->own);
        unlock(observer);
    }
}

static void turn_to(struct live_observer *observer, struct observer_lane *lane, size_t input)
{
    if (lane->input == input)
        return;
    turn_away(observer, lane);
    lane->sums = observer->n_lanes == 1 ? observer->inputs[input].sums : &lane->own;
    if (observer->n_lanes > 1 || lane->sums->counts.sequences == 0)
        live_sums_begin(lane->sums);
    if (lane->input == SIZE_MAX) /* columns without a head stay 0 */
        memset(lane->y, 0, observer->parts * observer->part_doubles * sizeof *lane->y);
    lane->input = input;
}

static size_t index_of(const struct live_observer *observer, const struct forward_input *input)
{
    size_t i = 0;
    while (observer->asked[i] != input)
        i++;
    return i;
}

static void set_sums(double *y /* [LIVE_STATISTIC_COUNT, columns], from the head's column on */, size_t columns,
                     const struct live_measures *m)
{
    _Static_assert(LIVE_STATISTIC_COUNT == 11, "each has a line here");
    y[LIVE_STATISTIC_ENTROPY * columns] = m->entropy;
    y[LIVE_STATISTIC_NORMALIZED_ENTROPY * columns] = m->normalized_entropy;
    y[LIVE_STATISTIC_EFFECTIVE_KEYS * columns] = m->effective_keys;
    y[LIVE_STATISTIC_DISTANCE * columns] = m->distance;
    y[LIVE_STATISTIC_SIGNED_DISTANCE * columns] = m->signed_distance;
    y[LIVE_STATISTIC_CONFIDENCE * columns] = m->confidence;
    y[LIVE_STATISTIC_HOYER * columns] = m->hoyer;
    y[LIVE_STATISTIC_PREVIOUS_MASS * columns] = m->masses[0];
    y[LIVE_STATISTIC_SELF_MASS * columns] = m->masses[1];
    y[LIVE_STATISTIC_NEXT_MASS * columns] = m->masses[2];
    y[LIVE_STATISTIC_FIRST_MASS * columns] = m->masses[3];
}

/* Where in y the sums of a layer's first head are. */
static size_t place_in_y(const struct live_observer *observer, const struct live_sums *sums, size_t layer)
{
    return live_sums_part(sums, layer) * observer->part_doubles + live_sums_column(sums, layer);
}

/* The unit is over: all heads have come. */
static void add_unit(struct live_observer *observer, struct observer_lane *lane, const struct observed_rows *rows)
{
    struct observed_input *input = &observer->inputs[lane->input];
    const size_t heads = rows->num_heads, columns = lane->sums->columns;
    const size_t first = place_in_y(observer, lane->sums, rows->layer);
    const float *weights = rows->weights - (heads - 1) * rows->head_stride;
    observer->kernels->add_products(weights, rows->head_stride, heads, rows->n_rows, rows->n_computed, rows->stride,
                                    lane->sums->products + rows->layer * live_sums_pairs(heads));
    lane->sums->counts.sequences = 1; /* it is not empty; live_observer_finish counts */
    if (!input->sequences) {          /* one layer, one part */
        const struct live_sequence *sequence = &input->facts->sequences[rows->sequence];
        live_sums_add_sequence(lane->sums, 0, lane->y, sequence->baselines, sequence->rows);
        return;
    }
    double *y = input->sequences + rows->sequence * observer->parts * observer->part_doubles + first;
    const double *added = lane->y + first;
    lock(observer);
    for (size_t i = 0; i < LIVE_STATISTIC_COUNT; i++)
        for (size_t head = 0; head < heads; head++)
            y[i * columns + head] += added[i * columns + head];
    unlock(observer);
}

/* What all heads of a unit have in common. */
static void begin_unit(struct live_observer *observer, struct observer_lane *lane, const struct observed_rows *rows)
{
    turn_to(observer, lane, index_of(observer, rows->input));
    const struct live_facts *facts = observer->inputs[lane->input].facts + live_sums_part(lane->sums, rows->layer);
    const size_t at = rows->sequence * facts->stride + rows->first_row;
    struct live_rows *seen = &lane->rows;
    seen->n_rows = rows->n_rows;
    seen->n_keys = rows->n_computed;
    seen->stride = rows->stride;
    seen->key_limit = rows->key_limit;
    seen->key_step = rows->key_step;
    seen->allowed_stride = rows->n_keys;
    seen->allowed = rows->allowed;
    seen->place = (ptrdiff_t)rows->first_row;
    seen->even = facts->even + at;
    seen->inverse_logarithm = facts->inverse_logarithm + at;
    seen->root = facts->root + at;
    seen->inverse_root = facts->inverse_root + at;
    seen->keys = facts->keys + at;
}

static void see_rows(void *context, const struct observed_rows *rows, unsigned lane_index)
{
    struct live_observer *observer = context;
    struct observer_lane *lane = &observer->lanes[lane_index];
    struct live_measures measures;
    if (rows->head == 0)
        begin_unit(observer, lane, rows);
    lane->rows.weights = rows->weights;
    lane->rows.inverse = rows->inverse;
    lane->rows.logs = rows->logs;
    observer->kernels->see_rows(&lane->rows, &measures);
    set_sums(lane->y + place_in_y(observer, lane->sums, rows->layer) + rows->head, lane->sums->columns, &measures);
    if (rows->head + 1 == rows->num_heads)
        add_unit(observer, lane, rows);
}

struct forward_observer live_observer_interface(struct live_observer *observer)
{
    return (struct forward_observer){.rows = see_rows, .context = observer};
}

/* ---- the end */

/* Side by side, so that none waits for the one before. */
static bool is_finite(const struct live_sums *sums)
{
    double zeros[LIVE_MEANS_PADDING] = {0}, zero = 0; /* stay, unless something is infinite or NaN */
    for (size_t i = 0; i < sums->num_parts * LIVE_STATISTIC_COUNT; i++) {
        const double *offset = live_sums_values(sums, 0, i), *z = offset + sums->columns;
        for (size_t column = 0; column < sums->columns; column += LIVE_MEANS_PADDING)
            for (size_t n = 0; n < LIVE_MEANS_PADDING; n++)
                zeros[n] += 0 * (offset[column + n] + z[column + n]);
    }
    for (size_t layer = 0; layer < sums->num_layers; layer++)
        for (size_t head = 0; head < sums->num_heads; head++)
            zeros[head % LIVE_MEANS_PADDING] += 0 * live_sums_product(sums, layer, head, head);
    for (size_t n = 0; n < LIVE_MEANS_PADDING; n++)
        zero += zeros[n];
    return zero == 0;
}

/* A part's share of the sums. */
static void finish_part(const struct live_observer *observer, const struct forward_input *asked, size_t part,
                        struct observed_input *input)
{
    const struct live_facts *facts = &input->facts[part];
    struct live_sums *sums = input->sums;
    struct attention_rules rules;
    const struct forward_input seen = seen_by(observer->model, part, asked, &rules);
    for (size_t b = 0; b < asked->batch && input->sequences; b++)
        live_sums_add_sequence(sums, part, input->sequences + (b * observer->parts + part) * observer->part_doubles,
                               facts->sequences[b].baselines, facts->sequences[b].rows);
    const struct live_counts counts = live_facts_count(facts, &seen, &sums->keys[part]);
    if (part == 0)
        sums->counts = counts;
    sums->counts.sequences = fmax(sums->counts.sequences, counts.sequences);
    sums->counts.rows = fmax(sums->counts.rows, counts.rows);
    sums->counts.excluded = fmin(sums->counts.excluded, counts.excluded);
}

bool live_observer_finish(struct live_observer *observer, size_t index)
{
    struct observed_input *input = &observer->inputs[index];
    for (unsigned i = 0; i < observer->n_lanes; i++) {
        turn_away(observer, &observer->lanes[i]);
        observer->lanes[i].input = SIZE_MAX;
    }
    if (input->sums->counts.sequences == 0) /* there is none */
        live_sums_clear(input->sums);
    for (size_t part = 0; part < observer->parts; part++)
        finish_part(observer, observer->asked[index], part, input);
    return is_finite(input->sums);
}
