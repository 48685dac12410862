/* The linear maps before and after attention: products of all rows of the batch with packed weights, cut into tiles of
 * rows and panels. Any lane.
 *
 * Columns are cut at multiples of a unit: a panel, or, where the tile is turned by its positions while it lies in the
 * cache, whole heads too. Where some heads are left out (keep_heads.h), of the projections before attention only the
 * units that are needed are computed, and of the one behind it only the rows of W_O that belong to a head that is kept.
 */

#include "engine/batch.h"

#include "base/size.h"

/* Rows of a tile, at most; what the kernels take in one go. */
#define TILE_ROWS ((size_t)192)
/* Row blocks start at multiples of this, which every register tile divides. */
#define ROWS_STEP ((size_t)12)
/* Fewer rows take the time of so many: that of reading the weights. */
#define LEAST_ROWS ((size_t)4)
/* Tiles for each lane, so that lanes that start late or are interrupted leave little to wait for. */
#define TILES_PER_LANE 32

enum { MOST_PRODUCTS = 3 };

/* What rules make of a product. */
struct special {
    size_t unit;                /* columns */
    const uint32_t *units;      /* those that are computed, ascending; NULL: all */
    const struct batch *turned; /* its rows' positions turn what is made; NULL: not */
    bool keys;
    const uint8_t *kept_heads; /* [num_heads] whose rows of B are read; NULL: all */
    size_t num_heads;
    enum activation activation;   /* of what is made */
    const struct product *factor; /* what it is multiplied with behind that; NULL: 1 */
};

/* Products that are computed in one parallel loop, all cut in the same way. */
struct projection {
    const struct kernels *kernels;
    struct product products[MOST_PRODUCTS];
    struct {
        size_t rows, row_blocks, block_rows;
        size_t columns, column_groups, group_columns;
        size_t first_tile;
    } cut[MOST_PRODUCTS];
    const struct special *special; /* [count]; NULL without rules */
    size_t count, n_tiles;
    double flop;
};

static void add_product(struct projection *p, const struct packed_matrix *matrix, const struct rows_in *from,
                        const struct rows *to, size_t n_rows)
{
    if (n_rows == 0)
        return;
    struct product *product = &p->products[p->count]; /* zeros */
    product->depth = product->b_depth = matrix->depth;
    product->columns = matrix->columns;
    product->a = from->data;
    product->a_stride = from->stride;
    product->b = matrix->panels;
    product->pairs = matrix->pairs;
    product->bias = matrix->bias;
    product->scale = 1;
    product->c = to->data;
    product->c_stride = to->stride;
    p->cut[p->count].rows = n_rows;
    p->cut[p->count].columns = matrix->columns;
    p->flop += 2.0 * (double)size_max(n_rows, LEAST_ROWS) * (double)matrix->depth * (double)matrix->columns;
    p->count++;
}

static size_t divide_up(size_t a, size_t b)
{
    return (a + b - 1) / b;
}

/* Units of columns that a tile of `rows` rows may have. */
static size_t most_units(size_t rows, size_t depth, size_t unit)
{
    const double flop = 2.0 * (double)rows * (double)depth * (double)unit;
    return flop < TILE_FLOP_MOST ? (size_t)(TILE_FLOP_MOST / flop) : 1;
}

/* Rows that a tile of one unit may have. */
static size_t most_rows(size_t depth, size_t unit)
{
    const double rows = TILE_FLOP_MOST / (2.0 * (double)depth * (double)unit);
    return rows < (double)TILE_ROWS ? size_max((size_t)rows / ROWS_STEP * ROWS_STEP, ROWS_STEP) : TILE_ROWS;
}

/* Cuts every product into blocks of rows, and those into groups of units while they are too large, or too few for the
 * lanes. */
static void cut_products(struct projection *p, unsigned lanes)
{
    for (size_t i = 0; i < p->count; i++) {
        const size_t depth = p->products[i].depth;
        const size_t rows = p->cut[i].rows, columns = p->cut[i].columns;
        if (p->flop < SPLIT_FLOP_LEAST && rows <= TILE_ROWS) { /* whole, and without the divisions */
            p->cut[i].row_blocks = p->cut[i].column_groups = 1;
            p->cut[i].block_rows = rows;
            p->cut[i].group_columns = columns;
            p->cut[i].first_tile = p->n_tiles++;
            continue;
        }
        const size_t unit = p->special ? p->special[i].unit : p->kernels->panel_columns;
        const size_t units = divide_up(columns, unit);
        const size_t block_rows =
            divide_up(divide_up(rows, divide_up(rows, most_rows(depth, unit))), ROWS_STEP) * ROWS_STEP;
        const size_t row_blocks = divide_up(rows, block_rows);
        const size_t for_size = divide_up(units, most_units(size_min(rows, block_rows), depth, unit));
        const size_t for_lanes = lanes > 1 ? divide_up((size_t)lanes * TILES_PER_LANE, row_blocks * p->count) : 1;
        const size_t group_columns = divide_up(units, size_min(size_max(for_size, for_lanes), units)) * unit;
        p->cut[i].row_blocks = row_blocks;
        p->cut[i].block_rows = block_rows;
        p->cut[i].group_columns = group_columns;
        p->cut[i].column_groups = divide_up(columns, group_columns);
        p->cut[i].first_tile = p->n_tiles;
        p->n_tiles += row_blocks * p->cut[i].column_groups;
    }
}

