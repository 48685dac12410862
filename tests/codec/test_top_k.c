#include "codec/largest.h"
#include "codec/top_k.h"
#include "suite.h"

#include <stdlib.h>
#include <string.h>

static void check(const float *row, size_t n, size_t k)
{
    uint32_t keys[LARGEST_ROW], wanted[LARGEST_ROW];
    float weights[LARGEST_ROW];
    top_k_select(row, n, k, keys, weights);
    largest(row, n, k, wanted);
    for (size_t i = 0; i < k; i++)
        if (keys[i] != wanted[i] || memcmp(&weights[i], &row[wanted[i]], sizeof *row) != 0)
            ck_abort_msg("place %zu of %zu of %zu: expected key %u, got %u with %g", i, k, n, wanted[i], keys[i],
                         (double)weights[i]);
}

/* Few different values: ties everywhere. */
START_TEST(test_random_rows)
{
    float row[LARGEST_ROW];
    srand((unsigned)_i);
    for (size_t n = 1; n <= LARGEST_ROW; n += 3) {
        for (size_t j = 0; j < n; j++)
            row[j] = (float)(rand() % (_i ? 5 : 1000000)) / 4;
        for (size_t k = 1; k <= n; k++)
            check(row, n, k);
    }
}
END_TEST

START_TEST(test_orders)
{
    float up[LARGEST_ROW], down[LARGEST_ROW], same[LARGEST_ROW];
    for (size_t j = 0; j < LARGEST_ROW; j++) {
        up[j] = (float)j;
        down[j] = -(float)j;
        same[j] = 0.25f;
    }
    for (size_t k = 1; k <= LARGEST_ROW; k++) {
        check(up, LARGEST_ROW, k);
        check(down, LARGEST_ROW, k);
        check(same, LARGEST_ROW, k);
    }
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("top_k");
    TCase *c = tcase_create("top_k");
    tcase_add_loop_test(c, test_random_rows, 0, 4);
    tcase_add_test(c, test_orders);
    suite_add_tcase(s, c);
    return s;
}
