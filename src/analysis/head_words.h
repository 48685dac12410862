/* Words and excluded keys of one sequence, checked against it. For the files of this folder; entered by the thread that
 * runs the job. */
#ifndef ATTND_ANALYSIS_HEAD_WORDS_H
#define ATTND_ANALYSIS_HEAD_WORDS_H

#include "analysis/head_maps.h"

/* Fills word_ends [n_positions] and gives the sequence its words; ERROR_INVALID at /words/... for lists that are not
 * runs in order that cover its kept positions, and where queries and keys are not the same tokens. */
bool head_words_of_sequence(const struct word_lists *words, size_t index, const struct forward_input *rule,
                            uint32_t *word_ends, struct head_sequence *sequence, struct error *error);

/* Fills excluded [n_keys]; ERROR_INVALID at /exclude/... for a position that there is not. `rule`: the sequences'
 * sizes. `marked` [Tk]: what one list for all sequences excludes; made with sequence 0, which comes first, and kept for
 * the others. */
bool head_words_exclude(const struct position_lists *exclude, size_t index, const struct forward_input *rule,
                        uint8_t *marked, uint8_t *excluded, struct head_sequence *sequence, struct error *error);

#endif
