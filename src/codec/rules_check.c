/* What fits a shape, in the words of who asked. Pure: any thread. */
#include "codec/rules_check.h"

#include "base/size.h"

#include <string.h>

const char *low_rank_name(enum low_rank_kind kind)
{
#define NAME(code, name) [code] = name,
    static const char *const names[] = {LOW_RANK_KINDS(NAME)};
    return names[kind];
}

const char *position_name(enum position_kind kind)
{
    static const char *const names[] = {POSITION_KINDS(NAME)};
#undef NAME
    return names[kind];
}

/* A table of rows as wide as something is. */
static bool check_table(const struct tensor *table, const char *pointer, const char *rows, const char *what,
                        size_t columns, struct error *error)
{
    char found[TENSOR_SHAPE_TEXT_BYTES];
    if (table->rank == 2 && table->shape[1] == columns)
        return true;
    tensor_shape_text(table->shape, table->rank, found, sizeof found);
    return error_set_at(error, ERROR_INVALID, pointer, "the shape is %s, expected [%s, %zu]: %s columns", found, rows,
                        columns, what);
}

static bool check_rope(const struct rules_asked *asked, const struct attention_shape *shape, struct error *error)
{
    const size_t dims = asked->rules.position.dims;
    if (asked->has_dims && (dims % 2 || dims > shape->d_k))
        return error_set_at(error, ERROR_INVALID, "/position/dims",
                            "dims is %zu, expected an even number of at most d_k, %zu: components are rotated in pairs",
                            dims, shape->d_k);
    if (!asked->has_dims && shape->d_k % 2)
        return error_set_at(error, ERROR_INVALID, "/position",
                            "rope rotates components in pairs, and d_k is %zu; say with dims how many are rotated",
                            shape->d_k);
    return true;
}

static bool check_t5(const struct rules_asked *asked, struct error *error)
{
    const size_t buckets = asked->table.shape[0];
    const bool bidirectional = asked->rules.position.bidirectional;
    const size_t side = bidirectional ? buckets / 2 : buckets, exact = side / 2;
    if (side < 2 || (bidirectional && buckets % 2))
        return error_set_at(error, ERROR_INVALID, "/position/R", "there are %zu buckets, expected %s", buckets,
                            bidirectional ? "an even number of at least 4: one half for each direction" : "at least 2");
    if (asked->rules.position.max_distance <= exact)
        return error_set_at(error, ERROR_INVALID, "/position/max_distance",
                            "max_distance is %zu, expected more than %zu: so many distances have a bucket of their own",
                            asked->rules.position.max_distance, exact);
    return true;
}

static bool check_position(const struct rules_asked *asked, const struct attention_shape *shape,
                           struct position_rule *position, struct error *error)
{
    switch (position->kind) {
    case POSITION_ROPE:
        return check_rope(asked, shape, error);
    case POSITION_LEARNED:
        if (!check_table(&asked->table, "/position/P", "max_positions", "d_model", shape->d_model, error))
            return false;
        break;
    case POSITION_T5:
        if (!check_table(&asked->table, "/position/R", "num_buckets", "num_heads", shape->num_heads, error) ||
            !check_t5(asked, error))
            return false;
        break;
    case POSITION_RELATIVE:
        if (!check_table(&asked->table, "/position/R", "2m + 1", "num_heads", shape->num_heads, error))
            return false;
        if (asked->table.shape[0] % 2 == 0)
            return error_set_at(error, ERROR_INVALID, "/position/R",
                                "there are %zu rows, expected an odd number: m for each direction, and one for the "
                                "position itself",
                                asked->table.shape[0]);
        break;
    default:
        return true;
    }
    position->table = asked->table.data;
    position->table_rows = asked->table.shape[0];
    return true;
}

/* E or F: [k, max tokens] or [num_heads, k, max tokens]. */
static bool check_projection(const struct tensor *tensor, const char *pointer, const struct attention_shape *shape,
                             struct error *error)
{
    char found[TENSOR_SHAPE_TEXT_BYTES];
    if (tensor->rank == 2 || (tensor->rank == 3 && tensor->shape[0] == shape->num_heads))
        return true;
    tensor_shape_text(tensor->shape, tensor->rank, found, sizeof found);
    return error_set_at(error, ERROR_INVALID, pointer,
                        "the shape is %s, expected [k, max tokens] or [%zu, k, max tokens], one for each head", found,
                        shape->num_heads);
}

