/* Random problems under rules of low rank, and their answers by the definitions, in float64. Needs no libcheck. */
#ifndef ATTND_TESTS_ENGINE_LOW_RANK_H
#define ATTND_TESTS_ENGINE_LOW_RANK_H

#include "problem.h"

#include <stdbool.h>

/* What linformer and nystrom go with: self-attention without causal order, bias and masks of pairs. `padded`: with
 * padding, in front, behind or in holes. */
struct problem low_rank_problem(struct random *random, const struct attention_shape *shape,
                                const struct attention_matrices *matrices, const struct problem_limits *limits,
                                bool padded);

/* E and F of a linformer rule for up to `length` keys; the memory is the owner's. */
void random_linformer(struct random *random, struct problem *owner, size_t num_heads, size_t projected_keys,
                      size_t length, struct low_rank_rule *rule);

/* Everything that `problem` answers under its rule of low rank, linformer or nystrom. */
void reference_low_rank(const struct problem *problem, struct answer *answer);

/* Fails the program unless all tensors are within the tolerance. */
void require_close(const struct problem *problem, const struct answer *got, const struct answer *expected,
                   double tolerance, const char *what);
/* Fails the program unless they have the same bits. */
void require_same_bits(const struct problem *problem, const struct answer *a, const struct answer *b, const char *what);

/* Fails the program unless random problems of one layer under one rule have the same bits alone and together, on one
 * lane and on several. */
void require_same_in_company(struct random *random, const struct attention_shape *shape,
                             const struct attention_matrices *matrices, const struct problem_limits *limits,
                             const struct attention_rules *rules);

#endif
