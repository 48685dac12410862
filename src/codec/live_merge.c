/* Reading of state documents, and their sum. A worker. */
#include "codec/live_state.h"

#include "base/nearest.h"
#include "base/size.h"
#include "codec/json_document.h"
#include "codec/state_members.h"
#include "codec/state_sums.h"
#include "json/pointer.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What rounding may make of an inequality that holds for the exact sums. */
#define SLACK 1e-5

/* No value of a row is more than the number of its keys, which is counted in 32 bits. */
#define VALUE_MOST 4294967296.0

/* No document of a set that can be loaded has more. */
#define HEADS_MOST  65536
#define LAYERS_MOST 4096

/* a^2 <= b c. */
static bool cauchy_schwarz(double a, double b, double c)
{
    return fabs(a) <= sqrt(b) * sqrt(c) * (1 + SLACK) + 1e-300;
}

/* What traffic can have, of one part. */
static bool check_sums(const struct state_reading *r, const struct live_counts *counts, const struct state_sums *sums,
                       size_t part, const char *place)
{
    const double sequences = sums->sequences[part * sums->stride], n = sums->n[part * sums->stride],
                 nn = sums->nn[part * sums->stride];
    const double *values[STATE_VALUES];
    for (size_t i = 0; i < STATE_VALUES; i++)
        values[i] = sums->values[i] + part * sums->values_stride;
    if (sequences != floor(sequences) || (sequences > 0) != (n > 0) || !cauchy_schwarz(n, sequences, nn) ||
        nn > n * n * (1 + SLACK))
        return state_impossible(r, place, "sequences, n and nn do not fit together");
    if (n < sequences || sequences > counts->sequences || n > counts->rows)
        return state_impossible(r, place, "sequences and n do not fit n_sequences and n_rows");
    for (size_t i = 0; i < sums->count; i++) {
        const double offset = values[STATE_OFFSET][i], z = values[STATE_Z][i], zz = values[STATE_ZZ][i];
        if (fabs(offset) > VALUE_MOST || fabs(z) > 2 * VALUE_MOST * n || zz > 4 * VALUE_MOST * VALUE_MOST * nn)
            return state_impossible(r, place, "offset, z and zz are beyond the values that rows have");
        /* zz is a difference of larger numbers where sums about other offsets were added. */
        const double squares = zz + SLACK * SLACK * offset * offset * nn;
        if (!(squares >= 0) || !cauchy_schwarz(values[STATE_ZN][i], squares, nn) ||
            !cauchy_schwarz(z, squares, sequences))
            return state_impossible(r, place, "z, zz and zn do not fit together");
    }
    return true;
}

static bool take_sums(const struct state_reading *r, const struct live_counts *counts, const struct state_sums *sums)
{
    const json_t *object = json_object_get(json_object_get(r->document, "statistics"), sums->name);
    const size_t parts = sums->parts;
    char place[80];
    snprintf(place, sizeof place, "statistics/%s", sums->name);
    if (!json_is_object(object))
        return state_wrong(r, place, object, "an object with the statistic's sums");
    if (!state_take_parts(r, object, place, "sequences", sums->sequences, parts, sums->stride) ||
        !state_take_parts(r, object, place, "n", sums->n, parts, sums->stride) ||
        !state_take_parts(r, object, place, "nn", sums->nn, parts, sums->stride))
        return false;
    for (size_t i = 0; i < STATE_VALUES; i++)
        if (!state_take_list(r, object, place, state_value_names[i],
                             (struct state_numbers){sums->values[i], parts, sums->values_stride, sums->count}))
            return false;
    for (size_t part = 0; part < parts; part++)
        if (!check_sums(r, counts, sums, part, place))
            return false;
    return true;
}

