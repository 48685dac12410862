/* Attention maps made ready for every analysis of heads: padding taken out, word pieces merged to words, excluded keys
 * dropped and rows renormalised, in that order, some rows of one head at a time. Nothing as large as the maps is made
 * beside them; where nothing has to be done, the rows are read where they lie.
 *
 * Positions: what is left of a sequence is numbered from 0, rows and keys alike (words, where there are words).
 * head_maps_prepare is entered by the thread that runs the job; what it makes is constant from then on, and
 * head_maps_tile and head_maps_allowed are entered by any number of threads, each with memory of its own. */
#ifndef ATTND_ANALYSIS_HEAD_MAPS_H
#define ATTND_ANALYSIS_HEAD_MAPS_H

#include "analysis/scored_rows.h"
#include "base/arena.h"
#include "base/error.h"
#include "engine/forward.h"
#include "engine/parallel.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Lists of positions: one for all sequences, or, nested, one for each. */
struct position_lists {
    size_t n_lists;
    bool nested;
    const uint32_t *ends;      /* [n_lists] behind the list's last position */
    const uint32_t *positions; /* [ends[n_lists - 1]] */
};

/* Words, as lists of the positions of their pieces: runs in order, that cover the kept positions of a sequence. */
struct word_lists {
    size_t n_lists;            /* one for each sequence */
    const uint32_t *list_ends; /* [n_lists] behind the list's last word */
    const uint32_t *word_ends; /* [words] behind the word's last position */
    const uint32_t *positions; /* [positions] */
};

/* A sequence as it is measured. */
struct head_sequence {
    size_t n_rows, n_keys;     /* after padding and words; equal in self-attention. 0: nothing but padding */
    size_t n_positions;        /* rows that are no padding: n_rows, unless pieces were merged */
    size_t first_position;     /* of the request, where `positions` is NULL */
    const uint32_t *positions; /* [n_positions] where they stand in the request; NULL: a run of neighbours. Of rows and
                                  keys: NULL and 0 in cross attention */
    const uint32_t *word_ends; /* [n_rows] behind the last piece, among n_positions; NULL: no words */
    const uint8_t *has_row;    /* [n_positions] 1: the row has a key (before `exclude`) */
    const uint8_t *excluded;   /* [n_keys] 1: dropped; NULL: none */
    const uint32_t *n_allowed; /* [n_rows] n_i, allowed keys that are not excluded; 0: the row is left out */
    bool direct;               /* its tiles lie in the maps */
};

/* Where the request has a row that is no word. */
static inline size_t head_sequence_position(const struct head_sequence *sequence, size_t row)
{
    return sequence->positions ? sequence->positions[row] : sequence->first_position + row;
}

struct head_maps {
    /* What is given. Sizes, mask, causal and pattern of `rule` say which keys are allowed (a bias allows all); its
     * tensors are not read. rule->self_attention: row i and key i are the same token, and a mask of keys is padding.
     * Posted maps come without rules: keys that the pattern of a forward hides have weight 0 in its maps. */
    const struct forward_input *rule;
    const float *weights; /* [B, num_heads, Tq, Tk]; with layers [B, num_layers, num_heads, Tq, Tk] */
    size_t num_heads;
    size_t num_layers, layer; /* of the weights, and the one that is looked at; num_layers 0: they have no such axis */
    size_t first_layer;       /* what layer 0 of the weights is called; a negative one wraps around (add as size_t) */
    const struct head_maps *layers; /* NULL, or whose heads these are, one after the other: of the same weights */
    bool posted;                    /* a row of zeros is a row without an allowed key: the same rows in all heads */
    bool stray;                     /* there may be weight on keys that are not allowed: it is ignored */
    bool renormalize;               /* each row is divided by its sum first */
    const struct word_lists *words; /* NULL: no words. Self-attention only */
    const struct position_lists *exclude; /* keys (words, where there are words); NULL: none */
    const struct parallel *watched; /* whose cancellation is looked at while they are made ready; NULL: nobody's */

