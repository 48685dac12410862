/* Clusters, redundancy and pairs: see head_clusters.h. */

#include "analysis/head_clusters.h"

#include <math.h>
#include <stdbool.h>

/* The first head of a head's cluster. A head's entry leads to an earlier head, or itself. */
static uint32_t first_of(uint32_t *joined, uint32_t head)
{
    while (joined[head] != head) {
        joined[head] = joined[joined[head]]; /* shorter the next time */
        head = joined[head];
    }
    return head;
}

size_t head_clusters(const double *similarity, size_t n_heads, double threshold, uint32_t *clusters)
{
    size_t count = 0;
    for (uint32_t head = 0; head < n_heads; head++) {
        clusters[head] = head;
        for (uint32_t other = 0; other < head; other++) {
            if (!(similarity[head * n_heads + other] >= threshold))
                continue;
            const uint32_t a = first_of(clusters, head), b = first_of(clusters, other);
            clusters[a > b ? a : b] = a < b ? a : b;
        }
    }
    /* Earlier heads have their numbers already, a head that is first of its cluster gets the next. */
    for (uint32_t head = 0; head < n_heads; head++)
        clusters[head] = clusters[head] == head ? (uint32_t)count++ : clusters[clusters[head]];
    return count;
}

void head_redundancy(const double *similarity, size_t n_heads, double *redundancy)
{
    for (size_t head = 0; head < n_heads; head++) {
        redundancy[head] = NAN;
        for (size_t other = 0; other < n_heads; other++)
            if (other != head)
                redundancy[head] = fmax(redundancy[head], similarity[head * n_heads + other]);
    }
}

/* Does `a` come before `b`? */
static bool comes_before(const struct head_pair *a, const struct head_pair *b)
{
    if (a->similarity != b->similarity)
        return a->similarity > b->similarity;
    return a->head_a != b->head_a ? a->head_a < b->head_a : a->head_b < b->head_b;
}

/* Lets pairs[at] of a heap, whose first comes last in order, sink to its place. */
static void sink(struct head_pair *pairs, size_t count, size_t at)
{
    const struct head_pair sunk = pairs[at];
    for (size_t child; (child = 2 * at + 1) < count; at = child) {
        if (child + 1 < count && comes_before(&pairs[child], &pairs[child + 1]))
            child++;
        if (!comes_before(&sunk, &pairs[child]))
            break;
        pairs[at] = pairs[child];
    }
    pairs[at] = sunk;
}

/* The best pairs so far, as a heap once they are `most`. */
struct best {
    struct head_pair *pairs;
    size_t count, most;
};

static void offer(struct best *best, const struct head_pair *pair)
{
    if (isnan(pair->similarity))
        return;
    if (best->count < best->most) {
        best->pairs[best->count++] = *pair;
        for (size_t i = best->count / 2; best->count == best->most && i-- > 0;)
            sink(best->pairs, best->count, i);
    } else if (comes_before(pair, &best->pairs[0])) {
        best->pairs[0] = *pair;
        sink(best->pairs, best->count, 0);
    }
}

size_t head_pairs(const double *similarity, size_t n_layers, size_t n_heads, struct head_pair *pairs, size_t most)
{
    struct best best = {pairs, 0, most};
    for (size_t layer = 0; layer < n_layers && most > 0; layer++) {
        const double *of_layer = similarity + layer * n_heads * n_heads;
        const uint32_t first = (uint32_t)(layer * n_heads);
        for (uint32_t a = 0; a < n_heads; a++)
            for (uint32_t b = a + 1; b < n_heads; b++)
                offer(&best, &(struct head_pair){first + a, first + b, of_layer[a * n_heads + b]});
    }
    const size_t count = best.count;
    if (count < most)
        for (size_t i = count / 2; i-- > 0;)
            sink(pairs, count, i);
    for (size_t left = count; left-- > 1;) {
        const struct head_pair last = pairs[0];
        pairs[0] = pairs[left];
        pairs[left] = last;
        sink(pairs, left, 0);
    }
    return count;
}