static bool check_products(const struct state_reading *r, const struct live_sums *sums)
{
    char found[128];
    for (size_t layer = 0; layer < sums->num_layers; layer++) {
        const struct live_keys *keys = &sums->keys[live_sums_part(sums, layer)];
        for (size_t a = 0; a < sums->num_heads; a++) {
            const double aa = live_sums_product(sums, layer, a, a);
            if (!(aa >= 0 && aa <= keys->allowed * (1 + SLACK))) {
                snprintf(found, sizeof found, "the product of head %zu with itself is %.6g, %s", a, aa,
                         aa >= 0 ? "more than n_allowed" : "below 0");
                return state_impossible(r, "products", found);
            }
            for (size_t b = 0; b < a; b++) {
                const double bb = live_sums_product(sums, layer, b, b), ab = live_sums_product(sums, layer, a, b);
                if (!cauchy_schwarz(ab, aa, bb) || !cauchy_schwarz(ab + keys->even, aa + keys->even, bb + keys->even)) {
                    snprintf(found, sizeof found,
                             "the product of heads %zu and %zu is %.6g, more than their norms allow", b, a, ab);
                    return state_impossible(r, "products", found);
                }
            }
        }
    }
    return true;
}

static bool check_counts(const struct state_reading *r, const struct live_counts *counts)
{
    if (counts->sequences > counts->rows || (counts->rows > 0) != (counts->sequences > 0))
        return state_impossible(r, "n_rows", "there is a row at least in each of n_sequences");
    return true;
}

/* Of a part of so many rows. */
static bool check_keys(const struct state_reading *r, const struct live_keys *keys, double rows)
{
    if (keys->allowed < rows)
        return state_impossible(r, "n_allowed", "there is a key at least for each of n_rows");
    if (keys->even > rows * (1 + SLACK))
        return state_impossible(r, "even", "it is at most n_rows");
    if (!cauchy_schwarz(rows, keys->even, keys->allowed))
        return state_impossible(r, "even", "it is at least n_rows * n_rows / n_allowed");
    return true;
}

/* Once the statistics are there: where each layer has keys of its own, those have its rows. */
static bool take_keys(const struct state_reading *r, struct live_sums *sums)
{
    const size_t parts = sums->num_parts;
    struct live_keys *keys = sums->keys;
    if (!state_take_parts(r, r->document, "", "n_allowed", &keys->allowed, parts, STATE_KEYS_STRIDE) ||
        !state_take_parts(r, r->document, "", "even", &keys->even, parts, STATE_KEYS_STRIDE))
        return false;
    for (size_t part = 0; part < parts; part++) {
        const double rows = parts == 1 ? sums->counts.rows : live_sums_of(sums, part, 0, STATISTIC_ENTROPY).n;
        if (!state_is_count(keys[part].allowed))
            return state_wrong(r, "n_allowed", json_object_get(r->document, "n_allowed"), STATE_COUNT_WORDS);
        if (!check_keys(r, &keys[part], rows))
            return false;
    }
    return true;
}

/* What of a document the sums' sizes follow from. */
static bool take_shape(const struct state_reading *r, struct live_shape *shape)
{
    const json_t *allowed = json_object_get(r->document, "n_allowed");
    double n_layers, n_heads;
    const char *format = state_text(r, "format");
    if (!json_is_object(r->document))
        return state_wrong(r, "", r->document, "an object, as GET /v1/heads/state gives it");
    if (!format || strcmp(format, LIVE_STATE_FORMAT) != 0)
        return state_wrong(r, "format", json_object_get(r->document, "format"),
                           "\"" LIVE_STATE_FORMAT "\", the form that this version reads and writes");
    if (!state_take_number(r, r->document, "", "num_layers", 0, &n_layers) ||
        !state_take_number(r, r->document, "", "num_heads", 0, &n_heads))
        return false;
    if (n_layers != floor(n_layers) || n_layers < 1 || n_layers > LAYERS_MOST)
        return state_wrong(r, "num_layers", json_object_get(r->document, "num_layers"), "a whole number, 1 to 4096");
    if (n_heads != floor(n_heads) || n_heads < 1 || n_heads > HEADS_MOST)
        return state_wrong(r, "num_heads", json_object_get(r->document, "num_heads"), "a whole number, 1 to 65536");
    *shape = (struct live_shape){.num_layers = (size_t)n_layers, .num_heads = (size_t)n_heads};
    shape->by_layer = shape->num_layers > 1 && json_is_array(allowed);
    if (shape->by_layer && json_array_size(allowed) != shape->num_layers)
        return state_wrong(r, "n_allowed", allowed, "a number, or a list of num_layers");
    return true;
}

