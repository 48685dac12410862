/* Answers as pieces: the whole against text that is spelled out here, and any way of cutting it against the whole. */
#include "base/clock.h"
#include "codec/answer_pieces.h"
#include "suite.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define WIDTH 17

static const float NUMBERS[3 * WIDTH] = {1, -2.5f, 1e-20f, 0.1f, 3e20f, 7};
static const uint32_t KEYS[] = {4, 0, 4294967295u, 12};
static const size_t SHAPE[] = {3, WIDTH}, KEY_SHAPE[] = {2, 2};
static const char RAW[] = "the quick brown fox";

/* Text, rows, text, integers, base64, raw bytes, the time, text: each kind, some side by side. */
static void build(struct answer_pieces *pieces, struct arena *arena)
{
    size_t bytes = 0;
    ck_assert(answer_pieces_need(&bytes, 9, 100));
    ck_assert(arena_reserve(arena, bytes));
    arena->capacity = bytes;
    ck_assert(answer_pieces_init(pieces, arena, 9, 100));
    text_append_string(&pieces->literal, "{\"a\":");
    text_append_string(&pieces->literal, "1,\"rows\":");
    answer_pieces_add_rows(pieces,
                           &(struct tensor_rows){NUMBERS, SHAPE, 2, -1, tensor_write_number_bytes(-1), NULL, false});
    text_append_string(&pieces->literal, ",\"keys\":");
    answer_pieces_add_rows(pieces, &(struct tensor_rows){NULL, KEY_SHAPE, 2, -1, 11, KEYS, false});
    text_append_string(&pieces->literal, ",\"b\":\"");
    answer_pieces_add_base64(pieces, RAW, sizeof RAW - 1);
    answer_pieces_add_bytes(pieces, "\",\"raw\":\"plain\",\"us\":", 21);
    answer_pieces_add_written_us(pieces);
    text_append_string(&pieces->literal, "}");
    ck_assert(answer_pieces_end(pieces));
}

/* Python: base64.b64encode(b"the quick brown fox") */
static const char EXPECTED[] =
    "{\"a\":1,\"rows\":[[1.0,-2.5,1e-20,0.1,3e20,7.0,0.0,0.0,0.0,0.0,0.0,0.0,0.0,0.0,0.0,0.0,0.0],"
    "[0.0,0.0,0.0,0.0,0.0,0.0,0.0,0.0,0.0,0.0,0.0,0.0,0.0,0.0,0.0,0.0,0.0],"
    "[0.0,0.0,0.0,0.0,0.0,0.0,0.0,0.0,0.0,0.0,0.0,0.0,0.0,0.0,0.0,0.0,0.0]],"
    "\"keys\":[[4,0],[4294967295,12]],\"b\":\"dGhlIHF1aWNrIGJyb3duIGZveA==\",\"raw\":\"plain\",\"us\":";

static void expect_text(const char *text, size_t length)
{
    const size_t known = sizeof EXPECTED - 1;
    ck_assert_uint_eq(length, known + 16 + 1);
    ck_assert_mem_eq(text, EXPECTED, known);
    char *end, time[17] = {0};
    memcpy(time, text + known, 16);
    ck_assert(strtod(time, &end) >= 0 && end == time + 16);
    ck_assert_int_eq(text[length - 1], '}');
}

START_TEST(test_whole)
{
    struct answer_pieces pieces;
    struct arena arena = {0};
    build(&pieces, &arena);
    ck_assert(!pieces.exact && !pieces.raw);
    ck_assert_uint_eq(pieces.widest, WIDTH * tensor_write_number_bytes(-1) + 4);
    char *text = malloc(pieces.most);
    const size_t length =
        (size_t)(answer_pieces_write(&pieces, answer_pieces_begin(), answer_pieces_behind(&pieces), text) - text);
    ck_assert(pieces.least <= length && length <= pieces.most);
    expect_text(text, length);
    ck_assert_uint_gt(pieces.written_ns, 0);
    free(text);
    arena_free(&arena);
}
END_TEST

START_TEST(test_whole_since_its_beginning)
{
    struct answer_pieces pieces;
    struct arena arena = {0};
    build(&pieces, &arena);
    char *text = malloc(pieces.most);
    const size_t length = (size_t)(answer_pieces_write_whole(&pieces, clock_ns() - CLOCK_SECOND, text) - text);
    expect_text(text, length);
    ck_assert(pieces.written_ns >= CLOCK_SECOND);
    ck_assert(strtod(text + sizeof EXPECTED - 1, NULL) >= 1e6);
    free(text);
    arena_free(&arena);
}
END_TEST

/* Ranges of any capacity, each in memory that is just as long, and written in any order. */
START_TEST(test_ranges)
{
    struct answer_pieces pieces;
    struct arena arena = {0};
    build(&pieces, &arena);
    srand(5);
    for (int round = 0; round < 300; round++) {
        struct {
            struct answer_cursor from, to;
            size_t bytes, length;
            char *text;
        } ranges[500];
        size_t count = 0;
        struct answer_cursor cursor = answer_pieces_begin();
        while (!answer_pieces_at_end(&pieces, cursor)) {
            const size_t capacity = pieces.widest + (round ? (size_t)rand() % 400 : 0);
            ranges[count].from = cursor;
            ranges[count].bytes = answer_pieces_advance(&pieces, &cursor, capacity);
            ck_assert(ranges[count].bytes > 0 && ranges[count].bytes <= capacity);
            ranges[count].to = cursor;
            ranges[count].text = malloc(ranges[count].bytes);
            count++;
        }
        ck_assert_uint_gt(count, 1);
        for (size_t i = count; i-- > 0;) {
            const char *behind = answer_pieces_write(&pieces, ranges[i].from, ranges[i].to, ranges[i].text);
            ranges[i].length = (size_t)(behind - ranges[i].text);
            ck_assert(ranges[i].length > 0 && ranges[i].length <= ranges[i].bytes);
        }
        struct text joined = {0};
        for (size_t i = 0; i < count; i++) {
            text_append(&joined, ranges[i].text, ranges[i].length);
            free(ranges[i].text);
        }
        expect_text(joined.data, joined.length);
        text_free(&joined);
    }
    arena_free(&arena);
}
END_TEST

