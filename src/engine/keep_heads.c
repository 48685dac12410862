/* Which heads of each sequence are kept. Opened by the thread that runs the job; rows are noted, and sequences decided,
 * by any lane: sums run over rows in order, so that a choice does not depend on how the work was cut. */

#include "engine/keep_heads.h"

#include "base/size.h"
#include "engine/batch.h"

#include <math.h>
#include <string.h>

static const struct keep_heads_rule *rule_of(const struct attention_rules *rules)
{
    return rules && rules->keep_heads.kind != KEEP_ALL_HEADS ? &rules->keep_heads : NULL;
}

/* The pieces of the memory, and of a lane's. */
enum { USED, COMPUTED, QUERY_UNITS, KEY_UNITS, VALUE_UNITS, ROW_VALUES, ROW_KEYS, LANES, PIECES };

static bool piece_bytes(const struct attention_shape *shape, const struct batch_extent *extent, unsigned lanes,
                        size_t bytes[PIECES], size_t *lane_bytes)
{
    const size_t heads = shape->num_heads;
    memset(bytes, 0, PIECES * sizeof *bytes);
    *lane_bytes = 0;
    if (!tensor_bytes((size_t[]){extent->n_sequences, heads}, 2, 1, &bytes[USED]) ||
        !keep_heads_lane_bytes(shape, extent, lane_bytes) || !size_multiply(lanes, *lane_bytes, &bytes[LANES]))
        return false;
    if (!rules_keep_heads_by(extent->rules, KEEP_BY_IMPORTANCE))
        return tensor_bytes((size_t[]){extent->n_queries, heads}, 2, sizeof(float), &bytes[ROW_VALUES]) &&
               (rules_keep_heads_by(extent->rules, KEEP_BY_NORM) ||
                tensor_bytes(&extent->n_queries, 1, sizeof(uint32_t), &bytes[ROW_KEYS]));
    bytes[COMPUTED] = heads;
    /* No panel is narrower than a column. */
    return !shape->projected ||
           (tensor_bytes((size_t[]){heads, shape->d_k}, 2, sizeof(uint32_t), &bytes[QUERY_UNITS]) &&
            tensor_bytes((size_t[]){shape->num_kv_heads, shape->d_k}, 2, sizeof(uint32_t), &bytes[KEY_UNITS]) &&
            tensor_bytes((size_t[]){shape->num_kv_heads, shape->d_v}, 2, sizeof(uint32_t), &bytes[VALUE_UNITS]));
}

bool keep_heads_bytes(const struct attention_shape *shape, const struct batch_extent *extent, unsigned lanes,
                      size_t *bytes)
{
    size_t pieces[PIECES], lane_bytes, total = 0;
    *bytes = 0;
    if (!rule_of(extent->rules))
        return true;
    if (!piece_bytes(shape, extent, lanes, pieces, &lane_bytes))
        return false;
    for (size_t i = 0; i < PIECES; i++)
        if (!arena_need(&total, pieces[i]))
            return false;
    *bytes = total;
    return true;
}

static bool is_shown(const struct forward_result *r, size_t head)
{
    if (!r->attention && !r->heads)
        return false;
    if (!r->include_heads)
        return head < r->n_maps;
    for (size_t place = 0; place < r->n_maps; place++)
        if (r->include_heads[place] == head)
            return true;
    return false;
}

/* Projections that are shown are computed whole. */
static bool shows_projections(const struct forward_result *r)
{
    return r->query || r->key || r->value;
}

static bool is_needed(const struct batch *batch, const struct sequence *s, size_t head)
{
    return batch->kept_heads.used[head] || s->observed || is_shown(s->result, head);
}

/* The units that hold a column of a head (of query, or of keys and values) that is computed. */
static void list_units(const struct batch *batch, size_t heads_per_group, size_t per_head, struct computed_units *units)
{
    const struct attention_shape *shape = &batch->layer->shape;
    size_t next = 0; /* the first unit that is not decided yet */
    units->count = 0;
    for (size_t head = 0; head < shape->num_heads; head++) {
        if (!batch->kept_heads.computed[head])
            continue;
        const size_t first_column = head / heads_per_group * per_head;
        const size_t end = (first_column + per_head + units->columns - 1) / units->columns;
        for (size_t unit = size_max(first_column / units->columns, next); unit < end; unit++)
            units->numbers[units->count++] = (uint32_t)unit;
        next = size_max(next, end);
    }
}

static void open_known(struct batch *batch, void *const pieces[PIECES])
{
    const struct attention_shape *shape = &batch->layer->shape;
    struct kept_heads *kept = &batch->kept_heads;
    keep_heads_choose(kept->rule, kept->rule->importance, shape->num_heads, kept->used);
    for (size_t i = 1; i < batch->extent.n_sequences; i++)
        memcpy(kept->used + i * shape->num_heads, kept->used, shape->num_heads);
    kept->computed = pieces[COMPUTED];
    memset(kept->computed, 0, shape->num_heads);
    for (size_t i = 0; i < batch->extent.n_sequences; i++) {
        const struct sequence *s = &batch->sequences[i];
        for (size_t head = 0; head < shape->num_heads; head++)
            kept->computed[head] |= is_needed(batch, s, head) || shows_projections(s->result);
    }
    if (!shape->projected)
        return;
    const size_t turned = project_unit(batch->layer, position_rotates(batch->extent.rules)),
                 panel = project_unit(batch->layer, false);
    kept->units[0] = (struct computed_units){turned, pieces[QUERY_UNITS], 0};
    kept->units[1] = (struct computed_units){turned, pieces[KEY_UNITS], 0};
    kept->units[2] = (struct computed_units){panel, pieces[VALUE_UNITS], 0};
    list_units(batch, 1, shape->d_k, &kept->units[0]);
    list_units(batch, batch->heads_per_kv_head, shape->d_k, &kept->units[1]);
    list_units(batch, batch->heads_per_kv_head, shape->d_v, &kept->units[2]);
}

