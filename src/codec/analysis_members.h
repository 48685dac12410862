/* The members of a request that every analysis of heads knows, for each of its routes. For the files of this folder. */
#ifndef ATTND_CODEC_ANALYSIS_MEMBERS_H
#define ATTND_CODEC_ANALYSIS_MEMBERS_H

#include "codec/analysis_request.h"
#include "codec/forward_members.h"

/* What the readers fill: the context of the forward's members comes first. */
struct analysis_decoding {
    struct forward_decoding forward; /* its request is that of `request` */
    struct analysis_request *request;
};

bool analysis_read_attention(struct json_reader *r, void *context, struct error *error);
bool analysis_read_raw_attention(const struct raw_tensor *raw, const char *pointer, void *context, struct error *error);
bool analysis_read_renormalize(struct json_reader *r, void *context, struct error *error);
bool analysis_read_exclude(struct json_reader *r, void *context, struct error *error);
bool analysis_read_words(struct json_reader *r, void *context, struct error *error);

/* As entries of a list of members; the forward's among them. */
#define ANALYSIS_MEMBER_ENTRIES                                                                     \
    FORWARD_MEMBER_ENTRIES{"attention", analysis_read_attention, analysis_read_raw_attention},      \
        {"renormalize", analysis_read_renormalize, NULL}, {"exclude", analysis_read_exclude, NULL}, \
        {"words", analysis_read_words, NULL},

/* Reads a body, in whichever form, into the context: exactly one of `attention`, `input` and the pair `query`, `key` is
 * there, and beside `attention` nothing that belongs to a forward. On failure the arena is as it was. */
bool analysis_read_body(const struct request_body *body, const struct request_member *list, size_t count,
                        struct analysis_decoding *context, struct error *error);

#endif
