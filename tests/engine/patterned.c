#include "patterned.h"

#include "require.h"

static void give_pattern(struct patterned *p, const struct pattern_rule *rule)
{
    struct forward_input *in = &p->problem.input;
    const ptrdiff_t shift = in->causal ? (ptrdiff_t)in->key_length - (ptrdiff_t)in->query_length : 0;
    p->rules = (struct attention_rules){.pattern = *rule, .layer = 2, .num_layers = 3};
    in->rules = &p->rules;
    uint8_t *table = problem_take(&p->problem, in->query_length * in->key_length);
    _Static_assert(sizeof(bool) == sizeof *table, "a row of bool is one of bytes");
    for (size_t i = 0; i < in->query_length; i++)
        pattern_definition(rule, p->rules.layer, (ptrdiff_t)i + shift, in->key_length,
                           (bool *)(table + i * in->key_length));
    p->problem.pattern = table;
    p->problem.top_k = rule->kind == PATTERN_TOP_K ? rule->k : 0;
}

void patterned_open(struct patterned *p, struct random *random, const struct problem_limits *limits,
                    enum pattern_kind kind)
{
    struct error error;
    const struct attention_shape shape = random_shape(random, limits);
    p->problem = problem_create(random, &shape, NULL, limits);
    const size_t n_keys = p->problem.input.key_length;
    struct pattern_rule rule = random_pattern(random, kind, random_chance(random, 0.5) ? n_keys : 40);
    rule.k = random_chance(random, 0.2) ? n_keys + 5 : random_size(random, 1, n_keys);
    if (kind != PATTERN_TOP_K && random_chance(random, 0.3)) {
        uint32_t *global = problem_take(&p->problem, 8 * sizeof *global);
        for (size_t g = random_size(random, 0, 20); rule.n_global < 8; g += random_size(random, 1, 60))
            global[rule.n_global++] = (uint32_t)g;
        rule.global = global;
    }
    give_pattern(p, &rule);
    p->layer = attention_layer_create(&shape, &p->problem.matrices, &error);
    require(p->layer, "no memory for a layer");
}

void patterned_close(struct patterned *p)
{
    attention_layer_free(p->layer);
    problem_free(&p->problem);
}