/* The products of the runs of kept heads, each added to those before. */
static void multiply_kept(const struct projection *p, size_t i, size_t first_row, size_t end_row, size_t first_column,
                          size_t end_column)
{
    const struct product *whole = &p->products[i];
    const uint8_t *kept_heads = p->special[i].kept_heads;
    size_t last = p->special[i].num_heads;
    const size_t d_v = whole->depth / last;
    while (!kept_heads[last - 1])
        last--;
    struct product run = *whole;
    for (size_t head = 0, end; head < last; head = end) {
        end = head + 1;
        if (!kept_heads[head])
            continue;
        while (end < last && kept_heads[end])
            end++;
        run.depth = (end - head) * d_v;
        run.a = whole->a + head * d_v;
        run.b_first = head * d_v;
        run.bias = end == last ? whole->bias : NULL;
        p->kernels->multiply(&run, first_row, end_row, first_column, end_column);
        run.adds = true;
    }
}

/* Columns as the product has them, whole units. */
static void project_columns(const struct projection *p, size_t i, size_t first_row, size_t end_row, size_t first_column,
                            size_t end_column)
{
    const struct product *product = &p->products[i];
    const struct special *special = &p->special[i];
    if (special->kept_heads)
        multiply_kept(p, i, first_row, end_row, first_column, end_column);
    else
        p->kernels->multiply(product, first_row, end_row, first_column, end_column);
    if (special->activation != ACTIVATION_NONE) {
        const struct product *factor = special->factor;
        if (factor)
            p->kernels->multiply(factor, first_row, end_row, first_column, end_column);
        p->kernels->activate(
            product->c + first_row * product->c_stride + first_column, product->c_stride, end_row - first_row,
            size_min(end_column, product->columns) - first_column, special->activation,
            factor ? factor->c + first_row * factor->c_stride + first_column : NULL, factor ? factor->c_stride : 0);
    }
    if (!special->turned)
        return;
    const struct rotation rotation = position_rotation(special->turned, special->keys, first_row);
    p->kernels->rotate(&rotation, product->c + first_row * product->c_stride + first_column, product->c_stride,
                       end_row - first_row, (size_min(end_column, product->columns) - first_column) / rotation.d_k);
}

/* The units of a tile that are neighbours in the product, too, are computed together. */
static void project_units(const struct projection *p, size_t i, size_t first_row, size_t end_row, size_t first_unit,
                          size_t end_unit)
{
    const uint32_t *units = p->special[i].units;
    const size_t width = p->special[i].unit;
    for (size_t unit = first_unit, end; unit < end_unit; unit = end) {
        for (end = unit + 1; end < end_unit && units[end] == units[end - 1] + 1;)
            end++;
        project_columns(p, i, first_row, end_row, units[unit] * width,
                        size_min((units[end - 1] + 1) * width, p->products[i].columns));
    }
}

/* Product `i`, and the part of it that a tile is. */
struct projected_tile {
    size_t i, first_row, end_row, first_column, end_column;
};

static struct projected_tile tile_of(const struct projection *p, size_t index)
{
    size_t i = p->count - 1;
    while (index < p->cut[i].first_tile)
        i--;
    const size_t tile = index - p->cut[i].first_tile;
    const size_t first_row = tile / p->cut[i].column_groups * p->cut[i].block_rows;
    const size_t first_column = tile % p->cut[i].column_groups * p->cut[i].group_columns;
    return (struct projected_tile){i, first_row, size_min(first_row + p->cut[i].block_rows, p->cut[i].rows),
                                   first_column, size_min(first_column + p->cut[i].group_columns, p->cut[i].columns)};
}

static void project_tile(const void *argument, size_t index, unsigned lane)
{
    (void)lane;
    const struct projection *p = argument;
    const struct projected_tile t = tile_of(p, index);
    p->kernels->multiply(&p->products[t.i], t.first_row, t.end_row, t.first_column, t.end_column);
}

