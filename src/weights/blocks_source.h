/* A set of many layers that is written out in the configuration (source `blocks`): its members as JSON, its numbers in
 * one safetensors file. One thread. */
#ifndef ATTND_WEIGHTS_BLOCKS_SOURCE_H
#define ATTND_WEIGHTS_BLOCKS_SOURCE_H

#include "config/config.h"
#include "weights/model_source.h"
#include "json/reader.h"

/* Reads a `position` or `pattern` of one layer, at the reader, whose places are the entry's ("/layers/1/pattern"), into
 * a rule for layers of `shape`. What the rule points to lives as long as the reader of rules wants. null does not reach
 * them. */
struct blocks_rules {
    bool (*position)(void *context, struct json_reader *r, const struct attention_shape *shape,
                     struct position_rule *rule, struct error *error);
    bool (*pattern)(void *context, struct json_reader *r, const struct attention_shape *shape,
                    struct pattern_rule *rule, struct error *error);
    void *context;
};

struct blocks_config {
    const struct weights_config *entry; /* path, layout, d_model (0: W_Q's), num_heads, num_kv_heads, d_k, d_v, scale */
    size_t num_layers;
    struct weights_text layer, layers, embeddings, final_norm; /* all but the first may be absent */
};

/* Fills *source (to be freed) from the file that entry->path names: of it no more than the header is read. Every tensor
 * is found, and its shape checked. Errors name the tensor or the numbers, not the file; their pointers are relative to
 * the entry: "/layer/ffn/W_1", "/layers/1/pattern/left", "/path". */
bool blocks_source_open(const struct blocks_config *config, const struct blocks_rules *rules,
                        struct model_source *source, struct error *error);

#endif
