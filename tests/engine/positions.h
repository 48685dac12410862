/* Positions of random problems, and the same problems without a rule of positions: what is added is in the inputs, what
 * is a bias is in a bias, and queries and keys are turned by the reference. By the definition, position by position, in
 * float64. Needs no libcheck. */
#ifndef ATTND_TESTS_ENGINE_POSITIONS_H
#define ATTND_TESTS_ENGINE_POSITIONS_H

#include "problem.h"

/* A rule of that kind for all problems of a layer, whose memory is the owner's; with positions up to `most_position`
 * when they are learned. Rope wants a d_k of 2 or more. */
struct attention_rules *random_positions(struct random *random, enum position_kind kind,
                                         const struct attention_shape *shape, size_t most_position,
                                         struct problem *owner);
/* Gives self-attention random positions, below `end`. */
void random_position_ids(struct random *random, struct problem *problem, uint32_t end);

/* Memory of the answer is the owner's. */
struct problem without_positions(const struct problem *problem, struct problem *owner);

/* Has the reference follow the pattern of the problem's rules. */
void define_pattern(struct problem *problem);

/* The bias of one distance, key less query. */
double position_bias(const struct position_rule *rule, size_t num_heads, size_t head, int64_t n);

#endif
