/* What every analysis of heads is asked: maps that were computed elsewhere, or what /v1/forward takes, and how they are
 * made ready (analysis/head_maps.h). */
#ifndef ATTND_CODEC_ANALYSIS_REQUEST_H
#define ATTND_CODEC_ANALYSIS_REQUEST_H

#include "analysis/head_maps.h"
#include "codec/forward_request.h"

/* What it points to is in the arena that it was decoded into, or in the body. */
struct analysis_request {
    struct forward_request forward; /* the computation; of posted maps only attention_mask, causal, include_heads,
                                       include_layers and id */
    struct tensor attention;        /* rank 0: the forward computes them */
    bool renormalize;               /* with `attention` only */
    bool has_exclude, has_words;
    struct position_lists exclude;
    struct word_lists words;
};

static inline bool analysis_request_has_maps(const struct analysis_request *request)
{
    return request->attention.rank > 0;
}

/* How many maps there are of a sequence, without the layers that include_layers leaves out. */
struct maps_extent {
    size_t num_layers; /* 0: there is no such axis */
    size_t num_heads;  /* of each layer */
};

/* Checks the shapes of posted maps, [B,L,H,T,T], [B,H,Tq,Tk] or [H,Tq,Tk], of attention_mask, include_heads and
 * include_layers against each other, and fills *rule and *extent. Square maps are self-attention. The rows are for
 * head_maps_check to look at.
 */
bool analysis_request_check_maps(const struct analysis_request *request, struct forward_input *rule,
                                 struct maps_extent *extent, struct error *error);

/* What head_maps_check allows to the posted maps, by their format and renormalize. */
double analysis_request_tolerance(const struct analysis_request *request);

/* The maps to be prepared, of `weights` [B, num_layers, num_heads, Tq, Tk], posted ones with all their layers: those of
 * layer 0. */
struct head_maps analysis_request_maps(const struct analysis_request *request, const struct forward_input *rule,
                                       const float *weights, const struct maps_extent *extent);

#endif
