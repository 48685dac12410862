/* Embeddings: norm(token row * scale + position row + type row), then a projection; of pixels, patches times a matrix,
 * a class row in front, and position rows. Tiles are some rows of a sequence; any lane. */

#include "engine/embed.h"

#include "base/size.h"
#include "engine/model_parts.h"

#include <string.h>

/* Rows of a tile: each tile counts the ids in front of its rows anew, which is next to nothing. */
#define TILE_ROWS ((size_t)32)

/* In training a share of 0.15 of the tokens is chosen, of which 0.8 become the mask token. */
#define TOKEN_DROPOUT_SHARE (0.15 * 0.8)

struct embedding {
    const struct model *model;
    const struct batch *batch;
    struct rows rows;    /* [n_queries, width]: where they are put together */
    struct rows patches; /* [n_queries, channels * patch_size^2]; data NULL without pixels */
    size_t tiles_per_sequence;
};

/* ---- positions */

/* Whether the rows of the position table are counted over ids. */
static bool counts_ids(const struct embeddings_shape *shape, const struct forward_input *input)
{
    return shape->count_padding_id && !input->position_ids && input->embedding->ids;
}

/* The row of token t, of which `before` ids in front of it are not padding. */
static uint32_t position_of(const struct embeddings_shape *shape, const struct forward_input *input, size_t sequence,
                            size_t t, size_t before)
{
    const size_t at = sequence * input->key_length + t;
    if (input->position_ids)
        return input->position_ids[input->positions_per_sequence ? at : t];
    if (!counts_ids(shape, input))
        return (uint32_t)(t + shape->position_offset);
    return shape->padding_id + (input->embedding->ids[at] == shape->padding_id ? 0 : (uint32_t)before + 1);
}

static size_t count_other_ids(const uint32_t *ids, size_t count, uint32_t id)
{
    size_t others = 0;
    for (size_t i = 0; i < count; i++)
        others += ids[i] != id;
    return others;
}

void embed_positions(const struct embeddings_shape *shape, const struct forward_input *input, size_t sequence,
                     uint32_t *positions)
{
    size_t before = 0;
    for (size_t t = 0; t < input->key_length; t++) {
        positions[t] = position_of(shape, input, sequence, t, before);
        before +=
            counts_ids(shape, input) && input->embedding->ids[sequence * input->key_length + t] != shape->padding_id;
    }
}

/* ---- rows */

/* What all rows of a sequence are scaled by: with token dropout by the share of mask tokens, too. */
static float scale_of(const struct embeddings_shape *shape, const struct sequence *s)
{
    const struct forward_input *in = s->input;
    if (!shape->token_dropout || !in->embedding->ids)
        return shape->scale;
    const uint32_t *ids = in->embedding->ids + s->index * in->key_length;
    const size_t masked = in->key_length - count_other_ids(ids, in->key_length, shape->mask_token);
    return (float)((double)shape->scale * (1 - TOKEN_DROPOUT_SHARE) / (1 - (double)masked / (double)s->n_queries));
}

/* A row of a table. */
static void add_row(const struct embedding *e, const struct table *table, size_t row, float *to)
{
    const size_t width = e->model->shape.embeddings.width;
    const struct kernels *kernels = e->model->kernels;
    if (table->bf16)
        kernels->widen(to, table->bf16 + row * width, width, 1, true);
    else if (table->numbers)
        kernels->add_rows(to, width, table->numbers + row * width, width, 1, width);
}

static void put_scaled_row(const struct embedding *e, const struct table *table, size_t row, float scale, float *to)
{
    const size_t width = e->model->shape.embeddings.width;
    if (table->bf16)
        e->model->kernels->widen(to, table->bf16 + row * width, width, scale, false);
    else
        e->model->kernels->scale(to, table->numbers + row * width, width, scale);
}

/* The token's row, or what was sent in its place. */
static void put_token(const struct embedding *e, const struct sequence *s, size_t t, float scale, float *to)
{
    const struct embeddings_shape *shape = &e->model->shape.embeddings;
    const struct embedding_input *in = s->input->embedding;
    const size_t at = s->index * s->input->key_length + t, width = shape->width;
    if (!in->ids)
        memcpy(to, in->embeds + at * width, width * sizeof *to);
    else if (shape->token_dropout && in->ids[at] == shape->mask_token)
        memset(to, 0, width * sizeof *to);
    else
        put_scaled_row(e, &e->model->embeddings.token, in->ids[at], scale, to);
}

static void embed_row(const struct embedding *e, const struct sequence *s, size_t t, size_t before, float scale,
                      float *to /* [width] */)
{
    const struct embeddings *tables = &e->model->embeddings;
    const struct embeddings_shape *shape = &e->model->shape.embeddings;
    const size_t width = shape->width;
    put_token(e, s, t, scale, to);
    const uint32_t *types = s->input->embedding->type_ids;
    add_row(e, &tables->position, position_of(shape, s->input, s->index, t, before), to);
    add_row(e, &tables->type, types ? types[s->index * s->input->key_length + t] : 0, to);
    if (tables->norm.kind != NORM_NONE)
        e->model->kernels->normalize(to, width, to, width, 1, width, tables->norm.kind == NORM_LAYER, tables->norm.eps,
                                     tables->norm.gain, tables->norm.bias);
}

