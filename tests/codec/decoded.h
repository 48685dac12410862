/* The memory of a decoded request: an arena of just the size that the header promises to suffice, and what must be in
 * use of it. */
#ifndef ATTND_TESTS_CODEC_DECODED_H
#define ATTND_TESTS_CODEC_DECODED_H

#include "codec/forward_request.h"
#include "suite.h"

#include <string.h>

/* What stands in the arena before a request is decoded. */
#define BEFORE_BODY ARENA_ALIGNMENT

/* With room for a body of `length` bytes behind BEFORE_BODY, and no more. */
static inline void arena_for_body(struct arena *arena, size_t length)
{
    arena_free(arena);
    ck_assert(arena_reserve(arena, BEFORE_BODY + forward_request_decoded_bytes(length)));
    arena->capacity = BEFORE_BODY + forward_request_decoded_bytes(length) / ARENA_ALIGNMENT * ARENA_ALIGNMENT;
    ck_assert_ptr_nonnull(arena_take(arena, BEFORE_BODY));
}

static inline size_t rounded(size_t bytes)
{
    return (bytes + ARENA_ALIGNMENT - 1) / ARENA_ALIGNMENT * ARENA_ALIGNMENT;
}

/* What the request points to, piece by piece. */
static inline size_t held_bytes(const struct forward_request *q)
{
    const struct tensor *tensors[] = {&q->input, &q->query,     &q->key,           &q->value,
                                      &q->bias,  &q->head_mask, &q->inputs_embeds, &q->pixel_values};
    size_t bytes = rounded(q->weights ? strlen(q->weights) + 1 : 0) + rounded(q->id ? strlen(q->id) + 1 : 0) +
                   rounded(q->attention_mask.count) + rounded(4 * q->n_include_heads);
    for (size_t i = 0; i < sizeof tensors / sizeof *tensors; i++)
        bytes += rounded(4 * tensors[i]->count);
    bytes += rounded(4 * q->position_ids.count) + rounded(4 * q->input_ids.count) +
             rounded(4 * q->token_type_ids.count) + rounded(4 * q->n_include_layers);
    if (q->rules)
        bytes += rounded(sizeof *q->rules) + rounded(4 * q->rules->asked.table.count) +
                 rounded(4 * q->rules->asked.e.count) + rounded(4 * q->rules->asked.f.count) +
                 rounded(4 * q->rules->asked.rules.pattern.n_global);
    return bytes;
}

#endif
