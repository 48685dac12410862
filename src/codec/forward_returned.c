/* Owns nothing; entered by the thread that computed the result, and by those that help it. */
#include "codec/forward_returned.h"

#include "base/size.h"
#include "codec/tensor_write.h"
#include "codec/top_k.h"
#include "json/number.h"

#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

/* Numbers that one thread looks at before it takes the next: some 20 us. */
#define TILE_NUMBERS ((size_t)1 << 17)

/* Where the next goes, and how its shape begins. */
struct listing {
    struct returned_tensor *next;
    bool rank2;
    size_t batch;
};

/* The axes of a sequence's tensor, those that are not 0; `layers` of them, where that is not 0. */
static struct returned_tensor *add(struct listing *listing, unsigned index, const char *name, const float *data,
                                   size_t layers, const size_t extents[3])
{
    struct returned_tensor *one = listing->next++;
    *one = (struct returned_tensor){.name = name, .index = index, .data = data};
    if (!listing->rank2)
        one->shape[one->rank++] = listing->batch;
    if (layers)
        one->shape[one->rank++] = layers;
    for (unsigned axis = 0; axis < 3 && extents[axis]; axis++)
        one->shape[one->rank++] = extents[axis];
    return one;
}

size_t returned_list(const struct forward_request *request, const struct attention_shape *shape,
                     const struct forward_input *problem, const struct forward_result *result,
                     struct returned_tensor list[RETURNED_COUNT])
{
    static const struct forward_result none = {0};
    const struct forward_result *from = result ? result : &none;
    const size_t queries = problem->query_length, keys = problem->key_length, heads = shape->num_heads,
                 maps = request->include_heads ? request->n_include_heads : heads;
    /* A model of one layer answers as a bare one. */
    const size_t all_layers = problem->num_layers > 1 ? problem->num_layers : 0,
                 layers = all_layers ? forward_request_layers(request, all_layers) : 0;
    const struct attention_rules *rules = problem->rules;
    const unsigned returned = request->returned;
    struct listing listing = {.next = list, .rank2 = problem->rank2, .batch = problem->batch};
    if (returned & RETURN_OUTPUT) {
        const size_t extents[] = {queries, shape->d_model, 0};
        add(&listing, RETURN_OUTPUT_INDEX, "output", from->output, 0, extents);
        if (rules && rules->dropout.samples)
            add(&listing, RETURNED_OUTPUT_STD, "output_std", from->output_std, 0, extents);
    }
    if (returned & RETURN_ATTENTION) {
        const size_t extents[] = {maps, queries, forward_map_columns(problem)};
        struct returned_tensor *map =
            add(&listing, RETURN_ATTENTION_INDEX, "attention", from->attention, layers, extents);
        map->is_map = true;
        map->kept = size_min(request->top_k, extents[2]);
    }
    if (returned & RETURN_HEADS)
        add(&listing, RETURN_HEADS_INDEX, "heads", from->heads, layers, (const size_t[]){maps, queries, shape->d_v});
    if (returned & RETURN_QUERY)
        add(&listing, RETURN_QUERY_INDEX, "query", from->query, layers, (const size_t[]){heads, queries, shape->d_k});
    if (returned & RETURN_KEY)
        add(&listing, RETURN_KEY_INDEX, "key", from->key, layers, (const size_t[]){heads, keys, shape->d_k});
    if (returned & RETURN_VALUE)
        add(&listing, RETURN_VALUE_INDEX, "value", from->value, layers, (const size_t[]){heads, keys, shape->d_v});
    if (returned & RETURN_HIDDEN_STATES)
        add(&listing, RETURN_HIDDEN_STATES_INDEX, "hidden_states", from->hidden_states,
            size_max(problem->num_layers, 1) + 1, (const size_t[]){queries, shape->d_model, 0});
    if (rules && rules->keep_heads.kind != KEEP_ALL_HEADS)
        add(&listing, RETURNED_HEADS_USED, "heads_used", NULL, all_layers, (const size_t[]){heads, 0, 0})->flags =
            from->heads_used;
    return (size_t)(listing.next - list);
}

void returned_write_shapes(struct text *text, const struct returned_tensor *list, size_t count)
{
    text_append(text, "{", 1);
    for (size_t i = 0; i < count; i++) {
        text_append_string(text, i ? ",\"" : "\"");
        text_append_string(text, list[i].name);
        text_append(text, "\":", 2);
        tensor_write_shape(text, list[i].shape, list[i].rank);
    }
    text_append(text, "}", 1);
}

size_t returned_count(const struct returned_tensor *tensor)
{
    size_t count = 1;
    for (unsigned axis = 0; axis < tensor->rank; axis++)
        count *= tensor->shape[axis];
    return count;
}

/* ---- top_k */

void returned_kept_shape(const struct returned_tensor *map, size_t shape[RETURNED_MAX_RANK])
{
    memcpy(shape, map->shape, sizeof map->shape);
    shape[map->rank - 1] = map->kept;
}

bool returned_kept_need(const struct returned_tensor *list, size_t count, size_t *total)
{
    for (size_t i = 0; i < count; i++) {
        size_t shape[RETURNED_MAX_RANK], bytes;
        if (list[i].index == RETURNED_HEADS_USED &&
            (!tensor_bytes(list[i].shape, list[i].rank, sizeof(uint32_t), &bytes) || !arena_need(total, bytes)))
            return false;
        if (!list[i].kept)
            continue;
        returned_kept_shape(&list[i], shape);
        if (!tensor_bytes(shape, list[i].rank, sizeof(float), &bytes) || !arena_need(total, bytes) ||
            !arena_need(total, bytes))
            return false;
    }
    return true;
}

