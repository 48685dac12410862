/* Plans of sparse tiles: see attend_plan.h. Each lane has a planner of its own. */

#include "engine/attend_plan.h"

#include "base/arena.h"
#include "base/size.h"

#include <math.h>
#include <string.h>

/* Blocks from this size on have tiles of their own: a tile of several would see the keys of all. Smaller ones share a
 * segment of keys anyway. */
#define OWN_TILE_LEAST ((size_t)32)

/* Reading a run, and drawing a block, take about as long as so many flop. */
#define FLOP_OF_RUN  500.0
#define FLOP_OF_DRAW 5000.0

/* Rows that a tile reads at most. */
#define READ_ROWS_MOST ((size_t)64)

enum { ARRAYS = 5 };

static bool array_bytes(const struct batch_extent *extent, size_t rows, size_t allowed_bytes, size_t bytes[ARRAYS])
{
    const size_t blocks = extent->longest_keys / SEGMENT_KEYS + 1;
    bytes[3] = allowed_bytes;
    return pattern_reader_bytes(&extent->rules->pattern, extent->longest_positions, &bytes[0]) &&
           tensor_bytes(&blocks, 1, sizeof(uint8_t), &bytes[1]) &&
           tensor_bytes((size_t[]){blocks / 2 + 1}, 1, sizeof(struct key_segment), &bytes[2]) &&
           tensor_bytes(&rows, 1, sizeof(struct row_view), &bytes[4]);
}

bool planner_bytes(const struct batch_extent *extent, size_t rows, size_t allowed_bytes, size_t *bytes)
{
    size_t arrays[ARRAYS], total = 0;
    if (!array_bytes(extent, rows, allowed_bytes, arrays))
        return false;
    for (size_t i = 0; i < ARRAYS; i++)
        if (!arena_need(&total, arrays[i]))
            return false;
    *bytes = total;
    return true;
}

void planner_open(struct planner *planner, const struct batch_extent *extent, size_t rows, size_t allowed_bytes,
                  void *memory)
{
    size_t bytes[ARRAYS];
    struct arena arena = {.base = memory};
    *planner = (struct planner){.rules = extent->rules};
    array_bytes(extent, rows, allowed_bytes, bytes); /* did not overflow when the memory was counted */
    planner_bytes(extent, rows, allowed_bytes, &arena.capacity);
    planner->reader_memory = arena_take(&arena, bytes[0]);
    planner->marks = arena_take(&arena, bytes[1]);
    planner->plan.segments = arena_take(&arena, bytes[2]);
    planner->plan.allowed = arena_take(&arena, bytes[3]);
    planner->plan.views = arena_take(&arena, bytes[4]);
    memset(planner->marks, 0, bytes[1]);
}

