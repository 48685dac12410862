/* The strongest links of each head: which query attends most to which key. */
#ifndef ATTND_ANALYSIS_HEAD_LINKS_H
#define ATTND_ANALYSIS_HEAD_LINKS_H

#include "analysis/head_maps.h"
#include "engine/parallel.h"

/* By the request's positions; by words, where there are words. */
struct head_link {
    float weight;
    uint32_t sequence, query, key;
};

/* Buffers of the caller. */
struct head_links {
    struct head_link *links; /* [num_heads, top_k]: strongest first, equals in the order of sequence, query, key */
    size_t *counts;          /* [num_heads] how many there are */
    size_t top_k;            /* of each head, over all sequences */
    float min_weight;        /* links below this are none, nor are those of weight 0 */
};

double head_links_flop(const struct forward_input *rule, size_t num_heads);

/* The arena that head_links_run needs, head_maps_bytes included. False when it overflows size_t. */
bool head_links_scratch_bytes(const struct head_maps *maps, unsigned lanes, size_t *bytes);

/* Prepares the maps (head_maps_prepare) and finds the links of all heads; errors as head_statistics_run has them. */
bool head_links_run(struct head_maps *maps, const struct parallel *parallel, struct arena *arena,
                    struct head_links *links, struct error *error);

#endif
