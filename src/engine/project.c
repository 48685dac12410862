/* The linear maps before and after attention: products of all rows of the batch with packed weights, cut into tiles of
 * rows and panels. Any lane. */

#include "engine/batch.h"

#include "base/size.h"

/* Rows of a tile, at most; what the kernels take in one go. */
#define TILE_ROWS ((size_t)192)
/* Row blocks start at multiples of this, which every register tile divides. */
#define ROWS_STEP ((size_t)12)
/* Tiles for each lane, so that lanes that start late or are interrupted leave little to wait for. */
#define TILES_PER_LANE 32

enum { MOST_PRODUCTS = 3 };

/* Products that are computed in one parallel loop, all cut in the same way. */
struct projection {
    const struct kernels *kernels;
    struct product products[MOST_PRODUCTS];
    struct {
        size_t rows, row_blocks, block_rows;
        size_t columns, column_groups, group_columns;
        size_t first_tile;
    } cut[MOST_PRODUCTS];
    size_t count, n_tiles;
    double flop;
};

static void add_product(struct projection *p, const struct packed_matrix *matrix, const struct rows_in *from,
                        const struct rows *to, size_t n_rows)
{
    if (n_rows == 0)
        return;
    p->products[p->count] = (struct product){
        .depth = matrix->depth,
        .columns = matrix->columns,
        .a = from->data,
        .a_stride = from->stride,
        .b = matrix->panels,
        .b_depth = matrix->depth,
        .bias = matrix->bias,
        .scale = 1,
        .c = to->data,
        .c_stride = to->stride,
    };
    p->cut[p->count].rows = n_rows;
    p->flop += 2.0 * (double)n_rows * (double)matrix->depth * (double)matrix->columns;
    p->count++;
}

static size_t divide_up(size_t a, size_t b)
{
    return (a + b - 1) / b;
}

/* Panels that a tile of `rows` rows may have. */
static size_t most_panels(size_t rows, size_t depth, size_t panel)
{
    const double flop = 2.0 * (double)rows * (double)depth * (double)panel;
    return flop < TILE_FLOP_MOST ? (size_t)(TILE_FLOP_MOST / flop) : 1;
}

/* Rows that a tile of one panel may have. */
static size_t most_rows(size_t depth, size_t panel)
{
    const double rows = TILE_FLOP_MOST / (2.0 * (double)depth * (double)panel);
    return rows < (double)TILE_ROWS ? size_max((size_t)rows / ROWS_STEP * ROWS_STEP, ROWS_STEP) : TILE_ROWS;
}

/* Cuts every product into blocks of rows, and those into groups of panels while they are too large, or too few for the
 * lanes. */
static void cut_products(struct projection *p, unsigned lanes)
{
    const size_t panel = p->kernels->panel_columns;
    for (size_t i = 0; i < p->count; i++) {
        const size_t depth = p->products[i].depth;
        const size_t rows = p->cut[i].rows, columns = p->products[i].columns;
        if (p->flop < SPLIT_FLOP_LEAST && rows <= TILE_ROWS) { /* whole, and without the divisions */
            p->cut[i].row_blocks = p->cut[i].column_groups = 1;
            p->cut[i].block_rows = rows;
            p->cut[i].columns = p->cut[i].group_columns = columns;
            p->cut[i].first_tile = p->n_tiles++;
            continue;
        }
        const size_t panels = divide_up(columns, panel);
        const size_t block_rows =
            divide_up(divide_up(rows, divide_up(rows, most_rows(depth, panel))), ROWS_STEP) * ROWS_STEP;
        const size_t row_blocks = divide_up(rows, block_rows);
        const size_t for_size = divide_up(panels, most_panels(size_min(rows, block_rows), depth, panel));
        const size_t for_lanes = lanes > 1 ? divide_up((size_t)lanes * TILES_PER_LANE, row_blocks * p->count) : 1;
        const size_t group_columns = divide_up(panels, size_min(size_max(for_size, for_lanes), panels)) * panel;
        p->cut[i].row_blocks = row_blocks;
        p->cut[i].block_rows = block_rows;
        p->cut[i].columns = columns;
        p->cut[i].group_columns = group_columns;
        p->cut[i].column_groups = divide_up(columns, group_columns);
        p->cut[i].first_tile = p->n_tiles;
        p->n_tiles += row_blocks * p->cut[i].column_groups;
    }
}

static void project_tile(const void *argument, size_t index, unsigned lane)
{
    (void)lane;
    const struct projection *p = argument;
    size_t i = p->count - 1;
    while (index < p->cut[i].first_tile)
        i--;
    const size_t tile = index - p->cut[i].first_tile;
    const size_t first_row = tile / p->cut[i].column_groups * p->cut[i].block_rows;
    const size_t first_column = tile % p->cut[i].column_groups * p->cut[i].group_columns;
    p->kernels->multiply(&p->products[i], first_row, size_min(first_row + p->cut[i].block_rows, p->cut[i].rows),
                         first_column, size_min(first_column + p->cut[i].group_columns, p->cut[i].columns));
}

static bool run_projection(struct projection *p, struct work *work)
{
    cut_products(p, work->parallel->lanes);
    return work_split(work, p->n_tiles, p->flop, project_tile, p);
}

bool batch_project_inputs(const struct batch *batch, struct work *work)
{
    const struct attention_layer *layer = batch->layer;
    if (!layer->shape.projected)
        return true;
    struct projection p = {.kernels = layer->kernels};
    add_product(&p, &layer->query, &batch->in_query, &batch->projected_query, batch->extent.n_queries);
    add_product(&p, &layer->key, &batch->in_key, &batch->projected_key, batch->extent.n_keys);
    add_product(&p, &layer->value, &batch->in_value, &batch->projected_value, batch->extent.n_keys);
    return run_projection(&p, work);
}

bool batch_project_output(const struct batch *batch, struct work *work)
{
    const struct attention_layer *layer = batch->layer;
    if (!layer->shape.projected || !batch->output.data)
        return true;
    struct projection p = {.kernels = layer->kernels};
    const struct rows_in heads = {batch->heads.data, batch->heads.stride};
    add_product(&p, &layer->output, &heads, &batch->output, batch->extent.n_queries);
    return run_projection(&p, work);
}
