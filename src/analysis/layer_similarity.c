/* Layers against layers. Two layers with different allowed keys meet in a copy of both: rows and keys as they are
 * measured, with a mask of the pairs that both allow. Entered by the thread that runs the job; the steps bring in other
 * lanes. */
#include "analysis/layer_similarity.h"

#include "base/arena_pieces.h"
#include "base/size.h"
#include "engine/split.h"

#include <math.h>
#include <string.h>

/* Rows of a head that are copied at a time. */
#define TILE_ROWS ((size_t)16)

/* ---- do layers have the same allowed keys? */

/* Under the same rule a row has the same keys, or none: posted maps can have rows of zeros. */
static bool same_rows(const struct head_maps *a, const struct head_maps *b)
{
    for (size_t i = 0; i < a->rule->batch; i++) {
        const struct head_sequence *left = &a->sequences[i], *right = &b->sequences[i];
        if (left->n_rows != right->n_rows ||
            memcmp(left->n_allowed, right->n_allowed, left->n_rows * sizeof *left->n_allowed) != 0 ||
            memcmp(left->has_row, right->has_row, left->n_positions) != 0)
            return false;
    }
    return true;
}

static bool all_agree(const struct head_maps *maps, size_t num_layers)
{
    for (size_t layer = 1; layer < num_layers; layer++)
        if (!same_allowed_keys(maps[0].rule, maps[layer].rule) || !same_rows(&maps[0], &maps[layer]))
            return false;
    return true;
}

/* All heads as those of one layer. */
static struct head_maps flattened(const struct head_maps *maps, size_t num_layers)
{
    struct head_maps all = maps[0];
    all.num_heads *= num_layers;
    all.num_layers = all.layer = 0;
    all.layers = maps;
    return all;
}

/* ---- two layers */

/* Their heads side by side, 2 num_heads of each sequence. */
struct meeting {
    const struct head_maps *layers[2];
    bool output;            /* Z is compared, not maps */
    const float *heads;     /* Z [B, num_layers, num_heads, Tq, d_v] */
    size_t d_v, rows, keys; /* rows and keys of a sequence, at most */
    struct forward_input rule;
    uint8_t *mask; /* [B, rows, keys] */
    float *copy;   /* [B, 2 num_heads, rows, keys or d_v] */
    char *tiles;   /* [lanes][tile_bytes] */
    size_t tile_bytes;
    uint8_t *empty;   /* [B, 2 num_heads, rows] 1: nothing is left of the row; NULL: no keys are excluded */
    uint8_t *allowed; /* [keys] */
    char *readers[2];
};

static size_t columns_of(const struct meeting *m)
{
    return m->output ? m->d_v : m->keys;
}

static void measure(struct meeting *m, const struct head_maps *a, const struct head_maps *b)
{
    m->layers[0] = a;
    m->layers[1] = b;
    m->rows = size_max(a->longest_rows, 1); /* the same in both: patterns hide keys, and take none out */
    m->keys = size_max(a->longest_keys, 1);
    m->rule = (struct forward_input){
        .batch = a->rule->batch, .query_length = m->rows, .key_length = m->keys, .mask_kind = FORWARD_MASK_PAIRS};
}

