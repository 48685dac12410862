/* The members of a request that describe a forward pass, for each route that runs one. For the files of this folder. */
#ifndef ATTND_CODEC_FORWARD_MEMBERS_H
#define ATTND_CODEC_FORWARD_MEMBERS_H

#include "codec/forward_request.h"
#include "json/reader.h"

/* What the readers fill: a request, and the arena its pieces come from. */
struct forward_decoding {
    struct forward_request *request;
    struct arena *arena;
};

/* X(member): readers for struct json_member; their context is a struct forward_decoding, or begins with one. */
#define FORWARD_MEMBERS(X) \
    X(weights)             \
    X(id)                  \
    X(input)               \
    X(query)               \
    X(key)                 \
    X(value)               \
    X(bias)                \
    X(head_mask)           \
    X(attention_mask)      \
    X(causal)

#define FORWARD_MEMBER_READER(member) \
    bool forward_read_##member(struct json_reader *r, void *context, struct error *error);
FORWARD_MEMBERS(FORWARD_MEMBER_READER)
#undef FORWARD_MEMBER_READER

/* As entries of a list of members. */
#define FORWARD_MEMBER_ENTRY(member) {#member, forward_read_##member},

/* Reads a body that is one of these objects and nothing behind it into what `context` points to; then what
 * forward_request_decode demands of `input`, `query` and `key`. On failure the arena is as it was. */
bool forward_read_body(const char *body, size_t length, const struct json_member *members, size_t count,
                       struct forward_decoding *context, struct error *error);

#endif
