/* Parts of sums over all pairs of heads: see gram.h. */

#include "analysis/gram.h"

#include "base/size.h"

#include <string.h>

/* As many as are of use to lanes, within PART_DOUBLES (8 MiB), but no fewer than LEAST_PARTS. */
#define MOST_PARTS   ((size_t)8)
#define LEAST_PARTS  ((size_t)4)
#define PART_DOUBLES ((size_t)1 << 20)

size_t gram_parts(size_t heads, size_t pieces)
{
    const size_t square = heads < PART_DOUBLES ? heads * heads : PART_DOUBLES;
    return size_max(size_min(size_min(size_max(PART_DOUBLES / square, LEAST_PARTS), MOST_PARTS), pieces), 1);
}

bool gram_bytes(size_t heads, size_t parts, size_t *bytes)
{
    size_t one, total = 0;
    if (!tensor_bytes((size_t[]){parts, heads, heads}, 3, sizeof(double), &one) || !arena_need(&total, one))
        return false;
    *bytes = total;
    return true;
}

bool gram_init(struct gram *gram, size_t heads, size_t parts, struct arena *arena)
{
    double *sums = arena_take(arena, parts * heads * heads * sizeof *sums);
    if (!sums)
        return false;
    *gram = (struct gram){heads, parts, sums};
    return true;
}

void gram_clear(struct gram *gram)
{
    memset(gram->sums, 0, gram->parts * gram->heads * gram->heads * sizeof *gram->sums);
}

void gram_total(const struct gram *gram, double *total)
{
    const size_t square = gram->heads * gram->heads;
    if (total != gram->sums)
        memcpy(total, gram->sums, square * sizeof *total);
    for (size_t part = 1; part < gram->parts; part++)
        for (size_t a = 0; a < gram->heads; a++)
            for (size_t b = a * gram->heads; b < a * gram->heads + a + 1; b++)
                total[b] += gram->sums[part * square + b];
}
