/* Facts of rows for live sums: see live_facts.h. */
#include "analysis/live_facts.h"

#include "analysis/head_maps.h"
#include "analysis/row_facts.h"
#include "analysis/scored_rows.h"
#include "base/arena_pieces.h"
#include "base/size.h"

#include <math.h>
#include <string.h>

struct pieces {
    struct live_sequence *sequences; /* [B] */
    float *of_rows;                  /* [4, B or 1, Tq], each with padding */
    uint8_t *keys;                   /* [B or 1, Tq] */
    float *even, *inverse_logarithm, *root, *inverse_root;
};

/* Every row of a sequence may attend to all of its keys: there is no pattern, and no mask, or one of padding. */
static bool is_open(const struct forward_input *input)
{
    return input->self_attention && !input->causal && input->mask_kind != FORWARD_MASK_PAIRS && !has_pattern(input);
}

static bool are_alike(const struct forward_input *input)
{
    return is_open(input) && input->mask_kind == FORWARD_MASK_NONE;
}

/* Without an arena only *bytes is set. */
static bool take_pieces(const struct forward_input *input, struct pieces *pieces, struct arena *arena, size_t *bytes)
{
    const size_t batch = input->batch, sequences = are_alike(input) ? 1 : batch;
    size_t rows, padded;
    if (!size_multiply(sequences, input->query_length, &rows) || !size_add(rows, LIVE_ROWS_PADDING, &padded))
        return false;
    const struct arena_piece all[] = {
        {&pieces->sequences, {batch, 1, 1, 1}, sizeof *pieces->sequences, true},
        {&pieces->of_rows, {4, padded, 1, 1}, sizeof *pieces->of_rows, true},
        {&pieces->keys, {rows, 1, 1, 1}, sizeof *pieces->keys, true},
    };
    *bytes = 0;
    if (!arena_pieces(all, sizeof all / sizeof *all, arena, bytes))
        return false;
    if (arena) {
        pieces->even = pieces->of_rows;
        pieces->inverse_logarithm = pieces->even + padded;
        pieces->root = pieces->inverse_logarithm + padded;
        pieces->inverse_root = pieces->root + padded;
    }
    return true;
}

static struct head_maps maps_of(const struct forward_input *input)
{
    return (struct head_maps){.rule = input, .num_heads = 1};
}

bool live_facts_bytes(const struct forward_input *input, size_t *bytes)
{
    const struct head_maps maps = maps_of(input);
    struct pieces none;
    size_t own, prepared = 0, facts = 0;
    return take_pieces(input, &none, NULL, &own) &&
           (is_open(input) || (head_maps_bytes(&maps, &prepared) && row_facts_bytes(&maps, &facts))) &&
           size_add(own, prepared, &own) && size_add(own, facts, bytes);
}

/* Rows [at, at + count) that may attend to n keys. */
static void fill_rows(const struct pieces *pieces, size_t at, size_t count, size_t n)
{
    const double root = sqrt((double)n);
    const float even = n > 0 ? (float)(1 / (double)n) : 0, inverse_logarithm = n > 1 ? (float)(1 / log((double)n)) : 0,
                inverse_root = n > 1 ? (float)(1 / (root - 1)) : 0;
    for (size_t i = at; i < at + count; i++) {
        pieces->even[i] = even;
        pieces->inverse_logarithm[i] = inverse_logarithm;
        pieces->root[i] = (float)root;
        pieces->inverse_root[i] = inverse_root;
    }
}

static double *baseline(struct live_sequence *sequence, enum head_statistic statistic)
{
    size_t i = 0;
    while (live_baselines[i] != statistic)
        i++;
    return &sequence->baselines[i];
}

/* A sequence of n rows and keys, all of them allowed. */
static void sum_open_sequence(size_t n, struct live_sequence *sequence)
{
    const double count = (double)n, neighbours = n > 0 ? count - 1 : 0;
    *sequence = (struct live_sequence){.n_rows = n, .allowed = count * count, .even = n > 0};
    sequence->rows[ROWS_SCORED] = sequence->rows[ROWS_SELF] = sequence->rows[ROWS_FIRST] = count;
    sequence->rows[ROWS_CHOOSING] = n > 1 ? count : 0;
    sequence->rows[ROWS_PREVIOUS] = sequence->rows[ROWS_NEXT] = neighbours;
    if (n == 0)
        return;
    /* The sum of |i - j| over all pairs is n (n^2 - 1) / 3. */
    *baseline(sequence, STATISTIC_UNIFORM_DISTANCE) = (count * count - 1) / 3;
    *baseline(sequence, STATISTIC_UNIFORM_PREVIOUS_MASS) = neighbours / count;
    *baseline(sequence, STATISTIC_UNIFORM_NEXT_MASS) = neighbours / count;
    *baseline(sequence, STATISTIC_UNIFORM_SELF_MASS) = 1;
    *baseline(sequence, STATISTIC_UNIFORM_FIRST_MASS) = 1;
}

