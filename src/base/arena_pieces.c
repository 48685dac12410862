#include "base/arena_pieces.h"

#include "base/size.h"

#include <string.h>

bool arena_pieces(const struct arena_piece *pieces, size_t count, struct arena *arena, size_t *bytes)
{
    for (size_t i = 0; i < count; i++) {
        size_t one;
        if (!pieces[i].wanted)
            continue;
        if (!tensor_bytes(pieces[i].shape, 4, pieces[i].element, &one) || !arena_need(bytes, one))
            return false;
        if (!arena)
            continue;
        void *taken = arena_take(arena, one);
        if (!taken)
            return false;
        memcpy(pieces[i].piece, &taken, sizeof taken);
    }
    return true;
}
