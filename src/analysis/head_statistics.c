/* Statistics of heads: the rows of a head are cut into units of much the same work, lanes measure units, and what they
 * found is added up in the order of units. Entered by the thread that runs the job. */
#include "analysis/head_statistics.h"

#include "base/arena_pieces.h"
#include "base/size.h"
#include "engine/split.h"

#include <math.h>
#include <string.h>

/* Weights of a unit, about half a millisecond of one core: cancellation is looked at in between. */
#define UNIT_WEIGHTS ((size_t)1 << 18)

/* One weight is measured in about 2 ns, in which a core computes as much as this. */
#define FLOP_PER_WEIGHT 128.0

/* How the rows of a head are cut: several sequences to a unit, or several units to a sequence. By the given sizes, not
 * by what padding leaves. */
struct cut {
    size_t sequences;          /* of a unit */
    size_t rows;               /* of a unit, when one sequence is several units; else Tq */
    size_t units_per_sequence; /* 1, or more */
    size_t units_per_head;
};

static struct cut cut_of(const struct forward_input *rule)
{
    struct cut cut = {1, rule->query_length, 1, 0};
    size_t weights;
    if (!size_multiply(rule->query_length, rule->key_length, &weights))
        weights = SIZE_MAX;
    if (weights <= UNIT_WEIGHTS) {
        cut.sequences = size_min(UNIT_WEIGHTS / weights, rule->batch);
        cut.units_per_head = (rule->batch + cut.sequences - 1) / cut.sequences;
        return cut;
    }
    cut.rows = size_max(UNIT_WEIGHTS / rule->key_length / MEASURED_ROWS, 1) * MEASURED_ROWS;
    cut.units_per_sequence = (rule->query_length + cut.rows - 1) / cut.rows;
    cut.units_per_head = rule->batch * cut.units_per_sequence;
    return cut;
}

/* What a unit found. */
struct unit {
    struct ratio_sums means[HEAD_STATISTIC_COUNT]; /* of whole sequences; */
    struct row_sums rows;                          /* of a part of one, instead */
    size_t scored;                                 /* rows */
};

struct run {
    const struct head_maps *maps;
    const struct row_facts *facts;
    const struct row_kernels *kernels;
    const uint32_t *heads; /* [n_heads]; NULL: all */
    size_t n_heads;
    struct cut cut;
    struct unit *units; /* [n_heads, units_per_head] */
    double *columns;    /* [n_heads, units_per_head, Tk] sums of the keys' columns */
    uint32_t *offsets;  /* [n_heads, units_per_head, Tq + Tk - 1] rows by the offset of their largest weight, the least
                           offset (last row, key 0) first; where aligned */
    size_t n_offsets;
    char *scratch; /* [lanes, scratch_stride] */
    size_t scratch_stride, tile_bytes;
    struct head_statistics *statistics;
};

double head_statistics_flop(const struct forward_input *rule, size_t n_heads)
{
    return (double)rule->batch * (double)n_heads * (double)rule->query_length * (double)rule->key_length *
           FLOP_PER_WEIGHT;
}

/* The pieces of memory; without an arena only *bytes is set. */
static bool take_memory(struct run *run, unsigned lanes, struct arena *arena, size_t *bytes)
{
    const struct forward_input *rule = run->maps->rule;
    size_t sort_bytes, units;
    if (!size_add(rule->query_length, rule->key_length - 1, &run->n_offsets) ||
        !head_maps_tile_bytes_most(run->maps, MEASURED_ROWS, &run->tile_bytes) ||
        !row_statistics_scratch_bytes(rule->key_length, &sort_bytes) ||
        !size_add(run->tile_bytes, sort_bytes, &run->scratch_stride) ||
        !size_multiply(run->n_heads, run->cut.units_per_head, &units))
        return false;
    const struct arena_piece all[] = {
        {&run->units, {units, 1, 1, 1}, sizeof *run->units, true},
        {&run->columns, {units, rule->key_length, 1, 1}, sizeof *run->columns, true},
        {&run->offsets, {units, run->n_offsets, 1, 1}, sizeof *run->offsets, true},
        {&run->scratch, {lanes, run->scratch_stride, 1, 1}, 1, true},
    };
    *bytes = 0;
    return arena_pieces(all, sizeof all / sizeof *all, arena, bytes);
}

bool head_statistics_scratch_bytes(const struct head_maps *maps, size_t n_heads, unsigned lanes, size_t *bytes)
{
    struct run run = {.maps = maps, .n_heads = n_heads, .cut = cut_of(maps->rule)};
    size_t own, prepared, facts, total;
    if (!take_memory(&run, lanes, NULL, &own) || !head_maps_bytes(maps, &prepared) || !row_facts_bytes(maps, &facts) ||
        !size_add(own, prepared, &total) || !size_add(total, facts, bytes))
        return false;
    return true;
}

/* ---- a unit */