/* state->sums is empty, and of the document's shape. */
static bool take_document(const struct state_reading *r, struct live_state *state)
{
    struct live_sums *sums = &state->sums;
    struct live_counts *counts = &sums->counts;
    const json_t *rate = json_object_get(r->document, "sample_rate");
    if (!state_text(r, "weights"))
        return state_wrong(r, "weights", json_object_get(r->document, "weights"), "a string");
    if (!state_take_text(r, "instance", state->instance, sizeof state->instance) ||
        !state_take_text(r, "digest", state->digest, sizeof state->digest) ||
        !state_take_since(r, state->since, sizeof state->since) ||
        !state_take_count(r, "n_sequences", &counts->sequences) || !state_take_count(r, "n_rows", &counts->rows) ||
        !state_take_count(r, "n_excluded", &counts->excluded) || !state_take_count(r, "n_skipped", &counts->skipped) ||
        !check_counts(r, counts))
        return false;
    if (!json_is_null(rate) && !json_is_number(rate))
        return state_wrong(r, "sample_rate", rate, "a number or null");
    state->sample_rate = json_is_null(rate) ? (double)NAN : json_number_value(rate);
    for (size_t i = 0; i < LIVE_STATISTIC_COUNT; i++)
        if (!take_sums(r, counts, (struct state_sums[]){state_sums_of_statistic(sums, i)}))
            return false;
    for (size_t i = 0; i < LIVE_BASELINE_COUNT; i++)
        if (!take_sums(r, counts, (struct state_sums[]){state_sums_of_baseline(sums, i)}))
            return false;
    const size_t products = sums->num_layers * live_sums_pairs(sums->num_heads);
    return take_keys(r, sums) &&
           state_take_list(r, r->document, "", "products", (struct state_numbers){sums->products, 1, 0, products}) &&
           check_products(r, sums);
}

/* Who has counted what was added up, whatever the order. */
static void mix_instance(char *instance, const char *other)
{
    uint64_t hash = 14695981039346656037u; /* FNV-1a */
    for (const char *c = other; *c; c++)
        hash = (hash ^ (unsigned char)*c) * 1099511628211u;
    char *end;
    const uint64_t before = strncmp(instance, "sum-", 4) == 0 ? strtoull(instance + 4, &end, 16) : 0;
    snprintf(instance, 64, "sum-%016llx", (unsigned long long)(before + hash));
}

static void add_document(struct live_merge *merge, const struct live_state *state)
{
    struct live_state *sum = &merge->sum;
    if (merge->documents == 0 || strcmp(state->since, sum->since) < 0)
        strcpy(sum->since, state->since);
    if (merge->documents == 0)
        sum->sample_rate = state->sample_rate;
    else if (!(sum->sample_rate == state->sample_rate))
        sum->sample_rate = (double)NAN;
    mix_instance(sum->instance, state->instance);
    live_sums_merge(&sum->sums, &state->sums);
    merge->documents++;
}

/* Whose sums a document has. */
struct origin {
    const char *instance, *since;
};

static int compare_origins(const void *a, const void *b)
{
    const struct origin *one = a, *other = b;
    const int order = strcmp(one->instance, other->instance);
    return order ? order : strcmp(one->since, other->since);
}

