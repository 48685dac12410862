/* Landmarks, and the two attentions through them. Entered by the thread that runs the job; tiles on any lane. */

#include "engine/nystrom.h"

#include "base/size.h"
#include "engine/low_rank.h"

#include <string.h>

/* Matrices [m, m] that inverses are computed in at once have about this many doubles together, or are one. */
#define SET_DOUBLES ((size_t)256 * 1024)

/* Columns of a mean at once; rows of it that are added up in float32. */
#define MEAN_COLUMNS ((size_t)64)
#define MEAN_ROWS    ((size_t)8)

enum piece {
    STATE,
    LIST,
    SEQUENCES,
    RESULTS,
    QUERY,
    KEY,
    MIXED,
    VALUES,
    INVERSES,
    SETS,
    LANDMARK_PANELS,
    INVERSE_PANELS,
    KEY_PANELS,
    WEIGHTS,
    WEIGHT_PANELS,
    MAP_LANES,
    PIECES
};

struct layout {
    size_t bytes[PIECES];
    size_t query_stride, heads_stride, n_sets, set_doubles, lane_bytes;
};

static bool floats(size_t rows, size_t columns, size_t *bytes)
{
    return tensor_bytes((size_t[]){rows, columns}, 2, sizeof(float), bytes);
}

static bool lay_out(const struct attention_shape *shape, const struct low_rank_rule *rule,
                    const struct batch_extent *extent, unsigned lanes, struct layout *l)
{
    const size_t m = rule->landmarks, count = extent->n_approximate;
    *l = (struct layout){0};
    size_t *bytes = l->bytes, rows, pairs, squares;
    if (!size_multiply(extent->n_sequences, sizeof(struct sequence *), &bytes[LIST]) ||
        !size_multiply(extent->n_sequences, sizeof(struct sequence), &bytes[SEQUENCES]) ||
        !size_multiply(extent->n_sequences, sizeof(struct forward_result), &bytes[RESULTS]))
        return false;
    bytes[STATE] = sizeof(struct nystrom);
    if (count == 0)
        return true;
    if (!size_multiply(count, m, &rows) || !size_multiply(count, shape->num_heads, &pairs) ||
        !size_multiply(pairs, m, &squares) || !size_multiply(shape->num_heads, shape->d_k, &l->query_stride) ||
        !size_multiply(shape->num_heads, shape->d_v, &l->heads_stride) ||
        !nystrom_set_doubles(shape, m, &l->set_doubles))
        return false;
    l->query_stride = kernel_padded(l->query_stride) + KERNEL_PAD;
    l->heads_stride = kernel_padded(l->heads_stride) + KERNEL_PAD;
    l->n_sets = size_min(pairs, size_max(SET_DOUBLES / (m * m), 1));
    if (!floats(rows, l->query_stride, &bytes[QUERY]) || !floats(rows, l->query_stride, &bytes[KEY]) ||
        !floats(rows, l->heads_stride, &bytes[MIXED]) || !floats(rows, l->heads_stride, &bytes[VALUES]) ||
        !floats(squares, m, &bytes[INVERSES]) ||
        !tensor_bytes((size_t[]){l->n_sets, l->set_doubles}, 2, sizeof(double), &bytes[SETS]))
        return false;
    return !extent->maps || (floats(shape->d_k, kernel_padded(m), &bytes[LANDMARK_PANELS]) &&
                             floats(m, kernel_padded(m), &bytes[INVERSE_PANELS]) &&
                             floats(shape->d_k, kernel_padded(extent->longest), &bytes[KEY_PANELS]) &&
                             floats(m, batch_tile_stride(extent->longest), &bytes[WEIGHTS]) &&
                             floats(m, kernel_padded(extent->longest), &bytes[WEIGHT_PANELS]) &&
                             nystrom_map_lane_bytes(extent, m, &l->lane_bytes) &&
                             size_multiply(lanes, l->lane_bytes, &bytes[MAP_LANES]));
}

