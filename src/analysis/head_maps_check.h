/* Attention maps before they are measured: are they maps at all? */
#ifndef ATTND_ANALYSIS_HEAD_MAPS_CHECK_H
#define ATTND_ANALYSIS_HEAD_MAPS_CHECK_H

#include "analysis/head_maps.h"
#include "engine/parallel.h"

/* What a row's sum may differ from 1 by, and the weight that keys which are not allowed may have together: of float32
 * and wider numbers, of 16-bit ones, and of maps that are renormalised. */
#define HEAD_MAPS_TOLERANCE             1e-3
#define HEAD_MAPS_TOLERANCE_16_BIT      4e-3
#define HEAD_MAPS_TOLERANCE_RENORMALIZE 5e-2

/* Checks posted maps, of finite weights, before head_maps_prepare, and sets maps->stray. Padding is not looked at.
 * ERROR_INVALID for the first row, in order of sequences, heads and rows, that has a negative weight, does not sum to 1
 * within the tolerance, has more than that on keys that are not allowed, or is zero where the first head's row is not,
 * or the reverse; its place is /attention/batch/layer/head/row, without batch where maps->rule->rank2 and without layer
 * where there is no such axis. Of maps with layers those of one layer are checked.
 *
 * Of computed maps, those of a forward, only that they are finite: ERROR_NOT_FINITE where it overflowed float32; the
 * tolerance is not used. ERROR_CLIENT_GONE when cancelled. */
bool head_maps_check(struct head_maps *maps, double tolerance, const struct parallel *parallel, struct error *error);

#endif
