#include "engine/packed_matrix.h"
#include "random.h"
#include "suite.h"

#include <stdlib.h>
#include <string.h>

/* Floats of a packed matrix, as the kernels pack it in one go. */
static float *packed_whole(const struct kernels *k, const float *matrix, size_t depth, size_t columns)
{
    const size_t bytes = depth * kernel_padded(columns) * sizeof(float);
    float *panels = aligned_alloc(64, bytes);
    ck_assert_ptr_nonnull(panels);
    memset(panels, 0, bytes);
    k->pack(matrix, columns, depth, columns, panels);
    return panels;
}

/* The same in bfloat16, panel by panel. Returns the bytes. */
static size_t narrow_whole(const struct kernels *k, const float *panels, size_t depth, size_t columns, uint32_t *pairs)
{
    size_t count = 0;
    for (size_t column = 0; column < columns; column += k->panel_columns) {
        const size_t left = columns - column < k->panel_columns ? columns - column : k->panel_columns;
        const size_t pair = 2 * k->vector_floats, width = k->packed_floats(1, left);
        k->narrow_panel(panels + column * depth, depth, width, pairs + count);
        count += (left + pair - 1) / pair * k->vector_floats * depth;
    }
    ck_assert_uint_le(count, depth * kernel_pairs(columns));
    return count * sizeof *pairs;
}

static void check(const struct kernels *k, size_t depth, size_t columns, enum precision precision,
                  struct random *random)
{
    struct arena arena = {0};
    size_t bytes = 0;
    float *matrix = calloc(depth * columns, sizeof *matrix), *transpose = calloc(depth * columns, sizeof *transpose);
    for (size_t i = 0; i < depth; i++)
        for (size_t j = 0; j < columns; j++)
            matrix[i * columns + j] = transpose[j * depth + i] = (float)random_normal(random);
    float *whole = packed_whole(k, matrix, depth, columns);
    size_t compared = k->packed_floats(depth, columns) * sizeof *whole;
    const void *expected = whole;
    uint32_t *pairs = aligned_alloc(64, depth * kernel_pairs(columns) * sizeof *pairs);
    if (precision == PRECISION_BF16) {
        compared = narrow_whole(k, whole, depth, columns, pairs);
        expected = pairs;
    }

    ck_assert(packed_matrix_need(depth, columns, true, precision, &bytes) && arena_reserve(&arena, bytes));
    for (int by_columns = 0; by_columns < 2; by_columns++) {
        arena_reset(&arena);
        struct packed_matrix packed = packed_matrix_take(depth, columns, true, precision, &arena);
        ck_assert_uint_le(arena.used, bytes);
        void *found = precision == PRECISION_BF16 ? (void *)packed.pairs : packed.panels;
        memset(found, 0xff, compared);
        if (by_columns)
            for (size_t at = 0, n; at < columns; at += n) {
                n = PACKED_COLUMNS * random_size(random, 1, 3);
                n = n < columns - at ? n : columns - at;
                packed_matrix_put_columns(&packed, k, at, n, transpose + at * depth, depth);
            }
        else
            for (size_t at = 0, n; at < depth; at += n) {
                n = random_size(random, 1, depth - at);
                packed_matrix_put_rows(&packed, k, at, n, matrix + at * columns, columns);
            }
        ck_assert_msg(memcmp(found, expected, compared) == 0, "%s: %zu x %zu %s", k->name, depth, columns,
                      by_columns ? "by columns" : "by rows");
        packed_matrix_put_bias(&packed, matrix);
        ck_assert_mem_eq(packed.bias, matrix, columns * sizeof *matrix);
        for (size_t j = columns; j < kernel_padded(columns); j++)
            ck_assert(packed.bias[j] == 0);
    }
    arena_free(&arena);
    free(matrix), free(transpose), free(whole), free(pairs);
}

START_TEST(pieces_make_what_packing_makes_in_one_go)
{
    struct random random = {3};
    for (size_t v = 0; v < KERNEL_VARIANT_COUNT; v++)
        for (size_t i = 0; isa_supported((enum isa)v) && i < 60; i++)
            check(kernel_variants[v], random_size(&random, 1, 90), random_size(&random, 1, 300),
                  i % 2 ? PRECISION_BF16 : PRECISION_F32, &random);
}
END_TEST

START_TEST(sizes_beyond_memory)
{
    size_t total = 0;
    ck_assert(!packed_matrix_need(SIZE_MAX / 8, 64, false, PRECISION_F32, &total));
    ck_assert(!packed_matrix_need(1, SIZE_MAX - 1, true, PRECISION_F32, &total));
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("packed_matrix");
    TCase *c = tcase_create("packed_matrix");
    tcase_add_test(c, pieces_make_what_packing_makes_in_one_go);
    tcase_add_test(c, sizes_beyond_memory);
    suite_add_tcase(s, c);
    return s;
}