bool nystrom_bytes(const struct attention_shape *shape, const struct low_rank_rule *rule,
                   const struct batch_extent *extent, unsigned lanes, size_t *bytes)
{
    struct layout l;
    *bytes = 0;
    if (!lay_out(shape, rule, extent, lanes, &l))
        return false;
    for (size_t i = 0; i < PIECES; i++)
        if (!arena_need(bytes, l.bytes[i]))
            return false;
    return true;
}

/* The mean of `count` rows. */
static void mean_of_rows(const float *rows /* [count, columns] */, size_t stride, size_t count, size_t columns,
                         float *mean /* [columns] */)
{
    for (size_t first = 0; first < columns; first += MEAN_COLUMNS) {
        const size_t width = size_min(MEAN_COLUMNS, columns - first);
        double sums[MEAN_COLUMNS] = {0};
        for (size_t block = 0; block < count; block += MEAN_ROWS) {
            float part[MEAN_COLUMNS] = {0};
            for (size_t row = block; row < size_min(block + MEAN_ROWS, count); row++) {
                const float *from = rows + row * stride + first;
                for (size_t i = 0; i < width; i++)
                    part[i] += from[i];
            }
            for (size_t i = 0; i < MEAN_COLUMNS; i++)
                sums[i] += (double)part[i];
        }
        for (size_t i = 0; i < width; i++)
            mean[first + i] = (float)(sums[i] / (double)count);
    }
}

/* A tile is one landmark of a sequence, of all heads: the mean of its segment. The first m - n % m segments have n / m
 * tokens, the others one more. */
static void make_landmark(const void *argument, size_t index, unsigned lane)
{
    (void)lane;
    const struct nystrom *n = argument;
    const struct batch *batch = n->batch;
    const struct attention_shape *shape = &batch->layer->shape;
    const size_t m = n->landmarks, landmark = index % m;
    const struct sequence *s = n->sequences[index / m];
    const size_t least = s->n_keys / m, shorter = m - s->n_keys % m, count = least + (landmark >= shorter);
    const size_t first = landmark * least + (landmark > shorter ? landmark - shorter : 0);
    mean_of_rows(batch->query.data + (s->query_start + first) * batch->query.stride, batch->query.stride, count,
                 shape->num_heads * shape->d_k, n->query.data + index * n->query.stride);
    for (size_t head = 0; head < shape->num_heads; head++) {
        float *key = n->key.data + index * n->key.stride + head * shape->d_k;
        if (head % batch->heads_per_kv_head > 0)
            memcpy(key, key - shape->d_k, shape->d_k * sizeof *key);
        else
            mean_of_rows(batch->key.data + (s->key_start + first) * batch->key.stride +
                             head / batch->heads_per_kv_head * shape->d_k,
                         batch->key.stride, count, shape->d_k, key);
    }
}

static bool make_landmarks(const struct nystrom *n, struct work *work)
{
    double rows = 0;
    for (size_t i = 0; i < n->n_sequences; i++)
        rows += (double)n->sequences[i]->n_keys;
    const double columns = (double)(n->batch->layer->shape.num_heads * n->batch->layer->shape.d_k);
    return work_split(work, n->n_sequences * n->landmarks, 2 * rows * columns, make_landmark, n);
}

static bool attend_others(const struct batch *batch, struct sequence *sequences, size_t count, struct work *work)
{
    struct batch other = *batch;
    other.sequences = sequences;
    other.extent.n_sequences = count;
    attend_divide(&other, work->parallel->lanes);
    return batch_attend(&other, work);
}

/* Sequences of no more tokens than landmarks, with all that is wanted of them. */
static bool attend_exactly(const struct batch *batch, struct sequence *sequences, struct work *work)
{
    size_t count = 0;
    for (size_t i = 0; i < batch->extent.n_sequences; i++)
        if (!low_rank_approximates(batch->extent.rules, batch->sequences[i].n_keys))
            sequences[count++] = batch->sequences[i];
    return attend_others(batch, sequences, count, work);
}

