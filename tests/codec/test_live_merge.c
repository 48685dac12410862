/* State documents written, read and added up: what comes back is what was counted, sums add to 1e-12 whatever the order
 * and the grouping, and every document that cannot be is refused at its place. */
#include "codec/live_state.h"

#include "codec/expect.h"
#include "codec/json_document.h"
#include "engine/random.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LAYERS = 2, HEADS = 3, PAIRS = 6, WIDTH = 7 };

/* by_layer: of layers that see different keys. */
static struct live_sums new_sums(bool by_layer)
{
    const struct live_shape shape = {LAYERS, HEADS, by_layer};
    struct live_sums sums;
    size_t bytes;
    ck_assert(live_sums_bytes(shape, &bytes));
    live_sums_init(&sums, shape, malloc(bytes));
    ck_assert_uint_eq(sums.num_parts, by_layer ? LAYERS : 1);
    return sums;
}

static void free_sums(struct live_sums *sums)
{
    free(sums->values);
}

/* So many rows of a part. */
static void count_part(struct live_sums *sums, size_t part, double rows, struct random *random)
{
    double baselines[LIVE_BASELINE_COUNT], sets[ROW_SET_COUNT];
    double *columns = calloc(LIVE_STATISTIC_COUNT * sums->columns, sizeof *columns);
    sums->keys[part].allowed += 9 * rows;
    sums->keys[part].even += rows / 9;
    for (size_t i = 0; i < LIVE_STATISTIC_COUNT; i++)
        for (size_t head = 0; head < live_sums_part_heads(sums); head++)
            columns[i * sums->columns + head] = rows * (30 + random_normal(random));
    for (size_t i = 0; i < LIVE_BASELINE_COUNT; i++)
        baselines[i] = rows * random_normal(random);
    for (size_t i = 0; i < ROW_SET_COUNT; i++)
        sets[i] = rows;
    live_sums_add_sequence(sums, part, columns, baselines, sets);
    free(columns);
}

/* Counts a sequence of random rows, fewer of them in later layers where those see other keys: statistics about some
 * level, products of random vectors. */
static void count_sequence(struct live_sums *sums, struct random *random)
{
    const double rows = (double)random_size(random, 2, 20);
    double vectors[LAYERS][HEADS][WIDTH];
    sums->counts.sequences += 1;
    sums->counts.rows += rows;
    sums->counts.excluded += (double)random_size(random, 0, 3);
    for (size_t part = 0; part < sums->num_parts; part++)
        count_part(sums, part, rows - (double)part, random);
    for (size_t i = 0; i < sizeof vectors / sizeof(double); i++)
        ((double *)vectors)[i] = random_normal(random);
    for (size_t layer = 0; layer < LAYERS; layer++)
        for (size_t a = 0; a < HEADS; a++)
            for (size_t b = 0; b <= a; b++)
                for (size_t k = 0; k < WIDTH; k++)
                    sums->products[layer * PAIRS + a * (a + 1) / 2 + b] += vectors[layer][a][k] * vectors[layer][b][k];
}

static char *text_of(const struct live_sums *sums, const char *instance, const char *since, double rate)
{
    char name[] = "a \"set\"";
    struct live_state state = {.weights = name, .sample_rate = rate, .sums = *sums, .digest = "d1"};
    struct text text = {0};
    size_t most;
    strcpy(state.instance, instance);
    strcpy(state.since, since);
    ck_assert(live_state_bytes(&state, &most));
    live_state_write(&state, &text);
    ck_assert_uint_le(text.length, most);
    char *document = strdup(text_terminate(&text));
    text_free(&text);
    return document;
}

static char *body_of(const char *const *documents, size_t count, const char *more)
{
    struct text text = {0};
    text_append_string(&text, "{\"states\":[");
    for (size_t i = 0; i < count; i++)
        text_append_format(&text, "%s%s", i ? "," : "", documents[i]);
    text_append_format(&text, "]%s}", more);
    char *body = strdup(text_terminate(&text));
    text_free(&text);
    return body;
}

