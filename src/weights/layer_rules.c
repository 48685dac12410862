/* Reads `position` and `pattern` of a layer as those of a set are read. One thread. */
#include "weights/layer_rules.h"

#include "base/size.h"
#include "json/reader.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One that was read: the layers that have `layer`'s own meet it at the same place of the text. */
struct layer_rule {
    const char *at;
    struct attention_rules rules;
};

bool layer_rules_begin(struct layer_rules *layers, const struct weights_config *config, struct set_rules *rules,
                       bool counting, struct error *error)
{
    size_t twice, pieces, bytes;
    *layers = (struct layer_rules){.files = {.config = config, .kept = &rules->tensors, .counting = counting},
                                   .rules = rules};
    return (size_multiply(config->layer.length + config->layers.length, 2, &twice) &&
            size_multiply(config->num_layers + 2, ARENA_ALIGNMENT, &pieces) && size_add(twice, pieces, &bytes) &&
            arena_reserve(&rules->layer_positions, bytes)) ||
           error_out_of_memory(error);
}

bool layer_rules_end(struct layer_rules *layers, bool check, struct error *error)
{
    free(layers->known);
    layers->known = NULL;
    layers->count = 0;
    return rule_files_close(&layers->files, check, error);
}

/* "/position/R" of a fault becomes `place` and "/R". */
static void move_fault(struct error *error, const char *place, enum rule_index rule)
{
    char pointer[sizeof error->pointer];
    const size_t length = strlen(rules_name(rule)) + 1;
    if (!error->has_pointer || strlen(error->pointer) < length)
        return;
    snprintf(pointer, sizeof pointer, "%.200s%.200s", place, error->pointer + length);
    memcpy(error->pointer, pointer, sizeof pointer);
}

/* Of a layer. */
static bool check_place(const struct attention_rules *rules, const char *place, struct error *error)
{
    char pointer[sizeof error->pointer];
    if (rules->position.kind != POSITION_SINUSOIDAL && rules->position.kind != POSITION_LEARNED)
        return true;
    snprintf(pointer, sizeof pointer, "%.400s/kind", place);
    return error_set_at(error, ERROR_INVALID, pointer,
                        "%s is added to the input, before the first layer: it belongs to the whole set, beside `layer`",
                        position_name(rules->position.kind));
}

/* The rules in which the one at the reader is read; NULL with the error. */
static const struct attention_rules *read(struct layer_rules *layers, struct json_reader *r, enum rule_index rule,
                                          const struct attention_shape *shape, struct error *error)
{
    struct rules_asked asked = {0};
    const struct rules_reading reading = {.asked = &asked,
                                          .arena = &layers->rules->layer_positions,
                                          .read_tensor = rule_tensor_read,
                                          .context = &layers->files,
                                          .configured = true};
    char place[sizeof error->pointer];
    json_peek(r);
    const char *at = r->at;
    for (size_t i = 0; i < layers->count; i++)
        if (layers->known[i].at == at)
            return &layers->known[i].rules;
    struct layer_rule *more = reallocarray(layers->known, layers->count + 1, sizeof *more);
    if (!more) {
        error_out_of_memory(error);
        return NULL;
    }
    layers->known = more;
    json_pointer(r, place, sizeof place);
    if (!rules_read(r, rule, &reading, error))
        return NULL;
    struct attention_rules *made = &more[layers->count].rules;
    *made = asked.rules;
    if (!rules_check(&asked, asked.named, shape, made, error)) {
        move_fault(error, place, rule);
        return NULL;
    }
    if (!check_place(made, place, error))
        return NULL;
    more[layers->count++].at = at;
    return made;
}

static bool read_position(void *context, struct json_reader *r, const struct attention_shape *shape,
                          struct position_rule *rule, struct error *error)
{
    const struct attention_rules *rules = read(context, r, RULE_POSITION_INDEX, shape, error);
    if (rules)
        *rule = rules->position;
    return rules != NULL;
}

static bool read_pattern(void *context, struct json_reader *r, const struct attention_shape *shape,
                         struct pattern_rule *rule, struct error *error)
{
    const struct attention_rules *rules = read(context, r, RULE_PATTERN_INDEX, shape, error);
    if (rules)
        *rule = rules->pattern;
    return rules != NULL;
}

struct blocks_rules layer_rules_interface(struct layer_rules *layers)
{
    return (struct blocks_rules){.position = read_position, .pattern = read_pattern, .context = layers};
}
