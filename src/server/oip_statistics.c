/* GET /v2/models/stats and a model's stats: what was asked of the weight sets, in the form of Triton's statistics
 * extension. Requests of every route that names a set count, not those of /v2 alone. Entered by polling threads. */
#include "server/endpoints.h"
#include "server/json_answer.h"
#include "server/oip_model.h"
#include "server/usage.h"

static json_int_t value(const _Atomic uint64_t *sum)
{
    return (json_int_t)atomic_load_explicit(sum, memory_order_relaxed);
}

/* {"count", "ns"}; NULL when memory ran out, as all of these. */
static json_t *duration(json_int_t count, json_int_t ns)
{
    return json_pack("{s:I, s:I}", "count", count, "ns", ns);
}

/* Compute input is to decode, compute output to encode. Nothing is cached, and nothing kept for each size of batch. */
static json_t *describe(const struct weight_set *set, const struct usage *usage)
{
    const json_int_t succeeded = value(&usage->succeeded);
    return json_pack("{s:s, s:s, s:I, s:I, s:I, s:{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}, s:[]}", "name", set->name,
                     "version", OIP_MODEL_VERSION, "last_inference", value(&usage->last_ms), "inference_count",
                     value(&usage->sequences), "execution_count", value(&usage->executions), "inference_stats",
                     "success", duration(succeeded, value(&usage->succeeded_ns)), "fail",
                     duration(value(&usage->failed), value(&usage->failed_ns)), "queue",
                     duration(succeeded, value(&usage->queue_ns)), "compute_input",
                     duration(succeeded, value(&usage->parse_ns)), "compute_infer",
                     duration(succeeded, value(&usage->compute_ns)), "compute_output",
                     duration(succeeded, value(&usage->encode_ns)), "cache_hit", duration(0, 0), "cache_miss",
                     duration(0, 0), "batch_stats");
}

/* Of `only`, or of every set that is loaded where that is NULL. */
static void answer(struct request *request, const struct weight_set *only)
{
    const struct weights_registry *registry = &request->generation->registry;
    json_t *list = json_array();
    for (size_t i = 0; i < registry->count && list; i++) {
        const struct weight_set *set = registry->sets[i];
        if (only ? set != only : !set->ready)
            continue;
        if (json_array_append_new(list, describe(set, request->generation->usage[i])) != 0) {
            json_decref(list);
            list = NULL;
        }
    }
    request_succeed_document(request, json_pack("{s:o}", "model_stats", list));
}

void oip_all_statistics_handle(struct request *request)
{
    answer(request, NULL);
}

void oip_statistics_handle(struct request *request)
{
    struct error error;
    const struct weight_set *set = oip_model_find(request, &error);
    if (set)
        answer(request, set);
    else
        request_fail(request, &error);
}
