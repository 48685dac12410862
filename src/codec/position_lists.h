/* Lists of positions, words and labels in requests. Their memory is the caller's arena, at most twice the bytes of
 * their text: an entry is two bytes of it at least and becomes four, a list is three and takes four more. */
#ifndef ATTND_CODEC_POSITION_LISTS_H
#define ATTND_CODEC_POSITION_LISTS_H

#include "analysis/head_maps.h"
#include "base/arena.h"
#include "base/error.h"

struct json_reader;

/* [3, 0] for all sequences, or [[3, 0], [5]], a list for each. ERROR_INVALID with its place for anything else. On
 * failure *lists is as it was, and what was taken from the arena stays taken: so with the others. */
bool position_lists_read(struct json_reader *r, struct arena *arena, struct position_lists *lists, struct error *error);

/* [[[0], [1, 2]], [[0, 1]]]: for each sequence its words, for each word its positions. */
bool word_lists_read(struct json_reader *r, struct arena *arena, struct word_lists *lists, struct error *error);

/* For each sequence the labels of its positions, as they were sent: JSON strings with their quotes. */
struct label_lists {
    size_t n_lists;             /* 0: none were sent */
    const uint32_t *list_ends;  /* [n_lists] behind the list's last label */
    const uint32_t *label_ends; /* [labels] behind the label's last byte */
    const char *labels;         /* one behind the other */
};

bool label_lists_read(struct json_reader *r, struct arena *arena, struct label_lists *lists, struct error *error);

#endif