/* Patch t - 1 of a sequence's pixels, as [channels, patch_size, patch_size]; the class token has no patch. */
static void cut_patch(const struct embedding *e, const struct sequence *s, size_t t, float *to)
{
    const struct embeddings_shape *shape = &e->model->shape.embeddings;
    const size_t side = shape->image_size, size = shape->patch_size, per_row = side / size;
    const float *pixels = s->input->embedding->pixels + s->index * shape->channels * side * side;
    if (t == 0) {
        memset(to, 0, shape->channels * size * size * sizeof *to);
        return;
    }
    const size_t top = (t - 1) / per_row * size, left = (t - 1) % per_row * size;
    for (size_t c = 0; c < shape->channels; c++)
        for (size_t y = 0; y < size; y++, to += size)
            memcpy(to, pixels + (c * side + top + y) * side + left, size * sizeof *to);
}

static void embed_tile(const void *argument, size_t index, unsigned lane)
{
    (void)lane;
    const struct embedding *e = argument;
    const struct embeddings_shape *shape = &e->model->shape.embeddings;
    const struct sequence *s = &e->batch->sequences[index / e->tiles_per_sequence];
    const size_t first = index % e->tiles_per_sequence * TILE_ROWS, end = size_min(first + TILE_ROWS, s->n_queries);
    if (first >= end)
        return;
    const float scale = scale_of(shape, s);
    const bool counts = counts_ids(shape, s->input);
    const uint32_t *ids = counts ? s->input->embedding->ids + s->index * s->input->key_length : NULL;
    size_t seen = 0, before = 0; /* ids in front of `seen` that are not padding */
    for (size_t i = first; i < end; i++) {
        const size_t t = sequence_position(s, i), row = s->query_start + i;
        if (e->patches.data) {
            cut_patch(e, s, t, e->patches.data + row * e->patches.stride);
            continue;
        }
        if (counts) {
            before += count_other_ids(ids + seen, t - seen, shape->padding_id);
            seen = t;
        }
        embed_row(e, s, t, before, scale, e->rows.data + row * e->rows.stride);
    }
}

/* Behind the product with the patches: the class row, and position rows. */
static void place_tile(const void *argument, size_t index, unsigned lane)
{
    (void)lane;
    const struct embedding *e = argument;
    const struct embeddings *tables = &e->model->embeddings;
    const struct sequence *s = &e->batch->sequences[index / e->tiles_per_sequence];
    const size_t first = index % e->tiles_per_sequence * TILE_ROWS, end = size_min(first + TILE_ROWS, s->n_queries);
    const size_t width = e->model->shape.embeddings.width;
    for (size_t i = first; i < end; i++) {
        const size_t t = sequence_position(s, i);
        float *row = e->rows.data + (s->query_start + i) * e->rows.stride;
        if (t == 0)
            memcpy(row, tables->class_token, width * sizeof *row);
        add_row(e, &tables->position, t, row);
    }
}

/* ---- the whole */

static bool scratch_floats(const struct embeddings_shape *shape, size_t n_rows, size_t *rows, size_t *patches)
{
    size_t per_patch = 0;
    *rows = *patches = 0;
    return (!shape->projection || size_multiply(n_rows, shape->width, rows)) &&
           (!shape->patch_size || (size_multiply(shape->channels, shape->patch_size * shape->patch_size, &per_patch) &&
                                   size_multiply(n_rows, per_patch, patches)));
}

bool embed_bytes(const struct model_shape *shape, size_t n_rows, size_t *bytes)
{
    size_t rows, patches, total = 0, one;
    return scratch_floats(&shape->embeddings, n_rows, &rows, &patches) && tensor_bytes(&rows, 1, sizeof(float), &one) &&
           arena_need(&total, one) && tensor_bytes(&patches, 1, sizeof(float), &one) && arena_need(&total, one) &&
           (*bytes = total, true);
}

bool batch_embed(const struct model *model, const struct batch *batch, void *scratch, struct work *work)
{
    const struct embeddings_shape *shape = &model->shape.embeddings;
    const size_t n_rows = batch->extent.n_queries;
    size_t row_floats, patch_floats, bytes, longest = 0;
    if (n_rows == 0)
        return true;
    scratch_floats(shape, n_rows, &row_floats, &patch_floats);
    embed_bytes(&model->shape, n_rows, &bytes);
    struct arena memory = {.base = scratch, .capacity = bytes};
    struct embedding e = {.model = model, .batch = batch, .rows = batch->x_query};
    if (shape->projection)
        e.rows = (struct rows){arena_take(&memory, row_floats * sizeof(float)), shape->width};
    if (batch->sequences[0].input->embedding->pixels)
        e.patches = (struct rows){arena_take(&memory, patch_floats * sizeof(float)),
                                  shape->channels * shape->patch_size * shape->patch_size};
    for (size_t i = 0; i < batch->extent.n_sequences; i++)
        longest = size_max(longest, batch->sequences[i].n_queries);
    e.tiles_per_sequence = (longest + TILE_ROWS - 1) / TILE_ROWS;
    const size_t tiles = batch->extent.n_sequences * e.tiles_per_sequence;
    const double flop = (double)n_rows * (double)shape->width * SPLIT_FLOP_PER_FLOAT * 2;
    if (!work_split(work, tiles, flop, embed_tile, &e))
        return false;
    if (e.patches.data &&
        (!project_rows(model->kernels, &model->embeddings.patch, &(struct rows_in){e.patches.data, e.patches.stride},
                       &e.rows, n_rows, false, work) ||
         !work_split(work, tiles, flop, place_tile, &e)))
        return false;
    return !shape->projection ||
           project_rows(model->kernels, &model->embeddings.projection, &(struct rows_in){e.rows.data, e.rows.stride},
                        &batch->x_query, n_rows, false, work);
}
