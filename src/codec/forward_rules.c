/* The rules that a request is computed under: those it names, and for the others what the set does by default; and
 * whether they go with each other and with the rest of the request. Pure but for the request's own rules: the thread
 * that decoded it. */
#include "codec/forward_members.h"

#include "base/size.h"

#include <stdio.h>
#include <string.h>

/* Takes the members that the request names. NULL: nothing is left that differs from plain attention. */
static bool merge(struct forward_rules *rules, const struct attention_shape *shape,
                  const struct rules_defaults *defaults, const struct attention_rules **merged, struct error *error)
{
    static const struct attention_rules none = {.num_layers = 1};
    const struct attention_rules *asked = &rules->asked.rules;
    const unsigned named = rules->asked.named;
    struct attention_rules *effective = &rules->effective;
    *effective = defaults->rules ? *defaults->rules : none;
    if (named & RULE_POSITION)
        effective->position = asked->position;
    if (named & RULE_PATTERN)
        effective->pattern = asked->pattern;
    if (named & RULE_LOW_RANK)
        effective->low_rank = asked->low_rank;
    if (named & RULE_KEEP_HEADS)
        effective->keep_heads = asked->keep_heads;
    if (named & RULE_DROPOUT)
        effective->dropout = asked->dropout;
    if (!rules_check(&rules->asked, named, shape, effective, error))
        return false;
    if (defaults->model) { /* in all its layers, whatever is their own */
        effective->position_given |= (named & RULE_POSITION) != 0;
        effective->pattern_given |= (named & RULE_PATTERN) != 0;
        effective->num_layers = defaults->model->num_layers;
    }
    *merged = rules_are_off(effective) ? NULL : effective;
    return true;
}

/* ---- positions */

static bool check_position_ids(const struct integers *ids, struct forward_input *problem, struct error *error)
{
    const size_t batch = problem->batch, tokens = problem->query_length;
    char found[TENSOR_SHAPE_TEXT_BYTES];
    if (ids->rank == 0)
        return true;
    if (!problem->self_attention || (problem->embedding && problem->embedding->pixels))
        return error_set_at(error, ERROR_INVALID, "/position_ids",
                            "position_ids go with input, input_ids or inputs_embeds: beside %s, positions are counted",
                            problem->self_attention ? "pixel_values" : "query and key");
    const bool shared = ids->rank == 1 && ids->shape[0] == tokens;
    const bool each = !problem->rank2 && ids->rank == 2 && ids->shape[0] == batch && ids->shape[1] == tokens;
    if (!shared && !each) {
        tensor_shape_text(ids->shape, ids->rank, found, sizeof found);
        if (problem->rank2)
            return error_set_at(error, ERROR_INVALID, "/position_ids", "the shape is %s, expected [%zu]", found,
                                tokens);
        return error_set_at(error, ERROR_INVALID, "/position_ids", "the shape is %s, expected [%zu, %zu] or [%zu]",
                            found, batch, tokens, tokens);
    }
    problem->position_ids = ids->data;
    problem->positions_per_sequence = each;
    return true;
}

static bool beyond_table(const char *pointer, const char *what, long long position, const struct position_rule *rule,
                         struct error *error)
{
    char by_offset[48] = "";
    if (rule->offset)
        snprintf(by_offset, sizeof by_offset, " with the offset %zu", rule->offset);
    return error_set_at(error, ERROR_INVALID, pointer, "%s position %lld%s is none of the %zu rows of P", what,
                        position, by_offset, rule->table_rows);
}

/* Each position has a row of P. */
static bool check_learned(const struct forward_request *request, const struct forward_input *problem,
                          struct error *error)
{
    const struct integers *ids = &request->position_ids;
    const struct position_rule *rule = &problem->rules->position;
    const size_t rows = rule->table_rows - size_min(rule->table_rows, rule->offset); /* for positions from 0 on */
    const size_t queries = problem->query_length, keys = problem->key_length;
    char place[64];
    if (problem->position_ids) {
        size_t bad = 0;
        while (bad < ids->count && ids->data[bad] < rows)
            bad++;
        if (bad == ids->count)
            return true;
        if (ids->rank == 2)
            snprintf(place, sizeof place, "/position_ids/%zu/%zu", bad / ids->shape[1], bad % ids->shape[1]);
        else
            snprintf(place, sizeof place, "/position_ids/%zu", bad);
        return beyond_table(place, "the", ids->data[bad], rule, error);
    }
    const bool self = problem->self_attention;
    char pointer[24];
    snprintf(pointer, sizeof pointer, "/%s", forward_request_input(request));
    /* Under causal the last query meets the last key. */
    const long long first = problem->causal ? (long long)keys - (long long)queries : 0,
                    last = first + (long long)queries - 1;
    if (first + (long long)rule->offset < 0)
        return beyond_table(pointer, "the first query's", first, rule, error);
    if (last + (long long)rule->offset >= (long long)rule->table_rows)
        return beyond_table(pointer, self ? "the last token's" : "the last query's", last, rule, error);
    return self || keys <= rows || beyond_table("/key", "the last key's", (long long)keys - 1, rule, error);
}

