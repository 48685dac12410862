/* Owns what a digest is made of. Clients compare digests between servers and over years, so it changes only with the
 * version in its first bytes. In this order, all of it little-endian:
 *
 * - "attnd-weights/1" and a NUL: 16 bytes.
 * - num_layers (1), projected (0 or 1), d_model, num_heads, num_kv_heads, d_k, d_v and the bits of scale as float32:
 *   8 bytes each.
 * - For W_Q, W_K, W_V, W_O, b_Q, b_K, b_V and b_O: rows (0 where absent) and columns, 8 bytes each; then the float32
 *   numbers, row-major, as in `x @ W`.
 *
 * The source, the name, the file and its dtype are no part of it. Where the configuration says more, which decides
 * results too, there follow:
 *
 * - "attnd-rules/1" and NULs: 16 bytes.
 * - causal, 8 bytes, as each number here.
 * - The kind (0: off; for dropout its samples) of each of position, pattern, low_rank, keep_heads and dropout, and
 *   behind the kind of one that is on its numbers in the order of engine/rules.h, float64 as their bits; global
 *   positions behind their count.
 * - The count and the float32 numbers of each tensor of a rule.
 * - The count and the float64 numbers of head_importance, 8 bytes each. What was put in its place while the server
 *   ran is no part.
 */
#include "weights/digest.h"

#include "weights/digest_hash.h"

#include <string.h>

static void add_real(struct sha256_ctx *hash, double number)
{
    uint64_t bits;
    memcpy(&bits, &number, sizeof bits);
    digest_add_number(hash, bits);
}

static void add_position(struct sha256_ctx *hash, const struct position_rule *rule)
{
    digest_add_number(hash, rule->kind);
    if (rule->kind == POSITION_NONE)
        return;
    add_real(hash, rule->base);
    digest_add_number(hash, rule->dims);
    digest_add_number(hash, rule->interleaved);
    digest_add_number(hash, rule->scaling);
    add_real(hash, rule->factor);
    add_real(hash, rule->low_freq_factor);
    add_real(hash, rule->high_freq_factor);
    add_real(hash, rule->original_max_positions);
    digest_add_number(hash, rule->table_rows);
    digest_add_number(hash, rule->offset);
    digest_add_number(hash, rule->max_distance);
    digest_add_number(hash, rule->bidirectional);
}

static void add_pattern(struct sha256_ctx *hash, const struct pattern_rule *rule)
{
    digest_add_number(hash, rule->kind);
    if (rule->kind == PATTERN_FULL)
        return;
    const uint64_t numbers[] = {rule->left,          rule->right,         rule->window,        rule->step, rule->size,
                                rule->window_blocks, rule->global_blocks, rule->random_blocks, rule->seed, rule->k,
                                rule->n_global};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        digest_add_number(hash, numbers[i]);
    for (size_t i = 0; i < rule->n_global; i++)
        digest_add_number(hash, rule->global[i]);
}

static void add_low_rank(struct sha256_ctx *hash, const struct low_rank_rule *rule)
{
    digest_add_number(hash, rule->kind);
    if (rule->kind == LOW_RANK_NONE)
        return;
    const uint64_t numbers[] = {rule->e_columns,  rule->f_columns,      rule->e_per_head,
                                rule->f_per_head, rule->projected_keys, rule->landmarks,
                                rule->iterations, rule->rank,           rule->values};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        digest_add_number(hash, numbers[i]);
}

static void add_heads_and_dropout(struct sha256_ctx *hash, const struct attention_rules *rules)
{
    const struct keep_heads_rule *keep = &rules->keep_heads;
    digest_add_number(hash, keep->kind);
    if (keep->kind != KEEP_ALL_HEADS) {
        digest_add_number(hash, keep->by);
        digest_add_number(hash, keep->count);
        add_real(hash, keep->mass);
        add_real(hash, keep->entropy_below);
    }
    digest_add_number(hash, rules->dropout.samples);
    if (rules->dropout.samples) {
        add_real(hash, rules->dropout.rate);
        digest_add_number(hash, rules->dropout.seed);
    }
}

