/* The order in which heads can be taken out. Any thread. */
#ifndef ATTND_ANALYSIS_PRUNE_PLAN_H
#define ATTND_ANALYSIS_PRUNE_PLAN_H

#include <stddef.h>

struct prune_step {
    size_t head;
    double change; /* ||y - y without this head and all before it|| / ||y||; NaN where ||y|| is 0 */
};

/* Greedy: the next head is the one whose removal, after those before, leaves the smallest change; ties go to the
 * smaller head. `gram` [num_heads, num_heads], symmetric: <c_h, c_g> of the heads' contributions to y. The change after
 * removing a set S is sqrt(sum of gram over S x S) / size: nothing is computed again. */
void prune_plan(const double *gram, size_t num_heads, double size /* ||y|| */,
                struct prune_step *plan /* [num_heads] */, double *cross /* [num_heads] scratch */);

/* How many heads of the plan can go: the longest beginning whose change at its end is at most `tolerance`. */
size_t prune_plan_removable(const struct prune_step *plan, size_t num_heads, double tolerance);

#endif
