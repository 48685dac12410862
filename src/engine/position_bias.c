/* Biases that depend on the distance of key and query alone: a table of all distances for each head, made once a call.
 * Tiles of the loop are runs of distances; any lane. */

#include "engine/position.h"

#include "base/size.h"
#include "engine/batch.h"

#include <math.h>

/* Distances of a tile. */
#define DISTANCES ((size_t)1024)

/* Press et al., Train Short, Test Long, 2022: for a number of heads that is no power of two, the slopes of the power
 * below and then every other one of the power above. */
static double alibi_slope(size_t num_heads, size_t head)
{
    size_t power = 1;
    while (power <= num_heads / 2)
        power *= 2;
    return head < power ? exp2(-8.0 * (double)(head + 1) / (double)power)
                        : exp2(-4.0 * (double)(2 * (head - power) + 1) / (double)power);
}

/* Raffel et al., Exploring the Limits of Transfer Learning, 2020: near distances have buckets of their own, the others
 * share some whose width grows. The 1e-6 lets a distance on a bucket's edge belong to it whatever rounding does. */
static size_t t5_bucket(const struct position_rule *rule, int64_t n)
{
    const size_t buckets = rule->bidirectional ? rule->table_rows / 2 : rule->table_rows, exact = buckets / 2;
    const size_t start = rule->bidirectional && n > 0 ? buckets : 0;
    const size_t distance = n <= 0 ? (size_t)-n : rule->bidirectional ? (size_t)n : 0;
    if (distance < exact)
        return start + distance;
    const double far = log((double)distance / (double)exact) / log((double)rule->max_distance / (double)exact) *
                       (double)(buckets - exact);
    return start + size_min(exact + (size_t)floor(far + 1e-6), buckets - 1);
}

static size_t relative_row(const struct position_rule *rule, int64_t n)
{
    const int64_t most = (int64_t)(rule->table_rows - 1) / 2;
    return (size_t)((n < -most ? -most : n > most ? most : n) + most);
}

static void fill_distances(const void *argument, size_t index, unsigned lane)
{
    (void)lane;
    const struct batch *batch = argument;
    const struct positions *p = &batch->positions;
    const size_t num_heads = batch->layer->shape.num_heads, first = index * DISTANCES,
                 end = size_min(first + DISTANCES, p->n_distances);
    if (p->rule->kind == POSITION_ALIBI) {
        /* The same under causal order, which leaves no key ahead of its query. */
        for (size_t head = 0; head < num_heads; head++) {
            const double slope = alibi_slope(num_heads, head);
            for (size_t i = first; i < end; i++)
                p->distance_bias[head * p->n_distances + i] =
                    (float)(-slope * fabs((double)i - (double)p->most_behind));
        }
        return;
    }
    for (size_t i = first; i < end; i++) {
        const int64_t n = (int64_t)i - (int64_t)p->most_behind;
        const size_t row = p->rule->kind == POSITION_T5 ? t5_bucket(p->rule, n) : relative_row(p->rule, n);
        for (size_t head = 0; head < num_heads; head++)
            p->distance_bias[head * p->n_distances + i] = p->rule->table[row * num_heads + head];
    }
}

bool position_bias_fill(const struct batch *batch, struct work *work)
{
    const struct positions *p = &batch->positions;
    if (!p->distance_bias)
        return true;
    const double flop = (double)p->n_distances *
                        ((double)batch->layer->shape.num_heads * SPLIT_FLOP_PER_FLOAT + POSITION_FLOP_FUNCTION);
    return work_split(work, (p->n_distances + DISTANCES - 1) / DISTANCES, flop, fill_distances, batch);
}

const float *position_bias_of_row(const struct batch *batch, const struct sequence *s, size_t head, size_t row)
{
    const struct positions *p = &batch->positions;
    if (!p->distance_bias)
        return NULL;
    const ptrdiff_t position = (ptrdiff_t)sequence_position(s, row) + forward_position_shift(s->input);
    return p->distance_bias + head * p->n_distances + ((ptrdiff_t)p->most_behind - position);
}
