/* The rows of a tile, and the allowed keys of a row. Pure: any thread, with memory of its own. */
#include "analysis/head_maps.h"

#include "analysis/scored_rows.h"
#include "base/size.h"

#include <string.h>

/* Rows of a copy begin at multiples of this. */
#define ROW_FLOATS ((size_t)16)

/* The keys that mask and causal (and pattern, in keys_under_pattern) allow to one row that is no padding. */
struct row_keys {
    size_t limit;          /* keys below this, */
    const uint8_t *mask;   /* [limit] of those that are 1; NULL: all */
    const float *weights;  /* [.] the row of the map, by the request's positions */
    const uint32_t *order; /* [.] the request's position of each key; NULL: all in order */
};

/* Key k of a row is key k of the sequence: behind padding. */
static struct row_keys keys_of_row(const struct head_maps *maps, size_t index, size_t head, size_t row)
{
    const struct forward_input *rule = maps->rule;
    const struct head_sequence *sequence = &maps->sequences[index];
    const size_t position = sequence->positions ? sequence->positions[row] : sequence->first_position + row;
    struct row_keys keys = {.order = sequence->positions};
    if (maps->weights) /* else it is asked for the keys alone */
        keys.weights =
            head_maps_row(maps, index, head, position) + (sequence->positions ? 0 : sequence->first_position);
    if (rule->self_attention && rule->mask_kind == FORWARD_MASK_KEYS) /* padding is out already */
        keys.limit = rule->causal ? row + 1 : sequence->n_positions;
    else {
        keys.limit = allowed_key_limit(rule, position);
        keys.mask = row_mask(rule, index, position);
    }
    return keys;
}

/* The same under the input's pattern, which goes by the request's positions; in the reader's memory. */
static struct row_keys keys_under_pattern(const struct head_maps *maps, struct allowed_reader *reader, size_t index,
                                          size_t row)
{
    const struct head_sequence *sequence = &maps->sequences[index];
    struct row_keys keys = keys_of_row(maps, index, 0, row);
    const size_t first = sequence->first_position;
    size_t limit;
    const uint8_t *allowed =
        allowed_row(reader, index, sequence->positions ? sequence->positions[row] : first + row, &limit);
    keys.mask = allowed + first;
    keys.limit = limit > first ? limit - first : 0;
    if (sequence->positions) { /* key k stands at k or behind it */
        uint8_t *kept = reader->row;
        for (keys.limit = 0; keys.limit < sequence->n_positions && sequence->positions[keys.limit] < limit;
             keys.limit++)
            kept[keys.limit] = allowed[sequence->positions[keys.limit]];
        keys.mask = kept;
    }
    return keys;
}

static bool is_allowed(const struct row_keys *keys, size_t key)
{
    return key < keys->limit && (!keys->mask || keys->mask[key]);
}

/* ---- allowed keys */

static void allow_keys(const struct row_keys *keys, uint8_t *allowed, size_t n_keys)
{
    const size_t limit = size_min(keys->limit, n_keys);
    if (keys->mask)
        memcpy(allowed, keys->mask, limit);
    else
        memset(allowed, 1, limit);
    memset(allowed + limit, 0, n_keys - limit);
}

/* A pair of words is allowed if any pair of their pieces is. */
static void allow_words(const struct head_maps *maps, struct allowed_reader *reader, size_t index, size_t word,
                        uint8_t *allowed)
{
    const struct head_sequence *sequence = &maps->sequences[index];
    memset(allowed, 0, sequence->n_keys);
    for (size_t piece = word ? sequence->word_ends[word - 1] : 0; piece < sequence->word_ends[word]; piece++) {
        if (!sequence->has_row[piece])
            continue;
        const struct row_keys keys =
            reader->pattern ? keys_under_pattern(maps, reader, index, piece) : keys_of_row(maps, index, 0, piece);
        size_t key = 0;
        for (size_t other = 0; other < sequence->n_keys; other++)
            for (; key < sequence->word_ends[other]; key++)
                allowed[other] |= is_allowed(&keys, key);
    }
}

