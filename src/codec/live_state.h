/* Live sums as a document that adds: sums, not means. docs/API.md has its members. */
#ifndef ATTND_CODEC_LIVE_STATE_H
#define ATTND_CODEC_LIVE_STATE_H

#include "analysis/live_sums.h"
#include "base/error.h"
#include "base/text.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LIVE_STATE_FORMAT "attnd-heads-state/1"

/* What a document says beside the sums. */
struct live_state {
    char instance[65]; /* who has counted */
    char *weights;     /* the name */
    char digest[129];
    double sample_rate; /* NaN: the documents added up have different ones */
    double window_s;    /* 0: no window */
    char since[40];     /* RFC 3339 */
    struct live_sums sums;
};

/* An upper bound of its bytes. False on overflow. */
bool live_state_bytes(const struct live_state *state, size_t *bytes);
void live_state_write(const struct live_state *state, struct text *text);

struct json_watch;

/* What POST /v1/heads/merge was sent: documents that are added up as they are read. */
struct live_merge {
    struct live_state sum;
    void *memory;                 /* of the sums and the name */
    size_t documents, duplicates; /* duplicates: documents of an instance and `since` that were there before */
    enum { LIVE_MERGE_COSINE, LIVE_MERGE_PEARSON, LIVE_MERGE_CENTERED } metric;
    double threshold;
};

/* Reads {"states": [...], "metric", "threshold"}. ERROR_NOT_JSON, ERROR_DUPLICATE_MEMBER, ERROR_UNKNOWN_MEMBER,
 * ERROR_INVALID with the place, ERROR_OUT_OF_MEMORY; or `watch` has stopped it, and said why (NULL: it is not watched).
 * Free it in any case. */
bool live_merge_read(const char *body, size_t length, struct json_watch *watch, struct live_merge *merge,
                     struct error *error);
void live_merge_free(struct live_merge *merge);

#endif
