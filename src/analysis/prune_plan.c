/* Greedy removal over the Gram matrix of the heads' contributions. Any thread. */

#include "analysis/prune_plan.h"

#include <math.h>

void prune_plan(const double *gram, size_t num_heads, double size, struct prune_step *plan, double *cross)
{
    /* removed: the sum of gram over S x S. cross[h]: that over {h} x S; NaN once h is in S. */
    double removed = 0;
    for (size_t head = 0; head < num_heads; head++)
        cross[head] = 0;
    for (size_t step = 0; step < num_heads; step++) {
        size_t best = num_heads;
        double least = INFINITY;
        for (size_t head = 0; head < num_heads; head++) {
            if (isnan(cross[head]))
                continue;
            const double with = removed + 2 * cross[head] + gram[head * num_heads + head];
            if (best == num_heads || with < least) {
                best = head;
                least = with;
            }
        }
        cross[best] = NAN;
        for (size_t head = 0; head < num_heads; head++)
            cross[head] += gram[best * num_heads + head];
        removed = least;
        /* Where contributions cancel, rounding can leave a sum of squares below 0. */
        plan[step] = (struct prune_step){best, size > 0 ? sqrt(fmax(removed, 0)) / size : NAN};
    }
}

size_t prune_plan_removable(const struct prune_step *plan, size_t num_heads, double tolerance)
{
    size_t count = num_heads;
    while (count > 0 && !(plan[count - 1].change <= tolerance))
        count--;
    return count;
}
