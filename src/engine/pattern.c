/* Patterns as runs of keys: docs/MODEL.md has their definitions. A reader belongs to one thread. */

#include "engine/pattern.h"

#include "base/arena.h"
#include "base/size.h"
#include "engine/philox.h"

#include <string.h>

/* An element of the list that is shuffled which is not its own index any more. */
struct moved {
    uint32_t index, value; /* index: UINT32_MAX where there is none */
};

struct pattern_reader {
    const struct pattern_rule *rule;
    uint32_t layer;
    int64_t n_keys;
    struct key_run *runs; /* [most_runs] */
    size_t n_runs;
    size_t next_global; /* of rule->global: those before it lie in the runs, or are among them */
    /* bigbird */
    int64_t n_blocks;
    int64_t drawn_for;   /* the row of blocks that `drawn` is for; -1: none yet */
    uint32_t *drawn;     /* [n_draws] ascending */
    size_t n_drawn;      /* <= n_draws */
    struct moved *moved; /* [moved_mask + 1], by a hash of the index */
    size_t moved_mask;
};

/* What a reader needs for its arrays. */
struct needs {
    size_t runs, draws, moved;
};

static size_t blocks_of(const struct pattern_rule *rule, size_t n_keys)
{
    return n_keys / rule->size + (n_keys % rule->size != 0);
}

static struct needs needs_of(const struct pattern_rule *rule, size_t n_keys)
{
    struct needs needs = {.runs = 1};
    switch (rule->kind) {
    case PATTERN_DILATED:
        if (rule->step > 1)
            needs.runs = n_keys / rule->step + 1;
        break;
    case PATTERN_STRIDED:
        needs.runs = n_keys / rule->size + 2;
        break;
    case PATTERN_BIGBIRD:
        needs.draws = size_min(rule->random_blocks, blocks_of(rule, n_keys));
        needs.runs = needs.draws + 2; /* the global blocks, the window */
        for (needs.moved = 4; needs.moved / 2 < needs.draws; needs.moved *= 2)
            ;
        break;
    default:
        break;
    }
    /* Runs that do not touch are no more than every other key. */
    needs.runs = size_min(needs.runs + size_min(rule->n_global, n_keys), n_keys / 2 + 1);
    return needs;
}

bool pattern_reader_bytes(const struct pattern_rule *rule, size_t n_keys, size_t *bytes)
{
    const struct needs needs = needs_of(rule, n_keys);
    size_t total = 0, runs, draws, moved;
    if (!tensor_bytes(&needs.runs, 1, sizeof(struct key_run), &runs) ||
        !tensor_bytes(&needs.draws, 1, sizeof(uint32_t), &draws) ||
        !tensor_bytes(&needs.moved, 1, sizeof(struct moved), &moved) ||
        !arena_need(&total, sizeof(struct pattern_reader)) || !arena_need(&total, runs) || !arena_need(&total, draws) ||
        !arena_need(&total, moved))
        return false;
    *bytes = total;
    return true;
}

struct pattern_reader *pattern_reader_init(const struct pattern_rule *rule, size_t layer, size_t n_keys, void *memory)
{
    const struct needs needs = needs_of(rule, n_keys);
    struct arena arena = {.base = memory};
    if (!pattern_reader_bytes(rule, n_keys, &arena.capacity))
        return NULL;
    struct pattern_reader *reader = arena_take(&arena, sizeof *reader);
    *reader =
        (struct pattern_reader){.rule = rule, .layer = (uint32_t)layer, .n_keys = (int64_t)n_keys, .drawn_for = -1};
    reader->runs = arena_take(&arena, needs.runs * sizeof *reader->runs);
    if (rule->kind == PATTERN_BIGBIRD) {
        reader->n_blocks = (int64_t)blocks_of(rule, n_keys);
        reader->drawn = arena_take(&arena, needs.draws * sizeof *reader->drawn);
        reader->moved = arena_take(&arena, needs.moved * sizeof *reader->moved);
        reader->moved_mask = needs.moved - 1;
    }
    return reader;
}

bool pattern_is_sparse(const struct pattern_rule *rule)
{
    return rule->kind != PATTERN_FULL && rule->kind != PATTERN_TOP_K;
}

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* A number of the rule, up to 2^53, where anything from `most` on is the same. */
static int64_t limited(size_t number, int64_t most)
{
    return number < (size_t)most ? (int64_t)number : most;
}