static struct live_merge read(const char *const *documents, size_t count, const char *more)
{
    struct live_merge merge;
    struct error error;
    char *body = body_of(documents, count, more);
    ck_assert_msg(live_merge_read(body, strlen(body), NULL, &merge, &error), "%s", error.message);
    ck_assert_uint_eq(merge.documents, count);
    free(body);
    return merge;
}

/* The sum of documents as a document. */
static char *sum_of(const char *const *documents, size_t count)
{
    struct live_merge merge = read(documents, count, "");
    struct text text = {0};
    live_state_write(&merge.sum, &text);
    char *sum = strdup(text_terminate(&text));
    text_free(&text);
    live_merge_free(&merge);
    return sum;
}

static void near(double got, double wanted, double size)
{
    ck_assert_msg(fabs(got - wanted) <= 1e-12 * size, "got %.17g, expected %.17g", got, wanted);
}

/* Sums of y, whatever they are kept about. */
static void expect_same_ratio(const struct ratio_sums *p, const struct ratio_sums *q)
{
    const double y = q->z + q->offset * q->n;
    const double yy = q->zz + 2 * q->offset * q->zn + q->offset * q->offset * q->nn;
    const double yn = q->zn + q->offset * q->nn;
    ck_assert(p->sequences == q->sequences && p->n == q->n && p->nn == q->nn);
    near(p->z + p->offset * p->n, y, fabs(y) + q->n);
    near(p->zz + 2 * p->offset * p->zn + p->offset * p->offset * p->nn, yy, yy + q->nn);
    near(p->zn + p->offset * p->nn, yn, fabs(yn) + q->nn);
    near(ratio_sums_mean(p), ratio_sums_mean(q), 1 + fabs(ratio_sums_mean(q)));
}

static void expect_same(const struct live_sums *got, const struct live_sums *wanted)
{
    const struct live_counts *p = &got->counts, *q = &wanted->counts;
    ck_assert(p->sequences == q->sequences && p->rows == q->rows && p->excluded == q->excluded &&
              p->skipped == q->skipped);
    for (size_t part = 0; part < got->num_parts; part++) {
        ck_assert(got->keys[part].allowed == wanted->keys[part].allowed);
        near(got->keys[part].even, wanted->keys[part].even, wanted->keys[part].even);
    }
    for (size_t i = 0; i < (size_t)LAYERS * HEADS * LIVE_STATISTIC_COUNT; i++) {
        const enum head_statistic statistic = live_statistics[i % LIVE_STATISTIC_COUNT];
        const size_t head = i / LIVE_STATISTIC_COUNT % HEADS, layer = i / LIVE_STATISTIC_COUNT / HEADS;
        const struct ratio_sums one = live_sums_of(got, layer, head, statistic),
                                other = live_sums_of(wanted, layer, head, statistic);
        expect_same_ratio(&one, &other);
    }
    for (size_t i = 0; i < got->num_parts * LIVE_BASELINE_COUNT; i++)
        expect_same_ratio(&got->baselines[i], &wanted->baselines[i]);
    for (size_t i = 0; i < (size_t)LAYERS * PAIRS; i++)
        near(got->products[i], wanted->products[i], fabs(wanted->products[i]) + q->rows);
}