static void project_special_tile(const void *argument, size_t index, unsigned lane)
{
    (void)lane;
    const struct projection *p = argument;
    const struct projected_tile t = tile_of(p, index);
    const struct special *special = &p->special[t.i];
    if (special->units)
        project_units(p, t.i, t.first_row, t.end_row, t.first_column / special->unit, t.end_column / special->unit);
    else
        project_columns(p, t.i, t.first_row, t.end_row, t.first_column, t.end_column);
}

static bool run_projection(struct projection *p, struct work *work)
{
    cut_products(p, work->parallel->lanes);
    return work_split(work, p->n_tiles, p->flop, p->special ? project_special_tile : project_tile, p);
}

/* Panels, and whole heads where tiles are turned. */
size_t project_unit(const struct attention_layer *layer, bool turned)
{
    const size_t panel = layer->kernels->panel_columns, d_k = layer->shape.d_k;
    size_t divisor = panel; /* a power of two */
    while (turned && d_k % divisor)
        divisor /= 2;
    return panel / divisor * (turned ? d_k : divisor);
}

/* Turns the projections of queries and keys in their tiles, and leaves out units that no computed head has. */
static void specialise_inputs(struct projection *p, const struct batch *batch, struct special special[MOST_PRODUCTS])
{
    const bool turned = position_rotates(batch->extent.rules) && batch->positions.fused;
    size_t i = 0;
    for (size_t which = 0; which < 3; which++) {
        if ((which == 0 ? batch->extent.n_queries : batch->extent.n_keys) == 0)
            continue; /* no product */
        const struct computed_units *units = batch->kept_heads.computed ? &batch->kept_heads.units[which] : NULL;
        special[i] = (struct special){.unit = project_unit(batch->layer, turned && which < 2),
                                      .turned = turned && which < 2 ? batch : NULL,
                                      .keys = which == 1};
        if (units) {
            special[i].unit = units->columns;
            special[i].units = units->numbers;
            p->flop += 2.0 * (double)p->cut[i].rows * (double)p->products[i].depth *
                       ((double)(units->count * units->columns) - (double)p->products[i].columns);
            p->cut[i].columns = units->count * units->columns;
        }
        i++;
    }
    p->special = special;
}

bool batch_project_inputs(const struct batch *batch, struct work *work)
{
    const struct attention_layer *layer = batch->layer;
    if (!layer->shape.projected)
        return true;
    struct special special[MOST_PRODUCTS];
    struct projection p = {.kernels = layer->kernels};
    add_product(&p, &layer->query, &batch->in_query, &batch->projected_query, batch->extent.n_queries);
    add_product(&p, &layer->key, &batch->in_key, &batch->projected_key, batch->extent.n_keys);
    add_product(&p, &layer->value, &batch->in_value, &batch->projected_value, batch->extent.n_keys);
    if (batch->extent.rules)
        specialise_inputs(&p, batch, special);
    return run_projection(&p, work);
}

bool batch_project_output(const struct batch *batch, struct work *work)
{
    const struct attention_layer *layer = batch->layer;
    if (!layer->shape.projected || !batch->output.data)
        return true;
    const struct special special = {.unit = layer->kernels->panel_columns,
                                    .kept_heads = batch->kept_heads.used,
                                    .num_heads = layer->shape.num_heads};
    struct projection p = {.kernels = layer->kernels, .special = batch->kept_heads.computed ? &special : NULL};
    const struct rows_in heads = {batch->heads.data, batch->heads.stride};
    add_product(&p, &layer->output, &heads, &batch->output, batch->extent.n_queries);
    p.products[0].adds = batch->output_adds;
    return run_projection(&p, work);
}

bool project_rows(const struct kernels *kernels, const struct packed_matrix *matrix, const struct rows_in *from,
                  const struct rows *to, size_t n_rows, bool adds, struct work *work)
{
    struct projection p = {.kernels = kernels};
    add_product(&p, matrix, from, to, n_rows);
    p.products[0].adds = adds;
    return run_projection(&p, work);
}

bool project_activated(const struct kernels *kernels, enum activation activation, const struct packed_matrix *matrix,
                       const struct packed_matrix *factor_matrix, const struct rows_in *from, const struct rows *to,
                       const struct rows *factor, size_t n_rows, struct work *work)
{
    struct projection p = {.kernels = kernels}, other = {.kernels = kernels};
    struct special special = {.unit = kernels->panel_columns, .activation = activation};
    add_product(&p, matrix, from, to, n_rows);
    if (factor_matrix) {
        add_product(&other, factor_matrix, from, factor, n_rows);
        special.factor = &other.products[0];
        p.flop += other.flop;
    }
    p.special = &special;
    return run_projection(&p, work);
}
