/* A mean over rows and its standard error over sequences, from sums that add: rows of one sequence are not independent,
 * so sequences are the sample. R = sum y_b / sum n_b, y_b the sum over the scored rows of sequence b and n_b their
 * number; its standard error is that of the linearised ratio estimator (Cochran, Sampling Techniques, 1977, section
 * 6.4). Pure: any thread with sums of its own. */
#ifndef ATTND_ANALYSIS_RATIO_SUMS_H
#define ATTND_ANALYSIS_RATIO_SUMS_H

/* All zero: nothing has come yet. Sums are about an offset near the mean, z_b = y_b - offset * n_b, because the sums of
 * squares would cancel otherwise. */
struct ratio_sums {
    double offset;     /* r0; of the first sequence that was added to empty sums */
    double sequences;  /* B, those with a row */
    double z, n;       /* sum z_b, sum n_b */
    double zz, zn, nn; /* sum z_b^2, sum z_b n_b, sum n_b^2 */
};

/* Adds a sequence; one without rows (n = 0) does not count. */
void ratio_sums_add(struct ratio_sums *sums, double y, double n);

/* Adds other sums, about whatever offset. */
void ratio_sums_merge(struct ratio_sums *sums, const struct ratio_sums *other);

/* NaN where there is no row. */
double ratio_sums_mean(const struct ratio_sums *sums);

/* NaN with fewer than two sequences; never below 0. */
double ratio_sums_stderr(const struct ratio_sums *sums);

#endif