START_TEST(what_is_written_is_read)
{
    struct random random = {(uint64_t)_i + 1};
    struct live_sums sums = new_sums(_i % 2);
    for (int i = 0; i < _i / 2; i++)
        count_sequence(&sums, &random);
    sums.counts.skipped = 5;
    char *document = text_of(&sums, "one", "2026-01-02T03:04:05.678Z", 0.25);
    json_t *tree = json_loads(document, JSON_REJECT_DUPLICATES, NULL);
    ck_assert_ptr_nonnull(tree);
    ck_assert_str_eq(json_string_value(json_object_get(tree, "format")), "attnd-heads-state/1");
    ck_assert_str_eq(json_string_value(json_object_get(tree, "weights")), "a \"set\"");
    ck_assert_ptr_null(json_object_get(tree, "window_s"));
    json_decref(tree);

    const char *const documents[] = {document};
    struct live_merge merge = read(documents, 1, "");
    ck_assert(merge.metric == LIVE_MERGE_COSINE && merge.threshold == 0.9 && merge.duplicates == 0);
    ck_assert_str_eq(merge.sum.weights, "a \"set\"");
    ck_assert_str_eq(merge.sum.digest, "d1");
    ck_assert_str_eq(merge.sum.since, "2026-01-02T03:04:05.678Z");
    ck_assert(merge.sum.sample_rate == 0.25);
    ck_assert(memcmp(&merge.sum.sums.counts, &sums.counts, sizeof sums.counts) == 0);
    ck_assert_mem_eq(merge.sum.sums.values, sums.values,
                     sums.num_parts * LIVE_STATISTIC_COUNT * 4 * sums.columns * sizeof(double));
    ck_assert_mem_eq(merge.sum.sums.means, sums.means, sums.num_parts * LIVE_STATISTIC_COUNT * sizeof *sums.means);
    ck_assert_mem_eq(merge.sum.sums.baselines, sums.baselines,
                     sums.num_parts * LIVE_BASELINE_COUNT * sizeof(struct ratio_sums));
    ck_assert_mem_eq(merge.sum.sums.keys, sums.keys, sums.num_parts * sizeof *sums.keys);
    ck_assert_mem_eq(merge.sum.sums.products, sums.products, LAYERS * PAIRS * sizeof(double));
    live_merge_free(&merge);
    free(document);
    free_sums(&sums);
}
END_TEST

/* Three servers that saw a part each: ((a b) c), (a (b c)), (c b a) and all at once are what one would have counted. */
START_TEST(documents_add_in_any_order_and_grouping)
{
    struct random random = {(uint64_t)_i + 1};
    const bool by_layer = _i % 2;
    struct live_sums whole = new_sums(by_layer),
                     parts[3] = {new_sums(by_layer), new_sums(by_layer), new_sums(by_layer)};
    static const char *const names[] = {"a", "b", "c"};
    const char *of[3];
    for (int i = 0; i < 40; i++) {
        struct random again = random;
        count_sequence(&whole, &random);
        count_sequence(&parts[(unsigned)i * 7 % 10 % 3], &again);
    }
    for (size_t i = 0; i < 3; i++)
        of[i] = text_of(&parts[i], names[i], i == 1 ? "2025-01-01T00:00:00.000Z" : "2026-01-01T00:00:00.000Z", 1);
    char *ab = sum_of((const char *[]){of[0], of[1]}, 2), *bc = sum_of((const char *[]){of[1], of[2]}, 2);
    const char *const ways[][3] = {{ab, of[2]}, {of[0], bc}, {of[2], of[1], of[0]}, {of[0], of[1], of[2]}};
    char instance[65] = "";
    for (size_t way = 0; way < 4; way++) {
        struct live_merge merge = read(ways[way], way < 2 ? 2 : 3, "");
        expect_same(&merge.sum.sums, &whole);
        ck_assert_uint_eq(merge.duplicates, 0);
        ck_assert_str_eq(merge.sum.since, "2025-01-01T00:00:00.000Z"); /* the least */
        ck_assert(merge.sum.sample_rate == 1);
        if (way == 3)
            ck_assert_str_eq(instance, merge.sum.instance); /* of the same documents, in another order */
        strcpy(instance, merge.sum.instance);
        live_merge_free(&merge);
    }
    free(ab);
    free(bc);
    for (size_t i = 0; i < 3; i++) {
        free((char *)of[i]);
        free_sums(&parts[i]);
    }
    free_sums(&whole);
}
END_TEST

