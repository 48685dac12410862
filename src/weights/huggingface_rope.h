/* How config.json says by which angles positions rotate: `rope_theta` and `rope_scaling` of older files,
 * `rope_parameters` of newer ones. Any thread. */
#ifndef ATTND_WEIGHTS_HUGGINGFACE_ROPE_H
#define ATTND_WEIGHTS_HUGGINGFACE_ROPE_H

#include "engine/rules.h"
#include "json/names.h"
#include "json/reader.h"

/* What one object says; a number that it does not give is 0, which none of them can be. */
struct rope_members {
    bool given;
    char rope_type[NAMES_SHOWN_BYTES], type[NAMES_SHOWN_BYTES]; /* "" where not given */
    double theta, factor, low_freq_factor, high_freq_factor, original_positions, partial_rotary_factor;
};

/* The object at the reader, or null. */
bool huggingface_rope_read(struct json_reader *r, struct rope_members *members, struct error *error);

/* What the members make of heads of d_k: `parameters` go before `scaling`, and that before `theta` and `partial` of the
 * document itself. The message of ERROR_INVALID names the member. */
bool huggingface_rope_make(const struct rope_members *parameters, const struct rope_members *scaling, double theta,
                           double partial, size_t d_k, struct position_rule *rule, struct error *error);

#endif
