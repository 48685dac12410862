/* The answer of POST /v1/heads/links. Labels go out as they came in: JSON strings, escapes and all. Entered by the
 * thread that computed the result. */
#include "codec/links_answer.h"

#include "base/size.h"
#include "codec/analysis_text.h"

#include <string.h>

/* {"batch":,"query":,"key":,"query_token":"","key_token":"","weight":}, and a comma, three positions of 10 digits. */
#define LINK_BYTES (96 + ANALYSIS_NUMBER_BYTES)
/* The entry's beginning, and ,"links":[]} */
#define HEAD_BYTES (ANALYSIS_HEAD_BYTES + 16)

/* A piece of text, without its quotes. */
struct label {
    const char *text;
    size_t length;
};

/* Label `index` of a list. */
static struct label label_at(const struct label_lists *tokens, size_t list, size_t index)
{
    const size_t at = (list ? tokens->list_ends[list - 1] : 0) + index;
    const size_t begin = at ? tokens->label_ends[at - 1] : 0;
    return (struct label){tokens->labels + begin + 1, tokens->label_ends[at] - begin - 2};
}

/* Where the labels of one word or position stand in the list: positions[first .. end), or, with positions NULL,
 * themselves. */
struct pieces {
    const uint32_t *positions;
    size_t first, end;
};

/* Row or key `index` of a sequence is labelled by one label, or, where there are words and labels of positions, by
 * those of its pieces. */
static struct pieces pieces_of(const struct links_request *request, size_t sequence, size_t index)
{
    const struct word_lists *words = &request->analysis.words;
    const uint32_t *tokens = request->tokens.list_ends;
    if (!request->analysis.has_words)
        return (struct pieces){NULL, index, index + 1};
    const size_t first_word = sequence ? words->list_ends[sequence - 1] : 0, word = first_word + index;
    const size_t labels = tokens[sequence] - (sequence ? tokens[sequence - 1] : 0);
    if (labels == words->list_ends[sequence] - first_word)
        return (struct pieces){NULL, index, index + 1};
    return (struct pieces){words->positions, word ? words->word_ends[word - 1] : 0, words->word_ends[word]};
}

/* All labels of a sequence together are longer than any of its words. */
static size_t longest_label(const struct links_request *request)
{
    const struct label_lists *tokens = &request->tokens;
    size_t longest = 0;
    for (size_t list = 0, at = 0, begin = 0; list < tokens->n_lists; list++) {
        size_t together = 0;
        for (; at < tokens->list_ends[list]; begin = tokens->label_ends[at++]) {
            const size_t length = tokens->label_ends[at] - begin;
            together += length;
            if (!request->analysis.has_words)
                longest = size_max(longest, length);
        }
        if (request->analysis.has_words)
            longest = size_max(longest, together);
    }
    return longest;
}

bool links_answer_bytes(const struct links_request *request, size_t num_heads, size_t top_k, const char *weights,
                        size_t *bytes)
{
    size_t link, head, heads;
    return size_multiply(longest_label(request), 2, &link) && size_add(link, LINK_BYTES, &link) &&
           size_multiply(link, top_k, &head) && size_add(head, HEAD_BYTES, &head) &&
           size_multiply(head, num_heads, &heads) &&
           size_add(heads, analysis_text_begin_bytes(&request->analysis.forward, weights), bytes);
}

static void write_label(struct text *text, const char *name, const struct links_request *request, size_t sequence,
                        size_t index)
{
    const struct pieces pieces = pieces_of(request, sequence, index);
    text_append_format(text, ",\"%s\":\"", name);
    for (size_t i = pieces.first; i < pieces.end; i++) {
        const struct label label = label_at(&request->tokens, sequence, pieces.positions ? pieces.positions[i] : i);
        text_append(text, label.text, label.length);
    }
    text_append(text, "\"", 1);
}

static void write_link(struct text *text, const struct links_request *request, size_t shift,
                       const struct head_link *link)
{
    text_append_format(text, "{\"batch\":%u,\"query\":%u,\"key\":%u", link->sequence, link->query, link->key);
    if (request->tokens.n_lists > 0) {
        write_label(text, "query_token", request, link->sequence, link->query + shift);
        write_label(text, "key_token", request, link->sequence, link->key);
    }
    text_append_string(text, ",\"weight\":");
    analysis_text_float(text, link->weight);
    text_append(text, "}", 1);
}

bool links_answer_encode(const struct links_request *request, const struct links_found *found, const char *weights,
                         const char *digest, struct text *text, struct error *error)
{
    const size_t length = text->length, heads = found->extent.num_heads;
    const struct forward_request *forward = &request->analysis.forward;
    const struct head_links *links = &found->links;
    analysis_text_begin(text, forward, weights, digest);
    text_append_string(text, "\"heads\":[");
    for (size_t i = 0; i < size_max(found->extent.num_layers, 1) * heads; i++) {
        analysis_text_begin_head(
            text, i, found->extent.num_layers ? forward_request_layer(forward, i / heads) : SIZE_MAX, i % heads);
        text_append_string(text, ",\"links\":[");
        for (size_t at = 0; at < links->counts[i]; at++) {
            if (at)
                text_append(text, ",", 1);
            write_link(text, request, found->shift, &links->links[i * links->top_k + at]);
        }
        text_append_string(text, "]}");
    }
    text_append_format(text, "],\"n_rows\":%zu,\"n_excluded\":%zu}", found->n_rows, found->n_excluded);
    if (!text->failed)
        return true;
    text->length = length;
    return error_out_of_memory(error);
}