START_TEST(settings_duplicates_and_rates)
{
    struct random random = {3};
    struct live_sums sums = new_sums(false);
    count_sequence(&sums, &random);
    char *a = text_of(&sums, "a", "2026-01-01T00:00:00.000Z", 1),
         *b = text_of(&sums, "a", "2026-01-02T00:00:00.000Z", 1),
         *c = text_of(&sums, "b", "2026-01-01T00:00:00.000Z", 0.5),
         *d = text_of(&sums, "a", "2026-01-01T00:00:00.000Z", NAN);
    struct live_merge merge = read((const char *[]){a, b, c, a, d}, 5, ",\"metric\":\"centered\",\"threshold\":-1");
    ck_assert(merge.metric == LIVE_MERGE_CENTERED && merge.threshold == -1);
    ck_assert_uint_eq(merge.duplicates, 2); /* of an instance and a since that were there: added all the same */
    ck_assert(merge.sum.sums.counts.rows == 5 * sums.counts.rows);
    ck_assert(isnan(merge.sum.sample_rate)); /* not one rate */
    live_merge_free(&merge);
    merge = read((const char *[]){a}, 1, ",\"metric\":\"pearson\",\"threshold\":1");
    ck_assert(merge.metric == LIVE_MERGE_PEARSON && merge.threshold == 1);
    live_merge_free(&merge);
    free(a);
    free(b);
    free(c);
    free(d);
    free_sums(&sums);
}
END_TEST

