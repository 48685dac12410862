/* The answer of /v1/heads/importance: heads in order, then the plan. As text, not as a tree: an id may be an integer of
 * more digits than a tree holds. Entered by the thread that computed the result. */
#include "codec/importance_answer.h"

#include "base/size.h"
#include "codec/analysis_text.h"
#include <string.h>

/* The names of the members around the lists, a digest, and two counts of 20 digits. */
#define ENVELOPE_BYTES 512
/* An entry of `heads`, of `prune_plan` or of `removable`, whichever is the longest: its beginning, ,"importance":}, a
 * number, and the brackets of a layer's list. */
#define ENTRY_BYTES (ANALYSIS_HEAD_BYTES + 24 + ANALYSIS_NUMBER_BYTES)

bool importance_answer_bytes(const struct importance_request *request, size_t num_heads, const char *weights,
                             size_t *bytes)
{
    /* A byte of the name takes at most six. */
    const size_t lists = 1 + request->prune_plan + request->has_tolerance,
                 texts = ENVELOPE_BYTES + 6 * strlen(weights) + (request->forward.id ? strlen(request->forward.id) : 0);
    size_t entries;
    return size_multiply(num_heads, lists * ENTRY_BYTES, &entries) && size_add(entries, texts, bytes);
}

/* The list of a layer. */
static void write_plan(struct text *text, const struct prune_step *plan /* [num_heads] */, size_t num_heads)
{
    for (size_t step = 0; step < num_heads; step++) {
        text_append_format(text, "%s{\"head\":%zu,\"change\":", step ? "," : "[", plan[step].head);
        analysis_text_number(text, plan[step].change);
        text_append(text, "}", 1);
    }
    text_append(text, "]", 1);
}

static void write_removable(struct text *text, const struct prune_step *plan, size_t num_heads, double tolerance)
{
    const size_t removable = prune_plan_removable(plan, num_heads, tolerance);
    text_append(text, "[", 1);
    for (size_t step = 0; step < removable; step++)
        text_append_format(text, "%s%zu", step ? "," : "", plan[step].head);
    text_append(text, "]", 1);
}

/* The plans, or what is removable by them: a list, or one of each layer. */
static void write_plans(struct text *text, const struct importance_request *request,
                        const struct importance_found *found, bool removable)
{
    text_append_string(text, removable ? ",\"removable\":" : ",\"prune_plan\":");
    text_append_string(text, found->num_layers ? "[" : "");
    for (size_t layer = 0; layer < size_max(found->num_layers, 1); layer++) {
        const struct prune_step *plan = found->importance.plan + layer * found->num_heads;
        text_append_string(text, layer ? "," : "");
        if (removable)
            write_removable(text, plan, found->num_heads, request->tolerance);
        else
            write_plan(text, plan, found->num_heads);
    }
    text_append_string(text, found->num_layers ? "]" : "");
}

bool importance_answer_encode(const struct importance_request *request, const struct importance_found *found,
                              const char *weights, const char *digest, struct text *text, struct error *error)
{
    const size_t length = text->length, heads = found->num_heads;
    analysis_text_begin(text, &request->forward, weights, digest);
    text_append_format(text, "\"method\":\"%s\",", importance_method_name(request->method));
    if (found->num_layers)
        text_append_format(text, "\"at\":\"%s\",", request->at == IMPORTANCE_AT_MODEL ? "model" : "layer");
    text_append_string(text, "\"heads\":[");
    for (size_t i = 0; i < size_max(found->num_layers, 1) * heads; i++) {
        analysis_text_begin_head(
            text, i, found->num_layers ? forward_request_layer(&request->forward, i / heads) : SIZE_MAX, i % heads);
        text_append_string(text, ",\"importance\":");
        analysis_text_number(text, found->importance.importance[i]);
        text_append(text, "}", 1);
    }
    text_append(text, "]", 1);
    if (request->prune_plan)
        write_plans(text, request, found, false);
    if (request->has_tolerance)
        write_plans(text, request, found, true);
    text_append_format(text, ",\"n_rows\":%zu,\"n_excluded\":%zu}", found->importance.n_rows,
                       found->importance.n_excluded);
    if (!text->failed)
        return true;
    text->length = length;
    return error_out_of_memory(error);
}
