/* Answers read back by jansson: members, shapes, every number, and the length that was predicted. */
#include "codec/expect.h"
#include "codec/forward_answer.h"
#include "codec/largest.h"
#include "codec/scene.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>

/* Composes in just the memory that is predicted, and appends the whole to *text by way of memory that is just as long
 * as the pieces say, so that a sanitizer sees a write behind the end. */
static bool encode_into(struct scene *s, const char *weights, const char *digest, const struct forward_timing *timing,
                        struct text *text, struct error *error)
{
    const size_t bytes = forward_answer_memory(&s->request, &s->shape, &s->problem);
    struct arena arena = {0};
    struct answer_pieces pieces;
    ck_assert(arena_reserve(&arena, bytes));
    arena.capacity = bytes;
    const bool right = forward_answer_compose(&s->request, &s->shape, &s->problem, &s->result, NULL, weights, digest,
                                              timing, &parallel_serial, &arena, &pieces, error);
    if (right) {
        char *whole = malloc(pieces.most);
        const char *behind = answer_pieces_write(&pieces, answer_pieces_begin(), answer_pieces_behind(&pieces), whole);
        const size_t length = (size_t)(behind - whole);
        ck_assert_uint_le(length, pieces.most);
        if (pieces.exact)
            ck_assert_uint_eq(length, pieces.most);
        ck_assert_int_eq(pieces.exact, s->request.encoding == ENCODING_BASE64);
        text_append(text, whole, length);
        free(whole);
    }
    arena_free(&arena);
    return right;
}

static json_t *parse(const struct text *text)
{
    json_error_t fault;
    json_t *answer = json_loadb(text->data, text->length, JSON_REJECT_DUPLICATES | JSON_DECODE_INT_AS_REAL, &fault);
    ck_assert_msg(answer, "%s at %d", fault.text, fault.position);
    return answer;
}

static json_t *encode(struct scene *s, struct text *text)
{
    const struct forward_timing timing = {.parse_us = 1.5, .queue_us = 0, .compute_us = 123456.78};
    struct error error;
    size_t bytes;
    ck_assert(forward_answer_bytes(&s->request, &s->shape, &s->problem, &bytes, &error));
    const size_t before = text->length;
    ck_assert_msg(encode_into(s, "de\"mo", "abc", &timing, text, &error), "%s", error.message);
    ck_assert_uint_le(text->length - before, bytes);
    return parse(text);
}

static void expect_shape(const json_t *value, const size_t *shape, unsigned rank)
{
    ck_assert_uint_eq(json_array_size(value), rank);
    for (unsigned i = 0; i < rank; i++)
        ck_assert_uint_eq((size_t)json_number_value(json_array_get(value, i)), shape[i]);
}

/* The numbers of nested arrays of this shape, in order, into `to`; returns the place behind. */
static double *flatten(const json_t *value, const size_t *shape, unsigned rank, double *to)
{
    if (rank == 0) {
        if (!json_is_number(value))
            ck_abort_msg("not a number among numbers");
        *to = json_number_value(value);
        return to + 1;
    }
    ck_assert_uint_eq(json_array_size(value), shape[0]);
    for (size_t i = 0; i < shape[0]; i++)
        to = flatten(json_array_get(value, i), shape + 1, rank - 1, to);
    return to;
}