static bool take_meeting(struct meeting *m, unsigned lanes, struct arena *arena, size_t *bytes)
{
    size_t tiles[2], readers[2], all_tiles;
    for (size_t i = 0; i < 2; i++)
        if (!head_maps_tile_bytes(m->layers[i], TILE_ROWS, &tiles[i]) ||
            !allowed_reader_bytes(m->layers[i]->rule, &readers[i]))
            return false;
    m->tile_bytes = (size_max(tiles[0], tiles[1]) + ARENA_ALIGNMENT - 1) / ARENA_ALIGNMENT * ARENA_ALIGNMENT;
    if (!size_multiply(m->tile_bytes, lanes, &all_tiles))
        return false;
    const struct arena_piece pieces[] = {
        {&m->mask, {m->rule.batch, m->rows, m->keys, 1}, 1, true},
        {&m->copy, {m->rule.batch, 2 * m->layers[0]->num_heads, m->rows, columns_of(m)}, sizeof(float), true},
        {&m->tiles, {all_tiles, 1, 1, 1}, 1, all_tiles > 0},
        {&m->empty, {m->rule.batch, 2 * m->layers[0]->num_heads, m->rows, 1}, 1, m->layers[0]->exclude != NULL},
        {&m->allowed, {m->keys, 1, 1, 1}, 1, true},
        {&m->readers[0], {readers[0], 1, 1, 1}, 1, readers[0] > 0},
        {&m->readers[1], {readers[1], 1, 1, 1}, 1, readers[1] > 0},
    };
    return arena_pieces(pieces, sizeof pieces / sizeof *pieces, arena, bytes);
}

/* m->mask: the pairs that both layers allow. */
static bool allow(const struct meeting *m)
{
    struct allowed_reader readers[2];
    struct head_maps_watch watch = {0};
    for (size_t i = 0; i < 2; i++)
        readers[i] = allowed_reader_init(m->layers[i]->rule, m->readers[i]);
    memset(m->mask, 0, m->rule.batch * m->rows * m->keys);
    for (size_t sequence = 0; sequence < m->rule.batch; sequence++) {
        const struct head_sequence *s = &m->layers[0]->sequences[sequence];
        for (size_t row = 0; row < s->n_rows; row++) {
            uint8_t *mask = m->mask + (sequence * m->rows + row) * m->keys;
            if (!head_maps_goes_on(m->layers[0], &watch, 2 * m->keys))
                return false;
            head_maps_allowed(m->layers[0], &readers[0], sequence, row, mask);
            head_maps_allowed(m->layers[1], &readers[1], sequence, row, m->allowed);
            for (size_t key = 0; key < s->n_keys; key++)
                mask[key] &= m->allowed[key];
        }
    }
    return true;
}

/* Tiles: the 2 num_heads heads of all sequences. */
static void copy_head(const void *argument, size_t index, unsigned lane)
{
    const struct meeting *m = argument;
    const size_t heads = m->layers[0]->num_heads, sequence = index / (2 * heads), side = index / heads % 2,
                 head = index % heads, columns = columns_of(m);
    const struct head_maps *maps = m->layers[side];
    const struct head_sequence *s = &maps->sequences[sequence];
    float *to = m->copy + index * m->rows * columns;
    memset(to, 0, m->rows * columns * sizeof *to);
    if (m->empty)
        memset(m->empty + index * m->rows, 0, m->rows);
    if (m->output) {
        for (size_t row = 0; row < s->n_rows; row++)
            memcpy(to + row * columns,
                   m->heads + head_maps_row_index(maps, sequence, head, head_sequence_position(s, row)) * columns,
                   columns * sizeof *to);
        return;
    }
    for (size_t row = 0, n; row < s->n_rows; row += n) {
        struct head_tile tile;
        void *memory = m->tiles ? m->tiles + lane * m->tile_bytes : NULL; /* tiles may lie in the maps themselves */
        n = size_min(TILE_ROWS, s->n_rows - row);
        head_maps_tile(maps, sequence, head, row, n, memory, &tile);
        for (size_t i = 0; i < n; i++) {
            const uint8_t *mask = m->mask + (sequence * m->rows + row + i) * m->keys;
            if (m->empty)
                m->empty[index * m->rows + row + i] = tile.n_allowed[i] == 0;
            for (size_t key = 0; key < tile.n_keys; key++)
                to[(row + i) * columns + key] = mask[key] ? tile.weights[i * tile.stride + key] : 0;
        }
    }
}