/* A member of the second document, by its path, and what is put there (NULL: it is left out). */
static const struct wrong_member {
    const char *path, *value, *pointer, *words;
} WRONG[] = {
    {"format", "\"attnd-heads-state/2\"", "/states/1/format", "attnd-heads-state/1 attnd-heads-state/2"},
    {"format", "1", "/states/1/format", "attnd-heads-state/1"},
    {"format", NULL, "/states/1/format", "attnd-heads-state/1 nothing"},
    {"digest", "\"other\"", "/states/1/digest", "d1 other weights"},
    {"digest", NULL, "/states/1/digest", "string"},
    {"instance", "7", "/states/1/instance", "string 7"},
    {"instance", "\"0123456789012345678901234567890123456789012345678901234567890123456789\"", "/states/1/instance",
     "64 bytes"},
    {"since", "[]", "/states/1/since", "string list"},
    {"since", "\"2026-01-01T00:00:00Z\"", "/states/1/since", "time 2026"},
    {"weights", "{}", "/states/1/weights", "string object"},
    {"sample_rate", "\"1\"", "/states/1/sample_rate", "number null"},
    {"num_layers", "1", "/states/1/num_layers", "2 1 weights"},
    {"num_layers", "0", "/states/1/num_layers", "4096 0"},
    {"num_layers", "1e300", "/states/1/num_layers", "4096"},
    {"num_heads", "2", "/states/1/num_heads", "3 2 weights"},
    {"num_heads", "-3", "/states/1/num_heads", "0 3"},
    {"num_heads", "2.5", "/states/1/num_heads", "whole 2.5"},
    {"num_heads", "1000000", "/states/1/num_heads", "65536 1000000"},
    {"n_rows", "-1", "/states/1/n_rows", "0 1"},
    {"n_rows", "0.5", "/states/1/n_rows", "whole 0.5"},
    {"n_rows", "0", "/states/1/n_rows", "n_sequences"},
    {"n_rows", "1e300", "/states/1/n_rows", "9007199254740992"},
    {"n_rows", "null", "/states/1/n_rows", "number null"},
    {"n_sequences", "1000000", "/states/1/n_rows", "n_sequences"},
    {"n_sequences", "0", "/states/1/n_rows", "n_sequences"},
    {"n_excluded", "-1", "/states/1/n_excluded", "0 1"},
    {"n_skipped", "true", "/states/1/n_skipped", "number true"},
    {"n_allowed", "0", "/states/1/n_allowed", "key n_rows"},
    {"even", "1e6", "/states/1/even", "n_rows"},
    {"even", "0.5", "/states/1/even", "n_allowed"},
    {"even", "-0.5", "/states/1/even", "0 0.5"},
    {"statistics", "{}", "/states/1/statistics/entropy", "object nothing"},
    {"statistics/hoyer", "[]", "/states/1/statistics/hoyer", "object list"},
    {"statistics/hoyer/n", "-1", "/states/1/statistics/hoyer/n", "0 1"},
    {"statistics/hoyer/n", "0", "/states/1/statistics/hoyer", "sequences n nn"},
    {"statistics/hoyer/sequences", "1.5", "/states/1/statistics/hoyer", "sequences"},
    {"statistics/hoyer/nn", "1e9", "/states/1/statistics/hoyer", "sequences n nn"},
    {"statistics/hoyer/nn", "0", "/states/1/statistics/hoyer", "sequences n nn"},
    {"statistics/hoyer/sequences", "7", "/states/1/statistics/hoyer", "sequences n_sequences"},
    {"statistics/hoyer/offset", "[1e200,0,0,0,0,0]", "/states/1/statistics/hoyer", "offset beyond"},
    {"statistics/hoyer/zz", "[1e300,1,1,1,1,1]", "/states/1/statistics/hoyer", "zz beyond"},
    {"statistics/hoyer/z", "[0,0,0]", "/states/1/statistics/hoyer/z", "6 3 list"},
    {"statistics/hoyer/z", "[0,0,0,0,0,1e9]", "/states/1/statistics/hoyer", "z zz zn"},
    {"statistics/hoyer/zn", "[1e9,0,0,0,0,0]", "/states/1/statistics/hoyer", "z zz zn"},
    {"statistics/hoyer/zz", "[1,1,1,1,1,-1e9]", "/states/1/statistics/hoyer", "z zz zn"},
    {"statistics/hoyer/offset", "[1,1,1,1,1,\"1\"]", "/states/1/statistics/hoyer/offset/5", "finite 1"},
    {"statistics/uniform_distance/offset", "[1,1]", "/states/1/statistics/uniform_distance/offset", "1 2 list"},
    {"statistics/uniform_first_mass", NULL, "/states/1/statistics/uniform_first_mass", "object nothing"},
    {"products", "[1,0,1]", "/states/1/products", "num_heads 3"},
    {"products", "[1,0,1,0,0,1,1,0,1,0,0,-1]", "/states/1/products", "2 1 0"},
    {"products", "[1,0,1,0,0,1,1,0,1,0,0,1e308]", "/states/1/products", "2 1e+308 n_allowed"},
    {"products", "[1,2,1,0,0,1,1,0,1,0,0,1]", "/states/1/products", "0 1 2 norms"},
    {"products", "[1,0,1,0,0,1,1,0,1,0,0,null]", "/states/1/products/11", "finite null"},
};

/* Puts the value in its place. */
static void change(json_t *document, const char *path, const char *value)
{
    char names[64], *rest = strcpy(names, path), *name = strsep(&rest, "/");
    for (; rest; name = strsep(&rest, "/"))
        document = json_object_get(document, name);
    ck_assert_msg(json_object_get(document, name) != NULL, "%s", path);
    if (value)
        ck_assert_int_eq(json_object_set_new(document, name, json_loads(value, JSON_DECODE_ANY, NULL)), 0);
    else
        json_object_del(document, name);
}

/* Puts what is wrong into a document beside a right one. */
static void refuse(bool by_layer, const struct wrong_member *wrong)
{
    struct random random = {9};
    struct live_sums sums = new_sums(by_layer);
    struct live_merge merge;
    struct error error;
    for (int i = 0; i < 6; i++)
        count_sequence(&sums, &random);
    char *right = text_of(&sums, "a", "2026-01-01T00:00:00.000Z", 1);
    json_t *document = json_loads(right, 0, NULL);
    change(document, wrong->path, wrong->value);
    char *changed = json_dumps(document, 0), *body = body_of((const char *[]){right, changed}, 2, "");
    ck_assert_msg(!live_merge_read(body, strlen(body), NULL, &merge, &error), "%s: %s", wrong->path, wrong->value);
    expect_error(&error, ERROR_INVALID, wrong->pointer, wrong->words, wrong->value ? wrong->value : "none");
    live_merge_free(&merge);
    free(body);
    free(changed);
    free(right);
    json_decref(document);
    free_sums(&sums);
}