    /* What head_maps_prepare makes of it. */
    const struct head_sequence *sequences; /* [B] */
    size_t longest_rows, longest_keys;     /* of all sequences */
    size_t n_rows;                         /* rows with a key, of all sequences */
    size_t n_excluded; /* rows without: padding (of words: none), no allowed key, nothing left. With `exclude` a head
                          can lose more: head_tile.n_allowed says which */
    bool aligned;      /* rows and keys have places to each other: row i stands at key i + shift */
    size_t shift;      /* Tk - Tq under causal, else 0; negative ones wrap around (add as size_t, or cast) */
};

/* Which of all rows it is, of all sequences, layers and heads; positions are those of the request. */
static inline size_t head_maps_row_index(const struct head_maps *maps, size_t sequence, size_t head, size_t position)
{
    if (maps->layers) {
        const size_t heads = maps->layers->num_heads;
        maps = &maps->layers[head / heads];
        head %= heads;
    }
    const size_t layers = maps->num_layers ? maps->num_layers : 1,
                 map = (sequence * layers + maps->layer) * maps->num_heads + head;
    return map * maps->rule->query_length + position;
}

/* A row of a head's map [Tk]. */
static inline const float *head_maps_row(const struct head_maps *maps, size_t sequence, size_t head, size_t position)
{
    return maps->weights + head_maps_row_index(maps, sequence, head, position) * maps->rule->key_length;
}

/* Some rows of one head of one sequence. */
struct head_tile {
    size_t first_row, n_rows, n_keys;
    const float *weights; /* [n_rows, n_keys], rows `stride` floats apart; 0 on keys that are not allowed. Rows sum to 1
                             as the given ones do, after `exclude` to rounding; a row that is left out is 0 */
    size_t stride;
    const uint32_t *n_allowed; /* [n_rows] n_i; 0: the row is left out, in this head at least */
};

/* The arena that head_maps_prepare takes from, as arena_need counts it. False when that overflows size_t. */
bool head_maps_bytes(const struct head_maps *maps, size_t *bytes);

/* Checks words and exclude against the sequences (ERROR_INVALID with the place, /words/... or /exclude/...) and fills
 * the second half of *maps. ERROR_OUT_OF_MEMORY when the arena is too small, ERROR_CLIENT_GONE when cancelled. */
bool head_maps_prepare(struct head_maps *maps, struct arena *arena, struct error *error);

/* Counts a row of `n_keys` keys that was looked at; now and then it asks maps->watched. False when cancelled, and from
 * then on. */
struct head_maps_watch {
    size_t keys;
    bool cancelled;
};
bool head_maps_goes_on(const struct head_maps *maps, struct head_maps_watch *watch, size_t n_keys);

/* Memory of head_maps_tile for up to `rows` rows, aligned as arenas align: 0 where every tile lies in the maps. False
 * when it overflows. After head_maps_prepare. */
bool head_maps_tile_bytes(const struct head_maps *maps, size_t rows, size_t *bytes);

/* The same before it, at most. */
bool head_maps_tile_bytes_most(const struct head_maps *maps, size_t rows, size_t *bytes);

/* Rows first_row .. first_row + n_rows - 1 (< its n_rows) of a head of a sequence; `scratch` has head_maps_tile_bytes
 * of n_rows, and the tile points into it, the maps and the sequence. */
void head_maps_tile(const struct head_maps *maps, size_t sequence, size_t head, size_t first_row, size_t n_rows,
                    void *scratch, struct head_tile *tile);

/* Which keys of a row are allowed and not excluded, 1 or 0, the same in all heads: allowed [n_keys]. Returns n_i. The
 * reader is one of maps->rule. */
size_t head_maps_allowed(const struct head_maps *maps, struct allowed_reader *reader, size_t sequence, size_t row,
                         uint8_t *allowed);

#endif
