/* The other half of a transformer block: norms and the feed-forward layer, over rows of a batch. */
#ifndef ATTND_ENGINE_FFN_H
#define ATTND_ENGINE_FFN_H

#include "engine/batch.h"
#include "engine/model_parts.h"

/* Floats of scratch that ffn_run takes for so many rows. False on overflow. */
bool ffn_scratch_floats(const struct ffn_shape *shape, size_t n_rows, size_t *floats);

/* to = W_2 f(W_1 from), added to what is there where `adds`; `from` and `to` may be the same rows. */
bool ffn_run(const struct kernels *kernels, const struct ffn *ffn, const struct rows_in *from, const struct rows *to,
             size_t n_rows, bool adds, float *scratch, struct work *work);

/* to = the norm of `from`, [n_rows, d]; they may be the same. */
bool norm_rows(const struct kernels *kernels, const struct norm *norm, const struct rows_in *from,
               const struct rows *to, size_t n_rows, size_t d, struct work *work);

#endif