size_t head_maps_allowed(const struct head_maps *maps, struct allowed_reader *reader, size_t index, size_t row,
                         uint8_t *allowed)
{
    const struct head_sequence *sequence = &maps->sequences[index];
    size_t count = 0;
    if (sequence->word_ends) {
        allow_words(maps, reader, index, row, allowed);
    } else if (sequence->has_row[row]) {
        const struct row_keys keys =
            reader->pattern ? keys_under_pattern(maps, reader, index, row) : keys_of_row(maps, index, 0, row);
        allow_keys(&keys, allowed, sequence->n_keys);
    } else {
        memset(allowed, 0, sequence->n_keys);
    }
    for (size_t key = 0; sequence->excluded && key < sequence->n_keys; key++)
        allowed[key] &= (uint8_t)!sequence->excluded[key];
    for (size_t key = 0; key < sequence->n_keys; key++)
        count += allowed[key];
    return count;
}

/* ---- tiles */

/* A copy of a tile. */
struct copy {
    float *weights;      /* [n_rows, stride] */
    uint32_t *n_allowed; /* [n_rows] */
    double *sums;        /* [n_keys] of the pieces of a word */
    size_t stride;
};

/* Where the parts of a copy lie in its memory, and how much that is. False when it overflows. */
static bool lay_out(size_t rows, size_t keys, bool words, size_t *counts, size_t *sums, size_t *bytes)
{
    const size_t weights_shape[] = {rows, keys + ROW_FLOATS - 1};
    size_t one, total = 0;
    if (keys > SIZE_MAX - ROW_FLOATS || !tensor_bytes(weights_shape, 2, sizeof(float), &one) ||
        !arena_need(&total, one))
        return false;
    *counts = total;
    if (!tensor_bytes(&rows, 1, sizeof(uint32_t), &one) || !arena_need(&total, one))
        return false;
    *sums = total;
    if (words && (!tensor_bytes(&keys, 1, sizeof(double), &one) || !arena_need(&total, one)))
        return false;
    *bytes = total;
    return true;
}

static struct copy copy_at(void *memory, size_t rows, size_t keys, bool words)
{
    size_t counts = 0, sums = 0, bytes;
    lay_out(rows, keys, words, &counts, &sums, &bytes);
    return (struct copy){.weights = memory,
                         .n_allowed = (uint32_t *)((char *)memory + counts),
                         .sums = (double *)((char *)memory + sums),
                         .stride = (keys + ROW_FLOATS - 1) / ROW_FLOATS * ROW_FLOATS};
}

bool head_maps_tile_bytes_most(const struct head_maps *maps, size_t rows, size_t *bytes)
{
    size_t counts, sums;
    return lay_out(rows, maps->rule->key_length, maps->words, &counts, &sums, bytes);
}

bool head_maps_tile_bytes(const struct head_maps *maps, size_t rows, size_t *bytes)
{
    size_t counts, sums;
    for (size_t i = 0; i < maps->rule->batch; i++)
        if (!maps->sequences[i].direct)
            return lay_out(rows, maps->longest_keys, maps->words, &counts, &sums, bytes);
    *bytes = 0;
    return true;
}

/* Adds factor times the row to sums [n_keys] by key or word. */
static void add_pieces(const struct head_sequence *sequence, const struct row_keys *keys, double factor, double *sums)
{
    size_t key = 0;
    for (size_t word = 0; word < sequence->n_keys; word++)
        for (; key < sequence->word_ends[word]; key++)
            if (is_allowed(keys, key))
                sums[word] += factor * (double)keys->weights[keys->order ? keys->order[key] : key];
}

static double sum_of_row(const struct row_keys *keys, size_t n_keys)
{
    double sum = 0;
    for (size_t key = 0; key < size_min(keys->limit, n_keys); key++)
        if (is_allowed(keys, key))
            sum += (double)keys->weights[keys->order ? keys->order[key] : key];
    return sum;
}