/* A row that a head has nothing left of, since keys were excluded, is left out of all. */
static void leave_out_empty(const struct meeting *m)
{
    const size_t heads = 2 * m->layers[0]->num_heads;
    for (size_t index = 0; m->empty && index < m->rule.batch * heads; index++)
        for (size_t row = 0; row < m->rows; row++)
            if (m->empty[index * m->rows + row])
                memset(m->mask + (index / heads * m->rows + row) * m->keys, 0, m->keys);
}

static struct head_maps maps_of(struct meeting *m)
{
    return (struct head_maps){.rule = &m->rule,
                              .weights = m->output ? NULL : m->copy,
                              .num_heads = 2 * m->layers[0]->num_heads,
                              .watched = m->layers[0]->watched};
}

/* What comparing takes behind the meeting: maps that may have as many rows and keys as there is room for. */
static bool compare_bytes(const struct similarity_question *question, struct meeting *m, unsigned lanes, size_t *bytes)
{
    struct head_maps maps = maps_of(m);
    size_t prepared, compared, tile;
    struct head_sequence whole = {.n_rows = m->rows, .n_keys = m->keys};
    if (!head_maps_bytes(&maps, &prepared))
        return false;
    /* As if each sequence were whole: their list is as long as any. */
    struct forward_input one = m->rule;
    one.batch = 1;
    if (!size_multiply(m->rows, m->rule.batch, &whole.n_rows))
        return false;
    maps.rule = &one;
    maps.sequences = &whole;
    maps.longest_rows = m->rows;
    maps.longest_keys = m->keys;
    const size_t starts = (m->rule.batch + 1) * sizeof(size_t) + ARENA_ALIGNMENT;
    return head_maps_tile_bytes_most(&maps, 1, &tile) &&
           head_similarity_bytes(question, &maps, m->d_v, lanes, &compared) && size_add(prepared, compared, bytes) &&
           size_add(*bytes, starts, bytes);
}

/* ---- all pairs of layers */

/* Puts `block` [from, from], its rows and columns first_row.. and first_column.., into the matrix and its mirror. */
static void put_block(const double *block, size_t from, size_t first_row, size_t first_column, size_t heads,
                      double *similarity, size_t all, size_t row, size_t column)
{
    for (size_t a = 0; a < heads; a++)
        for (size_t b = 0; b < heads; b++) {
            const double value = block[(first_row + a) * from + first_column + b];
            similarity[(row + a) * all + column + b] = similarity[(column + b) * all + row + a] = value;
        }
}

struct apart {
    const struct similarity_question *question;
    const struct head_maps *maps;
    size_t num_layers, d_v;
    const float *heads;
    const struct parallel *parallel;
    double *block; /* [2 num_heads, 2 num_heads] */
};

static bool within_layer(const struct apart *p, size_t layer, struct arena *arena, struct head_similarity *similarity,
                         struct error *error)
{
    const size_t heads = p->maps[layer].num_heads, used = arena->used;
    double diversity;
    struct head_similarity found = {.similarity = p->block, .diversity = &diversity};
    if (!head_similarity_run(p->question, &p->maps[layer], p->heads, p->d_v, p->parallel, arena, &found, error))
        return error->code == ERROR_NOT_FINITE ? error_precede(error, "layer %zu: ", layer) : false;
    arena_rewind(arena, used);
    put_block(p->block, heads, 0, 0, heads, similarity->similarity, p->num_layers * heads, layer * heads,
              layer * heads);
    similarity->diversity[layer] = diversity;
    if (layer == 0 || found.n_rows > similarity->n_rows) {
        similarity->n_rows = found.n_rows;
        similarity->n_excluded = found.n_excluded;
    }
    return true;
}