struct selection {
    const struct returned_tensor *map;
    const struct returned_kept *kept;
    size_t rows, tile_rows;
};

static void select_tile(void *argument, size_t index, unsigned lane)
{
    const struct selection *selection = argument;
    const struct returned_tensor *map = selection->map;
    const size_t width = map->shape[map->rank - 1], k = map->kept, begin = index * selection->tile_rows,
                 end = size_min(begin + selection->tile_rows, selection->rows);
    (void)lane;
    for (size_t row = begin; row < end; row++)
        top_k_select(map->data + row * width, width, k, selection->kept->keys + row * k,
                     selection->kept->weights + row * k);
}

bool returned_keep(const struct returned_tensor *map, const struct parallel *parallel, struct arena *arena,
                   struct returned_kept *kept, struct error *error)
{
    const size_t width = map->shape[map->rank - 1];
    struct selection selection = {.map = map,
                                  .kept = kept,
                                  .rows = returned_count(map) / width,
                                  .tile_rows = size_max(TILE_NUMBERS / 8 / width, 1)};
    returned_kept_shape(map, kept->shape);
    kept->keys = arena_take(arena, selection.rows * map->kept * sizeof *kept->keys);
    kept->weights = arena_take(arena, selection.rows * map->kept * sizeof *kept->weights);
    if (!kept->keys || !kept->weights)
        return error_out_of_memory(error);
    parallel->run(parallel->context, (selection.rows + selection.tile_rows - 1) / selection.tile_rows, select_tile,
                  &selection);
    return true;
}

/* ---- what the rules add */

bool returned_integers(const struct returned_tensor *tensor, struct arena *arena, const uint32_t **integers,
                       struct error *error)
{
    const size_t count = returned_count(tensor);
    uint32_t *wide = arena_take(arena, count * sizeof *wide); /* no overflow: returned_kept_need has counted it */
    if (!wide)
        return error_out_of_memory(error);
    for (size_t i = 0; i < count; i++)
        wide[i] = tensor->flags[i];
    *integers = wide;
    return true;
}

/* null for what is undefined. */
static void write_number(struct text *text, const char *name, double value)
{
    char digits[32];
    text_append_string(text, name);
    if (isfinite(value))
        text_append(text, digits, (size_t)(number_write_f64(digits, value) - digits));
    else
        text_append_string(text, "null");
}

void returned_write_approximation(struct text *text, const struct approximation *approximation)
{
    write_number(text, "{\"output_error\":", approximation->output_error);
    write_number(text, ",\"attention_error\":", approximation->attention_error);
    text_append_format(text, ",\"pairs\":%.0f,\"pairs_full\":%.0f}", (double)approximation->pairs,
                       (double)approximation->pairs_full);
}

/* ---- what is not finite */

struct survey {
    const float *data; /* [count] */
    size_t count;
    _Atomic uint32_t bits, magnitude;
};

static void raise_to(_Atomic uint32_t *most, uint32_t value)
{
    uint32_t now = atomic_load_explicit(most, memory_order_relaxed);
    while (now < value &&
           !atomic_compare_exchange_weak_explicit(most, &now, value, memory_order_relaxed, memory_order_relaxed))
        ;
}

static void survey_tile(void *argument, size_t index, unsigned lane)
{
    struct survey *survey = argument;
    const size_t begin = index * TILE_NUMBERS;
    (void)lane;
    const struct number_extremes most =
        number_rows_chosen()->extremes(survey->data + begin, size_min(TILE_NUMBERS, survey->count - begin));
    raise_to(&survey->bits, most.bits);
    raise_to(&survey->magnitude, most.magnitude);
}

struct number_extremes returned_extremes(const struct returned_tensor *tensor, const struct parallel *parallel)
{
    struct survey survey = {.data = tensor->data, .count = returned_count(tensor)};
    if (tensor->index == RETURNED_HEADS_USED)
        return (struct number_extremes){0};
    const size_t tiles = (survey.count + TILE_NUMBERS - 1) / TILE_NUMBERS;
    if (tiles == 1)
        survey_tile(&survey, 0, 0);
    else
        parallel->run(parallel->context, tiles, survey_tile, &survey);
    return (struct number_extremes){.bits = survey.bits, .magnitude = survey.magnitude};
}

bool returned_not_finite(const struct returned_tensor *tensor, const char *remedy, struct error *error)
{
    char place[RETURNED_MAX_RANK * 24] = "";
    size_t stride = returned_count(tensor), at = dtype_first_not_finite(tensor->data, stride), left = at, length = 0;
    for (unsigned axis = 0; axis < tensor->rank; axis++) {
        stride /= tensor->shape[axis];
        length += (size_t)snprintf(place + length, sizeof place - length, "[%zu]", left / stride);
        left %= stride;
    }
    const float value = tensor->data[at];
    return error_set(error, ERROR_NOT_FINITE, "%s%s is %s: JSON has no such number; smaller inputs, or %s",
                     tensor->name, place,
                     isnan(value) ? "NaN"
                     : value > 0  ? "infinity"
                                  : "-infinity",
                     remedy);
}
