/* What queries of live routes say, and how each wrong one is refused. */
#include "server/live_query.h"

#include "codec/expect.h"

#include <stdio.h>
#include <stdlib.h>

#define BIT(name) (1u << LIVE_PARAMETER_##name)

enum {
    STATS = BIT(WEIGHTS) | BIT(FORMAT) | BIT(WINDOW) | BIT(HEADS) | BIT(STATISTICS),
    SIMILARITY = BIT(WEIGHTS) | BIT(FORMAT) | BIT(WINDOW) | BIT(METRIC) | BIT(THRESHOLD) | BIT(MAX_PAIRS),
    DRIFT = BIT(WEIGHTS) | BIT(FORMAT) | BIT(HEADS) | BIT(STATISTICS) | BIT(THRESHOLD) | BIT(MIN_EFFECT) |
            BIT(MIN_SEQUENCES)
};

static struct config config = {.live = {.window_s = 300}};

static bool read(const char *target, unsigned allowed, struct live_query *query, struct error *error)
{
    static uint32_t *heads; /* of the last query */
    free(heads);
    heads = malloc(live_query_heads(target) * sizeof *heads);
    return live_query_read(target, allowed, &config, heads, query, error);
}

static struct live_query query_of(const char *target, unsigned allowed)
{
    struct live_query query;
    struct error error;
    ck_assert_msg(read(target, allowed, &query, &error), "%s: %s", target, error.message);
    return query;
}

START_TEST(defaults)
{
    static const char *const targets[] = {"/v1/heads/stats",      "/v1/heads/stats?",     "/v1/heads/stats?&&",
                                          "/v1/heads/stats#part", "/v1/heads/stats?#x=1", "http://host/v1/heads/stats"};
    for (size_t i = 0; i < sizeof targets / sizeof *targets; i++) {
        const struct live_query query = query_of(targets[i], STATS);
        ck_assert_str_eq(query.weights, "");
        ck_assert(!query.rows && query.slices == 0 && !query.heads && query.n_heads == 0 && !query.of_drift);
        ck_assert(query.similarity.metric == SIMILARITY_COSINE && query.similarity.threshold == 0.9 &&
                  query.similarity.max_pairs == 100);
        ck_assert(query.drift.threshold == 4 && query.drift.min_effect == 0.2 && query.drift.min_sequences == 30);
        for (size_t k = 0; k < HEAD_STATISTIC_COUNT; k++)
            ck_assert(query.statistics[k] == head_statistic_kinds[k].live);
    }
}
END_TEST

START_TEST(values)
{
    struct live_query query =
        query_of("/x?weights=a%2Bb+c&format=rows&include_heads=7,0,12&statistics=hoyer,entropy&window=90", STATS);
    static const uint32_t heads[] = {7, 0, 12};
    ck_assert_str_eq(query.weights, "a+b+c"); /* a plus is a plus */
    ck_assert(query.rows && query.slices == 3 && query.n_heads == 3);
    ck_assert_mem_eq(query.heads, heads, sizeof heads);
    for (size_t k = 0; k < HEAD_STATISTIC_COUNT; k++)
        ck_assert(query.statistics[k] == (k == STATISTIC_ENTROPY || k == STATISTIC_HOYER));
    query = query_of("/x?%6detric=cent%65red&threshold=-1&max_pairs=0&format=matrix#&metric=js", SIMILARITY);
    ck_assert(query.similarity.metric == SIMILARITY_CENTERED && query.similarity.threshold == -1 &&
              query.similarity.max_pairs == 0 && !query.rows);
    query = query_of("/x?threshold=2.5&min_effect=0&min_sequences=1e3&", DRIFT);
    ck_assert(query.of_drift && query.drift.threshold == 2.5 && query.drift.min_effect == 0 &&
              query.drift.min_sequences == 1000 && query.similarity.threshold == 0.9);
}
END_TEST