static void fill_open_sequence(const struct pieces *pieces, size_t at, size_t n)
{
    fill_rows(pieces, at, n, n);
    if (n == 0)
        return;
    memset(pieces->keys + at, ROW_HAS_PREVIOUS | ROW_HAS_NEXT | ROW_HAS_SELF | ROW_HAS_FIRST, n);
    pieces->keys[at] &= (uint8_t)~ROW_HAS_PREVIOUS;
    pieces->keys[at + n - 1] &= (uint8_t)~ROW_HAS_NEXT;
}

static size_t count_kept(const struct forward_input *input, size_t sequence)
{
    return input->mask_kind == FORWARD_MASK_NONE
               ? input->key_length
               : forward_mask_count(input->mask + sequence * input->key_length, input->key_length);
}

static void make_open(const struct forward_input *input, const struct pieces *pieces)
{
    const bool alike = are_alike(input);
    for (size_t b = 0; b < input->batch; b++) {
        if (alike && b > 0) {
            pieces->sequences[b] = pieces->sequences[0];
            continue;
        }
        const size_t n = count_kept(input, b);
        sum_open_sequence(n, &pieces->sequences[b]);
        fill_open_sequence(pieces, b * input->query_length, n);
    }
}

static void add_mass(struct live_sequence *sequence, enum row_set rows, enum head_statistic uniform, double even)
{
    sequence->rows[rows] += 1;
    *baseline(sequence, uniform) += even;
}

static void add_row(struct live_sequence *sequence, size_t n, uint8_t keys, double uniform_distance)
{
    const double even = 1 / (double)n;
    sequence->rows[ROWS_SCORED] += 1;
    sequence->rows[ROWS_CHOOSING] += n > 1;
    sequence->allowed += (double)n;
    sequence->even += even;
    *baseline(sequence, STATISTIC_UNIFORM_DISTANCE) += uniform_distance;
    if (keys & ROW_HAS_PREVIOUS)
        add_mass(sequence, ROWS_PREVIOUS, STATISTIC_UNIFORM_PREVIOUS_MASS, even);
    if (keys & ROW_HAS_NEXT)
        add_mass(sequence, ROWS_NEXT, STATISTIC_UNIFORM_NEXT_MASS, even);
    if (keys & ROW_HAS_SELF)
        add_mass(sequence, ROWS_SELF, STATISTIC_UNIFORM_SELF_MASS, even);
    if (keys & ROW_HAS_FIRST)
        add_mass(sequence, ROWS_FIRST, STATISTIC_UNIFORM_FIRST_MASS, even);
}

/* Row by row, as masks and limits have it. */
static bool make_masked(const struct forward_input *input, const struct pieces *pieces, struct arena *arena)
{
    struct head_maps maps = maps_of(input);
    struct row_facts facts;
    struct error ignored;
    if (!head_maps_prepare(&maps, arena, &ignored) || !row_facts_make(&maps, arena, &facts))
        return false;
    for (size_t b = 0; b < input->batch; b++) {
        const struct head_sequence *rows = &maps.sequences[b];
        struct live_sequence *sequence = &pieces->sequences[b];
        *sequence = (struct live_sequence){.n_rows = rows->n_rows};
        for (size_t row = 0; row < rows->n_rows; row++) {
            const size_t at = b * input->query_length + row, n = rows->n_allowed[row];
            fill_rows(pieces, at, 1, n);
            pieces->keys[at] = n > 0 ? facts.keys[at] : 0;
            if (n > 0)
                add_row(sequence, n, facts.keys[at], maps.aligned ? facts.uniform_distance[at] : 0);
        }
    }
    return true;
}

bool live_facts_make(const struct forward_input *input, struct arena *arena, struct live_facts *facts)
{
    const size_t used = arena->used;
    struct pieces pieces;
    size_t bytes;
    bool made = take_pieces(input, &pieces, arena, &bytes);
    if (made && is_open(input))
        make_open(input, &pieces);
    else
        made = made && make_masked(input, &pieces, arena);
    if (!made) {
        arena_rewind(arena, used);
        return false;
    }
    *facts = (struct live_facts){.sequences = pieces.sequences,
                                 .stride = are_alike(input) ? 0 : input->query_length,
                                 .even = pieces.even,
                                 .inverse_logarithm = pieces.inverse_logarithm,
                                 .root = pieces.root,
                                 .inverse_root = pieces.inverse_root,
                                 .keys = pieces.keys};
    return true;
}

struct live_counts live_facts_count(const struct live_facts *facts, const struct forward_input *input,
                                    struct live_keys *keys)
{
    struct live_counts counts = {0};
    *keys = (struct live_keys){0};
    for (size_t b = 0; b < input->batch; b++) {
        const struct live_sequence *sequence = &facts->sequences[b];
        const double scored = sequence->rows[ROWS_SCORED];
        counts.sequences += scored > 0;
        counts.rows += scored;
        counts.excluded += (double)input->query_length - scored;
        keys->allowed += sequence->allowed;
        keys->even += sequence->even;
    }
    return counts;
}