static void keep_positions(const struct run *run, size_t head, size_t index, const struct head_tile *tile,
                           const struct row_measures *measures)
{
    const struct forward_input *rule = run->maps->rule;
    const struct head_sequence *sequence = &run->maps->sequences[index];
    const size_t begin = (head * rule->batch + index) * rule->query_length;
    for (size_t i = 0; i < tile->n_rows; i++) {
        const size_t row = tile->first_row + i;
        const size_t at = begin + (sequence->word_ends   ? row
                                   : sequence->positions ? sequence->positions[row]
                                                         : sequence->first_position + row);
        if (tile->n_allowed[i] == 0)
            continue;
        run->statistics->entropy_per_position[at] = (float)measures->entropy[i];
        if (run->maps->aligned)
            run->statistics->distance_per_position[at] = (float)measures->distance[i];
    }
}

/* Keys of a tile that its rows may reach: later ones are all zeros. */
static size_t reach(const struct head_maps *maps, const struct head_tile *tile)
{
    if (!maps->rule->causal)
        return tile->n_keys;
    const ptrdiff_t last = row_place(maps, tile->first_row + tile->n_rows - 1);
    return last < 0 ? 1 : size_min((size_t)last + 1, tile->n_keys);
}

/* Rows first .. end - 1 of a sequence. */
static void measure_rows(const struct run *run, size_t index, size_t head, size_t at, size_t first, size_t end,
                         char *scratch, struct row_sums *sums)
{
    const struct head_maps *maps = run->maps;
    const size_t unit = at, map = run->heads ? run->heads[head] : head;
    double *columns = run->columns + unit * maps->rule->key_length;
    uint32_t *offsets = run->offsets + unit * run->n_offsets;
    for (size_t row = first; row < end; row += MEASURED_ROWS) {
        struct head_tile tile;
        struct row_measures measures;
        head_maps_tile(maps, index, map, row, size_min(MEASURED_ROWS, end - row), scratch, &tile);
        tile.n_keys = reach(maps, &tile);
        row_statistics_add(run->kernels, maps, run->facts, index, &tile, true, scratch + run->tile_bytes, &measures,
                           sums);
        run->kernels->add_columns(&(struct measured_rows){tile.weights, tile.stride, tile.n_rows, tile.n_keys, 0},
                                  columns);
        if (maps->aligned)
            for (size_t i = 0; i < tile.n_rows; i++)
                if (tile.n_allowed[i] > 0)
                    offsets[measures.argmax[i] + (maps->rule->query_length - 1) - (row + i)]++;
        if (run->statistics->entropy_per_position)
            keep_positions(run, head, index, &tile, &measures);
    }
}

static void add_sequence(struct ratio_sums *means, const struct row_sums *sums)
{
    for (size_t i = 0; i < HEAD_STATISTIC_COUNT; i++)
        ratio_sums_add(&means[i], sums->sum[i], sums->rows[head_statistic_kinds[i].rows]);
}

static void measure_unit(const void *argument, size_t at, unsigned lane)
{
    const struct run *run = argument;
    const struct head_maps *maps = run->maps;
    const struct cut *cut = &run->cut;
    struct unit *unit = &run->units[at];
    const size_t head = at / cut->units_per_head, part = at % cut->units_per_head;
    char *scratch = run->scratch + lane * run->scratch_stride;
    memset(unit, 0, sizeof *unit);
    memset(run->columns + at * maps->rule->key_length, 0, maps->rule->key_length * sizeof *run->columns);
    memset(run->offsets + at * run->n_offsets, 0, run->n_offsets * sizeof *run->offsets);
    if (cut->units_per_sequence > 1) {
        const size_t index = part / cut->units_per_sequence, first = part % cut->units_per_sequence * cut->rows;
        const size_t rows = maps->sequences[index].n_rows;
        if (first < rows)
            measure_rows(run, index, head, at, first, size_min(first + cut->rows, rows), scratch, &unit->rows);
        unit->scored = (size_t)unit->rows.rows[ROWS_SCORED];
        return;
    }
    const size_t begin = part * cut->sequences, end = size_min(begin + cut->sequences, maps->rule->batch);
    for (size_t index = begin; index < end; index++) {
        struct row_sums sums = {0};
        measure_rows(run, index, head, at, 0, maps->sequences[index].n_rows, scratch, &sums);
        add_sequence(unit->means, &sums);
        unit->scored += (size_t)sums.rows[ROWS_SCORED];
    }
}

/* ---- all units of a head */

static void add_parts(const struct run *run, const struct unit *units, struct ratio_sums *means)
{
    const struct cut *cut = &run->cut;
    for (size_t at = 0; at < cut->units_per_head; at += cut->units_per_sequence) {
        struct row_sums sums = {0};
        for (size_t part = 0; part < cut->units_per_sequence; part++) {
            for (size_t i = 0; i < HEAD_STATISTIC_COUNT; i++)
                sums.sum[i] += units[at + part].rows.sum[i];
            for (size_t i = 0; i < ROW_SET_COUNT; i++)
                sums.rows[i] += units[at + part].rows.rows[i];
        }
        add_sequence(means, &sums);
    }
}

