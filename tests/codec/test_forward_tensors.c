/* Answers as safetensors, taken apart by jansson and by hand: header, offsets, every bit of every tensor. */
#include "codec/expect.h"
#include "codec/forward_tensors.h"
#include "codec/largest.h"
#include "codec/scene.h"

#include <jansson.h>
#include <math.h>

/* The longest times there are. */
static const struct forward_timing TIMING = {.parse_us = 1.5, .queue_us = 9.9999e14, .compute_us = 123456.78};

/* An answer, its memory and its bytes in one piece. */
struct file {
    struct arena arena;
    struct answer_pieces pieces;
    unsigned char *bytes; /* [length] */
    size_t length;
    json_t *header;
    const unsigned char *data;
};

static void compose(struct scene *s, const char *weights, const char *digest, struct file *file)
{
    const size_t memory = forward_tensors_memory(&s->request, &s->shape, &s->problem);
    struct error error;
    size_t predicted;
    json_error_t fault;
    *file = (struct file){0};
    ck_assert(arena_reserve(&file->arena, memory));
    file->arena.capacity = memory;
    ck_assert(forward_tensors_bytes(&s->request, &s->shape, &s->problem, &predicted, &error));
    ck_assert_msg(forward_tensors_compose(&s->request, &s->shape, &s->problem, &s->result, NULL, weights, digest,
                                          &TIMING, &parallel_serial, &file->arena, &file->pieces, &error),
                  "%s", error.message);
    ck_assert(file->pieces.raw && file->pieces.exact);
    ck_assert_uint_le(file->pieces.most, predicted);
    ck_assert_uint_ge(file->pieces.most + 16384, predicted);
    file->bytes = malloc(file->pieces.most);
    for (size_t i = 0; i < answer_pieces_count(&file->pieces); i++) {
        size_t length;
        const void *piece = answer_pieces_bytes(&file->pieces, i, &length);
        memcpy(file->bytes + file->length, piece, length);
        file->length += length;
    }
    ck_assert_uint_eq(file->length, file->pieces.most);
    size_t header = 0;
    for (int i = 8; i-- > 0;)
        header = header << 8 | file->bytes[i];
    ck_assert_uint_eq(header % 8, 0);
    ck_assert_uint_le(8 + header, file->length);
    ck_assert_int_eq(file->bytes[8], '{');
    file->header = json_loadb((char *)file->bytes + 8, header, JSON_REJECT_DUPLICATES, &fault);
    ck_assert_msg(file->header != NULL, "%s at %d", fault.text, fault.position);
    file->data = file->bytes + 8 + header;
}

static void drop(struct file *file)
{
    json_decref(file->header);
    free(file->bytes);
    arena_free(&file->arena);
}

/* A member of __metadata__, read as the JSON text it is. */
static json_t *metadata(const struct file *file, const char *name)
{
    const json_t *value = json_object_get(json_object_get(file->header, "__metadata__"), name);
    json_error_t fault;
    ck_assert_msg(json_is_string(value), "%s is not a string", name);
    json_t *read = json_loads(json_string_value(value), JSON_DECODE_ANY | JSON_REJECT_DUPLICATES, &fault);
    ck_assert_msg(read != NULL, "%s: %s", name, fault.text);
    return read;
}

static void expect_shape(const json_t *value, const size_t *shape, unsigned rank)
{
    ck_assert_uint_eq(json_array_size(value), rank);
    for (unsigned i = 0; i < rank; i++)
        ck_assert_uint_eq((size_t)json_integer_value(json_array_get(value, i)), shape[i]);
}

/* The bytes of a tensor that begins at *at, behind which *at is moved. */
static const void *expect_entry(const struct file *file, const char *name, const char *dtype, const size_t *shape,
                                unsigned rank, size_t *at)
{
    const json_t *entry = json_object_get(file->header, name), *range = json_object_get(entry, "data_offsets");
    const size_t begin = *at;
    ck_assert_msg(json_object_size(entry) == 3, "%s", name);
    ck_assert_str_eq(json_string_value(json_object_get(entry, "dtype")), dtype);
    expect_shape(json_object_get(entry, "shape"), shape, rank);
    *at += 4 * product(shape, rank);
    ck_assert_uint_eq((size_t)json_integer_value(json_array_get(range, 0)), begin);
    ck_assert_uint_eq((size_t)json_integer_value(json_array_get(range, 1)), *at);
    return file->data + begin;
}

