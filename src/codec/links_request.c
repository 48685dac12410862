/* The members of a /v1/heads/links request beside those of every analysis. Entered by whichever thread decodes it. */
#include "codec/links_request.h"

#include "codec/analysis_members.h"
#include "json/reader.h"

#include <stdio.h>

#define DEFAULT_TOP_K 5

struct links_decoding {
    struct analysis_decoding analysis;
    struct links_request *request;
};

static bool read_tokens(struct json_reader *r, void *context, struct error *error)
{
    struct links_decoding *decoding = context;
    if (!label_lists_read(r, decoding->analysis.forward.arena, &decoding->request->tokens, error))
        return false;
    if (decoding->request->tokens.n_lists == 0)
        return json_error(r, error, ERROR_INVALID, "no list of labels: give one a sequence, or leave the member out");
    return true;
}

static bool read_top_k(struct json_reader *r, void *context, struct error *error)
{
    struct links_decoding *decoding = context;
    int64_t value;
    if (!json_read_integer(r, 1, INT64_MAX, &value, error))
        return false;
    decoding->request->top_k = (size_t)value;
    return true;
}

static bool read_min_weight(struct json_reader *r, void *context, struct error *error)
{
    struct links_decoding *decoding = context;
    if (!json_read_double(r, &decoding->request->min_weight, error))
        return false;
    if (!(decoding->request->min_weight >= 0 && decoding->request->min_weight <= 1))
        return json_error(r, error, ERROR_INVALID, "min_weight is %g, expected 0 to 1, as attention weights are",
                          decoding->request->min_weight);
    return true;
}

/* clang-format off */
static const struct request_member MEMBERS[] = {
    ANALYSIS_MEMBER_ENTRIES
    {"include_layers", forward_read_include_layers, NULL},
    {"tokens", read_tokens, NULL},
    {"top_k", read_top_k, NULL},
    {"min_weight", read_min_weight, NULL},
};
/* clang-format on */

bool links_request_decode(const struct request_body *body, struct arena *arena, struct links_request *request,
                          struct error *error)
{
    struct links_request made = {.top_k = DEFAULT_TOP_K};
    struct links_decoding decoding = {{{&made.analysis.forward, arena}, &made.analysis}, &made};
    bool right = analysis_read_body(body, MEMBERS, sizeof MEMBERS / sizeof *MEMBERS, &decoding.analysis, error);
    *request = right ? made : (struct links_request){0};
    return right;
}

static size_t list_length(const uint32_t *ends, size_t index)
{
    return ends[index] - (index ? ends[index - 1] : 0);
}

bool links_request_check_tokens(const struct links_request *request, const struct forward_input *rule,
                                struct error *error)
{
    const struct label_lists *tokens = &request->tokens;
    const struct analysis_request *analysis = &request->analysis;
    if (tokens->n_lists == 0)
        return true;
    if (!rule->self_attention && !(rule->causal && rule->key_length >= rule->query_length))
        return error_set_at(error, ERROR_INVALID, "/tokens",
                            "the queries are not the tokens that the keys are: labels are for self-attention, and for "
                            "causal attention to keys that end with the queries");
    if (tokens->n_lists != rule->batch)
        return error_set_at(error, ERROR_INVALID, "/tokens",
                            "%zu list%s of labels, expected %zu, one for each sequence", tokens->n_lists,
                            tokens->n_lists == 1 ? "" : "s", rule->batch);
    for (size_t i = 0; i < tokens->n_lists; i++) {
        const size_t found = list_length(tokens->list_ends, i);
        const bool has_words = analysis->has_words && i < analysis->words.n_lists;
        const size_t words = has_words ? list_length(analysis->words.list_ends, i) : rule->key_length;
        char pointer[32], or_words[48] = "";
        if (found == rule->key_length || found == words)
            continue;
        snprintf(pointer, sizeof pointer, "/tokens/%zu", i);
        if (has_words)
            snprintf(or_words, sizeof or_words, ", or %zu, one for each word", words);
        return error_set_at(error, ERROR_INVALID, pointer,
                            "%zu label%s, expected %zu, one for each position of the sequence%s", found,
                            found == 1 ? "" : "s", rule->key_length, or_words);
    }
    return true;
}
