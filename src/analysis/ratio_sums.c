/* The sums of a ratio estimator. */
#include "analysis/ratio_sums.h"

#include <math.h>

void ratio_sums_add(struct ratio_sums *sums, double y, double n)
{
    if (!(n > 0))
        return;
    if (sums->sequences == 0)
        sums->offset = y / n;
    const double z = y - sums->offset * n;
    sums->sequences += 1;
    sums->z += z;
    sums->n += n;
    sums->zz += z * z;
    sums->zn += z * n;
    sums->nn += n * n;
}

void ratio_sums_merge(struct ratio_sums *sums, const struct ratio_sums *other)
{
    if (other->sequences == 0)
        return;
    if (sums->sequences == 0) {
        *sums = *other;
        return;
    }
    const double shift = sums->offset - other->offset; /* z about our offset is theirs less shift * n */
    sums->sequences += other->sequences;
    sums->z += other->z - shift * other->n;
    sums->n += other->n;
    sums->zz += other->zz - 2 * shift * other->zn + shift * shift * other->nn;
    sums->zn += other->zn - shift * other->nn;
    sums->nn += other->nn;
}

double ratio_sums_mean(const struct ratio_sums *sums)
{
    return sums->n > 0 ? sums->offset + sums->z / sums->n : (double)NAN;
}

double ratio_sums_stderr(const struct ratio_sums *sums)
{
    if (!(sums->sequences >= 2 && sums->n > 0))
        return (double)NAN;
    const double shift = sums->z / sums->n; /* the mean about the offset */
    const double squares = sums->zz - 2 * shift * sums->zn + shift * shift * sums->nn;
    if (!(squares > 0))
        return isnan(squares) ? squares : 0;
    return sqrt(sums->sequences / (sums->sequences - 1) * squares) / sums->n;
}
