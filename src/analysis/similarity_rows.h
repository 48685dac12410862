/* The rows that heads are compared over: rows of the maps with a key, of all sequences one after the other, and for
 * each of them the attention or the output of any head, as vectors of one length.
 *
 * A row that any head has nothing left of (`exclude` can take all of its weight) is left out of all heads, so that all
 * pairs are compared over the same rows. similarity_rows_list is entered by the thread that runs the job; what it made
 * is constant then, and the other functions are any thread's. */
#ifndef ATTND_ANALYSIS_SIMILARITY_ROWS_H
#define ATTND_ANALYSIS_SIMILARITY_ROWS_H

#include "analysis/head_maps.h"
#include "analysis/pair_kernels/pair_kernels.h"
#include "engine/split.h"

struct similarity_row {
    uint32_t sequence, row; /* row: of its head_sequence */
};

struct similarity_rows {
    const struct head_maps *maps;
    const float *heads; /* Z [B, num_heads, Tq, d_v], with layers as the maps have them; NULL: only maps are read */
    size_t d_v;
    struct similarity_row *list; /* [count] */
    size_t *starts;              /* [B + 1] where the rows of each sequence begin in the list */
    size_t count, n_excluded;
    size_t map_stride; /* longest_keys, rounded up to whole vectors */
};

/* Memory of similarity_rows_list, as arena_need counts it: more than `count` needs, for it is not known before. False
 * on overflow. */
bool similarity_rows_bytes(const struct head_maps *maps, unsigned lanes, size_t *bytes);

/* Fills *rows but `heads` and `d_v`. False when cancelled; *enough: whether the arena had enough memory. */
bool similarity_rows_list(struct similarity_rows *rows, const struct head_maps *maps, struct arena *arena,
                          struct work *work, bool *enough);

/* The weights of rows first .. first + count - 1 of the list in one head: to [count, map_stride], 0 behind a row's
 * keys. `scratch`: head_maps_tile_bytes of `count` rows. */
void similarity_rows_maps(const struct similarity_rows *rows, size_t head, size_t first, size_t count, void *scratch,
                          float *to);

/* Where those rows lie in the maps, for all heads: false where they are not all neighbours there. */
bool similarity_rows_in_place(const struct similarity_rows *rows, size_t first, size_t count, struct pair_next *place);

/* Z of one row [d_v]. */
const float *similarity_rows_output(const struct similarity_rows *rows, size_t head, size_t index);

/* Z of those rows times `scale` less `mean`: to [count, stride], 0 behind d_v. */
void similarity_rows_scaled(const struct similarity_rows *rows, size_t head, size_t first, size_t count, double scale,
                            double mean, float *to, size_t stride);

/* The same rows of what is subtracted from every head's weights [count, map_stride]: on allowed keys `value`, or 1/n_i
 * where that is NAN, and 0 on others. The reader is one of the maps' rule; allowed: [longest_keys]. */
void similarity_rows_baseline(const struct similarity_rows *rows, size_t first, size_t count, float value,
                              struct allowed_reader *reader, uint8_t *allowed, float *to);

/* Allowed keys of those rows in all. */
double similarity_rows_allowed(const struct similarity_rows *rows, size_t first, size_t count);

#endif