/* The next keys, none before the last run's; those that touch it make it longer. */
static void append(struct pattern_reader *r, int64_t begin, int64_t end)
{
    struct key_run *last = r->n_runs > 0 ? &r->runs[r->n_runs - 1] : NULL;
    if (!last || last->end < begin)
        r->runs[r->n_runs++] = (struct key_run){(uint32_t)begin, (uint32_t)end};
    else if (last->end < end)
        last->end = (uint32_t)end;
}

/* The global keys before `end`. */
static void append_globals(struct pattern_reader *r, int64_t end)
{
    const struct pattern_rule *rule = r->rule;
    for (; r->next_global < rule->n_global && rule->global[r->next_global] < end; r->next_global++)
        append(r, rule->global[r->next_global], (int64_t)rule->global[r->next_global] + 1);
}

/* Keys of the pattern's own, as far as there are such; ascending from call to call. */
static void add(struct pattern_reader *r, int64_t begin, int64_t end)
{
    begin = larger(begin, 0);
    end = smaller(end, r->n_keys);
    if (begin >= end)
        return;
    append_globals(r, begin);
    append(r, begin, end);
}

/* a modulo b >= 1, never negative. */
static int64_t modulo(int64_t a, int64_t b)
{
    const int64_t rest = a % b;
    return rest < 0 ? rest + b : rest;
}

/* Every step-th key from `first` on, up to before `end`. */
static void add_every(struct pattern_reader *r, int64_t first, int64_t end, int64_t step)
{
    for (int64_t key = first; key < smaller(end, r->n_keys); key += step)
        add(r, key, key + 1);
}

static void add_dilated(struct pattern_reader *r, int64_t position)
{
    /* No key is farther than this; a step beyond it reaches none but the query's own. */
    const int64_t farthest = r->n_keys + (position < 0 ? -position : position);
    const int64_t step = limited(r->rule->step, farthest + 1), reach = limited(r->rule->window, farthest / step) * step;
    if (step == 1) {
        add(r, position - reach, position + reach + 1);
        return;
    }
    const int64_t first = larger(position - reach, 0);
    add_every(r, first + modulo(position - first, step), position + reach + 1, step);
}

static void add_strided(struct pattern_reader *r, int64_t position)
{
    if (position < 0)
        return;
    const int64_t stride = limited(r->rule->size, position + 1);
    add_every(r, position % stride, position - stride + 1, stride);
    add(r, position - stride + 1, position + 1);
}

/* The block at place `index` of the list of those that neither the global blocks nor the window has. */
static int64_t other_block(int64_t index, int64_t n_global, int64_t window_begin, int64_t window_end)
{
    const int64_t block = index + n_global;
    return block < window_begin ? block : block + larger(window_end - larger(window_begin, n_global), 0);
}

static struct moved *find_moved(const struct pattern_reader *r, uint32_t index)
{
    size_t place = index * UINT32_C(0x9E3779B1) >> 7 & r->moved_mask;
    while (r->moved[place].index != index && r->moved[place].index != UINT32_MAX)
        place = (place + 1) & r->moved_mask;
    return &r->moved[place];
}

static void sift_down(uint32_t *heap, size_t root, size_t count)
{
    const uint32_t value = heap[root];
    for (size_t child; (child = 2 * root + 1) < count; root = child) {
        child += child + 1 < count && heap[child + 1] > heap[child];
        if (heap[child] <= value)
            break;
        heap[root] = heap[child];
    }
    heap[root] = value;
}

/* In place: heapsort. */
static void sort_ascending(uint32_t *values, size_t count)
{
    for (size_t i = count / 2; i-- > 0;)
        sift_down(values, i, count);
    for (size_t n = count; n > 1; n--) {
        const uint32_t largest = values[0];
        values[0] = values[n - 1];
        values[n - 1] = largest;
        sift_down(values, 0, n - 1);
    }
}

