/* The samples of dropout that a block of rows of a head makes: its weights are made once, and for each sample mixed
 * without those that are dropped. Any lane. */

#include "engine/attend.h"

#include "base/size.h"

bool samples_lane_bytes(const struct batch_extent *extent, size_t *bytes)
{
    size_t floats = extent->tile_floats;
    *bytes = 0;
    if (!dropout_wanted(extent->rules))
        return true;
    return (!extent->holes || size_add(floats, extent->longest_positions, &floats)) &&
           tensor_bytes(&floats, 1, sizeof(float), bytes);
}

/* The weights of neighbouring keys of the batch, `first` and on, in row i of the tile from `column` on. */
static void drop_run(const struct block *b, size_t sample, size_t i, size_t first, size_t column, size_t count)
{
    const struct sequence *s = b->sequence;
    const struct kernels *kernels = b->batch->layer->kernels;
    const struct dropout_place *place = &b->batch->dropout->place;
    const size_t plane = dropout_plane(place, s->index, b->batch->layer->shape.num_heads, b->head),
                 query = sequence_position(s, b->first_row + i), position = sequence_position(s, first);
    const float *from = b->tile + i * b->tile_stride + column;
    float *to = b->lane->dropped + i * b->tile_stride + column,
          *kept = b->lane->dropped + b->batch->extent.tile_floats; /* [positions] */
    if (!s->holes) {
        dropout_row(kernels, place, sample, plane, query, position, count, from, to);
        return;
    }
    const size_t n_positions = s->kept[first + count - 1] + 1 - position;
    for (size_t j = 0; j < n_positions; j++)
        kept[j] = 1;
    dropout_row(kernels, place, sample, plane, query, position, n_positions, kept, kept);
    for (size_t j = 0; j < count; j++)
        to[j] = kept[s->kept[first + j] - position] == 1 ? from[j] : 0;
}

static void drop_row(const struct block *b, size_t sample, size_t i)
{
    if (!b->plan) {
        drop_run(b, sample, i, 0, 0, b->n_keys);
        return;
    }
    for (size_t n = 0; n < b->plan->n_segments; n++) {
        const struct key_segment *segment = &b->plan->segments[n];
        drop_run(b, sample, i, segment->begin, segment->column, segment->columns);
    }
}

void attend_samples(const struct block *b, float gate)
{
    const struct dropout_pass *pass = b->batch->dropout;
    const bool wanted = b->sequence->output_wanted && gate != 0;
    const struct rows z = {b->lane->z, kernel_padded(b->batch->layer->shape.d_v)};
    struct block dropped = *b;
    dropped.tile = b->lane->dropped;
    for (size_t i = 0; wanted && i < b->n_rows; i++)
        b->inverse[i] *= pass->place.factor;
    for (size_t n = 0; n < pass->n_samples; n++) {
        const struct rows heads = {pass->heads + n * b->batch->extent.n_queries * pass->heads_stride,
                                   pass->heads_stride};
        const struct rows gated = attend_gated_rows(b, &heads);
        for (size_t i = 0; wanted && i < b->n_rows; i++)
            drop_row(b, pass->first_sample + n, i);
        if (wanted)
            attend_mix(&dropped, gate == 1 ? &gated : &z);
        if (gate != 1)
            attend_write_gated(b, gate, &heads);
    }
}