/* The mean of the rows of a word's pieces. */
static void merge_row(const struct head_maps *maps, size_t index, size_t head, size_t word, double *sums,
                      float *row /* [n_keys] */)
{
    const struct head_sequence *sequence = &maps->sequences[index];
    size_t rows = 0;
    memset(sums, 0, sequence->n_keys * sizeof *sums);
    for (size_t piece = word ? sequence->word_ends[word - 1] : 0; piece < sequence->word_ends[word]; piece++) {
        if (!sequence->has_row[piece])
            continue;
        const struct row_keys keys = keys_of_row(maps, index, head, piece);
        const double sum = maps->renormalize ? sum_of_row(&keys, sequence->n_positions) : 1;
        add_pieces(sequence, &keys, sum > 0 ? 1 / sum : 0, sums);
        rows++;
    }
    for (size_t key = 0; key < sequence->n_keys; key++)
        row[key] = (float)(sums[key] / (double)rows);
}

static void copy_row(const struct row_keys *keys, size_t n_keys, float *row /* [n_keys] */)
{
    const size_t limit = size_min(keys->limit, n_keys);
    if (keys->order) {
        for (size_t key = 0; key < limit; key++)
            row[key] = keys->weights[keys->order[key]];
    } else {
        memcpy(row, keys->weights, limit * sizeof *row);
    }
    for (size_t key = 0; keys->mask && key < limit; key++)
        if (!keys->mask[key])
            row[key] = 0;
    memset(row + limit, 0, (n_keys - limit) * sizeof *row);
}

/* Drops the excluded keys and divides by what is left. False when nothing is left: the row is 0 then. */
static bool drop_excluded(const uint8_t *excluded /* [n_keys], NULL: none */, size_t n_keys, float *row)
{
    double sum = 0;
    for (size_t key = 0; key < n_keys; key++) {
        if (excluded && excluded[key])
            row[key] = 0;
        sum += (double)row[key];
    }
    if (!(sum > 0)) {
        memset(row, 0, n_keys * sizeof *row);
        return false;
    }
    for (size_t key = 0; key < n_keys; key++)
        row[key] = (float)((double)row[key] / sum);
    return true;
}

static void copy_tile(const struct head_maps *maps, size_t index, size_t head, size_t first_row, size_t n_rows,
                      const struct copy *copy)
{
    const struct head_sequence *sequence = &maps->sequences[index];
    const size_t n_keys = sequence->n_keys;
    for (size_t i = 0; i < n_rows; i++) {
        const size_t row = first_row + i;
        float *to = copy->weights + i * copy->stride;
        copy->n_allowed[i] = sequence->n_allowed[row];
        if (copy->n_allowed[i] == 0) {
            memset(to, 0, n_keys * sizeof *to);
            continue;
        }
        if (sequence->word_ends) {
            merge_row(maps, index, head, row, copy->sums, to);
        } else {
            const struct row_keys keys = keys_of_row(maps, index, head, row);
            copy_row(&keys, n_keys, to);
        }
        if ((sequence->excluded || (maps->renormalize && !sequence->word_ends)) &&
            !drop_excluded(sequence->excluded, n_keys, to))
            copy->n_allowed[i] = 0;
    }
}

void head_maps_tile(const struct head_maps *maps, size_t index, size_t head, size_t first_row, size_t n_rows,
                    void *scratch, struct head_tile *tile)
{
    const struct head_sequence *sequence = &maps->sequences[index];
    *tile = (struct head_tile){.first_row = first_row, .n_rows = n_rows, .n_keys = sequence->n_keys};
    if (sequence->direct) {
        tile->weights = keys_of_row(maps, index, head, first_row).weights;
        tile->stride = maps->rule->key_length;
        tile->n_allowed = sequence->n_allowed + first_row;
        return;
    }
    const struct copy copy = copy_at(scratch, n_rows, sequence->n_keys, maps->words);
    copy_tile(maps, index, head, first_row, n_rows, &copy);
    tile->weights = copy.weights;
    tile->stride = copy.stride;
    tile->n_allowed = copy.n_allowed;
}
