#include "pattern_definition.h"

#include "require.h"

#include <stdlib.h>
#include <string.h>

/* The definitions' own arithmetic: no parameter overflows it. */
typedef __int128 wide;

static wide floor_divide(wide a, wide b)
{
    return a >= 0 ? a / b : -((-a + b - 1) / b);
}

static wide distance(wide a, wide b)
{
    return a < b ? b - a : a - b;
}

/* Philox4x32-10 as its paper writes it. */
static uint32_t random_number(uint32_t layer, uint32_t row_block, uint32_t t, uint64_t seed)
{
    uint32_t c[4] = {0, layer, row_block, t / 4}, k[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
    for (int round = 0; round < 10; round++) {
        const uint64_t p0 = 0xD2511F53ULL * c[0], p1 = 0xCD9E8D57ULL * c[2];
        const uint32_t next[4] = {(uint32_t)(p1 >> 32) ^ c[1] ^ k[0], (uint32_t)p1, (uint32_t)(p0 >> 32) ^ c[3] ^ k[1],
                                  (uint32_t)p0};
        memcpy(c, next, sizeof c);
        k[0] += 0x9E3779B9;
        k[1] += 0xBB67AE85;
    }
    return c[t % 4];
}

/* Which of the blocks a row of blocks sees. */
static void bigbird_blocks(const struct pattern_rule *p, uint32_t layer, wide a, size_t n_blocks, bool *seen)
{
    size_t *others = calloc(n_blocks, sizeof *others), m = 0;
    const wide reach = (wide)(p->window_blocks - 1) / 2;
    for (size_t b = 0; b < n_blocks; b++) {
        seen[b] = distance(a, (wide)b) <= reach || b < p->global_blocks || a < (wide)p->global_blocks;
        if (!seen[b])
            others[m++] = b;
    }
    for (size_t t = 0; t < p->random_blocks && t < m; t++) {
        const uint64_t u = random_number(layer, (uint32_t)a, (uint32_t)t, p->seed);
        const size_t pick = t + (size_t)(u * (m - t) >> 32), other = others[t];
        others[t] = others[pick];
        others[pick] = other;
        seen[others[t]] = true;
    }
    free(others);
}

static bool sees(const struct pattern_rule *p, const bool *blocks, wide i, wide j)
{
    for (size_t g = 0; g < p->n_global; g++)
        if (i == p->global[g] || j == p->global[g])
            return true;
    const wide d = i - j;
    switch (p->kind) {
    case PATTERN_WINDOW:
        return i - (wide)p->left <= j && j <= i + (wide)p->right;
    case PATTERN_DILATED:
        return distance(i, j) <= (wide)p->window * (wide)p->step && d % (wide)p->step == 0;
    case PATTERN_BLOCK:
        return floor_divide(i, (wide)p->size) == floor_divide(j, (wide)p->size);
    case PATTERN_STRIDED:
        return d >= 0 && (d < (wide)p->size || d % (wide)p->size == 0);
    case PATTERN_BIGBIRD:
        return blocks[j / (wide)p->size];
    default:
        return true;
    }
}

void pattern_definition(const struct pattern_rule *rule, size_t layer, ptrdiff_t position, size_t n_keys, bool *seen)
{
    bool *blocks = NULL;
    if (rule->kind == PATTERN_BIGBIRD) {
        const size_t n_blocks = (n_keys - 1) / rule->size + 1;
        blocks = calloc(n_blocks, sizeof *blocks);
        require(blocks, "no memory for %zu blocks", n_blocks);
        bigbird_blocks(rule, (uint32_t)layer, floor_divide(position, (wide)rule->size), n_blocks, blocks);
    }
    for (size_t key = 0; key < n_keys; key++)
        seen[key] = sees(rule, blocks, position, (wide)key);
    free(blocks);
}

static size_t random_parameter(struct random *random, size_t least, size_t n_keys)
{
    if (random_chance(random, 0.1))
        return ((size_t)1 << random_size(random, 20, 53)) - random_size(random, 0, 1);
    return random_size(random, least, random_chance(random, 0.5) ? 4 : n_keys + 2);
}

struct pattern_rule random_pattern(struct random *random, enum pattern_kind kind, size_t n_keys)
{
    return (struct pattern_rule){
        .kind = kind,
        .left = random_parameter(random, 0, n_keys),
        .right = random_parameter(random, 0, n_keys),
        .window = random_parameter(random, 0, n_keys),
        .step = random_parameter(random, 1, n_keys),
        .size = random_parameter(random, 1, n_keys),
        .window_blocks = random_parameter(random, 0, n_keys) / 2 * 2 + 1,
        .global_blocks = random_parameter(random, 0, n_keys),
        .random_blocks = random_parameter(random, 0, n_keys),
        .seed = random_bits(random) >> 11,
        .k = 1,
    };
}
