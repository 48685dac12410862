/* Answers from live sums as JSON: the state of the sums is the caller's. Entered by the thread that merged them. */
#ifndef ATTND_CODEC_LIVE_ANSWER_H
#define ATTND_CODEC_LIVE_ANSWER_H

#include "analysis/head_clusters.h"
#include "analysis/head_similarity.h"
#include "analysis/live_drift.h"
#include "analysis/live_sums.h"
#include "base/text.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What is told, and of what. */
struct live_view {
    const char *weights, *digest;
    const struct live_sums *sums;
    uint64_t since_ms;     /* since the epoch: from when on it counts */
    double window_s;       /* 0: no window */
    double sample_rate;    /* for state documents */
    bool rows;             /* flat objects, one for each head or pair */
    const uint32_t *heads; /* [n_heads]; NULL: all */
    size_t n_heads;
    bool statistics[HEAD_STATISTIC_COUNT]; /* which ones */
};

/* All live statistics and heads. */
struct live_view live_view_of(const char *weights, const char *digest, const struct live_sums *sums);

/* Upper bounds of the answers' bytes. False on overflow. */
bool live_stats_bytes(const struct live_view *view, size_t *bytes);
void live_stats_write(const struct live_view *view, struct text *text);

struct live_similarity_question {
    enum similarity_metric metric; /* one that live_similarity_has */
    double threshold;
    size_t max_pairs;
};

/* `scratch_bytes`: memory of live_similarity_write, aligned for doubles. */
bool live_similarity_bytes(const struct live_view *view, const struct live_similarity_question *question, size_t *bytes,
                           size_t *scratch_bytes);
void live_similarity_write(const struct live_view *view, const struct live_similarity_question *question, void *scratch,
                           struct text *text);

/* view->sums are the window's. */
bool live_drift_bytes(const struct live_view *view, size_t *bytes);
void live_drift_write(const struct live_view *view, const struct live_sums *baseline, const struct drift_limits *limits,
                      struct text *text);

/* Milliseconds since the epoch in RFC 3339, UTC. */
#define LIVE_DATE_BYTES 32
void live_date(uint64_t ms, char text[LIVE_DATE_BYTES]);

#endif