void keep_heads_open(struct batch *batch, unsigned lanes, void *memory, size_t bytes)
{
    const struct attention_shape *shape = &batch->layer->shape;
    struct kept_heads *kept = &batch->kept_heads;
    if (!rule_of(batch->extent.rules) || batch->extent.n_sequences == 0)
        return;
    size_t need[PIECES], lane_bytes;
    void *pieces[PIECES];
    struct arena arena = {.base = memory, .capacity = bytes};
    piece_bytes(shape, &batch->extent, lanes, need, &lane_bytes); /* did not overflow when its bytes were counted */
    for (size_t i = 0; i < PIECES; i++)
        pieces[i] = need[i] ? arena_take(&arena, need[i]) : NULL;
    *kept = (struct kept_heads){.rule = rule_of(batch->extent.rules),
                                .used = pieces[USED],
                                .row_values = pieces[ROW_VALUES],
                                .row_keys = pieces[ROW_KEYS],
                                .lanes = pieces[LANES],
                                .lane_bytes = lane_bytes};
    const bool known = rules_keep_heads_by(batch->extent.rules, KEEP_BY_IMPORTANCE);
    kept->by_norm = rules_keep_heads_by(batch->extent.rules, KEEP_BY_NORM);
    kept->by_entropy = kept->rule->kind == KEEP_ENTROPY_BELOW;
    kept->by_rows = !kept->by_norm && !known;
    if (known)
        open_known(batch, pieces);
}

bool keep_heads_skips(const struct batch *batch, const struct sequence *s, size_t head)
{
    return batch->layer->shape.projected && !is_needed(batch, s, head);
}

bool keep_heads_reads(const struct batch *batch, size_t kv_head)
{
    const size_t group = batch->heads_per_kv_head;
    return memchr(batch->kept_heads.computed + kv_head * group, 1, group) != NULL;
}

bool keep_heads_drops(const struct batch *batch, const struct sequence *s, size_t head)
{
    const struct kept_heads *kept = &batch->kept_heads;
    const size_t index = (size_t)(s - batch->sequences);
    return (kept->computed || batch->dropout) && !kept->used[index * batch->layer->shape.num_heads + head];
}

void keep_heads_note(const struct batch *batch, const struct sequence *s, size_t head, size_t first_row, size_t n_rows,
                     const float *inverse, const float *logs)
{
    const size_t num_heads = batch->layer->shape.num_heads;
    float *values = batch->kept_heads.row_values + (s->query_start + first_row) * num_heads + head;
    for (size_t i = 0; i < n_rows; i++) {
        /* The largest weight is 1 / sum; the entropy is ln sum - logs / sum, at least 0. */
        float value = inverse[i];
        if (batch->kept_heads.by_entropy && value != 0) {
            const double entropy = -log((double)value) - (double)logs[i] * (double)value;
            value = entropy < 0 ? 0 : (float)entropy;
        }
        values[i * num_heads] = value;
    }
}

static void choose_below(double limit, const double *values, size_t num_heads, uint8_t *used)
{
    size_t lowest = 0;
    for (size_t head = 0; head < num_heads; head++) {
        used[head] = values[head] <= limit;
        if (values[head] < values[lowest])
            lowest = head;
    }
    used[lowest] = 1;
}

/* The best that is not used yet; the smaller of equal ones. */
static size_t best_left(const double *values, size_t num_heads, const uint8_t *used)
{
    size_t best = num_heads;
    for (size_t head = 0; head < num_heads; head++)
        if (!used[head] && (best == num_heads || values[head] > values[best]))
            best = head;
    return best;
}

void keep_heads_choose(const struct keep_heads_rule *rule, const double *values, size_t num_heads, uint8_t *used)
{
    /* Numbers that are stored may be so large that their sum is not finite though they are. */
    const double unit = 1 / (double)num_heads;
    double total = 0, share = 0;
    bool finite = true;
    for (size_t head = 0; head < num_heads; head++) {
        total += values[head] * unit;
        finite &= isfinite(values[head]) != 0;
    }
    if (!finite || (rule->kind == KEEP_MASS && !(total > 0))) {
        memset(used, 1, num_heads);
        return;
    }
    if (rule->kind == KEEP_ENTROPY_BELOW) {
        choose_below(rule->entropy_below, values, num_heads, used);
        return;
    }
    memset(used, 0, num_heads);
    for (size_t n = 0; n < num_heads; n++) {
        const size_t best = best_left(values, num_heads, used);
        used[best] = 1;
        share += values[best] * unit;
        if (rule->kind == KEEP_COUNT ? n + 1 == rule->count : share / total >= rule->mass - 1e-6)
            break;
    }
}