static void expect_kept(const float *map, size_t rows, size_t width, size_t k, const void *keys, const void *weights)
{
    for (size_t row = 0; row < rows; row++) {
        uint32_t wanted[LARGEST_ROW];
        largest(map + row * width, width, k, wanted);
        ck_assert_mem_eq((const char *)keys + 4 * row * k, wanted, 4 * k);
        for (size_t i = 0; i < k; i++)
            ck_assert_mem_eq((const char *)weights + 4 * (row * k + i), map + row * width + wanted[i], 4);
    }
}

static void expect_answer(struct scene *s)
{
    struct file file;
    json_t *value;
    size_t at = 0, entries = 1;
    compose(s, "de\"mo", "abc", &file);
    ck_assert_str_eq(json_string_value(value = metadata(&file, "weights")), "de\"mo");
    json_decref(value);
    ck_assert_str_eq(json_string_value(value = metadata(&file, "digest")), "abc");
    json_decref(value);
    ck_assert_int_eq(json_integer_value(value = metadata(&file, "fully_masked_rows")), 3);
    json_decref(value);
    value = metadata(&file, "timing_us");
    ck_assert_uint_eq(json_object_size(value), 4);
    ck_assert(json_real_value(json_object_get(value, "parse")) == 1.5);
    ck_assert(fabs(json_real_value(json_object_get(value, "compute")) - 123456.78) < 0.06);
    ck_assert(json_real_value(json_object_get(value, "encode")) >= 0);
    json_decref(value);
    if (s->request.id) {
        ck_assert_str_eq(json_string_value(value = metadata(&file, "id")), "x\\\"");
        json_decref(value);
    }
    ck_assert_uint_eq(json_object_size(json_object_get(file.header, "__metadata__")), 5 + (s->request.id != NULL));

    json_t *shapes = metadata(&file, "shapes");
    for (unsigned i = 0; i < FORWARD_RETURN_COUNT; i++) {
        if (!(s->request.returned >> i & 1))
            continue;
        size_t shape[4];
        const unsigned rank = s->ranks[i] - s->problem.rank2;
        memcpy(shape, s->sizes[i] + s->problem.rank2, rank * sizeof *shape);
        expect_shape(json_object_get(shapes, NAMES[i]), shape, rank);
        const size_t width = shape[rank - 1], rows = product(shape, rank - 1);
        if (i == 1 && s->request.top_k) {
            const size_t k = s->request.top_k < width ? s->request.top_k : width;
            shape[rank - 1] = k;
            const void *keys = expect_entry(&file, "attention_keys", "I32", shape, rank, &at);
            expect_kept(s->data[i], rows, width, k, keys,
                        expect_entry(&file, "attention_weights", "F32", shape, rank, &at));
            entries += 2;
        } else {
            const void *data = expect_entry(&file, NAMES[i], "F32", shape, rank, &at);
            ck_assert_mem_eq(data, s->data[i], 4 * product(shape, rank));
            entries++;
        }
    }
    ck_assert_ptr_eq(file.data + at, file.bytes + file.length);
    ck_assert_uint_eq(json_object_size(file.header), entries);
    json_decref(shapes);
    drop(&file);
}

/* All that can be asked, mixed at random. */
START_TEST(random_requests)
{
    static uint32_t heads[] = {4, 1, 0};
    srand((unsigned)_i + 1);
    for (int round = 0; round < 100; round++) {
        struct scene s;
        const bool rank2 = rand() % 2;
        char id[] = "\"x\\\\\\\"\"";
        set_scene(&s, rank2 ? 1 : 1 + (size_t)rand() % 3, 1 + (size_t)rand() % 6, 1 + (size_t)rand() % 12, rank2);
        s.request.returned = 1 + (unsigned)rand() % 63;
        s.request.encoding = ENCODING_SAFETENSORS;
        s.request.decimals = rand() % 2 ? -1 : rand() % 10; /* means nothing */
        s.request.top_k = rand() % 2 ? 0 : 1 + (size_t)rand() % 14;
        if (rand() % 2) {
            s.request.include_heads = heads;
            s.request.n_include_heads = 1 + (size_t)rand() % 3;
        }
        s.request.id = rand() % 2 ? NULL : id;
        fill_scene(&s);
        expect_answer(&s);
        free_scene(&s);
    }
}
END_TEST

