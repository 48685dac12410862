/* What the query of a live route asks for. Its parameters are a table; an unknown one, or a wrong value, is an error
 * that names it. */
#ifndef ATTND_SERVER_LIVE_QUERY_H
#define ATTND_SERVER_LIVE_QUERY_H

#include "codec/live_answer.h"
#include "config/config.h"

/* X(code, name). */
#define LIVE_PARAMETERS(X)                     \
    X(LIVE_PARAMETER_WEIGHTS, "weights")       \
    X(LIVE_PARAMETER_FORMAT, "format")         \
    X(LIVE_PARAMETER_WINDOW, "window")         \
    X(LIVE_PARAMETER_METRIC, "metric")         \
    X(LIVE_PARAMETER_THRESHOLD, "threshold")   \
    X(LIVE_PARAMETER_MAX_PAIRS, "max_pairs")   \
    X(LIVE_PARAMETER_HEADS, "include_heads")   \
    X(LIVE_PARAMETER_STATISTICS, "statistics") \
    X(LIVE_PARAMETER_MIN_EFFECT, "min_effect") \
    X(LIVE_PARAMETER_MIN_SEQUENCES, "min_sequences")

#define LIVE_PARAMETER_ENUM(code, name) code,
enum live_parameter { LIVE_PARAMETERS(LIVE_PARAMETER_ENUM) LIVE_PARAMETER_COUNT };
#undef LIVE_PARAMETER_ENUM

#define LIVE_QUERY_WEIGHTS_BYTES 1024

struct live_query {
    char weights[LIVE_QUERY_WEIGHTS_BYTES]; /* "": the default */
    bool of_drift;                          /* its threshold is in standard errors */
    bool rows;
    unsigned slices; /* of the window; 0: no window */
    struct live_similarity_question similarity;
    struct drift_limits drift;
    uint32_t *heads; /* [n_heads], the caller's memory; NULL: all */
    size_t n_heads;
    bool statistics[HEAD_STATISTIC_COUNT];
};

/* Heads that the query of a target may name at most. */
size_t live_query_heads(const char *target);

/* Reads the query of a request target, of which `allowed` (bits of live_parameter) are this route's; `heads`
 * [live_query_heads] is for those it names, and may be NULL where it may name none. ERROR_INVALID or
 * ERROR_UNKNOWN_MEMBER. */
bool live_query_read(const char *target, unsigned allowed, const struct config *config, uint32_t *heads,
                     struct live_query *query, struct error *error);

/* Once the set is known: whether it has all the heads that were asked for. */
bool live_query_check_heads(const struct live_query *query, size_t num_heads, struct error *error);

/* ERROR_TOO_LARGE for an answer of up to `bytes` that is over limits.max_response_bytes. */
bool live_query_check_answer(const struct config *config, size_t bytes, struct error *error);

#endif
