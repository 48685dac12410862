#include "server/metrics_live.h"

#include "analysis/head_clusters.h"
#include "analysis/live_similarity.h"
#include "base/clock.h"
#include "base/size.h"
#include "server/context.h"
#include "server/live_sets.h"

#include <math.h>
#include <string.h>

/* metrics.heads auto: a dozen series for each head. */
#define HEADS_MOST 256

/* Under which metric each is shown; METRIC_COUNT: under none, since its sum can fall. */
static const enum metric STATISTIC_METRICS[HEAD_STATISTIC_COUNT] = {
    [STATISTIC_ENTROPY] = METRIC_HEAD_ENTROPY,
    [STATISTIC_NORMALIZED_ENTROPY] = METRIC_HEAD_NORMALIZED_ENTROPY,
    [STATISTIC_EFFECTIVE_KEYS] = METRIC_HEAD_EFFECTIVE_KEYS,
    [STATISTIC_DISTANCE] = METRIC_HEAD_DISTANCE,
    [STATISTIC_SIGNED_DISTANCE] = METRIC_COUNT,
    [STATISTIC_CONFIDENCE] = METRIC_HEAD_CONFIDENCE,
    [STATISTIC_HOYER] = METRIC_HEAD_HOYER,
    [STATISTIC_PREVIOUS_MASS] = METRIC_HEAD_PREVIOUS_MASS,
    [STATISTIC_NEXT_MASS] = METRIC_HEAD_NEXT_MASS,
    [STATISTIC_SELF_MASS] = METRIC_HEAD_SELF_MASS,
    [STATISTIC_FIRST_MASS] = METRIC_HEAD_FIRST_MASS,
    [STATISTIC_UNIFORM_DISTANCE] = METRIC_LIVE_UNIFORM_DISTANCE,
    [STATISTIC_UNIFORM_PREVIOUS_MASS] = METRIC_LIVE_UNIFORM_PREVIOUS_MASS,
    [STATISTIC_UNIFORM_NEXT_MASS] = METRIC_LIVE_UNIFORM_NEXT_MASS,
    [STATISTIC_UNIFORM_SELF_MASS] = METRIC_LIVE_UNIFORM_SELF_MASS,
    [STATISTIC_UNIFORM_FIRST_MASS] = METRIC_LIVE_UNIFORM_FIRST_MASS,
};

static const enum metric COUNT_METRICS[LIVE_TOTAL_COUNTS] = {
    [LIVE_TOTAL_SEQUENCES] = METRIC_LIVE_SEQUENCES,
    [LIVE_TOTAL_SKIPPED] = METRIC_LIVE_SKIPPED_SEQUENCES,
    [LIVE_TOTAL_EXCLUDED] = METRIC_LIVE_EXCLUDED_ROWS,
};

static const enum metric ROW_METRICS[ROW_SET_COUNT] = {
    [ROWS_SCORED] = METRIC_LIVE_ROWS,
    [ROWS_CHOOSING] = METRIC_LIVE_CHOOSING_ROWS,
    [ROWS_PREVIOUS] = METRIC_LIVE_PREVIOUS_ROWS,
    [ROWS_NEXT] = METRIC_LIVE_NEXT_ROWS,
    [ROWS_SELF] = METRIC_LIVE_SELF_ROWS,
    [ROWS_FIRST] = METRIC_LIVE_FIRST_ROWS,
};

/* ---- reading */

static bool is_shown(const struct config *config, const struct weight_set *set)
{
    const char *heads = config->metrics.heads;
    return set->ready && strcmp(heads, "off") != 0 &&
           (strcmp(heads, "on") == 0 || set->num_layers * set->shape.num_heads <= HEADS_MOST);
}

/* What reading a set takes and leaves: its totals and redundancies; and on the way, one set at a time, its sums and the
 * similarities of a layer. */
struct needs {
    size_t left, passing;
};

static bool add_needs(const struct weight_set *set, struct needs *needs)
{
    const size_t layers = set->num_layers, heads = set->shape.num_heads;
    size_t totals, redundancy, sums, similarity, passing = 0;
    if (!live_totals_bytes(layers, heads, &totals) || !size_multiply(layers * heads, sizeof(double), &redundancy) ||
        !live_sums_bytes(live_sets_shape(set), &sums) || !size_multiply(heads * heads, sizeof(double), &similarity) ||
        !arena_need(&needs->left, totals) || !arena_need(&needs->left, redundancy) || !arena_need(&passing, sums) ||
        !arena_need(&passing, similarity))
        return false;
    needs->passing = size_max(needs->passing, passing);
    return true;
}