/* Of documents that were read. */
static bool count_duplicates(const json_t *states, struct live_merge *merge)
{
    const size_t count = json_array_size(states);
    struct origin *origins = calloc(count, sizeof *origins);
    if (!origins)
        return false;
    for (size_t i = 0; i < count; i++) {
        const json_t *document = json_array_get(states, i);
        origins[i] = (struct origin){json_string_value(json_object_get(document, "instance")),
                                     json_string_value(json_object_get(document, "since"))};
    }
    qsort(origins, count, sizeof *origins, compare_origins);
    for (size_t i = 1; i < count; i++)
        merge->duplicates += compare_origins(&origins[i - 1], &origins[i]) == 0;
    free(origins);
    return true;
}

/* What was added up can be written, and read again. */
static bool check_sum(const struct live_merge *merge, struct error *error)
{
    const struct live_counts *counts = &merge->sum.sums.counts;
    double most = 0;
    for (size_t part = 0; part < merge->sum.sums.num_parts; part++)
        most = fmax(most, merge->sum.sums.keys[part].allowed);
    const double all[] = {counts->sequences, counts->rows, counts->excluded, counts->skipped, most};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i] > STATE_COUNT_MOST)
            return error_set_at(error, ERROR_INVALID, "/states",
                                "the first %zu documents together count to %.17g, expected %.0f at most, up to which "
                                "counts are exact: send fewer",
                                merge->documents, all[i], STATE_COUNT_MOST);
    return true;
}

/* Memory for two sums and the name, by the first document. */
static bool begin(struct live_merge *merge, struct live_state *one, const struct state_reading *r,
                  struct live_shape shape)
{
    const char *name = state_text(r, "weights");
    size_t bytes, both;
    if (!name)
        return state_wrong(r, "weights", json_object_get(r->document, "weights"), "a string");
    if (!live_sums_bytes(shape, &bytes) || !size_multiply(bytes, 2, &both) ||
        !size_add(both, strlen(name) + 1, &both) || !(merge->memory = malloc(both)))
        return error_out_of_memory(r->error);
    live_sums_init(&merge->sum.sums, shape, merge->memory);
    live_sums_init(&one->sums, shape, (char *)merge->memory + bytes);
    merge->sum.weights = strcpy((char *)merge->memory + 2 * bytes, name);
    return true;
}

/* That a document can be read at its size is seen before memory is taken. */
static bool has_products(const struct state_reading *r, struct live_shape shape)
{
    const json_t *products = json_object_get(r->document, "products");
    const size_t count = shape.num_layers * live_sums_pairs(shape.num_heads);
    char expected[128];
    if (json_is_array(products) && json_array_size(products) == count)
        return true;
    snprintf(expected, sizeof expected, "a list of %zu numbers, num_layers * num_heads * (num_heads + 1) / 2", count);
    return state_wrong(r, "products", products, expected);
}

/* From the first document. */
static bool differs(const struct state_reading *r, const char *name, const json_t *first)
{
    char there[96], expected[192];
    state_describe(json_object_get(first, name), there, sizeof there);
    snprintf(expected, sizeof expected, "%s as in document 0 (only traffic of the same weights adds up)", there);
    return state_wrong(r, name, json_object_get(r->document, name), expected);
}

static bool read_states(const json_t *states, struct json_watch *watch, struct live_merge *merge, struct error *error)
{
    struct live_state one = {0};
    if (!json_is_array(states) || json_array_size(states) == 0) {
        char got[96];
        state_describe(states, got, sizeof got);
        return error_set_at(error, ERROR_INVALID, "/states",
                            "expected a list of state documents, as GET /v1/heads/state gives them, got %s", got);
    }
    for (size_t i = 0; i < json_array_size(states); i++) {
        const struct state_reading r = {json_array_get(states, i), i, error};
        struct live_shape shape = {0};
        if (!json_watch_goes_on(watch))
            return false;
        if (!take_shape(&r, &shape))
            return false;
        if (i > 0 && shape.num_layers != merge->sum.sums.num_layers)
            return differs(&r, "num_layers", json_array_get(states, 0));
        if (i > 0 && shape.num_heads != merge->sum.sums.num_heads)
            return differs(&r, "num_heads", json_array_get(states, 0));
        if (!has_products(&r, shape) || (i == 0 && !begin(merge, &one, &r, shape)))
            return false;
        live_sums_clear(&one.sums);
        if (!take_document(&r, &one))
            return false;
        if (i == 0)
            strcpy(merge->sum.digest, one.digest);
        if (strcmp(merge->sum.digest, one.digest) != 0)
            return differs(&r, "digest", json_array_get(states, 0));
        add_document(merge, &one);
        if (!check_sum(merge, error))
            return false;
    }
    return count_duplicates(states, merge) || error_out_of_memory(error);
}

