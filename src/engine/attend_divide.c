/* How the attention of a batch is cut into units of work: see attend.c. Entered by the thread that lays out the batch.
 */

#include "base/size.h"
#include "engine/attend_plan.h"

#include <math.h>

/* No fewer rows to a unit than this where a head is split: each lane that works on a head packs its keys and values for
 * itself, which takes as long as some 20 rows. */
#define UNIT_ROWS_LEAST 48
#define UNITS_PER_LANE  16

/* The tiles of all heads of an observed unit stay in L2, or not far from it. Where keys are many, rows are few, and
 * each key and value is read for at least so many; where heads are many too, for fewer, lest the tiles take much
 * memory. */
#define OBSERVED_FLOATS       ((size_t)256 * 1024)
#define OBSERVED_FLOATS_MOST  ((size_t)2 * 1024 * 1024)
#define OBSERVED_ROWS_STEP    ((size_t)12)
#define OBSERVED_ROWS_LARGEST ((size_t)144)
#define OBSERVED_ROWS_LEAST   ((size_t)48)
#define OBSERVED_ROWS_FEWEST  ((size_t)24)

static double row_flop(const struct attention_shape *shape, const struct sequence *s)
{
    const struct pattern_rule *pattern = sparse_pattern(s->input->rules);
    const double columns =
        pattern && s->n_queries > 0 ? plan_columns(pattern, s->n_queries, s->n_keys) : (double)s->n_keys;
    return 2.0 * columns * (double)(shape->d_k + shape->d_v);
}

double attend_flop(const struct batch *batch)
{
    double flop = 0;
    for (size_t i = 0; i < batch->extent.n_sequences; i++)
        flop += row_flop(&batch->layer->shape, &batch->sequences[i]) * (double)batch->sequences[i].n_queries;
    return flop * (double)batch->layer->shape.num_heads;
}

size_t attend_observed_rows(const struct attention_shape *shape, size_t n_queries, size_t n_keys, unsigned lanes,
                            bool *shared)
{
    const size_t fit = OBSERVED_FLOATS / shape->num_heads / n_keys / OBSERVED_ROWS_STEP * OBSERVED_ROWS_STEP;
    const bool many = OBSERVED_FLOATS_MOST / OBSERVED_ROWS_LEAST / shape->num_heads < n_keys;
    size_t rows = size_max(fit, many ? OBSERVED_ROWS_FEWEST : OBSERVED_ROWS_LEAST);
    rows = size_min(rows, OBSERVED_ROWS_LARGEST);
    if (lanes > 1) {
        const size_t steps = (n_queries + lanes * OBSERVED_ROWS_STEP - 1) / (lanes * OBSERVED_ROWS_STEP);
        rows = size_min(rows, size_max(steps * OBSERVED_ROWS_STEP, UNIT_ROWS_LEAST));
    }
    *shared = n_queries > rows;
    if (!*shared)
        return n_queries;
    const size_t units = (n_queries + rows - 1) / rows, even = (n_queries + units - 1) / units;
    return (even + OBSERVED_ROWS_STEP - 1) / OBSERVED_ROWS_STEP * OBSERVED_ROWS_STEP;
}

bool attend_panel_floats(const struct attention_shape *shape, size_t n_keys, size_t *floats)
{
    size_t keys, values;
    return size_multiply(shape->d_k, kernel_padded(n_keys), &keys) &&
           size_multiply(kernel_padded(shape->d_v), n_keys, &values) && size_add(keys, values, &keys) &&
           size_multiply(keys, shape->num_kv_heads, floats);
}

size_t attend_units(const struct batch *batch, const struct sequence *s)
{
    return s->observed || s->sparse ? s->units_per_head : batch->layer->shape.num_heads * s->units_per_head;
}

/* Units of all heads, as large as those of one head without a pattern. They begin where tiles do, which go by position,
 * unless the sequence has holes: there a tile may be computed in two parts. */
static void divide_sparse(const struct attention_shape *shape, struct sequence *s, double most)
{
    const size_t tile = plan_tile_rows(&s->input->rules->pattern);
    /* Runs are read twice: for the tile's keys, and for what each row sees of them. */
    const double read =
        2 * plan_flop(&s->input->rules->pattern, s->n_queries, s->input->key_length) / (double)s->n_queries;
    const double rows = most / (row_flop(shape, s) * (double)shape->num_heads + read) / (double)tile;
    const size_t tiles = rows < (double)(s->n_queries / tile + 1) ? (size_t)fmax(rows, 1) : s->n_queries / tile + 1;
    const ptrdiff_t first = (ptrdiff_t)sequence_position(s, 0) + forward_position_shift(s->input);
    s->unit_rows = tiles * tile;
    s->unit_offset = first > 0 ? (size_t)first % tile : 0;
}

static bool is_plain(const struct forward_input *in)
{
    return !in->bias && !in->rules &&
           (in->mask_kind == FORWARD_MASK_NONE || (in->mask_kind == FORWARD_MASK_KEYS && in->self_attention));
}

void attend_divide(struct batch *batch, unsigned lanes)
{
    const struct attention_shape *shape = &batch->layer->shape;
    const double share = attend_flop(batch) / ((double)lanes * UNITS_PER_LANE);
    const double most = lanes > 1 ? fmin(share, TILE_FLOP_MOST) : TILE_FLOP_MOST;
    float *panels = batch->panels;
    size_t unit = 0;
    for (size_t i = 0; i < batch->extent.n_sequences; i++) {
        struct sequence *s = &batch->sequences[i];
        const double rows = fmax(most / row_flop(shape, s), UNIT_ROWS_LEAST);
        s->first_unit = unit;
        s->unit_rows = rows < (double)s->n_queries ? (size_t)rows : size_max(s->n_queries, 1);
        s->tile_rows = s->n_keys > 0 ? batch_tile_rows(s->n_keys) : 1;
        s->observed = s->input->observed && s->n_queries > 0 && !batch->dropout && !batch->low_rank;
        s->plain = is_plain(s->input);
        s->sparse = sparse_pattern(s->input->rules) && s->n_queries > 0;
        bool shared = s->sparse;
        if (s->sparse)
            divide_sparse(shape, s, most);
        if (s->observed) {
            s->unit_rows = s->tile_rows = attend_observed_rows(shape, s->n_queries, s->n_keys, lanes, &shared);
            s->unit_offset = 0;
            shared |= s->sparse;
        }
        size_t floats;
        if (shared && attend_panel_floats(shape, s->n_keys, &floats)) {
            s->panels = panels;
            panels += floats;
        }
        s->units_per_head = (s->n_queries + s->unit_offset + s->unit_rows - 1) / s->unit_rows;
        unit += attend_units(batch, s);
    }
}
