/* The list of compared rows, and reading them: see similarity_rows.h. */

#include "analysis/similarity_rows.h"

#include "base/size.h"
#include "engine/kernels/kernels.h"

#include <math.h>
#include <string.h>

/* Rows that are looked at together to find those that a head has nothing left of. */
#define LOOKED_AT ((size_t)16)

/* Only `exclude` can leave a head less than another. */
static bool heads_may_differ(const struct head_maps *maps)
{
    return maps->exclude != NULL;
}

struct looking {
    const struct similarity_rows *rows; /* the list so far */
    uint8_t *left_out;                  /* [count] */
    char *scratch;                      /* [lanes][scratch_bytes] */
    size_t scratch_bytes;
};

static bool scratch_bytes(const struct head_maps *maps, size_t *bytes)
{
    *bytes = 0;
    size_t tile = 0;
    return !heads_may_differ(maps) || (head_maps_tile_bytes(maps, LOOKED_AT, &tile) && arena_need(bytes, tile));
}

bool similarity_rows_bytes(const struct head_maps *maps, unsigned lanes, size_t *bytes)
{
    size_t rows = 0, scratch, total = 0, list, flags, starts;
    for (size_t b = 0; b < maps->rule->batch; b++)
        rows += maps->sequences[b].n_rows; /* cannot overflow: they have places in the maps */
    if (!tensor_bytes(&rows, 1, sizeof(struct similarity_row), &list) ||
        !tensor_bytes((size_t[]){maps->rule->batch + 1}, 1, sizeof(size_t), &starts) ||
        !scratch_bytes(maps, &scratch) || !size_multiply(scratch, lanes, &scratch))
        return false;
    flags = heads_may_differ(maps) ? rows : 0;
    if (!arena_need(&total, list) || !arena_need(&total, starts) || !arena_need(&total, flags) ||
        !arena_need(&total, scratch))
        return false;
    *bytes = total;
    return true;
}

/* Rows from `index` on that are neighbours in one sequence, at most `most`. */
static size_t run_of_rows(const struct similarity_rows *rows, size_t index, size_t most)
{
    const struct similarity_row *list = rows->list + index;
    size_t n = 1;
    while (n < most && list[n].sequence == list->sequence && list[n].row == list->row + n)
        n++;
    return n;
}

/* Tiles: LOOKED_AT rows of the list. */
static void look(const void *argument, size_t index, unsigned lane)
{
    const struct looking *l = argument;
    const struct similarity_rows *rows = l->rows;
    const size_t end = size_min((index + 1) * LOOKED_AT, rows->count);
    for (size_t i = index * LOOKED_AT, n; i < end; i += n) {
        n = run_of_rows(rows, i, end - i);
        for (size_t head = 0; head < rows->maps->num_heads; head++) {
            struct head_tile tile;
            head_maps_tile(rows->maps, rows->list[i].sequence, head, rows->list[i].row, n,
                           l->scratch + lane * l->scratch_bytes, &tile);
            for (size_t row = 0; row < n; row++)
                l->left_out[i + row] |= tile.n_allowed[row] == 0;
        }
    }
}

/* Takes what was left out from the list. */
static void close_gaps(struct similarity_rows *rows, const uint8_t *left_out)
{
    size_t kept = 0, from = 0;
    for (size_t sequence = 0; sequence < rows->maps->rule->batch; sequence++) {
        const size_t end = rows->starts[sequence + 1];
        rows->starts[sequence] = kept;
        for (; from < end; from++)
            if (!left_out[from])
                rows->list[kept++] = rows->list[from];
    }
    rows->starts[rows->maps->rule->batch] = kept;
    rows->n_excluded += rows->count - kept;
    rows->count = kept;
}

bool similarity_rows_list(struct similarity_rows *rows, const struct head_maps *maps, struct arena *arena,
                          struct work *work, bool *enough)
{
    struct similarity_rows made = {.maps = maps, .map_stride = kernel_padded(maps->longest_keys)};
    const size_t batch = maps->rule->batch;
    size_t most = 0, scratch;
    for (size_t b = 0; b < batch; b++)
        most += maps->sequences[b].n_rows;
    *enough = false;
    made.list = most ? arena_take(arena, most * sizeof *made.list) : NULL;
    made.starts = arena_take(arena, (batch + 1) * sizeof *made.starts);
    if ((most && !made.list) || !made.starts)
        return true;
    for (size_t b = 0; b < batch; b++) {
        const struct head_sequence *s = &maps->sequences[b];
        made.starts[b] = made.count;
        for (size_t row = 0; row < s->n_rows; row++)
            if (s->n_allowed[row])
                made.list[made.count++] = (struct similarity_row){(uint32_t)b, (uint32_t)row};
    }
    made.starts[batch] = made.count;
    made.n_excluded = maps->n_excluded;
    if (heads_may_differ(maps) && made.count) {
        struct looking looking = {.rows = &made};
        if (!scratch_bytes(maps, &scratch))
            return true;
        looking.scratch_bytes = scratch;
        looking.left_out = arena_take(arena, most);
        looking.scratch = scratch ? arena_take(arena, work->parallel->lanes * scratch) : NULL;
        if (!looking.left_out || (scratch && !looking.scratch))
            return true;
        memset(looking.left_out, 0, most);
        const double floats = (double)most * (double)maps->longest_keys * (double)maps->num_heads;
        if (!work_split(work, (made.count + LOOKED_AT - 1) / LOOKED_AT, floats * SPLIT_FLOP_PER_FLOAT, look, &looking))
            return false;
        close_gaps(&made, looking.left_out);
    }
    *rows = made;
    *enough = true;
    return true;
}

