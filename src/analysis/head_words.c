/* Words and excluded keys: positions of the request become those of what is measured. */
#include "analysis/head_words.h"

#include <stdio.h>
#include <string.h>

static size_t position_of(const struct head_sequence *sequence, size_t row)
{
    return sequence->positions ? sequence->positions[row] : sequence->first_position + row;
}

static bool count_error(const char *member, size_t n_lists, size_t batch, struct error *error)
{
    char pointer[16];
    snprintf(pointer, sizeof pointer, "/%s", member);
    return error_set_at(error, ERROR_INVALID, pointer, "%zu lists, expected %zu, one for each sequence", n_lists,
                        batch);
}

bool head_words_of_sequence(const struct word_lists *words, size_t index, const struct forward_input *rule,
                            uint32_t *word_ends, struct head_sequence *sequence, struct error *error)
{
    if (!rule->self_attention)
        return error_set_at(error, ERROR_INVALID, "/words",
                            "words are merged where queries and keys are the same tokens: in self-attention");
    if (words->n_lists != rule->batch)
        return count_error("words", words->n_lists, rule->batch, error);
    const size_t first_word = index ? words->list_ends[index - 1] : 0, end_word = words->list_ends[index];
    size_t at = first_word ? words->word_ends[first_word - 1] : 0, covered = 0;
    char pointer[32];
    snprintf(pointer, sizeof pointer, "/words/%zu", index);
    for (size_t word = first_word; word < end_word; word++) {
        if (at == words->word_ends[word])
            return error_set_at(error, ERROR_INVALID, pointer,
                                "word %zu has no piece: leave it out, or list its positions", word - first_word);
        for (; at < words->word_ends[word]; at++, covered++) {
            const uint32_t found = words->positions[at];
            if (covered == sequence->n_positions)
                return error_set_at(error, ERROR_INVALID, pointer,
                                    "word %zu names position %u, but all %zu positions of the sequence are in words "
                                    "already: each stands in one word, once",
                                    word - first_word, found, covered);
            if (found != position_of(sequence, covered))
                return error_set_at(error, ERROR_INVALID, pointer,
                                    "word %zu names position %u where %zu comes next: words are runs of positions in "
                                    "order that cover each kept one once",
                                    word - first_word, found, position_of(sequence, covered));
        }
        word_ends[word - first_word] = (uint32_t)covered;
    }
    if (covered != sequence->n_positions)
        return error_set_at(error, ERROR_INVALID, pointer,
                            "the words end before position %zu: they cover every kept position of the sequence",
                            position_of(sequence, covered));
    sequence->word_ends = word_ends;
    sequence->n_rows = sequence->n_keys = end_word - first_word;
    return true;
}

/* The key that stands at a position of the request; n_keys: it is padding. */
static size_t key_at(const struct head_sequence *sequence, size_t position)
{
    if (sequence->word_ends)
        return position;
    if (!sequence->positions)
        return position < sequence->first_position || position - sequence->first_position >= sequence->n_keys
                   ? sequence->n_keys
                   : position - sequence->first_position;
    size_t low = 0, high = sequence->n_keys;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (sequence->positions[middle] < position)
            low = middle + 1;
        else
            high = middle;
    }
    return low < sequence->n_keys && sequence->positions[low] == position ? low : sequence->n_keys;
}

/* Of a sequence with `extent` positions. */
static bool check_positions(const struct position_lists *exclude, size_t list, size_t index, size_t extent,
                            const struct head_sequence *sequence, struct error *error)
{
    const size_t first = list ? exclude->ends[list - 1] : 0;
    char pointer[64];
    for (size_t i = first; i < exclude->ends[list]; i++) {
        if (exclude->positions[i] < extent)
            continue;
        if (exclude->nested)
            snprintf(pointer, sizeof pointer, "/exclude/%zu/%zu", list, i - first);
        else
            snprintf(pointer, sizeof pointer, "/exclude/%zu", i - first);
        return error_set_at(error, ERROR_INVALID, pointer,
                            "there is no %s %u in sequence %zu, which has %zu of them, counted from 0",
                            sequence->word_ends ? "word" : "key position", exclude->positions[i], index, extent);
    }
    return true;
}

/* A list for all sequences is gone through once, with the first of them: it may be as long as the body, and there may
 * be as many sequences. */
static bool mark_all(const struct position_lists *exclude, size_t index, size_t extent,
                     const struct forward_input *rule, uint8_t *marked, const struct head_sequence *sequence,
                     struct error *error)
{
    if (index == 0) {
        if (!check_positions(exclude, 0, 0, extent, sequence, error))
            return false;
        memset(marked, 0, rule->key_length);
        for (size_t i = 0; i < exclude->ends[0]; i++)
            marked[exclude->positions[i]] = 1;
    }
    return !memchr(marked + extent, 1, rule->key_length - extent) ||
           check_positions(exclude, 0, index, extent, sequence, error);
}

bool head_words_exclude(const struct position_lists *exclude, size_t index, const struct forward_input *rule,
                        uint8_t *marked, uint8_t *excluded, struct head_sequence *sequence, struct error *error)
{
    if (exclude->nested && exclude->n_lists != rule->batch)
        return count_error("exclude", exclude->n_lists, rule->batch, error);
    const size_t extent = sequence->word_ends ? sequence->n_keys : rule->key_length;
    if (!exclude->nested) {
        if (!mark_all(exclude, index, extent, rule, marked, sequence, error))
            return false;
        for (size_t key = 0; key < sequence->n_keys; key++)
            excluded[key] = marked[sequence->word_ends ? key : position_of(sequence, key)];
    } else {
        if (!check_positions(exclude, index, index, extent, sequence, error))
            return false;
        memset(excluded, 0, sequence->n_keys);
        for (size_t i = index ? exclude->ends[index - 1] : 0; i < exclude->ends[index]; i++) {
            const size_t key = key_at(sequence, exclude->positions[i]);
            if (key < sequence->n_keys)
                excluded[key] = 1;
        }
    }
    sequence->excluded = excluded;
    return true;
}
