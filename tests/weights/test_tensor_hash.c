/* Hashes of tensors against their definition, computed number by number. */
#include "suite.h"

#include "weights/tensor_hash.h"

#include <nettle/sha2.h>
#include <stdlib.h>
#include <string.h>

static float number(size_t row, size_t column)
{
    return (float)(row * 1000 + column) * 0.25f - 7;
}

/* The definition: [height, width] is the tensor, or of a matrix its transpose. */
static void define(size_t rows, size_t columns, bool matrix, uint8_t bytes[TENSOR_HASH_BYTES])
{
    const size_t height = matrix ? columns : rows, width = matrix ? rows : columns;
    struct sha256_ctx all;
    sha256_init(&all);
    for (size_t top = 0; top < height; top += 64)
        for (size_t left = 0; left < width; left += 64) {
            uint8_t tile[SHA256_DIGEST_SIZE];
            struct sha256_ctx sha;
            sha256_init(&sha);
            for (size_t i = top; i < top + 64 && i < height; i++)
                for (size_t j = left; j < left + 64 && j < width; j++) {
                    const float value = matrix ? number(j, i) : number(i, j);
                    sha256_update(&sha, sizeof value, (const uint8_t *)&value);
                }
            sha256_digest(&sha, sizeof tile, tile);
            sha256_update(&all, sizeof tile, tile);
        }
    sha256_digest(&all, TENSOR_HASH_BYTES, bytes);
}

static void check(size_t rows, size_t columns, bool matrix, bool by_columns, size_t piece)
{
    const size_t count = by_columns ? columns : rows, length = by_columns ? rows : columns;
    uint8_t wanted[TENSOR_HASH_BYTES], got[TENSOR_HASH_BYTES];
    struct tensor_hash hash;
    struct error error;
    ck_assert(tensor_hash_create(rows, columns, matrix, &hash, &error));
    for (size_t first = 0; first < count; first += piece) {
        const size_t n = count - first < piece ? count - first : piece;
        float *lines = malloc(n * length * sizeof *lines); /* no longer: what lies behind is not read */
        for (size_t i = 0; i < n; i++)
            for (size_t j = 0; j < length; j++)
                lines[i * length + j] = by_columns ? number(j, first + i) : number(first + i, j);
        tensor_hash_add(&hash, by_columns, first, n, lines);
        free(lines);
    }
    tensor_hash_write(&hash, got);
    tensor_hash_free(&hash);
    define(rows, columns, matrix, wanted);
    ck_assert_msg(memcmp(got, wanted, sizeof got) == 0, "[%zu, %zu], matrix %d, by columns %d, pieces of %zu", rows,
                  columns, matrix, by_columns, piece);
}

START_TEST(any_order_and_piece)
{
    static const size_t sizes[][2] = {{1, 1}, {1, 200}, {64, 64}, {63, 65}, {130, 70}, {70, 130}, {200, 1}, {192, 128}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int matrix = 0; matrix < 2; matrix++)
            for (int by_columns = 0; by_columns < 2; by_columns++)
                for (size_t piece = 64; piece <= 192; piece += 64)
                    check(sizes[i][0], sizes[i][1], matrix, by_columns, piece);
}
END_TEST

START_TEST(what_overflows_is_no_memory)
{
    struct tensor_hash hash;
    struct error error;
    ck_assert(!tensor_hash_create(SIZE_MAX, SIZE_MAX, false, &hash, &error));
    ck_assert_int_eq(error.code, ERROR_OUT_OF_MEMORY);
    tensor_hash_free(&hash);
}
END_TEST

Suite *suite(void)
{
    Suite *suite = suite_create("weights/tensor_hash");
    TCase *c = tcase_create("tensor_hash");
    tcase_add_test(c, any_order_and_piece);
    tcase_add_test(c, what_overflows_is_no_memory);
    suite_add_tcase(suite, c);
    return suite;
}