/* Base64 and bytes have a length that is known, and fill what they are read into. */
START_TEST(test_exact)
{
    struct answer_pieces pieces;
    struct arena arena = {0};
    unsigned char data[1000];
    char whole[1400], read[1400];
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (unsigned char)(i * 7);
    for (size_t length = 990; length <= 1000; length++) {
        ck_assert(arena_reserve(&arena, 4096));
        ck_assert(answer_pieces_init(&pieces, &arena, 3, 10));
        text_append_string(&pieces.literal, "\"");
        answer_pieces_add_base64(&pieces, data, length);
        text_append_string(&pieces.literal, "\"");
        ck_assert(answer_pieces_end(&pieces));
        ck_assert(pieces.exact && !pieces.raw);
        ck_assert_uint_eq(pieces.most, 2 + (length + 2) / 3 * 4);
        ck_assert_uint_eq(pieces.least, pieces.most);
        ck_assert_ptr_eq(answer_pieces_write(&pieces, answer_pieces_begin(), answer_pieces_behind(&pieces), whole),
                         whole + pieces.most);
        size_t done = 0;
        for (struct answer_cursor from = answer_pieces_begin(), to = from; done < pieces.most; from = to) {
            const size_t block = pieces.most - done < 100 ? pieces.most - done : 100,
                         taken = answer_pieces_advance(&pieces, &to, block);
            ck_assert(taken > 96 || taken == block); /* less than a unit stays empty */
            ck_assert_ptr_eq(answer_pieces_write(&pieces, from, to, read + done), read + done + taken);
            done += taken;
        }
        ck_assert_mem_eq(read, whole, pieces.most);
        arena_reset(&arena);
    }
    arena_free(&arena);
}
END_TEST

START_TEST(test_raw)
{
    struct answer_pieces pieces;
    struct arena arena = {0};
    size_t length;
    ck_assert(arena_reserve(&arena, 4096));
    ck_assert(answer_pieces_init(&pieces, &arena, 2, 10));
    text_append_string(&pieces.literal, "head");
    answer_pieces_add_bytes(&pieces, RAW, 3);
    answer_pieces_add_bytes(&pieces, RAW, 0); /* no piece */
    ck_assert(answer_pieces_end(&pieces));
    ck_assert(pieces.exact && pieces.raw);
    ck_assert_uint_eq(pieces.most, 7);
    ck_assert_uint_eq(answer_pieces_count(&pieces), 2);
    ck_assert_mem_eq(answer_pieces_bytes(&pieces, 0, &length), "head", 4);
    ck_assert_uint_eq(length, 4);
    ck_assert_ptr_eq(answer_pieces_bytes(&pieces, 1, &length), RAW);
    ck_assert_uint_eq(length, 3);
    arena_free(&arena);
}
END_TEST

/* What the building was not given room for, and sizes that no memory has, are told at its end. */
START_TEST(test_failures)
{
    struct answer_pieces pieces;
    struct arena arena = {0};
    const size_t huge[] = {SIZE_MAX / 4, 8}, large[] = {SIZE_MAX / 32, 1};
    size_t bytes = 0;
    ck_assert(!answer_pieces_need(&bytes, SIZE_MAX / 8, 0));
    ck_assert(!answer_pieces_init(&pieces, &arena, 1, 1));
    ck_assert(arena_reserve(&arena, 4096));
    ck_assert(answer_pieces_init(&pieces, &arena, 1, 4));
    text_append_string(&pieces.literal, "12345");
    ck_assert(!answer_pieces_end(&pieces));
    arena_reset(&arena);
    ck_assert(answer_pieces_init(&pieces, &arena, 1, 4));
    answer_pieces_add_bytes(&pieces, RAW, 3);
    answer_pieces_add_bytes(&pieces, RAW, 3);
    ck_assert(!answer_pieces_end(&pieces));
    arena_reset(&arena);
    ck_assert(answer_pieces_init(&pieces, &arena, 2, 4));
    answer_pieces_add_rows(&pieces, &(struct tensor_rows){NUMBERS, huge, 2, -1, 16, NULL, false});
    ck_assert(!answer_pieces_end(&pieces));
    arena_reset(&arena);
    ck_assert(answer_pieces_init(&pieces, &arena, 3, 4));
    for (int i = 0; i < 3; i++)
        answer_pieces_add_rows(&pieces, &(struct tensor_rows){NUMBERS, large, 2, -1, 16, NULL, false});
    ck_assert(!answer_pieces_end(&pieces));
    arena_reset(&arena);
    ck_assert(answer_pieces_init(&pieces, &arena, 2, 4));
    answer_pieces_add_base64(&pieces, RAW, SIZE_MAX / 2 + 1);
    answer_pieces_add_bytes(&pieces, RAW, 1);
    ck_assert(!answer_pieces_end(&pieces));
    arena_free(&arena);
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("answer_pieces");
    TCase *c = tcase_create("answer_pieces");
    tcase_add_test(c, test_whole);
    tcase_add_test(c, test_whole_since_its_beginning);
    tcase_add_test(c, test_ranges);
    tcase_add_test(c, test_exact);
    tcase_add_test(c, test_raw);
    tcase_add_test(c, test_failures);
    suite_add_tcase(s, c);
    return s;
}