/* A partial Fisher-Yates shuffle of the list of n_others blocks, of which only what was moved is written down. */
static void draw_blocks(struct pattern_reader *r, int64_t row_block, int64_t n_others, int64_t n_global,
                        int64_t window_begin, int64_t window_end)
{
    uint32_t numbers[4];
    r->drawn_for = row_block;
    r->n_drawn = (size_t)limited(r->rule->random_blocks, n_others);
    memset(r->moved, 0xff, (r->moved_mask + 1) * sizeof *r->moved);
    for (size_t t = 0; t < r->n_drawn; t++) {
        if (t % 4 == 0)
            philox((uint32_t[4]){0, r->layer, (uint32_t)row_block, (uint32_t)(t / 4)}, r->rule->seed, numbers);
        const uint64_t left = (uint64_t)n_others - t;
        const uint32_t pick = (uint32_t)(t + (numbers[t % 4] * left >> 32));
        struct moved *picked = find_moved(r, pick);
        const uint32_t value = picked->index == pick ? picked->value : pick;
        const struct moved *own = find_moved(r, (uint32_t)t);
        *picked = (struct moved){pick, own->index == t ? own->value : (uint32_t)t};
        r->drawn[t] = (uint32_t)other_block(value, n_global, window_begin, window_end);
    }
    sort_ascending(r->drawn, r->n_drawn);
}

static void add_blocks(struct pattern_reader *r, int64_t begin, int64_t end)
{
    /* As a block lies before n_blocks, its first key is one of n_keys. */
    const int64_t size = limited(r->rule->size, r->n_keys);
    add(r, begin * size, end * size);
}

static void add_bigbird(struct pattern_reader *r, int64_t position)
{
    const struct pattern_rule *rule = r->rule;
    const int64_t n_global = limited(rule->global_blocks, r->n_blocks);
    const int64_t row_block = position < 0 ? -1 : (int64_t)((uint64_t)position / rule->size);
    if (row_block < limited(rule->global_blocks, row_block + 1)) {
        add(r, 0, r->n_keys);
        return;
    }
    const int64_t reach = limited(rule->window_blocks > 0 ? (rule->window_blocks - 1) / 2 : 0, r->n_blocks + row_block);
    const int64_t window_begin = smaller(larger(row_block - reach, n_global), r->n_blocks);
    const int64_t window_end = larger(smaller(row_block + reach + 1, r->n_blocks), window_begin);
    const int64_t n_others = r->n_blocks - n_global - (window_end - window_begin);
    if (rule->random_blocks >= (size_t)n_others) {
        add(r, 0, r->n_keys);
        return;
    }
    if (r->drawn_for != row_block)
        draw_blocks(r, row_block, n_others, n_global, window_begin, window_end);
    size_t next = 0;
    add_blocks(r, 0, n_global);
    for (; next < r->n_drawn && r->drawn[next] < window_begin; next++)
        add_blocks(r, r->drawn[next], (int64_t)r->drawn[next] + 1);
    add_blocks(r, window_begin, window_end);
    for (; next < r->n_drawn; next++)
        add_blocks(r, r->drawn[next], (int64_t)r->drawn[next] + 1);
}

static bool is_global(const struct pattern_rule *rule, ptrdiff_t position)
{
    size_t low = 0, high = rule->n_global;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (rule->global[middle] == position)
            return true;
        if (rule->global[middle] < position)
            low = middle + 1;
        else
            high = middle;
    }
    return false;
}

const struct key_run *pattern_runs(struct pattern_reader *r, ptrdiff_t position, size_t *count)
{
    const struct pattern_rule *rule = r->rule;
    const int64_t farthest = r->n_keys + (position < 0 ? -position : position);
    r->n_runs = r->next_global = 0;
    if (!pattern_is_sparse(rule) || is_global(rule, position)) {
        add(r, 0, r->n_keys);
        *count = r->n_runs;
        return r->runs;
    }
    switch (rule->kind) {
    case PATTERN_WINDOW:
        add(r, position - limited(rule->left, farthest), position + limited(rule->right, farthest) + 1);
        break;
    case PATTERN_DILATED:
        add_dilated(r, position);
        break;
    case PATTERN_BLOCK:
        if (position >= 0) {
            const int64_t begin = position - (int64_t)((uint64_t)position % rule->size);
            add(r, begin, begin + limited(rule->size, farthest + 1));
        }
        break;
    case PATTERN_STRIDED:
        add_strided(r, position);
        break;
    case PATTERN_BIGBIRD:
        add_bigbird(r, position);
        break;
    default:
        break;
    }
    append_globals(r, r->n_keys);
    *count = r->n_runs;
    return r->runs;
}