START_TEST(results_are_not_copied_and_carry_everything)
{
    struct scene s;
    struct file file;
    size_t length;
    set_scene(&s, 1, 2, 2, false);
    fill_scene(&s);
    s.data[0][0] = NAN;
    s.data[0][1] = -INFINITY;
    s.data[0][2] = -0.0f;
    compose(&s, "demo", "abc", &file);
    ck_assert_uint_eq(answer_pieces_count(&file.pieces), 3);
    ck_assert_ptr_eq(answer_pieces_bytes(&file.pieces, 1, &length), s.data[0]);
    ck_assert_ptr_eq(answer_pieces_bytes(&file.pieces, 2, &length), s.data[1]);
    ck_assert_mem_eq(file.data, s.data[0], 2 * 7 * sizeof(float));
    drop(&file);
    free_scene(&s);
}
END_TEST

/* The longest id and name, and extents of many digits: within what is predicted. */
START_TEST(the_longest_header)
{
    char id[256 * 12 + 3], name[65], digest[65];
    struct scene s;
    struct file file;
    json_t *value;
    id[0] = '"';
    for (size_t i = 0; i < 256; i++)
        memcpy(id + 1 + 12 * i, "\\ud83d\\ude00", 12);
    memcpy(id + 1 + 256 * 12, "\"", 2);
    memset(name, '\x01', 64); /* no set may have this name; its text is six times as long */
    memset(digest, 'f', 64);
    name[64] = digest[64] = '\0';
    set_scene(&s, 11, 1, 1001, false);
    s.request.returned = 63;
    s.request.top_k = 1001;
    s.request.id = id;
    fill_scene(&s);
    compose(&s, name, digest, &file);
    ck_assert_str_eq(json_string_value(value = metadata(&file, "weights")), name);
    json_decref(value);
    ck_assert_uint_eq(json_string_length(value = metadata(&file, "id")), 256 * 4);
    json_decref(value);
    drop(&file);
    free_scene(&s);
}
END_TEST

START_TEST(little_memory)
{
    struct scene s;
    struct error error;
    set_scene(&s, 2, 3, 40, false);
    s.request.returned = 63;
    s.request.top_k = 30;
    fill_scene(&s);
    const size_t memory = forward_tensors_memory(&s.request, &s.shape, &s.problem);
    ck_assert_uint_ge(memory, 2 * 5 * 3 * 30 * 8);
    ck_assert_uint_le(memory, 2 * 5 * 3 * 30 * 8 + 16384);
    for (size_t less = 0; less < memory; less += ARENA_ALIGNMENT) {
        struct arena arena = {0};
        struct answer_pieces pieces;
        if (less)
            ck_assert(arena_reserve(&arena, less));
        arena.capacity = less;
        ck_assert(!forward_tensors_compose(&s.request, &s.shape, &s.problem, &s.result, NULL, "demo", "abc", &TIMING,
                                           &parallel_serial, &arena, &pieces, &error));
        ck_assert_int_eq(error.code, ERROR_OUT_OF_MEMORY);
        arena_free(&arena);
    }
    free_scene(&s);
}
END_TEST

START_TEST(sizes_beyond_memory)
{
    struct scene s;
    struct error error;
    size_t bytes = 7;
    set_scene(&s, 1, (size_t)1 << 31, (size_t)1 << 31, false);
    ck_assert(!forward_tensors_bytes(&s.request, &s.shape, &s.problem, &bytes, &error));
    expect_error(&error, ERROR_TOO_LARGE, NULL, "attention include_heads", "sizes");
    ck_assert_uint_eq(bytes, 7);
    s.request.top_k = SIZE_MAX;
    ck_assert(!forward_tensors_bytes(&s.request, &s.shape, &s.problem, &bytes, &error));
    ck_assert_uint_eq(forward_tensors_memory(&s.request, &s.shape, &s.problem), SIZE_MAX);
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("forward_tensors");
    TCase *c = tcase_create("forward_tensors");
    tcase_add_loop_test(c, random_requests, 0, 8);
    tcase_add_test(c, results_are_not_copied_and_carry_everything);
    tcase_add_test(c, the_longest_header);
    tcase_add_test(c, little_memory);
    tcase_add_test(c, sizes_beyond_memory);
    suite_add_tcase(s, c);
    return s;
}