/* The rows (or keys) of the sequence that stand before a position of the input. */
static size_t kept_before(const struct sequence *s, size_t position, size_t n_kept)
{
    if (!s->kept)
        return size_min(position, n_kept);
    if (!s->holes)
        return position <= s->kept[0] ? 0 : size_min(position - s->kept[0], n_kept);
    size_t low = 0, high = n_kept;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (s->kept[middle] < position)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

struct row_keys row_keys_begin(struct pattern_reader *reader, const struct sequence *s, size_t row)
{
    struct row_keys keys = {.sequence = s, .limit = sequence_key_limit(s, row)};
    if (keys.limit > 0)
        keys.runs =
            pattern_runs(reader, (ptrdiff_t)sequence_position(s, row) + forward_position_shift(s->input), &keys.n_runs);
    return keys;
}

bool row_keys_next(struct row_keys *keys, size_t *begin, size_t *end)
{
    const struct sequence *s = keys->sequence;
    while (keys->next < keys->n_runs) {
        const struct key_run run = keys->runs[keys->next++];
        *begin = kept_before(s, run.begin, s->n_keys);
        if (*begin >= keys->limit)
            return false;
        *end = size_min(kept_before(s, run.end, s->n_keys), keys->limit);
        if (*begin < *end)
            return true;
    }
    return false;
}

bool row_keys_any(struct row_keys keys, const uint8_t *allowed)
{
    size_t begin, end;
    while (row_keys_next(&keys, &begin, &end))
        if (!allowed || memchr(allowed + begin, 1, end - begin))
            return true;
    return false;
}

/* Whether the pattern hides nothing from the row. */
static bool sees_all(const struct row_keys *keys)
{
    return keys->n_runs == 1 && keys->runs[0].begin == 0 && keys->runs[0].end >= keys->sequence->input->key_length;
}

static size_t own_tile(const struct pattern_rule *rule)
{
    const bool blocks = rule->kind == PATTERN_BLOCK || rule->kind == PATTERN_BIGBIRD;
    return blocks && rule->size >= OWN_TILE_LEAST ? rule->size : 0;
}

size_t plan_tile_rows(const struct pattern_rule *rule)
{
    const bool blocks = rule->kind == PATTERN_BLOCK || rule->kind == PATTERN_BIGBIRD;
    if (blocks && rule->size < OWN_TILE_LEAST)
        return SEGMENT_KEYS / rule->size * rule->size;
    return own_tile(rule) ? size_min(rule->size, PLAN_ROWS_MOST) : SEGMENT_KEYS;
}

/* The rows that a row at this place shares a tile with, as far as their places go. */
static void bound_tile(const struct planner *planner, const struct sequence *s, size_t row, size_t *first, size_t *end)
{
    const ptrdiff_t shift = forward_position_shift(s->input), position = (ptrdiff_t)sequence_position(s, row) + shift;
    const size_t rows = plan_tile_rows(&planner->rules->pattern), block = own_tile(&planner->rules->pattern);
    ptrdiff_t from = PTRDIFF_MIN / 2, to = 0;
    if (position >= 0) {
        const size_t block_begin = block ? (size_t)position / block * block : 0;
        from = (ptrdiff_t)(block_begin + ((size_t)position - block_begin) / rows * rows);
        to = from + (ptrdiff_t)rows;
        if (block && (size_t)to - block_begin > block)
            to = (ptrdiff_t)(block_begin + block);
    }
    *first = from <= shift ? 0 : kept_before(s, (size_t)(from - shift), s->n_queries);
    *end = to <= shift ? 0 : kept_before(s, (size_t)(to - shift), s->n_queries);
}

static void mark_keys(struct planner *planner, struct row_keys keys)
{
    size_t begin, end;
    while (row_keys_next(&keys, &begin, &end)) {
        const size_t first = begin / SEGMENT_KEYS, last = (end - 1) / SEGMENT_KEYS;
        memset(planner->marks + first, 1, last - first + 1);
    }
}

/* From the marks, which are taken away. */
static void list_segments(struct planner *planner, const struct sequence *s)
{
    struct tile_plan *plan = &planner->plan;
    const size_t blocks = (s->n_keys + SEGMENT_KEYS - 1) / SEGMENT_KEYS;
    plan->n_segments = plan->n_columns = 0;
    for (const uint8_t *marks = planner->marks, *mark;
         (mark = memchr(marks, 1, (size_t)(planner->marks + blocks - marks)));) {
        const size_t first = (size_t)(mark - planner->marks);
        size_t end = first;
        while (end < blocks && planner->marks[end])
            planner->marks[end++] = 0;
        const size_t columns = size_min(end * SEGMENT_KEYS, s->n_keys) - first * SEGMENT_KEYS;
        plan->segments[plan->n_segments++] =
            (struct key_segment){(uint32_t)(first * SEGMENT_KEYS), (uint32_t)plan->n_columns, (uint32_t)columns};
        plan->n_columns += columns;
        marks = planner->marks + end;
    }
}

static void choose_reader(struct planner *planner, const struct sequence *s)
{
    if (planner->reader_length != s->input->key_length) {
        planner->reader_length = s->input->key_length;
        planner->reader = pattern_reader_init(&planner->rules->pattern, planner->rules->layer, planner->reader_length,
                                              planner->reader_memory);
    }
}

/* Rows that see everything are tiles of their own: they would make all others of a tile as wide. */
void plan_tile(struct planner *planner, const struct sequence *s, size_t row)
{
    struct tile_plan *plan = &planner->plan;
    size_t next, end;
    choose_reader(planner, s);
    bound_tile(planner, s, row, &next, &end);
    do {
        struct row_keys keys = row_keys_begin(planner->reader, s, next);
        const bool wide = sees_all(&keys);
        plan->first_row = next;
        do {
            if (!(wide && next > plan->first_row && !s->input->causal)) /* the first has seen all */
                mark_keys(planner, keys);
            if (++next == end)
                break;
            keys = row_keys_begin(planner->reader, s, next);
        } while (sees_all(&keys) == wide);
        list_segments(planner, s);
    } while (next <= row);
    plan->end_row = next;
}

/* The tile's column of a key, or of the end of a run, which lies in a segment from *segment on. */
static size_t column_of(const struct tile_plan *plan, size_t key, size_t *segment)
{
    const struct key_segment *at = &plan->segments[*segment];
    while (key >= at->begin + at->columns)
        at++;
    *segment = (size_t)(at - plan->segments);
    return at->column + (key - at->begin);
}

/* The row's view; its marks are made where something is hidden from it between its first and its last column. */
static struct row_view view_row(const struct tile_plan *plan, struct row_keys keys, const uint8_t *mask,
                                uint8_t *allowed)
{
    size_t begin, end, segment = 0, first = 0, written = 0;
    bool solid = true;
    for (size_t runs = 0; row_keys_next(&keys, &begin, &end); runs++) {
        const size_t from = column_of(plan, begin, &segment), to = column_of(plan, end - 1, &segment) + 1;
        if (runs == 0) {
            first = written = from / KERNEL_PAD * KERNEL_PAD;
            solid = first == from && !mask;
        }
        if (from > written) {
            solid = false;
            memset(allowed + written, 0, from - written);
        }
        if (mask)
            memcpy(allowed + from, mask + begin, to - from);
        else
            memset(allowed + from, 1, to - from);
        written = to;
    }
    return (struct row_view){(uint32_t)first, (uint32_t)written, solid};
}

void plan_rows(struct planner *planner, const struct sequence *s, size_t first_row, size_t n_rows)
{
    struct tile_plan *plan = &planner->plan;
    plan->first_viewed = first_row;
    plan->allowed_stride = kernel_padded(plan->n_columns);
    plan->whole = true;
    for (size_t i = 0; i < n_rows; i++) {
        const size_t row = first_row + i;
        plan->views[i] = view_row(plan, row_keys_begin(planner->reader, s, row), sequence_allowed(s, row),
                                  plan->allowed + i * plan->allowed_stride);
        plan->whole &= plan->views[i].solid && plan->views[i].begin == 0 && plan->views[i].end == plan->n_columns;
    }
}

double plan_columns(const struct pattern_rule *rule, size_t n_queries, size_t n_keys)
{
    const double keys = (double)n_keys, queries = (double)n_queries, rows = (double)plan_tile_rows(rule);
    const double size = (double)rule->size;
    const double edges = own_tile(rule) && rule->size % SEGMENT_KEYS == 0 ? 0 : 2 * (double)(SEGMENT_KEYS - 1);
    double columns = keys, wide_rows = (double)rule->n_global;
    switch (rule->kind) {
    case PATTERN_WINDOW:
        columns = (double)rule->left + (double)rule->right + rows + edges;
        break;
    case PATTERN_DILATED:
        columns = 2 * (double)rule->window * (double)rule->step + rows + edges;
        break;
    case PATTERN_BLOCK:
        columns = (own_tile(rule) ? size : rows) + edges;
        break;
    case PATTERN_BIGBIRD: {
        const double blocks = own_tile(rule) ? 1 : rows / size; /* rows of blocks of a tile */
        columns = (double)rule->global_blocks * size + ((double)rule->window_blocks - 1 + blocks) * size + 2 * edges +
                  blocks * (double)rule->random_blocks * (size + edges);
        wide_rows += (double)rule->global_blocks * size;
        break;
    }
    default:
        break;
    }
    columns += (double)rule->n_global * (double)SEGMENT_KEYS;
    if (columns > keys)
        columns = keys;
    const double wide = wide_rows < queries ? wide_rows / queries : 1;
    return columns + wide * (keys - columns);
}

double plan_flop(const struct pattern_rule *rule, size_t n_queries, size_t n_keys)
{
    const double keys = (double)n_keys, queries = (double)n_queries;
    double runs = 2, draws = 0;
    if (rule->kind == PATTERN_DILATED)
        runs += fmin(keys / (double)rule->step, 2 * (double)rule->window);
    if (rule->kind == PATTERN_STRIDED)
        runs += keys / (double)rule->size;
    if (rule->kind == PATTERN_BIGBIRD) {
        const double n_blocks = keys / (double)rule->size + 1, random_blocks = (double)rule->random_blocks;
        draws = random_blocks < n_blocks ? random_blocks : n_blocks;
        runs += draws;
        draws *= queries / (double)rule->size + 1;
    }
    runs += (double)rule->n_global < keys ? (double)rule->n_global : keys;
    return queries * runs * FLOP_OF_RUN + draws * FLOP_OF_DRAW;
}

size_t plan_read_rows(const struct pattern_rule *rule, size_t n_keys)
{
    size_t rows = READ_ROWS_MOST;
    while (rows > 1 && plan_flop(rule, rows, n_keys) > TILE_FLOP_MOST)
        rows /= 2;
    return rows;
}