static bool between_layers(const struct apart *p, size_t one, size_t other, struct arena *arena,
                           struct head_similarity *similarity, struct error *error)
{
    const size_t heads = p->maps[one].num_heads, used = arena->used;
    struct similarity_question question = *p->question;
    struct meeting m = {.output = question.subject == SIMILARITY_OF_OUTPUT, .heads = p->heads, .d_v = p->d_v};
    struct work work = {.parallel = p->parallel};
    size_t bytes = 0;
    double diversity;
    struct head_similarity found = {.similarity = p->block, .diversity = &diversity};
    measure(&m, &p->maps[one], &p->maps[other]);
    if (!take_meeting(&m, p->parallel->lanes, arena, &bytes))
        return error_out_of_memory(error);
    m.rule.mask = m.mask;
    const double floats = (double)(2 * heads * m.rule.batch) * (double)m.rows * (double)columns_of(&m);
    if (!allow(&m) || !work_split(&work, 2 * heads * m.rule.batch, 2 * floats * SPLIT_FLOP_PER_FLOAT, copy_head, &m))
        return error_cancelled(error);
    leave_out_empty(&m);
    question.diversity = false;
    struct head_maps both = maps_of(&m);
    if (!head_maps_prepare(&both, arena, error) ||
        !head_similarity_run(&question, &both, m.output ? m.copy : NULL, m.d_v, p->parallel, arena, &found, error))
        return false;
    arena_rewind(arena, used);
    put_block(p->block, 2 * heads, 0, heads, heads, similarity->similarity, p->num_layers * heads, one * heads,
              other * heads);
    return true;
}

static bool take_block(struct apart *p, struct arena *arena, size_t *bytes)
{
    const size_t both = 2 * p->maps[0].num_heads;
    const struct arena_piece block = {&p->block, {both, both, 1, 1}, sizeof *p->block, true};
    return arena_pieces(&block, 1, arena, bytes);
}

bool layer_similarity_bytes(const struct similarity_question *asked, const struct head_maps *maps, size_t num_layers,
                            size_t d_v, unsigned lanes, size_t *bytes)
{
    struct similarity_question question = *asked;
    if (all_agree(maps, num_layers)) {
        const struct head_maps all = flattened(maps, num_layers);
        question.num_layers = num_layers;
        return head_similarity_bytes(&question, &all, d_v, lanes, bytes);
    }
    struct apart p = {.maps = maps};
    size_t within, between, block = 0, most = 0;
    question.num_layers = 0;
    for (size_t layer = 0; layer < num_layers; layer++) {
        struct meeting m = {.output = question.subject == SIMILARITY_OF_OUTPUT, .d_v = d_v};
        size_t meeting = 0;
        measure(&m, &maps[layer], &maps[(layer + 1) % num_layers]);
        if (!head_similarity_bytes(&question, &maps[layer], d_v, lanes, &within) ||
            !take_meeting(&m, lanes, NULL, &meeting) || !compare_bytes(&question, &m, lanes, &between) ||
            !size_add(between, meeting, &between))
            return false;
        most = size_max(most, size_max(within, between));
    }
    return take_block(&p, NULL, &block) && size_add(most, block, bytes);
}

bool layer_similarity_run(const struct similarity_question *asked, const struct head_maps *maps, size_t num_layers,
                          const float *heads, size_t d_v, const struct parallel *parallel, struct arena *arena,
                          struct head_similarity *similarity, struct error *error)
{
    struct similarity_question question = *asked;
    size_t bytes = 0;
    if (all_agree(maps, num_layers)) {
        const struct head_maps all = flattened(maps, num_layers);
        question.num_layers = num_layers;
        return head_similarity_run(&question, &all, heads, d_v, parallel, arena, similarity, error);
    }
    question.num_layers = 0;
    struct apart p = {&question, maps, num_layers, d_v, heads, parallel, NULL};
    if (!take_block(&p, arena, &bytes))
        return error_out_of_memory(error);
    for (size_t layer = 0; layer < num_layers; layer++) {
        if (!within_layer(&p, layer, arena, similarity, error))
            return false;
        for (size_t before = 0; before < layer; before++)
            if (!between_layers(&p, before, layer, arena, similarity, error))
                return false;
    }
    return true;
}