START_TEST(windows)
{
    static const struct {
        const char *text;
        double window_s;
        unsigned slices; /* 0: refused */
    } cases[] = {
        {"5m", 300, 10}, {"300s", 300, 10}, {"300", 300, 10},   {"0.5m", 300, 1},   {"30s", 300, 1},
        {"270", 300, 9}, {"1h", 36000, 1},  {"10h", 36000, 10}, {"0.1", 1, 1},      {"0.7s", 1, 7},
        {"1", 1, 10},    {"301", 300, 0},   {"6m", 300, 0},     {"29", 300, 0},     {"45s", 300, 0},
        {"0", 300, 0},   {"-30", 300, 0},   {"+30", 300, 0},    {"", 300, 0},       {"m", 300, 0},
        {"5mm", 300, 0}, {"5 m", 300, 0},   {"%205m", 300, 0},  {"3e1", 300, 0},    {"0x1e", 300, 0},
        {"nan", 300, 0}, {"inf", 300, 0},   {"1d", 300, 0},     {"5m,10m", 300, 0}, {"99999999999999999999", 300, 0},
        {"5M", 300, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char target[80];
        struct live_query query;
        struct error error;
        config.live.window_s = cases[i].window_s;
        snprintf(target, sizeof target, "/x?window=%s", cases[i].text);
        ck_assert_msg(read(target, STATS, &query, &error) == (cases[i].slices > 0), "%s", target);
        if (cases[i].slices)
            ck_assert_uint_eq(query.slices, cases[i].slices);
        else
            expect_error(&error, ERROR_INVALID, NULL, "window live.window_s", target);
    }
    config.live.window_s = 300;
}
END_TEST

static const struct {
    unsigned allowed;
    const char *query, *words;
    enum error_code code;
} WRONG[] = {
    {STATS, "weigths=demo", "weigths weights", ERROR_UNKNOWN_MEMBER},
    {STATS, "metric=cosine", "metric known", ERROR_UNKNOWN_MEMBER},
    {STATS, "=5", "known weights format window include_heads statistics", ERROR_UNKNOWN_MEMBER},
    {STATS, "format", "format matrix rows", ERROR_INVALID},
    {STATS, "format=row", "format matrix rows row", ERROR_INVALID},
    {STATS, "format=rows&format=rows", "format twice", ERROR_INVALID},
    {STATS, "weights=", "weights name", ERROR_INVALID},
    {STATS, "weights=%", "weights broken", ERROR_INVALID},
    {STATS, "weights=%4", "weights broken", ERROR_INVALID},
    {STATS, "weights=%4g", "weights broken", ERROR_INVALID},
    {STATS, "weights=a%00b", "weights broken", ERROR_INVALID},
    {STATS, "%zz=1", "name broken", ERROR_INVALID},
    {STATS, "include_heads=", "include_heads", ERROR_INVALID},
    {STATS, "include_heads=1,", "include_heads", ERROR_INVALID},
    {STATS, "include_heads=,1", "include_heads", ERROR_INVALID},
    {STATS, "include_heads=-1", "include_heads 1", ERROR_INVALID},
    {STATS, "include_heads=1.5", "include_heads", ERROR_INVALID},
    {STATS, "include_heads=0;1", "include_heads", ERROR_INVALID},
    {STATS, "include_heads=4294967296", "include_heads 4294967296", ERROR_INVALID},
    {STATS, "include_heads=99999999999999999999999", "include_heads", ERROR_INVALID},
    {STATS, "include_heads=3,1,3", "include_heads 3 twice", ERROR_INVALID},
    {STATS, "statistics=entrpy", "statistics entrpy entropy", ERROR_INVALID},
    {STATS, "statistics=entropy,", "statistics", ERROR_INVALID},
    {STATS, "statistics=keys_for_90", "statistics keys_for_90", ERROR_INVALID},
    {STATS, "statistics=sink_mass", "statistics sink_mass", ERROR_INVALID},
    {SIMILARITY, "metric=cosin", "metric cosin cosine pearson centered mean", ERROR_INVALID},
    {SIMILARITY, "metric=", "metric cosine pearson centered", ERROR_INVALID},
    {SIMILARITY, "metric=js", "js sums POST", ERROR_INVALID},
    {SIMILARITY, "metric=cka", "cka sums POST", ERROR_INVALID},
    {SIMILARITY, "threshold=1.01", "threshold 1.01 1", ERROR_INVALID},
    {SIMILARITY, "threshold=nan", "threshold nan", ERROR_INVALID},
    {SIMILARITY, "threshold=", "threshold", ERROR_INVALID},
    {SIMILARITY, "threshold=0x1", "threshold 0x1", ERROR_INVALID},
    {SIMILARITY, "threshold=%200.5", "threshold", ERROR_INVALID},
    {SIMILARITY, "threshold=0.5x", "threshold 0.5x", ERROR_INVALID},
    {SIMILARITY, "max_pairs=-1", "max_pairs 0", ERROR_INVALID},
    {SIMILARITY, "max_pairs=1.5", "max_pairs integer", ERROR_INVALID},
    {SIMILARITY, "max_pairs=1e300", "max_pairs", ERROR_INVALID},
    {SIMILARITY, "include_heads=0", "include_heads known", ERROR_UNKNOWN_MEMBER},
    {DRIFT, "threshold=-0.5", "threshold 0", ERROR_INVALID},
    {DRIFT, "threshold=inf", "threshold inf", ERROR_INVALID},
    {DRIFT, "min_effect=-1", "min_effect 0", ERROR_INVALID},
    {DRIFT, "min_sequences=2.5", "min_sequences integer 2.5", ERROR_INVALID},
    {DRIFT, "window=5m", "window known threshold", ERROR_UNKNOWN_MEMBER},
};

START_TEST(wrong)
{
    char target[128];
    struct live_query query;
    struct error error;
    snprintf(target, sizeof target, "/v1/heads/x?%s", WRONG[_i].query);
    ck_assert_msg(!read(target, WRONG[_i].allowed, &query, &error), "%s was accepted", target);
    expect_error(&error, WRONG[_i].code, NULL, WRONG[_i].words, target);
    ck_assert(!error.has_pointer); /* there is no document */
}
END_TEST

/* As long as a target may be: names and values beyond their room, and as many heads as can stand in it. */
START_TEST(long_queries)
{
    char *target = malloc(40000);
    struct live_query query;
    struct error error;
    memset(strcpy(target, "/x?weights=") + 11, 'a', 1023);
    target[11 + 1023] = '\0';
    ck_assert_uint_eq(strlen(query_of(target, STATS).weights), 1023);
    strcpy(target + 11 + 1023, "a");
    ck_assert(!read(target, STATS, &query, &error));
    expect_error(&error, ERROR_INVALID, NULL, "weights", "a long name");
    memset(target + 11, 'a', 20000);
    target[20000] = '\0';
    ck_assert(!read(target, STATS, &query, &error));
    expect_error(&error, ERROR_INVALID, NULL, "weights long", "a longer name");
    memset(strcpy(target, "/x?") + 3, 'a', 200);
    target[203] = '\0';
    ck_assert(!read(target, STATS, &query, &error));
    expect_error(&error, ERROR_INVALID, NULL, "name long", "a long parameter");
    char *at = target + sprintf(target, "/x?include_heads=0");
    for (unsigned head = 1; head < 1024; head++)
        at += sprintf(at, ",%u", head);
    query = query_of(target, STATS);
    ck_assert(query.n_heads == 1024 && query.heads[1023] == 1023);
    free(target);
}
END_TEST

START_TEST(heads_of_the_set)
{
    const struct live_query all = query_of("/x", STATS), query = query_of("/x?include_heads=3,7", STATS);
    struct error error;
    ck_assert(live_query_check_heads(&query, 8, &error) && live_query_check_heads(&all, 1, &error));
    ck_assert(!live_query_check_heads(&query, 7, &error));
    expect_error(&error, ERROR_INVALID, NULL, "include_heads 7 6", "head 7 of 7");
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("server/live_query");
    TCase *t = tcase_create("live_query");
    tcase_add_test(t, defaults);
    tcase_add_test(t, values);
    tcase_add_test(t, windows);
    tcase_add_loop_test(t, wrong, 0, sizeof WRONG / sizeof *WRONG);
    tcase_add_test(t, long_queries);
    tcase_add_test(t, heads_of_the_set);
    suite_add_tcase(s, t);
    return s;
}
