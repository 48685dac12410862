/* Similarities from sums: see live_similarity.h. */
#include "analysis/live_similarity.h"

#include <math.h>

/* What is left of a head after subtracting a mean, relative to its norm: less is rounding. */
#define LEFT_LEAST 1e-6

bool live_similarity_has(enum similarity_metric metric)
{
    return metric == SIMILARITY_COSINE || metric == SIMILARITY_PEARSON || metric == SIMILARITY_CENTERED;
}

/* What the metric adds to <c_a, c_b> of heads of a layer. The products of attention itself are greater by U, since rows
 * sum to 1; and all have the mean rows / N. */
static double shift_of(const struct live_sums *sums, size_t layer, enum similarity_metric metric)
{
    const struct live_keys *keys = &sums->keys[live_sums_part(sums, layer)];
    const double rows = live_sums_of(sums, layer, 0, STATISTIC_ENTROPY).n;
    switch (metric) {
    case SIMILARITY_COSINE:
        return keys->even;
    case SIMILARITY_PEARSON:
        return keys->even - (keys->allowed > 0 ? rows * rows / keys->allowed : 0);
    default:
        return 0;
    }
}

/* The norm of a head, as the metric sees it; NaN where it is none. */
static double norm_of(const struct live_sums *sums, size_t layer, size_t head, double shift)
{
    const double centered = live_sums_product(sums, layer, head, head),
                 whole = centered + sums->keys[live_sums_part(sums, layer)].even, square = centered + shift;
    return square > 0 && square > LEFT_LEAST * LEFT_LEAST * whole ? sqrt(square) : (double)NAN;
}

void live_similarity(const struct live_sums *sums, size_t layer, enum similarity_metric metric, double *similarity)
{
    const size_t heads = sums->num_heads;
    const double shift = shift_of(sums, layer, metric);
    for (size_t a = 0; a < heads; a++)
        similarity[a * heads + a] = norm_of(sums, layer, a, shift); /* until the end */
    for (size_t a = 0; a < heads; a++)
        for (size_t b = 0; b < a; b++) {
            const double product = live_sums_product(sums, layer, a, b) + shift;
            const double cosine = product / (similarity[a * heads + a] * similarity[b * heads + b]);
            similarity[a * heads + b] = similarity[b * heads + a] = cosine > 1 ? 1 : cosine < -1 ? -1 : cosine;
        }
    for (size_t a = 0; a < heads; a++)
        similarity[a * heads + a] = isnan(similarity[a * heads + a]) ? (double)NAN : 1;
}
