/* The check of maps: lanes look at the maps of heads, and the first fault is then described. Entered by the
 * thread that runs the job. */
#include "analysis/head_maps_check.h"

#include "analysis/row_measures/row_measures.h"
#include "analysis/scored_rows.h"
#include "base/size.h"
#include "engine/split.h"

#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

/* A weight is looked at in about a quarter of a nanosecond. */
#define FLOP_PER_WEIGHT 16.0

struct run {
    const struct head_maps *maps;
    const struct row_kernels *kernels;
    double tolerance;
    _Atomic size_t first_fault; /* the first map that has one, of [B, num_heads] */
    atomic_bool stray;
};

enum row_fault { ROW_RIGHT, ROW_NOT_FINITE, ROW_NEGATIVE, ROW_SUM, ROW_STRAY, ROW_ZERO_ALONE };

/* What was found of a row. */
struct row_found {
    double sum, stray;
    float least;
    bool zero; /* all weights are */
};

static bool is_padding(const struct forward_input *rule, size_t sequence, size_t row)
{
    return rule->self_attention && rule->mask_kind == FORWARD_MASK_KEYS &&
           !rule->mask[sequence * rule->key_length + row];
}

static struct row_found look_at(const struct run *run, size_t sequence, size_t head, size_t row)
{
    const struct forward_input *rule = run->maps->rule;
    const size_t limit = allowed_key_limit(rule, row);
    const uint8_t *allowed = row_mask(rule, sequence, row);
    const float *weights = head_maps_row(run->maps, sequence, head, row);
    struct row_found found = {0};
    found.sum = run->kernels->sum(weights, limit, &found.least);
    if (limit < rule->key_length)
        found.stray = run->kernels->sum(weights + limit, rule->key_length - limit, &found.least);
    found.sum += found.stray;
    for (size_t key = 0; allowed && key < limit; key++)
        found.stray += allowed[key] ? 0 : (double)weights[key];
    found.zero = found.sum == 0 && found.least == 0;
    return found;
}

static enum row_fault fault_of(const struct run *run, size_t sequence, size_t head, size_t row, struct row_found *found)
{
    *found = look_at(run, sequence, head, row);
    if (!run->maps->posted)
        return isfinite(found->sum) ? ROW_RIGHT : ROW_NOT_FINITE;
    if (found->least < 0)
        return ROW_NEGATIVE;
    if (!found->zero && !(fabs(found->sum - 1) <= run->tolerance))
        return ROW_SUM;
    if (found->stray > run->tolerance)
        return ROW_STRAY;
    if (head > 0 && found->zero != look_at(run, sequence, 0, row).zero)
        return ROW_ZERO_ALONE;
    return ROW_RIGHT;
}

static void check_map(const void *argument, size_t map, unsigned lane)
{
    struct run *run = (struct run *)argument; /* its atomic members */
    const size_t sequence = map / run->maps->num_heads, head = map % run->maps->num_heads;
    bool stray = false;
    (void)lane;
    for (size_t row = 0; row < run->maps->rule->query_length; row++) {
        struct row_found found;
        if (is_padding(run->maps->rule, sequence, row))
            continue;
        if (fault_of(run, sequence, head, row, &found) != ROW_RIGHT) {
            size_t first = atomic_load(&run->first_fault);
            while (map < first && !atomic_compare_exchange_weak(&run->first_fault, &first, map))
                ;
            return;
        }
        stray |= found.stray > 0;
    }
    if (stray)
        atomic_store(&run->stray, true);
}

/* Appends an index to both. */
static void add_axis(const char *name, size_t index, const char *behind, char pointer[128], char place[128])
{
    const size_t at = strlen(pointer), place_at = strlen(place);
    snprintf(pointer + at, 128 - at, "/%zu", index);
    snprintf(place + place_at, 128 - place_at, "%s %zu%s", name, index, behind);
}

static bool describe(const struct run *run, size_t sequence, size_t head, size_t row, enum row_fault fault,
                     const struct row_found *found, struct error *error)
{
    char pointer[128] = "/attention", place[128] = "";
    if (!run->maps->rule->rank2)
        add_axis("batch", sequence, ", ", pointer, place);
    if (run->maps->num_layers)
        add_axis("layer", run->maps->first_layer + run->maps->layer, ", ", pointer, place);
    add_axis("head", head, ", ", pointer, place);
    add_axis("row", row, "", pointer, place);
    switch (fault) {
    case ROW_NOT_FINITE:
        return error_set(error, ERROR_NOT_FINITE,
                         "the attention of %s is not finite: the computation is beyond float32; send smaller inputs",
                         place);
    case ROW_NEGATIVE:
        return error_set_at(error, ERROR_INVALID, pointer,
                            "%s has a weight of %.6g: attention weights come out of a softmax and are never negative",
                            place, (double)found->least);
    case ROW_STRAY:
        return error_set_at(error, ERROR_INVALID, pointer,
                            "%s has %.6g of its weight on keys that attention_mask or causal do not allow, more than "
                            "the %g that rounding may leave there: send the mask that the maps were computed with",
                            place, found->stray, run->tolerance);
    case ROW_ZERO_ALONE:
        return error_set_at(error, ERROR_INVALID, pointer,
                            "%s is %s zeros, and that of head 0 is%s: a row of zeros is one without an allowed key, "
                            "and the allowed keys are the same in all heads",
                            place, found->zero ? "all" : "not all", found->zero ? " not" : "");
    default:
        return error_set_at(error, ERROR_INVALID, pointer, "%s sums to %.6g, expected 1 within %g%s", place, found->sum,
                            run->tolerance,
                            run->maps->renormalize ? ": attention maps are taken behind the softmax"
                            : fabs(found->sum - 1) <= HEAD_MAPS_TOLERANCE_RENORMALIZE
                                ? ": if the maps were rounded, send \"renormalize\": true beside them"
                                : " (renormalize would allow 0.05): attention maps are taken behind the softmax");
    }
}

static bool describe_first(const struct run *run, size_t map, struct error *error)
{
    const size_t sequence = map / run->maps->num_heads, head = map % run->maps->num_heads;
    for (size_t row = 0; row < run->maps->rule->query_length; row++) {
        struct row_found found;
        enum row_fault fault = ROW_RIGHT;
        if (!is_padding(run->maps->rule, sequence, row))
            fault = fault_of(run, sequence, head, row, &found);
        if (fault != ROW_RIGHT)
            return describe(run, sequence, head, row, fault, &found, error);
    }
    return true;
}

bool head_maps_check(struct head_maps *maps, double tolerance, const struct parallel *parallel, struct error *error)
{
    const struct forward_input *rule = maps->rule;
    const size_t count = rule->batch * maps->num_heads;
    const double weights = (double)count * (double)rule->query_length * (double)rule->key_length;
    struct run run = {.maps = maps, .kernels = row_kernels_of(isa_chosen()), .tolerance = tolerance};
    struct work work = {.parallel = parallel};
    atomic_init(&run.first_fault, count);
    if (!work_split(&work, count, weights * FLOP_PER_WEIGHT, check_map, &run))
        return error_cancelled(error);
    if (atomic_load(&run.first_fault) < count)
        return describe_first(&run, atomic_load(&run.first_fault), error);
    maps->stray = atomic_load(&run.stray);
    return true;
}