/* The columns and offsets of the head's later units are added to those of its first. */
static void find_sink(const struct run *run, size_t first_unit, struct head_peaks *peaks)
{
    const size_t n_keys = run->maps->rule->key_length;
    double *columns = run->columns + first_unit * n_keys;
    for (size_t i = 1; i < run->cut.units_per_head; i++)
        for (size_t key = 0; key < n_keys; key++)
            columns[key] += columns[i * n_keys + key];
    for (size_t key = 1; key < n_keys; key++)
        if (columns[key] > columns[peaks->sink_key])
            peaks->sink_key = key;
    peaks->sink_mass = columns[peaks->sink_key] / (double)peaks->n_rows;
}

static void find_best_offset(const struct run *run, size_t first_unit, struct head_peaks *peaks)
{
    uint32_t *offsets = run->offsets + first_unit * run->n_offsets, most = 0;
    const ptrdiff_t zero = (ptrdiff_t)(run->maps->rule->query_length - 1 + run->maps->shift);
    for (size_t i = 1; i < run->cut.units_per_head; i++)
        for (size_t at = 0; at < run->n_offsets; at++)
            offsets[at] += offsets[i * run->n_offsets + at];
    for (size_t at = 0; at < run->n_offsets; at++) {
        const ptrdiff_t offset = (ptrdiff_t)at - zero, best = peaks->best_offset;
        const ptrdiff_t far = offset < 0 ? -offset : offset, best_far = best < 0 ? -best : best;
        if (offsets[at] > most || (offsets[at] == most && most > 0 && far < best_far)) {
            most = offsets[at];
            peaks->best_offset = offset;
        }
    }
    peaks->best_offset_share = (double)most / (double)peaks->n_rows;
}

static void add_up_head(const struct run *run, size_t head)
{
    const struct cut *cut = &run->cut;
    const size_t first_unit = head * cut->units_per_head;
    const struct unit *units = &run->units[first_unit];
    struct ratio_sums *means = run->statistics->means + head * HEAD_STATISTIC_COUNT;
    struct head_peaks *peaks = &run->statistics->peaks[head];
    memset(means, 0, HEAD_STATISTIC_COUNT * sizeof *means);
    *peaks = (struct head_peaks){0};
    if (cut->units_per_sequence > 1)
        add_parts(run, units, means);
    for (size_t at = 0; at < cut->units_per_head; at++) {
        for (size_t i = 0; i < HEAD_STATISTIC_COUNT; i++)
            ratio_sums_merge(&means[i], &units[at].means[i]);
        peaks->n_rows += units[at].scored;
    }
    if (!run->maps->aligned)
        for (size_t i = 0; i < HEAD_STATISTIC_COUNT; i++)
            if (head_statistic_kinds[i].placed)
                means[i] = (struct ratio_sums){0};
    if (peaks->n_rows == 0)
        return;
    find_sink(run, first_unit, peaks);
    if (run->maps->aligned)
        find_best_offset(run, first_unit, peaks);
}

static void clear_positions(const struct head_statistics *statistics, const struct forward_input *rule, size_t n_heads)
{
    const size_t count = n_heads * rule->batch * rule->query_length;
    for (size_t i = 0; statistics->entropy_per_position && i < count; i++)
        statistics->entropy_per_position[i] = statistics->distance_per_position[i] = NAN;
}

bool head_statistics_run(struct head_maps *maps, const uint32_t *heads, size_t n_heads, const struct parallel *parallel,
                         struct arena *arena, struct head_statistics *statistics, struct error *error)
{
    struct row_facts facts;
    struct run run = {.maps = maps,
                      .facts = &facts,
                      .kernels = row_kernels_of(isa_chosen()),
                      .heads = heads,
                      .n_heads = n_heads,
                      .cut = cut_of(maps->rule),
                      .statistics = statistics};
    struct work work = {.parallel = parallel};
    size_t bytes;
    if (!head_maps_prepare(maps, arena, error))
        return false;
    if (!row_facts_make(maps, arena, &facts)) {
        if (maps->watched && maps->watched->cancelled(maps->watched->context))
            return error_cancelled(error);
        return error_out_of_memory(error);
    }
    if (!take_memory(&run, parallel->lanes, arena, &bytes))
        return error_out_of_memory(error);
    clear_positions(statistics, maps->rule, n_heads);
    if (!work_split(&work, n_heads * run.cut.units_per_head, head_statistics_flop(maps->rule, n_heads), measure_unit,
                    &run))
        return error_cancelled(error);
    for (size_t head = 0; head < n_heads; head++)
        add_up_head(&run, head);
    return true;
}
