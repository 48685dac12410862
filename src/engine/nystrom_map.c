/* Maps under nystrom: F A+ B, one head after the other, some rows at a time. B of that head is kept, [m, n_keys];
 * nothing T x T but the map itself. Entered by the thread that runs the job; rows by any lane. */

#include "engine/nystrom.h"

#include "base/size.h"

#include <string.h>

/* Rows of B that a tile makes, and columns that one packs: a multiple of every panel. */
#define WEIGHT_ROWS  ((size_t)48)
#define PACK_COLUMNS ((size_t)512)

/* Of one lane. */
struct map_lane {
    float *left;    /* F [NYSTROM_MAP_ROWS, m] */
    float *middle;  /* F A+ [NYSTROM_MAP_ROWS, m] */
    float *inverse; /* [NYSTROM_MAP_ROWS]: 1 / sum of F's rows */
    float *rows;    /* [NYSTROM_MAP_ROWS, n_keys], where sequences have holes */
};

static bool lane_bytes(const struct batch_extent *extent, size_t landmarks, size_t bytes[4])
{
    const size_t narrow = batch_tile_stride(landmarks), wide = extent->holes ? batch_tile_stride(extent->longest) : 0;
    return tensor_bytes((size_t[]){NYSTROM_MAP_ROWS, narrow}, 2, sizeof(float), &bytes[0]) &&
           tensor_bytes((size_t[]){NYSTROM_MAP_ROWS, narrow}, 2, sizeof(float), &bytes[1]) &&
           tensor_bytes((size_t[]){kernel_padded(NYSTROM_MAP_ROWS)}, 1, sizeof(float), &bytes[2]) &&
           tensor_bytes((size_t[]){NYSTROM_MAP_ROWS, wide}, 2, sizeof(float), &bytes[3]);
}

bool nystrom_map_lane_bytes(const struct batch_extent *extent, size_t landmarks, size_t *bytes)
{
    size_t arrays[4];
    *bytes = 0;
    if (!lane_bytes(extent, landmarks, arrays))
        return false;
    for (size_t i = 0; i < 4; i++)
        if (!arena_need(bytes, arrays[i]))
            return false;
    return true;
}

static struct map_lane lane_of(const struct nystrom *n, unsigned lane)
{
    size_t bytes[4];
    lane_bytes(&n->batch->extent, n->landmarks, bytes); /* did not overflow when the batch was created */
    struct arena memory = {.base = n->lanes + lane * n->lane_bytes, .capacity = n->lane_bytes};
    struct map_lane l;
    l.left = arena_take(&memory, bytes[0]);
    l.middle = arena_take(&memory, bytes[1]);
    l.inverse = arena_take(&memory, bytes[2]);
    l.rows = arena_take(&memory, bytes[3]);
    return l;
}

static size_t whole_vectors(const struct kernels *kernels, size_t columns)
{
    return (columns + kernels->vector_floats - 1) / kernels->vector_floats * kernels->vector_floats;
}

/* Rows of queries against packed keys: unnormalised weights [n_rows, n_keys], and 1 / sum of each row. */
static void weigh(const struct batch *batch, const float *queries, size_t query_stride, size_t n_rows,
                  const float *panels, size_t n_keys, float *weights, size_t stride, float *inverse)
{
    const struct kernels *kernels = batch->layer->kernels;
    const struct product product = {
        .depth = batch->layer->shape.d_k,
        .columns = whole_vectors(kernels, n_keys),
        .a = queries,
        .a_stride = query_stride,
        .b = panels,
        .b_depth = batch->layer->shape.d_k,
        .scale = batch->layer->shape.scale,
        .c = weights,
        .c_stride = stride,
    };
    kernels->multiply(&product, 0, n_rows, 0, n_keys);
    kernels->softmax_rows(weights, stride, n_rows, n_keys, (ptrdiff_t)n_keys, inverse, NULL);
}

static size_t landmark_row(const struct nystrom *n)
{
    size_t i = 0;
    while (n->sequences[i] != n->open)
        i++;
    return i * n->landmarks;
}

/* Some rows of B. */
static void weight_tile(const void *argument, size_t index, unsigned lane)
{
    (void)lane;
    const struct nystrom *n = argument;
    const size_t first = index * WEIGHT_ROWS, n_rows = size_min(WEIGHT_ROWS, n->landmarks - first),
                 n_keys = n->open->n_keys, stride = batch_tile_stride(n_keys);
    float inverse[WEIGHT_ROWS], *weights = n->weights + first * stride;
    weigh(n->batch,
          n->query.data + (landmark_row(n) + first) * n->query.stride + n->open_head * n->batch->layer->shape.d_k,
          n->query.stride, n_rows, n->key_panels, n_keys, weights, stride, inverse);
    n->batch->layer->kernels->scale_rows(weights, stride, weights, stride, n_rows, n_keys, inverse);
}

/* Some columns of B into panels. */
static void pack_tile(const void *argument, size_t index, unsigned lane)
{
    (void)lane;
    const struct nystrom *n = argument;
    const size_t first = index * PACK_COLUMNS, n_keys = n->open->n_keys;
    n->batch->layer->kernels->pack(n->weights + first, batch_tile_stride(n_keys), n->landmarks,
                                   size_min(PACK_COLUMNS, n_keys - first), n->weight_panels + first * n->landmarks);
}