static void read_set(struct live_store *store, const struct weight_set *set, struct arena *memory,
                     struct metrics_live_set *into)
{
    const size_t layers = set->num_layers, heads = set->shape.num_heads;
    size_t totals, sums_bytes;
    struct live_sums sums;
    live_totals_bytes(layers, heads, &totals); /* neither overflowed when it was counted */
    live_sums_bytes(live_store_shape(store), &sums_bytes);
    into->name = set->name;
    live_totals_init(&into->totals, layers, heads, arena_take(memory, totals));
    into->redundancy = arena_take(memory, layers * heads * sizeof *into->redundancy);
    const size_t used = memory->used;
    live_sums_init(&sums, live_store_shape(store), arena_take(memory, sums_bytes));
    double *similarity = arena_take(memory, heads * heads * sizeof *similarity);
    live_history_read(live_store_history(store), store, clock_ns(), &sums, &into->totals);
    for (size_t layer = 0; layer < layers; layer++) {
        live_similarity(&sums, layer, SIMILARITY_CENTERED, similarity);
        head_redundancy(similarity, heads, into->redundancy + layer * heads);
    }
    arena_rewind(memory, used);
}

void metrics_live_read(struct request *request, struct metrics_live *live)
{
    const struct config *config = request->generation->config;
    const struct weights_registry *registry = &request->generation->registry;
    struct needs needs = {0};
    struct error ignored;
    size_t bytes;
    *live = (struct metrics_live){0};
    if (!arena_need(&needs.left, registry->count * sizeof *live->sets))
        return;
    for (size_t i = 0; i < registry->count; i++)
        if (is_shown(config, registry->sets[i]) && !add_needs(registry->sets[i], &needs))
            return;
    if (!size_add(needs.left, needs.passing, &bytes) ||
        !request_take_memory(request, bytes, true, &live->memory, &ignored))
        return;
    live->charged = bytes;
    live->sets = arena_take(&live->memory, registry->count * sizeof *live->sets);
    for (size_t i = 0; i < registry->count; i++) {
        const struct weight_set *set = registry->sets[i];
        struct live_store *store = is_shown(config, set) ? live_sets_find(request->server->live, set, NULL) : NULL;
        if (store)
            read_set(store, set, &live->memory, &live->sets[live->count++]);
        live_store_release(store);
    }
}

void metrics_live_free(struct request *request, struct metrics_live *live)
{
    if (live->charged)
        request_give_memory(request, live->charged, &live->memory);
}

/* ---- writing */

/* The numbers that are labels. */
struct index_text {
    char text[24];
};

static const char *index_text(struct index_text *to, size_t index)
{
    struct text text;
    text_init_fixed(&text, to->text, sizeof to->text);
    text_append_size(&text, index);
    return text_terminate(&text);
}

/* Values of each set, or where there is a `stride` of each layer of each set. */
static void write_totals(const struct metrics_live *live, struct exposition *exposition, enum metric metric,
                         size_t of_totals, size_t stride, size_t at)
{
    exposition_family(exposition, metric);
    for (size_t i = 0; i < live->count; i++) {
        const struct metrics_live_set *set = &live->sets[i];
        const double *values = *(double *const *)((const char *)&set->totals + of_totals);
        struct index_text layer_text;
        const size_t layers = stride ? set->totals.num_layers : 1;
        for (size_t layer = 0; layer < layers; layer++)
            exposition_number(exposition, (const char *const[]){set->name, index_text(&layer_text, layer)},
                              values[layer * stride + at]);
    }
}

/* Of each head: values [num_layers, num_heads, stride], the one at `at`. */
static void write_heads(const struct metrics_live *live, struct exposition *exposition, enum metric metric,
                        size_t stride, size_t at)
{
    exposition_family(exposition, metric);
    for (size_t i = 0; i < live->count; i++) {
        const struct metrics_live_set *set = &live->sets[i];
        const double *values = metric == METRIC_HEAD_REDUNDANCY ? set->redundancy : set->totals.heads;
        const size_t heads = set->totals.num_heads;
        struct index_text layer_text, head_text;
        for (size_t n = 0; n < set->totals.num_layers * heads; n++) {
            const double value = values[n * stride + at];
            const char *const labels[] = {set->name, index_text(&layer_text, n / heads),
                                          index_text(&head_text, n % heads)};
            if (!isnan(value))
                exposition_number(exposition, labels, value);
        }
    }
}

void metrics_live_write(const struct metrics_live *live, struct exposition *exposition)
{
    if (live->count == 0)
        return;
    for (size_t i = 0; i < LIVE_TOTAL_COUNTS; i++)
        write_totals(live, exposition, COUNT_METRICS[i], offsetof(struct live_totals, counts), 0, i);
    for (size_t i = 0; i < ROW_SET_COUNT; i++)
        write_totals(live, exposition, ROW_METRICS[i], offsetof(struct live_totals, rows), ROW_SET_COUNT, i);
    for (size_t i = 0; i < LIVE_BASELINE_COUNT; i++)
        write_totals(live, exposition, STATISTIC_METRICS[live_baselines[i]], offsetof(struct live_totals, even),
                     LIVE_BASELINE_COUNT, i);
    for (size_t i = 0; i < LIVE_STATISTIC_COUNT; i++)
        if (STATISTIC_METRICS[live_statistics[i]] != METRIC_COUNT)
            write_heads(live, exposition, STATISTIC_METRICS[live_statistics[i]], LIVE_STATISTIC_COUNT, i);
    write_heads(live, exposition, METRIC_HEAD_REDUNDANCY, 1, 0);
}