START_TEST(documents_that_cannot_be)
{
    refuse(false, &WRONG[_i]);
}
END_TEST

/* Two numbers, one of each layer, where layers see different keys. */
static const struct wrong_member WRONG_BY_LAYER[] = {
    {"n_allowed", "900", "/states/1/n_allowed", "list 2 900"},
    {"n_allowed", "[900]", "/states/1/n_allowed", "list num_layers 1"},
    {"n_allowed", "[900,\"1\"]", "/states/1/n_allowed/1", "finite 1"},
    {"n_allowed", "[900.5,900]", "/states/1/n_allowed", "whole list"},
    {"n_allowed", "[900,-1]", "/states/1/n_allowed", "0 -1"},
    {"n_allowed", "[900,0]", "/states/1/n_allowed", "key n_rows"},
    {"even", "7", "/states/1/even", "list 2 7"},
    {"even", "[7,1e6]", "/states/1/even", "n_rows"},
    {"even", "[7,0.001]", "/states/1/even", "n_allowed"},
    {"statistics/hoyer/n", "7", "/states/1/statistics/hoyer/n", "list 2 7"},
    {"statistics/hoyer/n", "[60,1e6]", "/states/1/statistics/hoyer", "sequences n"},
    {"statistics/hoyer/sequences", "[6,6.5]", "/states/1/statistics/hoyer", "sequences n nn"},
    {"statistics/hoyer/sequences", "[6,-6]", "/states/1/statistics/hoyer/sequences", "0 -6"},
    {"statistics/hoyer/offset", "[0,0,0]", "/states/1/statistics/hoyer/offset", "6 3"},
    {"statistics/hoyer/z", "[0,0,0,0,0,1e9]", "/states/1/statistics/hoyer", "z zz zn"},
    {"statistics/uniform_distance/offset", "[1]", "/states/1/statistics/uniform_distance/offset", "2 1"},
    {"products", "[1,0,1,0,0,1,1,0,1,0,0,1e308]", "/states/1/products", "2 1e+308 n_allowed"},
};

START_TEST(documents_by_layer_that_cannot_be)
{
    refuse(true, &WRONG_BY_LAYER[_i]);
}
END_TEST

/* Each could be, and all together are more than a number can count. */
START_TEST(too_many_together)
{
    struct random random = {9};
    struct live_sums sums = new_sums(false);
    struct live_merge merge;
    struct error error;
    count_sequence(&sums, &random);
    sums.counts.skipped = 9e15;
    char *one = text_of(&sums, "a", "2026-01-01T00:00:00.000Z", 1), *body = body_of((const char *[]){one, one}, 2, "");
    ck_assert(!live_merge_read(body, strlen(body), NULL, &merge, &error));
    expect_error(&error, ERROR_INVALID, "/states", "2 9007199254740992", "counts");
    live_merge_free(&merge);
    free(body);
    free(one);
    free_sums(&sums);
}
END_TEST

static bool goes_on_for_a_while(void *context, struct error *error)
{
    int *left = context;
    return (*left)-- > 0 || error_set(error, ERROR_CLIENT_GONE, "gone");
}