bool nystrom_open_map(const struct batch *batch, const struct sequence *s, size_t head, struct work *work)
{
    struct nystrom *n = nystrom_of(batch);
    const struct kernels *kernels = batch->layer->kernels;
    const size_t m = n->landmarks, d_k = batch->layer->shape.d_k, kv_head = head / batch->heads_per_kv_head;
    n->open = s;
    n->open_head = head;
    const size_t row = landmark_row(n), pair = row / m * batch->layer->shape.num_heads + head;
    kernels->pack_transposed(n->key.data + row * n->key.stride + head * d_k, n->key.stride, d_k, m, n->landmark_panels);
    kernels->pack(n->inverses + pair * m * m, m, m, m, n->inverse_panels);
    kernels->pack_transposed(batch->key.data + s->key_start * batch->key.stride + kv_head * d_k, batch->key.stride, d_k,
                             s->n_keys, n->key_panels);
    const double floats = (double)m * (double)s->n_keys;
    return work_split(work, (m + WEIGHT_ROWS - 1) / WEIGHT_ROWS, floats * (2 * (double)d_k + SPLIT_FLOP_PER_FLOAT),
                      weight_tile, n) &&
           work_split(work, (s->n_keys + PACK_COLUMNS - 1) / PACK_COLUMNS, floats * SPLIT_FLOP_PER_FLOAT, pack_tile, n);
}

void nystrom_map_rows(const struct batch *batch, size_t first_row, size_t n_rows, float *rows, size_t stride,
                      unsigned lane)
{
    const struct nystrom *n = nystrom_of(batch);
    const struct kernels *kernels = batch->layer->kernels;
    const struct map_lane l = lane_of(n, lane);
    const size_t m = n->landmarks, narrow = batch_tile_stride(m);
    weigh(batch,
          batch->query.data + (n->open->query_start + first_row) * batch->query.stride +
              n->open_head * batch->layer->shape.d_k,
          batch->query.stride, n_rows, n->landmark_panels, m, l.left, narrow, l.inverse);
    struct product product = {
        .depth = m,
        .columns = m,
        .a = l.left,
        .a_stride = narrow,
        .b = n->inverse_panels,
        .b_depth = m,
        .scale = 1,
        .c = l.middle,
        .c_stride = narrow,
    };
    kernels->multiply(&product, 0, n_rows, 0, m);
    kernels->scale_rows(l.middle, narrow, l.middle, narrow, n_rows, m, l.inverse);
    product.columns = n->open->n_keys;
    product.a = l.middle;
    product.b = n->weight_panels;
    product.c = rows;
    product.c_stride = stride;
    kernels->multiply(&product, 0, n_rows, 0, product.columns);
}

/* One head's map on its way to a place in the results. */
struct map {
    const struct nystrom *n;
    size_t place;
};

/* Some rows, with the padding up to the next one's (before the first, too). */
static void map_tile(const void *argument, size_t index, unsigned lane)
{
    const struct map *map = argument;
    const struct nystrom *n = map->n;
    const struct sequence *s = n->open;
    const struct forward_result *r = s->result;
    const size_t length = s->input->key_length, first = index * NYSTROM_MAP_ROWS,
                 n_rows = size_min(NYSTROM_MAP_ROWS, s->n_queries - first), end = first + n_rows;
    float *to = r->attention + forward_plane(r, s->index, r->n_maps, map->place) * length * length;
    if (!s->kept) {
        nystrom_map_rows(n->batch, first, n_rows, to + first * length, length, lane);
        return;
    }
    const size_t begin = first == 0 ? 0 : s->kept[first], stop = end < s->n_queries ? s->kept[end] : length;
    memset(to + begin * length, 0, (stop - begin) * length * sizeof *to);
    if (!s->holes) {
        nystrom_map_rows(n->batch, first, n_rows, to + s->kept[first] * length + s->kept[0], length, lane);
        return;
    }
    const struct map_lane l = lane_of(n, lane);
    const size_t stride = batch_tile_stride(s->n_keys);
    nystrom_map_rows(n->batch, first, n_rows, l.rows, stride, lane);
    for (size_t i = 0; i < n_rows; i++)
        for (size_t j = 0; j < s->n_keys; j++)
            to[s->kept[first + i] * length + s->kept[j]] = l.rows[i * stride + j];
}

/* The place of the map in the results that shows the same head, if one before it does. */
static size_t earlier_place(const struct forward_result *r, size_t place)
{
    size_t earlier = 0;
    while (r->include_heads && r->include_heads[earlier] != r->include_heads[place])
        earlier++;
    return r->include_heads ? earlier : place;
}

static bool write_map(struct nystrom *n, const struct sequence *s, size_t place, struct work *work)
{
    const struct forward_result *r = s->result;
    const size_t length = s->input->key_length, earlier = earlier_place(r, place);
    const struct map map = {n, place};
    if (earlier < place) {
        float *maps = r->attention + forward_plane(r, s->index, r->n_maps, 0) * length * length;
        memcpy(maps + place * length * length, maps + earlier * length * length, length * length * sizeof *maps);
        return true;
    }
    const double m = (double)n->landmarks, rows = (double)s->n_queries, keys = (double)s->n_keys;
    return nystrom_open_map(n->batch, s, r->include_heads ? r->include_heads[place] : place, work) &&
           work_split(work, (s->n_queries + NYSTROM_MAP_ROWS - 1) / NYSTROM_MAP_ROWS,
                      2 * rows * m * (m + keys + (double)n->batch->layer->shape.d_k), map_tile, &map);
}

bool nystrom_write_maps(struct nystrom *n, struct work *work)
{
    for (size_t i = 0; i < n->n_sequences; i++) {
        const struct sequence *s = n->sequences[i];
        for (size_t place = 0; s->result->attention && place < s->result->n_maps; place++)
            if (!write_map(n, s, place, work))
                return false;
    }
    return true;
}
