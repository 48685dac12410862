/* Pieces that the answers of analyses have in common. For the files of this folder; entered by the thread that computed
 * the result. */
#ifndef ATTND_CODEC_ANALYSIS_TEXT_H
#define ATTND_CODEC_ANALYSIS_TEXT_H

#include "base/text.h"
#include "codec/forward_request.h"

/* What analysis_text_number takes at most. */
#define ANALYSIS_NUMBER_BYTES 32

/* A number that reads back as the same double, or null where it is not finite. */
void analysis_text_number(struct text *text, double value);
/* The same for a float. */
void analysis_text_float(struct text *text, float value);

/* `{"id":..,"weights":..,"digest":..,` or those of them that there are; the caller's members follow. `weights` NULL:
 * nothing was computed by a weight set. */
void analysis_text_begin(struct text *text, const struct forward_request *forward, const char *weights,
                         const char *digest);
/* The beginning of an entry of a list of heads: `{"layer":0,"head":1`, with a comma before it but for entry 0. layer
 * SIZE_MAX: there are no layers. At most ANALYSIS_HEAD_BYTES. */
void analysis_text_begin_head(struct text *text, size_t entry, size_t layer, size_t head);
#define ANALYSIS_HEAD_BYTES 64
/* At most its bytes, and those of the members `n_rows` and `n_excluded`. */
size_t analysis_text_begin_bytes(const struct forward_request *forward, const char *weights);

#endif
