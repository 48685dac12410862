/* The answer of /v1/heads/importance: heads in order, then the plan. As text, not as a tree: an id may be an integer of
 * more digits than a tree holds. Entered by the thread that computed the result. */
#include "codec/importance_answer.h"

#include "base/size.h"
#include "json/number.h"

#include <math.h>
#include <string.h>

/* What number_write_f64 may overwrite. */
#define NUMBER_F64_BYTES 32
/* The names of the members around the lists, a digest, and two counts of 20 digits. */
#define ENVELOPE_BYTES 512
/* An entry of `heads`, of `prune_plan` or of `removable`, whichever is the longest: {"head":,"importance":}, its comma,
 * a number of 20 digits and one of NUMBER_F64_BYTES. */
#define ENTRY_BYTES 80

bool importance_answer_bytes(const struct importance_request *request, size_t num_heads, const char *weights,
                             size_t *bytes)
{
    /* A byte of the name takes at most six. */
    const size_t lists = 1 + request->prune_plan + request->has_tolerance,
                 texts = ENVELOPE_BYTES + 6 * strlen(weights) + (request->forward.id ? strlen(request->forward.id) : 0);
    size_t entries;
    return size_multiply(num_heads, lists * ENTRY_BYTES, &entries) && size_add(entries, texts, bytes);
}

static void write_number(struct text *text, double value)
{
    char digits[NUMBER_F64_BYTES];
    if (isfinite(value))
        text_append(text, digits, (size_t)(number_write_f64(digits, value) - digits));
    else
        text_append_string(text, "null");
}

bool importance_answer_encode(const struct importance_request *request, size_t num_heads,
                              const struct importance *importance, const char *weights, const char *digest,
                              struct text *text, struct error *error)
{
    const size_t length = text->length;
    text_append(text, "{", 1);
    if (request->forward.id)
        text_append_format(text, "\"id\":%s,", request->forward.id);
    text_append_string(text, "\"weights\":");
    text_append_json(text, weights, strlen(weights));
    text_append_string(text, ",\"digest\":");
    text_append_json(text, digest, strlen(digest));
    text_append_format(text, ",\"method\":\"%s\",\"heads\":[", importance_method_name(request->method));
    for (size_t head = 0; head < num_heads; head++) {
        text_append_format(text, "%s{\"head\":%zu,\"importance\":", head ? "," : "", head);
        write_number(text, importance->importance[head]);
        text_append(text, "}", 1);
    }
    text_append(text, "]", 1);
    if (request->prune_plan) {
        text_append_string(text, ",\"prune_plan\":[");
        for (size_t step = 0; step < num_heads; step++) {
            text_append_format(text, "%s{\"head\":%zu,\"change\":", step ? "," : "", importance->plan[step].head);
            write_number(text, importance->plan[step].change);
            text_append(text, "}", 1);
        }
        text_append(text, "]", 1);
    }
    if (request->has_tolerance) {
        const size_t removable = prune_plan_removable(importance->plan, num_heads, request->tolerance);
        text_append_string(text, ",\"removable\":[");
        for (size_t step = 0; step < removable; step++)
            text_append_format(text, "%s%zu", step ? "," : "", importance->plan[step].head);
        text_append(text, "]", 1);
    }
    text_append_format(text, ",\"n_rows\":%zu,\"n_excluded\":%zu}", importance->n_rows, importance->n_excluded);
    if (!text->failed)
        return true;
    text->length = length;
    return error_out_of_memory(error);
}