/* ---- reading */

void similarity_rows_maps(const struct similarity_rows *rows, size_t head, size_t first, size_t count, void *scratch,
                          float *to)
{
    for (size_t done = 0, n; done < count; done += n) {
        const struct similarity_row place = rows->list[first + done];
        struct head_tile tile;
        n = run_of_rows(rows, first + done, count - done);
        head_maps_tile(rows->maps, place.sequence, head, place.row, n, scratch, &tile);
        if (tile.stride == rows->map_stride && tile.n_keys == tile.stride) {
            memcpy(to + done * rows->map_stride, tile.weights, n * tile.stride * sizeof *to);
            continue;
        }
        for (size_t row = 0; row < n; row++) {
            float *at = to + (done + row) * rows->map_stride;
            memcpy(at, tile.weights + row * tile.stride, tile.n_keys * sizeof *at);
            memset(at + tile.n_keys, 0, (rows->map_stride - tile.n_keys) * sizeof *at);
        }
    }
}

bool similarity_rows_in_place(const struct similarity_rows *rows, size_t first, size_t count, struct pair_next *place)
{
    const struct similarity_row row = rows->list[first];
    const struct forward_input *rule = rows->maps->rule;
    struct head_tile tile;
    if (!rows->maps->sequences[row.sequence].direct || run_of_rows(rows, first, count) < count)
        return false;
    head_maps_tile(rows->maps, row.sequence, 0, row.row, count, NULL, &tile);
    *place = (struct pair_next){.x = tile.weights,
                                .heads = rows->maps->num_heads,
                                .stride = rule->query_length * rule->key_length,
                                .floats = (count - 1) * tile.stride + tile.n_keys};
    return true;
}

const float *similarity_rows_output(const struct similarity_rows *rows, size_t head, size_t index)
{
    const struct similarity_row place = rows->list[index];
    const struct head_sequence *s = &rows->maps->sequences[place.sequence];
    const size_t position = s->positions ? s->positions[place.row] : s->first_position + place.row;
    return rows->heads + head_maps_row_index(rows->maps, place.sequence, head, position) * rows->d_v;
}

void similarity_rows_scaled(const struct similarity_rows *rows, size_t head, size_t first, size_t count, double scale,
                            double mean, float *to, size_t stride)
{
    for (size_t row = 0; row < count; row++, to += stride) {
        const float *z = similarity_rows_output(rows, head, first + row);
        for (size_t k = 0; k < rows->d_v; k++)
            to[k] = (float)((double)z[k] * scale - mean);
        memset(to + rows->d_v, 0, (stride - rows->d_v) * sizeof *to);
    }
}

void similarity_rows_baseline(const struct similarity_rows *rows, size_t first, size_t count, float value,
                              struct allowed_reader *reader, uint8_t *allowed, float *to)
{
    for (size_t i = 0; i < count; i++) {
        const struct similarity_row place = rows->list[first + i];
        const size_t n_keys = rows->maps->sequences[place.sequence].n_keys,
                     n = head_maps_allowed(rows->maps, reader, place.sequence, place.row, allowed);
        const float subtracted = isnan(value) ? (float)(1.0 / (double)n) : value;
        float *at = to + i * rows->map_stride;
        for (size_t key = 0; key < n_keys; key++)
            at[key] = allowed[key] ? subtracted : 0;
        memset(at + n_keys, 0, (rows->map_stride - n_keys) * sizeof *at);
    }
}

double similarity_rows_allowed(const struct similarity_rows *rows, size_t first, size_t count)
{
    double allowed = 0;
    for (size_t i = first; i < first + count; i++)
        allowed += rows->maps->sequences[rows->list[i].sequence].n_allowed[rows->list[i].row];
    return allowed;
}
