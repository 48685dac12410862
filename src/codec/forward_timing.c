/* Times as JSON numbers. Pure functions: any thread. */
#include "codec/forward_timing.h"

#include "json/number.h"

#include <math.h>

void forward_timing_write_us(struct text *text, double us)
{
    char digits[NUMBER_FIXED_BYTES(1)];
    char *end = number_write_fixed(digits, isfinite(us) && us > 0 && us < 1e15 ? (float)us : 0.0f, 1);
    text_append(text, digits, (size_t)(end - digits));
}

void forward_timing_write(struct text *text, const struct forward_timing *timing)
{
    text_append_string(text, "{\"parse\":");
    forward_timing_write_us(text, timing->parse_us);
    text_append_string(text, ",\"queue\":");
    forward_timing_write_us(text, timing->queue_us);
    text_append_string(text, ",\"compute\":");
    forward_timing_write_us(text, timing->compute_us);
    text_append_string(text, ",\"encode\":");
}
