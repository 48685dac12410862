/* The tensors of an answer to a forward: which there are and of which shapes, whatever form they are then given. For
 * the files of this folder. */
#ifndef ATTND_CODEC_FORWARD_RETURNED_H
#define ATTND_CODEC_FORWARD_RETURNED_H

#include "base/arena.h"
#include "base/error.h"
#include "base/text.h"
#include "codec/forward_request.h"
#include "engine/compare.h"
#include "engine/parallel.h"
#include "json/number_rows.h"

#define RETURNED_MAX_RANK 5 /* [B, L, H, Tq, Tk] */

/* Those that are asked for by name, and those that come with what the rules do. */
enum returned_index {
    RETURNED_OUTPUT_STD = FORWARD_RETURN_COUNT, /* beside output, where there is dropout */
    RETURNED_HEADS_USED,                        /* where keep_heads chooses: 0 or 1 */
    RETURNED_COUNT
};

struct returned_tensor {
    const char *name;
    unsigned index; /* enum forward_return_index or returned_index */
    bool is_map;
    const float *data;    /* [shape]; NULL: not computed yet, or flags */
    const uint8_t *flags; /* [shape] of RETURNED_HEADS_USED */
    unsigned rank;
    size_t shape[RETURNED_MAX_RANK];
    size_t kept; /* how many weights of each row stand in the answer (top_k); 0: all */
};

/* Those of the answer, in the order of FORWARD_RETURNS, output_std behind output and heads_used last, without the batch
 * axis where the request had none. `result` may be NULL: no data. */
size_t returned_list(const struct forward_request *request, const struct attention_shape *shape,
                     const struct forward_input *problem, const struct forward_result *result,
                     struct returned_tensor list[RETURNED_COUNT]);

/* Appends an object of their shapes: {"output":[1,4,64],"attention":[1,8,4,4]}. */
void returned_write_shapes(struct text *text, const struct returned_tensor *list, size_t count);

/* The product of the shape, which is a size where the data is there. */
size_t returned_count(const struct returned_tensor *tensor);

/* What top_k keeps of the rows of a map. */
struct returned_kept {
    size_t shape[RETURNED_MAX_RANK]; /* the map's, but for the last axis */
    uint32_t *keys;                  /* [shape] */
    float *weights;                  /* [shape] */
};

/* Of a map with `kept`: the shape of what is kept. */
void returned_kept_shape(const struct returned_tensor *map, size_t shape[RETURNED_MAX_RANK]);

/* Memory of returned_keep and returned_integers for the list, as arena_need counts it; false when that overflows. */
bool returned_kept_need(const struct returned_tensor *list, size_t count, size_t *total);

/* Selects them; ERROR_OUT_OF_MEMORY when the arena is too small. */
bool returned_keep(const struct returned_tensor *map, const struct parallel *parallel, struct arena *arena,
                   struct returned_kept *kept, struct error *error);

/* The flags of a tensor as integers [shape], which is how answers carry them. ERROR_OUT_OF_MEMORY as above. */
bool returned_integers(const struct returned_tensor *tensor, struct arena *arena, const uint32_t **integers,
                       struct error *error);

/* What compare has found: {"output_error":...,"attention_error":...,"pairs":...,"pairs_full":...}. */
void returned_write_approximation(struct text *text, const struct approximation *approximation);

/* The most that it writes. */
#define RETURNED_APPROXIMATION_BYTES 192

/* Whether the answer says that its maps are approximate. */
static inline bool returned_approximate(const struct forward_request *request, const struct forward_result *result)
{
    return result->approximate && request->returned & RETURN_ATTENTION;
}

/* The extremes of all numbers of a tensor; of flags none. */
struct number_extremes returned_extremes(const struct returned_tensor *tensor, const struct parallel *parallel);

/* Fills *error for the first number that is not finite, which is there: ERROR_NOT_FINITE naming the tensor and index
 * ("output[0][3][17] is infinity"), and `remedy`, what carries it. Always false. */
bool returned_not_finite(const struct returned_tensor *tensor, const char *remedy, struct error *error);

#endif
