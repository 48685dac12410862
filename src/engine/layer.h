/* What an attention layer holds, for the engine's own files. */
#ifndef ATTND_ENGINE_LAYER_H
#define ATTND_ENGINE_LAYER_H

#include "base/arena.h"
#include "engine/attention.h"
#include "engine/kernels/kernels.h"
#include "engine/packed_matrix.h"

struct attention_layer {
    struct attention_shape shape;
    const struct kernels *kernels;                  /* those it was packed for */
    struct packed_matrix query, key, value, output; /* in this order in memory; empty where !shape.projected */
    struct arena memory;
};

#endif
