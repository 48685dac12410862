/* Owns the way from the configuration's text to rules with tensors. They are read as a request's are, but that a tensor
 * is a name in the set's file. One thread; afterwards any thread reads them. */
#include "weights/set_rules.h"

#include "codec/head_importance.h"
#include "codec/rules_read.h"
#include "weights/layer_rules.h"
#include "json/reader.h"

#include <stdlib.h>
#include <string.h>

static const struct weights_text *text_of(const struct weights_config *config, enum rule_index rule)
{
    switch (rule) {
    case RULE_POSITION_INDEX:
        return &config->position;
    case RULE_PATTERN_INDEX:
        return &config->pattern;
    case RULE_LOW_RANK_INDEX:
        return &config->low_rank;
    case RULE_KEEP_HEADS_INDEX:
        return &config->keep_heads;
    default:
        return &config->dropout;
    }
}

static bool read_rule(struct rule_files *files, struct set_rules *rules, enum rule_index rule,
                      struct rules_asked *asked, struct error *error)
{
    const struct weights_text *text = text_of(files->config, rule);
    const struct rules_reading reading = {.asked = asked,
                                          .arena = &rules->positions,
                                          .read_tensor = rule_tensor_read,
                                          .context = files,
                                          .configured = true};
    struct json_reader r;
    if (!text->text)
        return true;
    json_reader_init_member(&r, rules_name(rule), text->text, text->length);
    return rules_read(&r, rule, &reading, error) && json_finish(&r, error);
}

/* Rules that do not go together, with each other or with those of a layer. position_named: the entry's own. */
static bool check_together(const struct set_rules *rules, const struct model_source *source, bool position_named,
                           struct error *error)
{
    const char *low_rank = low_rank_name(rules->rules.low_rank.kind);
    const struct rules_defaults defaults = {.model = source ? &source->shape : NULL};
    enum position_kind position;
    const char *against = rules_conflict(&rules->rules, rules->defaults.causal, false, &defaults, &position);
    if (!against)
        return true;
    if (strcmp(against, "position") != 0)
        return error_set_at(error, ERROR_INVALID, "/low_rank", "%s does not go with %s: leave one of them out",
                            low_rank, against);
    if (source && !position_named && position == source->position.kind)
        return error_set_at(error, ERROR_INVALID, "/low_rank",
                            "%s does not go with position %s, which is this model's own: leave low_rank out", low_rank,
                            position_name(position));
    return error_set_at(error, ERROR_INVALID, "/low_rank", "%s does not go with position %s: leave one of them out",
                        low_rank, position_name(position));
}

/* The entry's rules, in place of the source's own. */
static bool read_rules(struct rule_files *files, const struct attention_shape *shape, const struct model_source *source,
                       struct set_rules *rules, struct error *error)
{
    struct rules_asked asked = {0};
    for (unsigned i = 0; i < RULE_COUNT; i++)
        if (!read_rule(files, rules, (enum rule_index)i, &asked, error))
            return false;
    rules->rules = asked.rules;
    if (source && !(asked.named & RULE_POSITION))
        rules->rules.position = source->position;
    if (files->config->source == WEIGHTS_HUGGINGFACE) { /* what stands beside the folder is meant for all of it */
        rules->rules.position_given = asked.named & RULE_POSITION;
        rules->rules.pattern_given = asked.named & RULE_PATTERN;
    }
    return rules_check(&asked, asked.named, shape, &rules->rules, error) &&
           check_together(rules, source, asked.named & RULE_POSITION, error);
}

static bool keep_texts(struct set_rules *rules, const struct weights_config *config, struct error *error)
{
    for (unsigned i = 0; i < RULE_COUNT; i++) {
        const struct weights_text *text = text_of(config, (enum rule_index)i);
        if (text->text && !(rules->texts[i] = strdup(text->text)))
            return error_out_of_memory(error);
    }
    return true;
}

static bool load_importance(const struct weights_config *config, const struct attention_shape *shape, size_t num_layers,
                            struct set_rules *rules, struct error *error)
{
    const struct weights_text *text = &config->head_importance;
    const size_t count = num_layers * shape->num_heads; /* of a layer that was loaded */
    rules->importance = importance_store_create(rules->defaults.rules);
    if (!rules->importance)
        return error_out_of_memory(error);
    if (!text->text)
        return true;
    double *values = calloc(count, sizeof *values);
    if (!values)
        return error_out_of_memory(error);
    const bool read = head_importance_read("head_importance", text->text, text->length, num_layers, shape->num_heads,
                                           values, error) &&
                      (importance_store_put(rules->importance, values, count, false) || error_out_of_memory(error));
    free(values);
    return read;
}

/* Everything but what is stored of heads. */
static bool read_all(struct rule_files *files, const struct attention_shape *shape, const struct model_source *source,
                     struct set_rules *rules, struct error *error)
{
    rules->defaults.causal = files->config->causal || (source && source->causal);
    if (!arena_reserve(&rules->positions, 2 * files->config->pattern.length + ARENA_ALIGNMENT))
        return error_out_of_memory(error);
    const bool read = read_rules(files, shape, source, rules, error);
    return rule_files_close(files, read, error) && read;
}

bool set_rules_load(const struct weights_config *config, const struct attention_shape *shape,
                    const struct model_source *source, struct set_rules *rules, struct error *error)
{
    struct rule_files files = {.config = config, .kept = &rules->tensors};
    const size_t num_layers = source ? source->shape.num_layers : 1;
    if (!read_all(&files, shape, source, rules, error) || !keep_texts(rules, config, error))
        return false;
    rules->rules.num_layers = num_layers;
    rules->defaults.rules = rules_are_off(&rules->rules) ? NULL : &rules->rules;
    return load_importance(config, shape, num_layers, rules, error);
}

bool set_rules_need(const struct weights_config *config, const struct attention_shape *shape,
                    const struct model_source *source, struct low_rank_rule *low_rank, size_t *bytes,
                    struct error *error)
{
    struct set_rules rules = {0};
    struct rule_files files = {.config = config, .kept = &rules.tensors, .counting = true};
    const bool read = read_all(&files, shape, source, &rules, error);
    *low_rank = rules.rules.low_rank;
    *bytes = files.bytes;
    set_rules_free(&rules);
    return read;
}

bool set_rules_are_plain(const struct set_rules *rules)
{
    struct head_importance *stored = rules->importance ? importance_store_hold(rules->importance) : NULL;
    head_importance_release(stored);
    return !rules->defaults.rules && !rules->defaults.causal && !stored;
}

void set_rules_free(struct set_rules *rules)
{
    for (unsigned i = 0; i < RULE_COUNT; i++)
        free(rules->texts[i]);
    rule_tensors_free(&rules->tensors);
    importance_store_free(rules->importance);
    arena_free(&rules->positions);
    arena_free(&rules->layer_positions);
    *rules = (struct set_rules){0};
}
