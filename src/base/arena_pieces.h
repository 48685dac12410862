/* Several pieces of an arena by one list: how much they take is counted, and then they are taken, from the same lines.
 */
#ifndef ATTND_BASE_ARENA_PIECES_H
#define ATTND_BASE_ARENA_PIECES_H

#include "base/arena.h"

/* The address of a pointer, and the shape it is to have (1 for axes that it has not). */
struct arena_piece {
    void *piece;
    size_t shape[4], element;
    bool wanted;
};

/* Adds what the pieces take to *bytes, as arena_need counts it; with an arena takes them, each by its pointer. False
 * when that overflows, or when the arena is too small. */
bool arena_pieces(const struct arena_piece *pieces, size_t count, struct arena *arena, size_t *bytes);

#endif