static void add_rules(struct sha256_ctx *hash, const struct set_rules *rules)
{
    static const char version[16] = "attnd-rules/1";
    struct head_importance *stored = importance_store_hold(rules->importance);
    sha256_update(hash, sizeof version, (const uint8_t *)version);
    digest_add_number(hash, rules->defaults.causal);
    add_position(hash, &rules->rules.position);
    add_pattern(hash, &rules->rules.pattern);
    add_low_rank(hash, &rules->rules.low_rank);
    add_heads_and_dropout(hash, &rules->rules);
    for (size_t i = 0; i < rules->tensors.count; i++) {
        const struct rule_tensor *tensor = &rules->tensors.items[i];
        digest_add_number(hash, tensor->count);
        sha256_update(hash, tensor->count * sizeof(float), (const uint8_t *)tensor->numbers);
    }
    digest_add_number(hash, stored ? stored->count : 0);
    for (size_t i = 0; stored && i < stored->count; i++)
        add_real(hash, stored->values[i]);
    head_importance_release(stored);
}

void digest_write(const struct attention_shape *shape, const struct layer_tensors *tensors,
                  const struct set_rules *rules, char text[DIGEST_TEXT_BYTES])
{
    static const char version[16] = "attnd-weights/1";
    uint32_t scale_bits;
    memcpy(&scale_bits, &shape->scale, sizeof scale_bits);
    const uint64_t numbers[] = {1,          shape->projected, shape->d_model, shape->num_heads, shape->num_kv_heads,
                                shape->d_k, shape->d_v,       scale_bits};
    struct sha256_ctx hash;
    sha256_init(&hash);
    sha256_update(&hash, sizeof version, (const uint8_t *)version);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        digest_add_number(&hash, numbers[i]);
    for (unsigned i = 0; i < LAYER_TENSOR_COUNT; i++) {
        const struct layer_tensor *tensor = &tensors->items[i];
        digest_add_number(&hash, tensor->rows);
        digest_add_number(&hash, tensor->columns);
        if (tensor->rows)
            sha256_update(&hash, tensor->rows * tensor->columns * sizeof(float), (const uint8_t *)tensor->data);
    }
    if (!set_rules_are_plain(rules))
        add_rules(&hash, rules);
    digest_finish(&hash, text);
}

/* Whether any layer has rules of its own. */
static bool has_own_rules(const struct model_shape *shape)
{
    bool has = false;
    for (size_t n = 0; n < shape->num_layers; n++)
        has |= shape->layers[n].own_causal || shape->layers[n].own_position || shape->layers[n].own_pattern;
    return has;
}

void digest_add_rules(const struct model_shape *shape, const struct set_rules *rules, char text[DIGEST_TEXT_BYTES])
{
    struct sha256_ctx hash;
    if (set_rules_are_plain(rules) && !has_own_rules(shape) && shape->precision == PRECISION_F32)
        return;
    sha256_init(&hash);
    sha256_update(&hash, DIGEST_TEXT_BYTES - 1, (const uint8_t *)text);
    add_rules(&hash, rules);
    digest_add_number(&hash, shape->precision);
    digest_add_number(&hash, rules->rules.position_given);
    digest_add_number(&hash, rules->rules.pattern_given);
    for (size_t n = 0; n < shape->num_layers; n++) {
        const struct layer_shape *layer = &shape->layers[n];
        digest_add_number(&hash, layer->own_causal ? 1 + layer->causal : 0);
        digest_add_number(&hash, layer->own_position);
        if (layer->own_position)
            add_position(&hash, &layer->position);
        digest_add_number(&hash, layer->own_pattern);
        if (layer->own_pattern)
            add_pattern(&hash, &layer->pattern);
    }
    digest_finish(&hash, text);
}