static bool read_settings(const json_t *body, struct live_merge *merge, struct error *error)
{
    static const char *const metrics[] = {"cosine", "pearson", "centered"};
    const json_t *metric = json_object_get(body, "metric"), *threshold = json_object_get(body, "threshold");
    const char *name = json_string_value(metric);
    char got[96];
    size_t i = 0;
    while (metric && i < 3 && !(name && strcmp(name, metrics[i]) == 0))
        i++;
    if (i == 3) {
        const char *nearest = name ? nearest_name(name, metrics, 3) : NULL;
        state_describe(metric, got, sizeof got);
        return error_set_at(error, ERROR_INVALID, "/metric",
                            "expected \"cosine\", \"pearson\" or \"centered\", which follow from sums, got %s%s%s%s",
                            got, nearest ? "; did you mean \"" : "", nearest ? nearest : "", nearest ? "\"?" : "");
    }
    merge->metric = i;
    merge->threshold = 0.9;
    if (!threshold)
        return true;
    merge->threshold = json_number_value(threshold);
    if (!json_is_number(threshold) || !(merge->threshold >= -1 && merge->threshold <= 1)) {
        state_describe(threshold, got, sizeof got);
        return error_set_at(error, ERROR_INVALID, "/threshold", "expected a similarity from -1 to 1, got %s", got);
    }
    return true;
}

static bool check_members(const json_t *body, struct error *error)
{
    static const char *const known[] = {"states", "metric", "threshold"};
    char pointer[256];
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)body, key, value)
    {
        if (strcmp(key, known[0]) == 0 || strcmp(key, known[1]) == 0 || strcmp(key, known[2]) == 0)
            continue;
        const char *nearest = nearest_name(key, known, 3);
        return error_set_at(error, ERROR_UNKNOWN_MEMBER, json_pointer_of(key, pointer, sizeof pointer),
                            "unknown member \"%.100s\"%s%s%s", key,
                            nearest ? "; did you mean \"" : "; known: states, metric, threshold",
                            nearest ? nearest : "", nearest ? "\"?" : "");
    }
    return true;
}

bool live_merge_read(const char *body, size_t length, struct json_watch *watch, struct live_merge *merge,
                     struct error *error)
{
    json_error_t fault;
    bool out_of_memory;
    *merge = (struct live_merge){0};
    json_t *document = json_document_read(body, length, watch, &fault, &out_of_memory);
    if (watch && watch->stopped)
        return false;
    if (out_of_memory)
        return error_out_of_memory(error);
    if (!document)
        return error_set(error,
                         json_error_code(&fault) == json_error_duplicate_key ? ERROR_DUPLICATE_MEMBER : ERROR_NOT_JSON,
                         "line %d, column %d: %s", fault.line, fault.column, fault.text);
    const bool read = json_is_object(document)
                          ? check_members(document, error) && read_settings(document, merge, error) &&
                                read_states(json_object_get(document, "states"), watch, merge, error)
                          : error_set_at(error, ERROR_INVALID, "", "expected an object with the member states");
    json_decref(document);
    return read;
}

void live_merge_free(struct live_merge *merge)
{
    free(merge->memory);
    merge->memory = NULL;
}
