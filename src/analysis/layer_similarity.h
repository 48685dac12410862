/* How alike heads are, those of different layers too. Where all layers have the same allowed keys, all heads are
 * compared as those of one layer are. Where they have not, because a layer has a pattern of its own, heads of one layer
 * are compared as ever, and those of two over the entries that are allowed in both: other weights count as 0, and even
 * attention is even over those entries. */
#ifndef ATTND_ANALYSIS_LAYER_SIMILARITY_H
#define ATTND_ANALYSIS_LAYER_SIMILARITY_H

#include "analysis/head_similarity.h"

/* maps [num_layers], prepared, each of its layer of the same maps, which may have more of them. The arena that
 * layer_similarity_run needs. False when it overflows size_t. */
bool layer_similarity_bytes(const struct similarity_question *question, const struct head_maps *maps, size_t num_layers,
                            size_t d_v, unsigned lanes, size_t *bytes);

/* As head_similarity_run, of all num_layers * num_heads heads, layer by layer: similarity [that, that], diversity
 * [num_layers]; `heads` [B, maps->num_layers, num_heads, Tq, d_v]. n_rows and n_excluded are those of the layer with
 * the most rows. question->num_layers is not looked at. */
bool layer_similarity_run(const struct similarity_question *question, const struct head_maps *maps, size_t num_layers,
                          const float *heads, size_t d_v, const struct parallel *parallel, struct arena *arena,
                          struct head_similarity *similarity, struct error *error);

#endif
