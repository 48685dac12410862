/* The members of a request, in one table for every form it may come in: JSON, tensors given as bytes with the rest as
 * JSON texts, or protocols that mix the two. */
#ifndef ATTND_CODEC_REQUEST_MEMBERS_H
#define ATTND_CODEC_REQUEST_MEMBERS_H

#include "base/error.h"
#include "codec/raw_tensor.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* json/reader.h has it; not included here, because its names and jansson's cannot stand in one file. */
struct json_reader;

/* The readers fill what `context` points to. */
struct request_member {
    const char *name; /* plain ASCII, without backslash, tilde and slash */
    /* Reads its value, which comes next in the reader. */
    bool (*read_json)(struct json_reader *r, void *context, struct error *error);
    /* Reads its bytes; `pointer` is its place. NULL: it is not a tensor. */
    bool (*read_raw)(const struct raw_tensor *raw, const char *pointer, void *context, struct error *error);
};

/* As many as a list may have. */
#define REQUEST_MAX_MEMBERS 64

/* To who sends a text. */
#define REQUEST_NO_TOKENIZER \
    "there is no tokenizer here; send input_ids, the ids that the model's own tokenizer makes of the text"

/* A request that is being read. */
struct request_members {
    const struct request_member *list; /* [count], at most REQUEST_MAX_MEMBERS */
    size_t count;
    void *context;
    uint64_t seen; /* bit i: list[i] has come */
};

/* The index in the list, or its count where no member has the name. */
size_t request_members_find(const struct request_members *members, const char *name);

/* A JSON object, which comes next in the reader: ERROR_UNKNOWN_MEMBER, ERROR_DUPLICATE_MEMBER and what the readers say.
 */
bool request_members_read_object(struct request_members *members, struct json_reader *r, struct error *error);

/* A tensor by its name. ERROR_UNKNOWN_MEMBER for a name that is none and ERROR_INVALID for a member that is not a
 * tensor, which `elsewhere` says where to send ("in __metadata__, as JSON text"); ERROR_DUPLICATE_MEMBER when it has
 * come already. */
bool request_members_read_raw(struct request_members *members, const char *name, const struct raw_tensor *raw,
                              const char *elsewhere, struct error *error);

/* A member that is not a tensor, by its name and its value as a JSON text of its own. Errors as above, and
 * ERROR_NOT_JSON for a text that is none (a bare word, mostly: the message shows it in quotes). */
bool request_members_read_text(struct request_members *members, const char *name, const char *text,
                               struct error *error);

#endif