/* Whoever reads a body for nobody stops soon: within the text, and between documents. */
START_TEST(stops_when_nobody_waits)
{
    enum { DOCUMENTS = 40 };
    struct random random = {9};
    struct live_sums sums = new_sums(false);
    const char *documents[DOCUMENTS];
    struct live_merge merge;
    struct error error;
    count_sequence(&sums, &random);
    char *one = text_of(&sums, "a", "2026-01-01T00:00:00.000Z", 1);
    for (size_t i = 0; i < DOCUMENTS; i++)
        documents[i] = one;
    char *body = body_of(documents, DOCUMENTS, "");
    const size_t length = strlen(body);
    int asked = 0;
    for (int patience = 0;; patience++) {
        int left = patience;
        struct json_watch watch = {goes_on_for_a_while, &left, &error, false};
        const bool read = live_merge_read(body, length, &watch, &merge, &error);
        if (read) {
            ck_assert_uint_eq(merge.documents, DOCUMENTS);
            ck_assert_uint_eq(merge.duplicates, DOCUMENTS - 1);
            asked = patience;
        } else {
            ck_assert_int_eq(error.code, ERROR_CLIENT_GONE);
            ck_assert_int_eq(left, -1);
        }
        live_merge_free(&merge);
        if (read)
            break;
    }
    ck_assert_uint_ge((size_t)asked, DOCUMENTS + length / 65536);
    free(body);
    free(one);
    free_sums(&sums);
}
END_TEST

static const struct {
    const char *body;
    enum error_code code;
    const char *pointer, *words;
} BODIES[] = {
    {"", ERROR_NOT_JSON, NULL, "line 1"},
    {"{\"states\":[", ERROR_NOT_JSON, NULL, "line"},
    {"{\"states\":[NaN]}", ERROR_NOT_JSON, NULL, "line"},
    {"{\"states\":[],\"states\":[]}", ERROR_DUPLICATE_MEMBER, NULL, "states"},
    {"[]", ERROR_INVALID, "", "object states"},
    {"{}", ERROR_INVALID, "/states", "list"},
    {"{\"states\":{}}", ERROR_INVALID, "/states", "list"},
    {"{\"states\":[]}", ERROR_INVALID, "/states", "list"},
    {"{\"states\":[1]}", ERROR_INVALID, "/states/0", "object 1"},
    {"{\"states\":[],\"metric\":\"cosin\"}", ERROR_INVALID, "/metric", "cosin cosine pearson centered"},
    {"{\"states\":[],\"metric\":\"js\"}", ERROR_INVALID, "/metric", "js cosine pearson centered"},
    {"{\"states\":[],\"metric\":1}", ERROR_INVALID, "/metric", "1"},
    {"{\"states\":[],\"threshold\":1.5}", ERROR_INVALID, "/threshold", "1.5 1"},
    {"{\"states\":[],\"threshold\":null}", ERROR_INVALID, "/threshold", "null"},
    {"{\"states\":[],\"treshold\":1}", ERROR_UNKNOWN_MEMBER, "/treshold", "treshold threshold"},
    {"{\"states\":[],\"a/b~\":1}", ERROR_UNKNOWN_MEMBER, "/a~1b~0", "states metric threshold"},
};

START_TEST(bodies_that_cannot_be)
{
    struct live_merge merge;
    struct error error;
    ck_assert(!live_merge_read(BODIES[_i].body, strlen(BODIES[_i].body), NULL, &merge, &error));
    expect_error(&error, BODIES[_i].code, BODIES[_i].pointer, BODIES[_i].words, BODIES[_i].body);
    live_merge_free(&merge);
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("codec/live_merge");
    TCase *t = tcase_create("live_merge");
    tcase_add_loop_test(t, what_is_written_is_read, 0, 8);
    tcase_add_loop_test(t, documents_add_in_any_order_and_grouping, 0, 20);
    tcase_add_test(t, settings_duplicates_and_rates);
    tcase_add_loop_test(t, documents_that_cannot_be, 0, sizeof WRONG / sizeof *WRONG);
    tcase_add_loop_test(t, documents_by_layer_that_cannot_be, 0, sizeof WRONG_BY_LAYER / sizeof *WRONG_BY_LAYER);
    tcase_add_test(t, too_many_together);
    tcase_add_test(t, stops_when_nobody_waits);
    tcase_add_loop_test(t, bodies_that_cannot_be, 0, sizeof BODIES / sizeof *BODIES);
    suite_add_tcase(s, t);
    return s;
}
