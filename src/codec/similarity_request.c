/* The members of a /v1/heads/similarity request beside those of every analysis. Entered by whichever thread decodes it.
 */
#include "codec/similarity_request.h"

#include "codec/analysis_members.h"
#include "codec/choice.h"
#include "json/reader.h"

#define DEFAULT_THRESHOLD 0.9
#define DEFAULT_MAX_PAIRS 100

const char *const similarity_subject_names[] = {
    [SIMILARITY_OF_ATTENTION] = "attention", [SIMILARITY_OF_OUTPUT] = "output"};
const char *const similarity_reduction_names[] = {[SIMILARITY_POOLED] = "pooled", [SIMILARITY_MEAN] = "mean"};

const char *const similarity_across_names[] = {
    [SIMILARITY_ACROSS_MODEL] = "model", [SIMILARITY_ACROSS_LAYER] = "layer"};

struct similarity_decoding {
    struct analysis_decoding analysis;
    struct similarity_request *request;
};

static struct similarity_request *request_of(void *context)
{
    return ((struct similarity_decoding *)context)->request;
}

static bool read_metric(struct json_reader *r, void *context, struct error *error)
{
    const char *names[SIMILARITY_METRIC_COUNT];
    unsigned metric;
    for (unsigned i = 0; i < SIMILARITY_METRIC_COUNT; i++)
        names[i] = similarity_metric_name((enum similarity_metric)i);
    if (!choice_read(r, "metric", names, SIMILARITY_METRIC_COUNT, &metric, error))
        return false;
    request_of(context)->question.metric = (enum similarity_metric)metric;
    return true;
}

static bool read_on(struct json_reader *r, void *context, struct error *error)
{
    unsigned subject;
    if (!choice_read(r, "on", similarity_subject_names, 2, &subject, error))
        return false;
    request_of(context)->question.subject = (enum similarity_subject)subject;
    return true;
}

static bool read_reduce(struct json_reader *r, void *context, struct error *error)
{
    unsigned reduction;
    if (!choice_read(r, "reduce", similarity_reduction_names, 2, &reduction, error))
        return false;
    request_of(context)->question.reduction = (enum similarity_reduction)reduction;
    return true;
}

static bool read_across(struct json_reader *r, void *context, struct error *error)
{
    unsigned across;
    if (!choice_read(r, "across", similarity_across_names, 2, &across, error))
        return false;
    request_of(context)->across = (enum similarity_across)across;
    return true;
}

static bool read_threshold(struct json_reader *r, void *context, struct error *error)
{
    struct similarity_request *request = request_of(context);
    if (!json_read_double(r, &request->threshold, error))
        return false;
    if (!(request->threshold >= -1 && request->threshold <= 1))
        return json_error(r, error, ERROR_INVALID, "the threshold is %g, expected -1 to 1, as similarities are",
                          request->threshold);
    return true;
}

static bool read_max_pairs(struct json_reader *r, void *context, struct error *error)
{
    int64_t value;
    if (!json_read_integer(r, 0, INT64_MAX, &value, error))
        return false;
    request_of(context)->max_pairs = (size_t)value;
    return true;
}

/* clang-format off */
static const struct request_member MEMBERS[] = {
    ANALYSIS_MEMBER_ENTRIES
    {"include_layers", forward_read_include_layers, NULL},
    {"metric", read_metric, NULL},
    {"on", read_on, NULL},
    {"reduce", read_reduce, NULL},
    {"across", read_across, NULL},
    {"threshold", read_threshold, NULL},
    {"max_pairs", read_max_pairs, NULL},
};
/* clang-format on */

/* The outputs of heads are made of whole maps, and are there only where a forward runs. */
static bool check_output(const struct similarity_request *request, struct error *error)
{
    const enum similarity_metric metric = request->question.metric;
    if (request->question.subject != SIMILARITY_OF_OUTPUT)
        return true;
    if (analysis_request_has_maps(&request->analysis))
        return error_set_at(error, ERROR_INVALID, "/on",
                            "attention maps do not say what the heads put out: similarity on output needs an input (or "
                            "query and key) in place of attention");
    if (!similarity_metric_of_output(metric))
        return error_set_at(error, ERROR_INVALID, "/metric",
                            "%s compares attention, not output: send cosine, pearson or cka, or leave on out",
                            similarity_metric_name(metric));
    if (request->analysis.has_exclude || request->analysis.has_words)
        return error_set_at(error, ERROR_INVALID, request->analysis.has_words ? "/words" : "/exclude",
                            "%s changes attention maps, and the outputs are made of the whole ones: leave it out, or "
                            "compare on attention",
                            request->analysis.has_words ? "words" : "exclude");
    return true;
}

bool similarity_request_decode(const struct request_body *body, struct arena *arena, struct similarity_request *request,
                               struct error *error)
{
    const size_t used = arena->used;
    struct similarity_request made = {
        .question = {.diversity = true}, .threshold = DEFAULT_THRESHOLD, .max_pairs = DEFAULT_MAX_PAIRS};
    struct similarity_decoding decoding = {{{&made.analysis.forward, arena}, &made.analysis}, &made};
    if (!analysis_read_body(body, MEMBERS, sizeof MEMBERS / sizeof *MEMBERS, &decoding.analysis, error) ||
        !check_output(&made, error)) {
        arena_rewind(arena, used);
        *request = (struct similarity_request){0};
        return false;
    }
    *request = made;
    return true;
}