static bool check_linformer(const struct rules_asked *asked, const struct attention_shape *shape,
                            struct low_rank_rule *low_rank, struct error *error)
{
    const struct tensor *e = &asked->e, *f = &asked->f;
    if (!check_projection(e, "/low_rank/E", shape, error) || !check_projection(f, "/low_rank/F", shape, error))
        return false;
    if (e->shape[e->rank - 2] != f->shape[f->rank - 2])
        return error_set_at(error, ERROR_INVALID, "/low_rank/F", "k is %zu, but that of E is %zu",
                            f->shape[f->rank - 2], e->shape[e->rank - 2]);
    low_rank->e = e->data;
    low_rank->f = f->data;
    low_rank->e_columns = e->shape[e->rank - 1];
    low_rank->f_columns = f->shape[f->rank - 1];
    low_rank->e_per_head = e->rank == 3;
    low_rank->f_per_head = f->rank == 3;
    low_rank->projected_keys = e->shape[e->rank - 2];
    return true;
}

static bool check_low_rank(const struct rules_asked *asked, const struct attention_shape *shape,
                           struct low_rank_rule *low_rank, struct error *error)
{
    if (low_rank->kind == LOW_RANK_LINFORMER)
        return check_linformer(asked, shape, low_rank, error);
    if (low_rank->kind != LOW_RANK_SVD)
        return true;
    if (!shape->projected)
        return error_set_at(error, ERROR_INVALID, "/low_rank/kind",
                            "svd lowers the rank of projections, and these weights have none");
    return low_rank->rank <= shape->d_k ||
           error_set_at(error, ERROR_INVALID, "/low_rank/rank", "rank is %zu, expected at most d_k, %zu",
                        low_rank->rank, shape->d_k);
}

bool rules_check(const struct rules_asked *asked, unsigned named, const struct attention_shape *shape,
                 struct attention_rules *rules, struct error *error)
{
    if (named & RULE_POSITION && !check_position(asked, shape, &rules->position, error))
        return false;
    if (named & RULE_LOW_RANK && !check_low_rank(asked, shape, &rules->low_rank, error))
        return false;
    if (named & RULE_KEEP_HEADS && rules->keep_heads.kind == KEEP_COUNT && rules->keep_heads.count > shape->num_heads)
        return error_set_at(error, ERROR_INVALID, "/keep_heads/count",
                            "count is %zu, expected 1 to %zu: there are so many heads", rules->keep_heads.count,
                            shape->num_heads);
    return true;
}

bool rules_are_off(const struct attention_rules *rules)
{
    return !rules->position_given && !rules->pattern_given && rules->position.kind == POSITION_NONE &&
           rules->pattern.kind == PATTERN_FULL && rules->low_rank.kind == LOW_RANK_NONE &&
           rules->keep_heads.kind == KEEP_ALL_HEADS && rules->dropout.samples == 0;
}

/* Of one layer. */
static const char *conflict(const struct attention_rules *rules, enum position_kind position, enum pattern_kind pattern,
                            bool causal)
{
    if (rules->low_rank.kind == LOW_RANK_SVD)
        return position == POSITION_ROPE ? "position" : NULL;
    if (!rules_shrink_keys(rules))
        return NULL;
    if (causal)
        return "causal";
    if (position == POSITION_ALIBI || position == POSITION_T5 || position == POSITION_RELATIVE)
        return "position";
    if (pattern != PATTERN_FULL)
        return "pattern";
    if (rules->keep_heads.kind != KEEP_ALL_HEADS)
        return "keep_heads";
    return rules->dropout.samples ? "dropout" : NULL;
}

const char *rules_conflict(const struct attention_rules *rules, bool causal, bool causal_given,
                           const struct rules_defaults *defaults, enum position_kind *position)
{
    const struct model_shape *model = defaults->model;
    const char *against = NULL;
    *position = rules->position.kind;
    if (!model)
        return conflict(rules, *position, rules->pattern.kind, causal);
    for (size_t n = 0; n < model->num_layers && !against; n++) {
        const struct layer_shape *layer = &model->layers[n];
        *position = layer->own_position && !rules->position_given ? layer->position.kind : rules->position.kind;
        against = conflict(rules, *position,
                           layer->own_pattern && !rules->pattern_given ? layer->pattern.kind : rules->pattern.kind,
                           layer->own_causal && !causal_given ? layer->causal : causal);
    }
    return against;
}