/* ---- what does not go together */

/* The member that Linformer or Nystrom do not go with; NULL: none. */
static const char *stands_against(const struct forward_input *problem, const struct rules_defaults *defaults,
                                  enum position_kind *position)
{
    const struct attention_rules *rules = problem->rules;
    const char *against = rules_conflict(rules, problem->causal, problem->causal_given, defaults, position);
    if (rules->low_rank.kind == LOW_RANK_SVD)
        return against;
    if (!problem->self_attention)
        return "query";
    if (against && strcmp(against, "causal") == 0)
        return against;
    if (problem->bias)
        return "bias";
    if (against)
        return against;
    const bool masked = rules->low_rank.kind == LOW_RANK_LINFORMER ? problem->mask_kind != FORWARD_MASK_NONE
                                                                   : problem->mask_kind == FORWARD_MASK_PAIRS;
    return masked ? "attention_mask" : NULL;
}

static bool check_low_rank(const struct forward_request *request, const struct forward_input *problem,
                           const struct rules_defaults *defaults, struct error *error)
{
    const unsigned named = request->rules ? request->rules->asked.named : 0;
    const struct low_rank_rule *rule = &problem->rules->low_rank;
    enum position_kind position;
    const char *against = stands_against(problem, defaults, &position), *detail = "";
    char pointer[24];
    if (against) {
        snprintf(pointer, sizeof pointer, "/%s", named & RULE_LOW_RANK ? "low_rank" : against);
        if (strcmp(against, "position") == 0)
            detail = position_name(position);
        return error_set_at(error, ERROR_INVALID, pointer,
                            "low_rank %s does not go with %s%s%s; leave one of them out (null switches off what the "
                            "weight set does by default)",
                            low_rank_name(rule->kind), against, *detail ? " " : "", detail);
    }
    const size_t most = size_min(rule->e_columns, rule->f_columns);
    snprintf(pointer, sizeof pointer, "/%s", forward_request_input(request));
    if (rule->kind == LOW_RANK_LINFORMER && problem->key_length > most)
        return error_set_at(error, ERROR_INVALID, pointer, "%zu tokens, but %s of linformer has %zu columns",
                            problem->key_length, rule->e_columns <= rule->f_columns ? "E" : "F", most);
    return true;
}

bool forward_check_rules(const struct forward_request *request, const struct attention_shape *shape,
                         const struct rules_defaults *defaults, struct forward_input *problem, struct error *error)
{
    static const struct rules_defaults none = {0};
    struct forward_rules *own = request->rules;
    if (!defaults)
        defaults = &none;
    problem->causal_given = request->has_causal;
    problem->causal = request->has_causal ? request->causal : defaults->causal;
    problem->rules = defaults->rules;
    if (!check_position_ids(&request->position_ids, problem, error) ||
        (own && !merge(own, shape, defaults, &problem->rules, error)))
        return false;
    const struct attention_rules *rules = problem->rules;
    if (!rules)
        return true;
    if (rules->low_rank.kind != LOW_RANK_NONE && !check_low_rank(request, problem, defaults, error))
        return false;
    if (rules->position.kind == POSITION_LEARNED && !check_learned(request, problem, error))
        return false;
    if (rules_keep_heads_by(rules, KEEP_BY_IMPORTANCE)) {
        if (!defaults->importance)
            return error_set_at(error, ERROR_INVALID, "/keep_heads/by",
                                "no importance is stored for this weight set: configure head_importance, or send it "
                                "to PUT /v1/weights/{name}/head_importance");
        if (own && rules == &own->effective)
            own->effective.keep_heads.importance = defaults->importance;
    }
    return true;
}

bool forward_request_check_maps(const struct forward_input *problem, struct error *error)
{
    if (!rules_shrink_keys(problem->rules))
        return true;
    return error_set_at(error, ERROR_INVALID, "/low_rank",
                        "the maps of low_rank %s are no weights of keys, and heads are not measured by them; "
                        "\"low_rank\": null computes exact attention",
                        low_rank_name(problem->rules->low_rank.kind));
}