/* {"shape", "dtype", "base64"} of this shape: its words of 32 bits, decoded bit by bit. */
static uint32_t *words_of(const json_t *form, const char *dtype, const size_t *shape, unsigned rank)
{
    static const char ALPHABET[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    size_t count = product(shape, rank), done = 0;
    uint32_t *words = calloc(count, sizeof *words), bits = 0;
    unsigned held = 0;
    ck_assert_uint_eq(json_object_size(form), 3);
    expect_shape(json_object_get(form, "shape"), shape, rank);
    ck_assert_str_eq(json_string_value(json_object_get(form, "dtype")), dtype);
    const char *text = json_string_value(json_object_get(form, "base64"));
    ck_assert_uint_eq(strlen(text), (4 * count + 2) / 3 * 4);
    for (; *text && *text != '='; text++) {
        bits = bits << 6 | (uint32_t)(strchr(ALPHABET, *text) - ALPHABET);
        held += 6;
        if (held >= 8) {
            held -= 8;
            ((unsigned char *)words)[done++] = (unsigned char)(bits >> held);
        }
    }
    ck_assert_uint_eq(done, 4 * count);
    return words;
}

static void expect_plain(const struct scene *s, const json_t *value, const float *data, const size_t *shape,
                         unsigned rank)
{
    size_t count = product(shape, rank);
    if (s->request.encoding == ENCODING_BASE64) {
        uint32_t *words = words_of(value, "f32", shape, rank);
        ck_assert(memcmp(words, data, count * sizeof *data) == 0);
        free(words);
        return;
    }
    double *numbers = malloc(count * sizeof *numbers);
    ck_assert_ptr_eq(flatten(value, shape, rank, numbers), numbers + count);
    for (size_t i = 0; i < count; i++) {
        if (s->request.decimals < 0)
            ck_assert((float)numbers[i] == data[i]);
        else
            ck_assert_msg(fabs(numbers[i] - (double)data[i]) <=
                              0.5 * pow(10, -s->request.decimals) + 1e-7 * fabs((double)data[i]),
                          "%g as %g", (double)data[i], numbers[i]);
    }
    free(numbers);
}

static void expect_top_k(const struct scene *s, const json_t *value, const float *data, const size_t *shape,
                         unsigned rank, size_t k)
{
    size_t width = shape[rank - 1], rows = product(shape, rank - 1), kept_shape[4];
    memcpy(kept_shape, shape, rank * sizeof *shape);
    kept_shape[rank - 1] = k;
    float *weights = malloc(rows * k * sizeof *weights);
    double *keys = malloc(rows * k * sizeof *keys);
    ck_assert_uint_eq(json_object_size(value), 4);
    expect_shape(json_object_get(value, "shape"), shape, rank);
    ck_assert_uint_eq((size_t)json_number_value(json_object_get(value, "top_k")), k);
    if (s->request.encoding == ENCODING_BASE64) {
        uint32_t *words = words_of(json_object_get(value, "keys"), "i32", kept_shape, rank);
        for (size_t i = 0; i < rows * k; i++)
            keys[i] = words[i];
        free(words);
    } else {
        flatten(json_object_get(value, "keys"), kept_shape, rank, keys);
    }
    for (size_t row = 0; row < rows; row++) {
        uint32_t wanted[LARGEST_ROW];
        largest(data + row * width, width, k, wanted);
        for (size_t i = 0; i < k; i++) {
            ck_assert(keys[row * k + i] == wanted[i]);
            weights[row * k + i] = data[row * width + wanted[i]];
        }
    }
    expect_plain(s, json_object_get(value, "weights"), weights, kept_shape, rank);
    free(weights);
    free(keys);
}

static void expect_answer(struct scene *s)
{
    struct text text = {0};
    text_append_string(&text, "    "); /* what stands before is kept; white space, so that it is read along */
    json_t *answer = encode(s, &text);
    ck_assert(memcmp(text.data, "    {", 5) == 0);
    ck_assert_str_eq(json_string_value(json_object_get(answer, "weights")), "de\"mo");
    ck_assert_str_eq(json_string_value(json_object_get(answer, "digest")), "abc");
    ck_assert(json_number_value(json_object_get(answer, "fully_masked_rows")) == 3);
    json_t *timing = json_object_get(answer, "timing_us"), *shapes = json_object_get(answer, "shapes");
    ck_assert_uint_eq(json_object_size(timing), 4);
    ck_assert(json_number_value(json_object_get(timing, "parse")) == 1.5);
    ck_assert(json_number_value(json_object_get(timing, "queue")) == 0);
    ck_assert(fabs(json_number_value(json_object_get(timing, "compute")) - 123456.78) < 0.06);
    ck_assert(json_number_value(json_object_get(timing, "encode")) >= 0);
    unsigned returned = 0;
    for (unsigned i = 0; i < FORWARD_RETURN_COUNT; i++) {
        json_t *value = json_object_get(answer, NAMES[i]);
        ck_assert(!value == !(s->request.returned >> i & 1));
        if (!value)
            continue;
        returned++;
        const size_t *shape = s->sizes[i] + s->problem.rank2;
        unsigned rank = s->ranks[i] - s->problem.rank2;
        expect_shape(json_object_get(shapes, NAMES[i]), shape, rank);
        size_t top_k = s->request.top_k < s->problem.key_length ? s->request.top_k : s->problem.key_length;
        if (i == 1 && s->request.top_k)
            expect_top_k(s, value, s->data[i], shape, rank, top_k);
        else
            expect_plain(s, value, s->data[i], shape, rank);
    }
    ck_assert_uint_eq(json_object_size(shapes), returned);
    ck_assert_uint_eq(json_object_size(answer), 5 + returned + (s->request.id != NULL));
    json_decref(answer);
    text_free(&text);
}

/* All that can be asked, mixed at random. */
START_TEST(test_random_requests)
{
    static uint32_t heads[] = {4, 1, 0};
    srand((unsigned)_i + 1);
    for (int round = 0; round < 150; round++) {
        struct scene s;
        bool rank2 = rand() % 2;
        set_scene(&s, rank2 ? 1 : 1 + (size_t)rand() % 3, 1 + (size_t)rand() % 6, 1 + (size_t)rand() % 12, rank2);
        s.request.returned = 1 + (unsigned)rand() % 63;
        s.request.decimals = rand() % 2 ? -1 : rand() % 10;
        s.request.encoding = rand() % 3 == 0 ? ENCODING_BASE64 : ENCODING_JSON;
        s.request.top_k = rand() % 2 ? 0 : 1 + (size_t)rand() % 14;
        if (rand() % 2) {
            s.request.include_heads = heads;
            s.request.n_include_heads = 1 + (size_t)rand() % 3;
        }
        char id[] = "\"x\"";
        s.request.id = rand() % 2 ? NULL : id;
        fill_scene(&s);
        expect_answer(&s);
        free_scene(&s);
    }
}
END_TEST

/* Names come in the order of the contract, timing_us at the end. */
START_TEST(test_order_and_text)
{
    struct scene s;
    struct text text = {0};
    char id[] = "42";
    set_scene(&s, 1, 1, 2, true);
    s.shape.num_heads = 1;
    s.shape.d_model = 2;
    s.request.id = id;
    fill_scene(&s);
    s.data[0][0] = 0.1f;
    s.data[0][1] = -0.0f;
    s.data[1][0] = 0.75f;
    s.data[1][1] = 0.25f;
    json_decref(encode(&s, &text));
    const char expected[] =
        "{\"id\":42,\"weights\":\"de\\\"mo\",\"digest\":\"abc\",\"shapes\":{\"output\":[1,2],\"attention\":[1,1,2]},"
        "\"output\":[[0.1,-0.0]],\"attention\":[[[0.75,0.25]]],\"fully_masked_rows\":3,\"timing_us\":{\"parse\":1.5,"
        "\"queue\":0.0,\"compute\":123456.8,\"encode\":";
    ck_assert_uint_gt(text.length, sizeof expected);
    text.data[sizeof expected - 1] = '\0';
    ck_assert_str_eq(text.data, expected);
    text.length = 0;
    s.request.decimals = 1;
    s.request.top_k = 1;
    json_decref(encode(&s, &text));
    ck_assert_str_eq(text_terminate(&text) ? "" : "failed", "");
    ck_assert_ptr_nonnull(strstr(text.data, "\"output\":[[0.1,0.0]],\"attention\":{\"shape\":[1,1,2],\"top_k\":1,"
                                            "\"keys\":[[[0]]],\"weights\":[[[0.8]]]},"));
    text_free(&text);
    free_scene(&s);
}
END_TEST

/* The worst that every form can need is still within the prediction, and the prediction is not silly. */
START_TEST(test_bound)
{
    static const float WORST[] = {-1.37751935e-36f, -3.4028234e38f, 1.0f};
    for (int worst = 0; worst < 3; worst++)
        for (int decimals = -1; decimals < 10; decimals++)
            for (int form = 0; form < 4; form++) {
                struct scene s;
                struct error error;
                size_t bytes;
                set_scene(&s, 2, 4, 50, false);
                s.request.returned = 63;
                s.request.decimals = decimals;
                s.request.encoding = form & 1 ? ENCODING_BASE64 : ENCODING_JSON;
                s.request.top_k = form & 2 ? 30 : 0;
                fill_scene(&s);
                size_t numbers = 0;
                for (unsigned i = 0; i < FORWARD_RETURN_COUNT; i++) {
                    size_t count = product(s.sizes[i], s.ranks[i]);
                    numbers += count;
                    for (size_t j = 0; j < count; j++)
                        s.data[i][j] = i == 1 ? (worst == 2 ? 1.0000001f : 1.37751935e-36f) : WORST[worst];
                }
                struct text text = {0};
                json_decref(encode(&s, &text));
                ck_assert(forward_answer_bytes(&s.request, &s.shape, &s.problem, &bytes, &error));
                if (decimals < 0 && form == 0)
                    ck_assert_uint_le(bytes, 20 * numbers + 4096);
                if (form == 1)
                    ck_assert_uint_le(bytes, 16 * numbers / 3 + 4096);
                const size_t memory = forward_answer_memory(&s.request, &s.shape, &s.problem),
                             kept = form & 2 ? 2 * 5 * 4 * 30 * 8 : 0;
                ck_assert_uint_ge(memory, kept);
                ck_assert_uint_le(memory, kept + 16384);
                text_free(&text);
                free_scene(&s);
            }
}
END_TEST

/* The worst of everything at once is within what is predicted: the longest id and name, the longest
 * times, every number the longest of its form, extents of one and of many digits. */
START_TEST(test_worst_is_predicted)
{
    static const struct {
        size_t batch, queries, keys, heads, d_model, d_k, d_v;
        bool rank2;
    } SIZES[] = {
        {1, 1, 1, 1, 1, 1, 1, true},      {1, 1, 1, 1, 1, 1, 1, false},  {2, 3, 11, 10, 20, 2, 2, false},
        {1, 1, 1001, 1, 1, 1, 1, true},   {11, 1, 1, 1, 1, 1, 1, false}, {1, 10, 1, 2, 1, 1, 1, true},
        {100, 1, 1, 1, 1, 1, 100, false},
    };
    static const unsigned SETS[] = {RETURN_OUTPUT, RETURN_ATTENTION, 63};
    static const float WORST[] = {-1.17549435e-38f, -3.4028234e38f, 1.17549435e-38f, -9.99999999e-5f};
    char id[256 * 12 + 3], name[65], digest[65];
    id[0] = '"';
    for (size_t i = 0; i < 256; i++)
        memcpy(id + 1 + 12 * i, "\\ud83d\\ude00", 12);
    memcpy(id + 1 + 256 * 12, "\"", 2);
    memset(name, '\x01', 64); /* no set may have this name; its text is six times as long */
    memset(digest, 'f', 64);
    name[64] = digest[64] = '\0';
    for (size_t worst = 0; worst < sizeof WORST / sizeof *WORST; worst++)
        for (int decimals = -1; decimals < 10; decimals++)
            for (int form = 0; form < 4; form++)
                for (size_t set = 0; set < sizeof SETS / sizeof *SETS; set++) {
                    struct scene s;
                    struct error error;
                    struct text text = {0};
                    const struct forward_timing timing = {9.9999e14, 9.9999e14, 9.9999e14};
                    size_t bytes;
                    set_scene(&s, SIZES[_i].batch, SIZES[_i].queries, SIZES[_i].keys, SIZES[_i].rank2);
                    s.shape.num_heads = SIZES[_i].heads;
                    s.shape.d_model = SIZES[_i].d_model;
                    s.shape.d_k = SIZES[_i].d_k;
                    s.shape.d_v = SIZES[_i].d_v;
                    s.request.returned = SETS[set];
                    s.request.decimals = decimals;
                    s.request.encoding = form & 1 ? ENCODING_BASE64 : ENCODING_JSON;
                    s.request.top_k = form & 2 ? SIZE_MAX : 0;
                    s.request.id = id;
                    fill_scene(&s);
                    for (unsigned i = 0; i < FORWARD_RETURN_COUNT; i++)
                        for (size_t j = 0; s.data[i] && j < product(s.sizes[i], s.ranks[i]); j++)
                            s.data[i][j] = i == 1 ? 1.17549435e-38f : WORST[worst];
                    s.result.fully_masked_rows = SIZE_MAX;
                    ck_assert(forward_answer_bytes(&s.request, &s.shape, &s.problem, &bytes, &error));
                    ck_assert_msg(encode_into(&s, name, digest, &timing, &text, &error), "%s", error.message);
                    ck_assert_uint_le(text.length, bytes);
                    json_decref(parse(&text));
                    text_free(&text);
                    free_scene(&s);
                }
}
END_TEST

/* A map with a number that no weight can be is written whole all the same. */
START_TEST(test_impossible_weights)
{
    struct scene s;
    set_scene(&s, 1, 2, 40, false);
    s.request.decimals = 3;
    fill_scene(&s);
    for (size_t i = 0; i < product(s.sizes[1], 4); i++)
        s.data[1][i] = -3e38f;
    const struct forward_timing timing = {0};
    struct text text = {0};
    struct error error;
    ck_assert(encode_into(&s, "a", "b", &timing, &text, &error));
    json_t *answer = json_loadb(text.data, text.length, JSON_DECODE_INT_AS_REAL, NULL);
    ck_assert_ptr_nonnull(answer);
    json_decref(answer);
    text_free(&text);
    free_scene(&s);
}
END_TEST

START_TEST(test_not_finite)
{
    static const struct {
        unsigned tensor;
        size_t at;
        float value;
        bool rank2;
        const char *words;
    } CASES[] = {
        {0, 2 * 7 + 3, INFINITY, false, "output[0][2][3] infinity"},
        {0, (4 + 1) * 7 + 6, -INFINITY, false, "output[1][1][6] infinity"},
        {1, ((5 + 4) * 4 + 2) * 6 + 5, NAN, false, "attention[1][4][2][5] NaN"},
        {2, 1, NAN, true, "heads[0][0][1] NaN"},
        {3, 2, INFINITY, true, "query[0][0][2] infinity base64"},
        {5, ((5 + 4) * 6 + 5) * 2 + 1, NAN, false, "value[1][4][5][1] NaN"},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++)
        for (int top_k = 0; top_k < 2; top_k++) {
            struct scene s;
            set_scene(&s, CASES[i].rank2 ? 1 : 2, 4, 6, CASES[i].rank2);
            s.request.returned = 63;
            s.request.top_k = (size_t)top_k;
            fill_scene(&s);
            s.data[CASES[i].tensor][CASES[i].at] = CASES[i].value;
            const struct forward_timing timing = {0};
            struct text text = {0};
            struct error error;
            text_append_string(&text, "before");
            ck_assert(!encode_into(&s, "a", "b", &timing, &text, &error));
            expect_error(&error, ERROR_NOT_FINITE, NULL, CASES[i].words, NAMES[CASES[i].tensor]);
            ck_assert_uint_eq(text.length, 6);
            s.request.encoding = ENCODING_BASE64;
            text.length = 0;
            json_t *answer = encode(&s, &text);
            if (!(CASES[i].tensor == 1 && top_k)) {
                unsigned tensor = CASES[i].tensor, rank2 = s.problem.rank2;
                uint32_t *words = words_of(json_object_get(answer, NAMES[tensor]), "f32", s.sizes[tensor] + rank2,
                                           s.ranks[tensor] - rank2);
                ck_assert(memcmp(&words[CASES[i].at], &CASES[i].value, sizeof(float)) == 0);
                free(words);
            }
            json_decref(answer);
            text_free(&text);
            free_scene(&s);
        }
}
END_TEST

START_TEST(test_overflow)
{
    struct scene s;
    struct error error;
    size_t bytes = 5;
    set_scene(&s, (size_t)1 << 22, (size_t)1 << 22, (size_t)1 << 22, false);
    ck_assert(!forward_answer_bytes(&s.request, &s.shape, &s.problem, &bytes, &error));
    expect_error(&error, ERROR_TOO_LARGE, NULL, "attention", "overflow");
    s.request.encoding = ENCODING_BASE64;
    ck_assert(!forward_answer_bytes(&s.request, &s.shape, &s.problem, &bytes, &error));
    ck_assert_uint_eq(bytes, 5);
    s.request.top_k = (size_t)1 << 22;
    ck_assert_uint_eq(forward_answer_memory(&s.request, &s.shape, &s.problem), SIZE_MAX);
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("forward_answer");
    TCase *c = tcase_create("forward_answer");
    tcase_add_loop_test(c, test_random_requests, 0, 4);
    tcase_add_test(c, test_order_and_text);
    tcase_add_test(c, test_bound);
    tcase_add_loop_test(c, test_worst_is_predicted, 0, 7);
    tcase_add_test(c, test_impossible_weights);
    tcase_add_test(c, test_not_finite);
    tcase_add_test(c, test_overflow);
    suite_add_tcase(s, c);
    return s;
}
