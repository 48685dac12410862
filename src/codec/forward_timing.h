/* What an answer says of the time it took. */
#ifndef ATTND_CODEC_FORWARD_TIMING_H
#define ATTND_CODEC_FORWARD_TIMING_H

#include "base/text.h"

/* What happened to the request before its answer is made. */
struct forward_timing {
    double parse_us, queue_us, compute_us;
};

/* Appends an object up to its last member, `encode`, whose number and the closing brace are the caller's. */
void forward_timing_write(struct text *text, const struct forward_timing *timing);

/* Appends one time, to a tenth. */
void forward_timing_write_us(struct text *text, double us);

#endif
