/* Random models of many layers, what is asked of them, and the answers by plain loops in float64 that share nothing
 * with the engine. Needs no libcheck. */
#ifndef ATTND_TESTS_ENGINE_MODEL_PROBLEM_H
#define ATTND_TESTS_ENGINE_MODEL_PROBLEM_H

#include "engine/model_run.h"
#include "problem.h"

/* A model with its numbers as they are before packing. */
struct model_problem {
    struct problem owner;
    struct model_shape shape;
    float **tensors; /* [num_layers + 1, MODEL_SLOTS]: of the layers, then of the model itself */
    struct model *model;
    /* Of all inputs: the rule that is asked for, and whether embeddings or rows are given. */
    struct attention_rules rules;
    bool ruled, embeds;
};

enum { MODEL_SLOTS = (int)LAYER_SLOT_COUNT > (int)MODEL_SLOT_COUNT ? (int)LAYER_SLOT_COUNT : (int)MODEL_SLOT_COUNT };

struct model_limits {
    size_t layers, d_model, heads, d_k, d_ff, batch, length; /* largest */
    bool dropout;                                            /* wanted */
    bool bf16;                                               /* the numbers are exact in bfloat16 */
};

/* *m must stay where it is. */
void model_problem_open(struct model_problem *m, struct random *random, const struct model_limits *limits);
void model_problem_close(struct model_problem *m);

/* A model of the same numbers, which are exact in bfloat16, in another precision. */
struct model *model_problem_copy(const struct model_problem *m, enum precision precision);

/* [rows, columns], or NULL. */
const float *model_problem_tensor(const struct model_problem *m, size_t layer, unsigned slot);
struct attention_matrices model_problem_matrices(const struct model_problem *m, size_t layer);

/* One input, and which tensors are asked for. */
struct model_case {
    struct problem owner;
    struct forward_input input;
    struct embedding_input embedding;
    const uint32_t *include_heads; /* [n_maps] or NULL */
    size_t n_maps;
    const uint32_t *include_layers; /* [n_layers] or NULL: all */
    size_t n_layers;
};

/* *c must stay where it is. */
void model_case_open(struct model_case *c, struct random *random, const struct model_problem *m,
                     const struct model_limits *limits);
void model_case_close(struct model_case *c);

enum {
    ANSWER_OUTPUT,
    ANSWER_ATTENTION,
    ANSWER_HEADS,
    ANSWER_QUERY,
    ANSWER_KEY,
    ANSWER_VALUE,
    ANSWER_STATES,
    ANSWER_DEVIATION,
    ANSWER_TENSORS
};

struct model_answer {
    float *tensors[ANSWER_TENSORS]; /* each with one number more, which stays ANSWER_UNWRITTEN */
    uint8_t *heads_used;            /* [B, L, H] */
    size_t fully_masked_rows;
};

/* Numbers of a tensor; 0 of what the rules do not have. */
size_t model_answer_size(const struct model_problem *m, const struct model_case *c, size_t tensor);
struct model_answer model_answer_create(const struct model_problem *m, const struct model_case *c);
void model_answer_free(struct model_answer *a);
struct forward_result model_answer_result(const struct model_problem *m, const struct model_case *c,
                                          const struct model_answer *a);

/* By the definition. Returns how far from another choice of heads or keys it is, where the rules choose. */
double model_reference(const struct model_problem *m, const struct model_case *c, struct model_answer *a);

/* model_reference_parts.c: of rows [n_rows, width], in place. */
void define_norm(const struct norm_shape *shape, const float *gain, const float *bias, double *x, size_t n_rows,
                 size_t width);
/* to [n_rows, d_model] = the feed-forward layer of `from`; they may not be the same. */
void define_feed_forward(const struct model_problem *m, size_t layer, const double *from, size_t n_rows, double *to);
/* The first layer's input [B, T, d_model], without the rules' positions. */
void define_input(const struct model_problem *m, const struct model_case *c, double *x);

#endif