/* mixed = softmax(q~ k^T s) v. */
static bool attend_from_landmarks(const struct nystrom *n, struct sequence *sequences, struct work *work)
{
    const struct forward_input input = {.batch = 1, .query_length = n->landmarks};
    struct forward_result nothing = {.output = NULL};
    struct batch from_landmarks = *n->batch;
    from_landmarks.query = (struct rows_in){n->query.data, n->query.stride};
    from_landmarks.heads = n->mixed;
    for (size_t i = 0; i < n->n_sequences; i++)
        sequences[i] = (struct sequence){
            .input = &input,
            .result = &nothing,
            .output_wanted = true,
            .query_start = i * n->landmarks,
            .n_queries = n->landmarks,
            .key_start = n->sequences[i]->key_start,
            .n_keys = n->sequences[i]->n_keys,
        };
    return attend_others(&from_landmarks, sequences, n->n_sequences, work);
}

/* softmax(q k~^T s) values, to where heads go; the maps are others. */
static bool attend_to_landmarks(const struct nystrom *n, struct sequence *sequences, struct forward_result *results,
                                struct work *work)
{
    struct batch to_landmarks = *n->batch;
    to_landmarks.key = (struct rows_in){n->key.data, n->key.stride};
    to_landmarks.value = (struct rows_in){n->values.data, n->values.stride};
    to_landmarks.heads_per_kv_head = 1;
    for (size_t i = 0; i < n->n_sequences; i++) {
        results[i] = *n->sequences[i]->result;
        results[i].attention = NULL;
        sequences[i] = *n->sequences[i];
        sequences[i].result = &results[i];
        sequences[i].key_start = i * n->landmarks;
        sequences[i].n_keys = n->landmarks;
    }
    return attend_others(&to_landmarks, sequences, n->n_sequences, work);
}

static void list_sequences(struct nystrom *n)
{
    for (size_t i = 0; i < n->batch->extent.n_sequences; i++) {
        const struct sequence *s = &n->batch->sequences[i];
        if (!low_rank_approximates(n->batch->extent.rules, s->n_keys))
            continue;
        n->sequences[n->n_sequences++] = s;
        s->result->approximate = true;
    }
}

bool nystrom_attend(const struct batch *batch, struct work *work)
{
    const struct low_rank_rule *rule = &batch->extent.rules->low_rank;
    struct layout l;
    size_t bytes;
    if (!lay_out(&batch->layer->shape, rule, &batch->extent, work->parallel->lanes, &l) ||
        !nystrom_bytes(&batch->layer->shape, rule, &batch->extent, work->parallel->lanes, &bytes))
        return false; /* it did not overflow when the batch was created */
    struct arena memory = {.base = batch->low_rank, .capacity = bytes};
    void *pieces[PIECES];
    for (size_t i = 0; i < PIECES; i++)
        pieces[i] = arena_take(&memory, l.bytes[i]);
    struct nystrom *n = pieces[STATE];
    *n = (struct nystrom){
        .batch = batch,
        .landmarks = rule->landmarks,
        .sequences = pieces[LIST],
        .query = {pieces[QUERY], l.query_stride},
        .key = {pieces[KEY], l.query_stride},
        .mixed = {pieces[MIXED], l.heads_stride},
        .values = {pieces[VALUES], l.heads_stride},
        .inverses = pieces[INVERSES],
        .sets = pieces[SETS],
        .n_sets = l.n_sets,
        .set_doubles = l.set_doubles,
        .landmark_panels = pieces[LANDMARK_PANELS],
        .inverse_panels = pieces[INVERSE_PANELS],
        .key_panels = pieces[KEY_PANELS],
        .weights = pieces[WEIGHTS],
        .weight_panels = pieces[WEIGHT_PANELS],
        .lanes = pieces[MAP_LANES],
        .lane_bytes = l.lane_bytes,
    };
    list_sequences(n);
    struct sequence *sequences = pieces[SEQUENCES];
    if (!attend_exactly(batch, sequences, work))
        return false;
    if (n->n_sequences == 0)
        return true;
    return make_landmarks(n, work) && attend_from_landmarks(n, sequences, work) && nystrom_invert(n, work) &&
           attend_to_landmarks(n, sequences, pieces[RESULTS], work) && nystrom_write_maps(n, work);
}
