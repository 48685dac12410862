/* Owns the way from the configuration's text to rules with tensors. They are read as a request's are, but that a tensor
 * is a name in the set's file. One thread; afterwards any thread reads them. */
#include "weights/set_rules.h"

#include "base/size.h"
#include "codec/head_importance.h"
#include "codec/rules_read.h"
#include "weights/safetensors_tensor.h"
#include "json/reader.h"

#include <stdlib.h>
#include <string.h>

/* One loading. */
struct loading {
    const struct weights_config *config;
    struct set_rules *rules;
    struct safetensors_file file; /* descriptor -1: not opened yet */
    bool counting;                /* tensors are looked up, and not read */
    size_t bytes;                 /* of those that were met */
};

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

/* ---- tensors */

/* All numbers of a tensor, in order. */
static bool read_numbers(struct loading *loading, const struct safetensors_entry *entry, const char *pointer,
                         struct tensor *tensor, struct error *error)
{
    struct set_rules *rules = loading->rules;
    float *numbers = malloc(entry->count * sizeof *numbers); /* no overflow: it was checked */
    if (!numbers)
        return error_out_of_memory(error);
    rules->tensors[rules->n_tensors] = numbers;
    rules->tensor_counts[rules->n_tensors++] = entry->count;
    const struct wanted_tensor wanted = {.pointer = pointer,
                                         .name = entry->name,
                                         .is_bias = true,
                                         .rows = 1,
                                         .columns = entry->count,
                                         .parts = {{numbers, entry->count, entry->count}},
                                         .part_count = 1};
    tensor->data = numbers;
    return safetensors_tensor_read(&loading->file, entry, &wanted, error);
}

static bool find_tensor(struct json_reader *r, struct loading *loading, const char *name, unsigned max_rank,
                        struct tensor *tensor, struct error *error)
{
    char pointer[sizeof error->pointer], shape[TENSOR_SHAPE_TEXT_BYTES];
    size_t bytes;
    json_pointer(r, pointer, sizeof pointer);
    if (loading->file.descriptor < 0 && !safetensors_file_open(loading->config->path, &loading->file, error))
        return false;
    const struct safetensors_entry *entry = safetensors_tensor_find(&loading->file, pointer, name, error);
    if (!entry)
        return false;
    tensor_shape_text(entry->shape, entry->rank, shape, sizeof shape);
    if (entry->rank == 0 || entry->rank > max_rank || entry->count == 0)
        return error_set_at(error, ERROR_INVALID, pointer,
                            "tensor \"%s\" has shape %s, expected %s%u axes of at least 1", name, shape,
                            max_rank > 2 ? "2 or " : "", max_rank);
    if (!size_multiply(entry->count, sizeof(float), &bytes) || !size_add(loading->bytes, bytes, &loading->bytes))
        return error_out_of_memory(error);
    *tensor = (struct tensor){.rank = entry->rank, .count = entry->count, .dtype = entry->dtype};
    memcpy(tensor->shape, entry->shape, entry->rank * sizeof *entry->shape);
    return loading->counting || read_numbers(loading, entry, pointer, tensor, error);
}

static bool read_tensor(struct json_reader *r, void *context, unsigned max_rank, struct tensor *tensor,
                        struct error *error)
{
    struct loading *loading = context;
    char *name;
    if (json_peek(r) != JSON_STRING)
        return json_type_error(r, error, "the name of a tensor of the set's file, as a string");
    if (!loading->config->path)
        return json_error(
            r, error, ERROR_INVALID,
            "a tensor is named in the file of the weights, and these have no file; a request may carry it");
    if (!json_read_string(r, &name, NULL, error))
        return false;
    const bool found = find_tensor(r, loading, name, max_rank, tensor, error);
    free(name);
    return found;
}

/* ---- the rules */

static bool read_rule(struct loading *loading, enum rule_index rule, struct rules_asked *asked, struct error *error)
{
    const struct weights_text *text = text_of(loading->config, rule);
    const struct rules_reading reading = {.asked = asked,
                                          .arena = &loading->rules->positions,
                                          .read_tensor = read_tensor,
                                          .context = loading,
                                          .configured = true};
    struct json_reader r;
    if (!text->text)
        return true;
    json_reader_init_member(&r, rules_name(rule), text->text, text->length);
    return rules_read(&r, rule, &reading, error) && json_finish(&r, error);
}

static bool read_rules(struct loading *loading, const struct attention_shape *shape, struct error *error)
{
    struct set_rules *rules = loading->rules;
    struct rules_asked asked = {0};
    for (unsigned i = 0; i < RULE_COUNT; i++)
        if (!read_rule(loading, (enum rule_index)i, &asked, error))
            return false;
    rules->rules = asked.rules;
    if (!rules_check(&asked, asked.named, shape, &rules->rules, error))
        return false;
    const char *against = rules_conflict(&rules->rules, loading->config->causal);
    if (against)
        return error_set_at(error, ERROR_INVALID, "/low_rank", "%s does not go with %s%s%s: leave one of them out",
                            low_rank_name(rules->rules.low_rank.kind), against,
                            strcmp(against, "position") == 0 ? " " : "",
                            strcmp(against, "position") == 0 ? position_name(rules->rules.position.kind) : "");
    return true;
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

bool set_rules_load(const struct weights_config *config, const struct attention_shape *shape, size_t num_layers,
                    struct set_rules *rules, struct error *error)
{
    struct loading loading = {.config = config, .rules = rules, .file = {.descriptor = -1}};
    *rules = (struct set_rules){.defaults = {.causal = config->causal}};
    if (!arena_reserve(&rules->positions, 2 * config->pattern.length + ARENA_ALIGNMENT))
        return error_out_of_memory(error);
    const bool read = read_rules(&loading, shape, error) && keep_texts(rules, config, error) &&
                      (loading.file.descriptor < 0 || safetensors_file_unchanged(&loading.file, error));
    if (loading.file.descriptor >= 0)
        safetensors_file_close(&loading.file);
    if (!read)
        return false;
    rules->rules.num_layers = num_layers;
    rules->defaults.rules = rules_are_off(&rules->rules) ? NULL : &rules->rules;
    return load_importance(config, shape, num_layers, rules, error);
}

bool set_rules_need(const struct weights_config *config, const struct attention_shape *shape,
                    struct low_rank_rule *low_rank, size_t *bytes, struct error *error)
{
    struct set_rules rules = {0};
    struct loading loading = {.config = config, .rules = &rules, .file = {.descriptor = -1}, .counting = true};
    if (!arena_reserve(&rules.positions, 2 * config->pattern.length + ARENA_ALIGNMENT))
        return error_out_of_memory(error);
    const bool read = read_rules(&loading, shape, error);
    if (loading.file.descriptor >= 0)
        safetensors_file_close(&loading.file);
    *low_rank = rules.rules.low_rank;
    *bytes = loading.bytes;
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
    for (unsigned i = 0; i < SET_RULES_TENSORS; i++)
        free(rules->tensors[i]);
    importance_store_free(rules->importance);
    arena_free(&rules->positions);
    *rules = (struct set_rules){0};
}
