#include "codec/top_k.h"
#include "suite.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define LONGEST 97

/* Selection by taking the best of the rest k times. */
static void check(const float *row, size_t n, size_t k)
{
    uint32_t keys[LONGEST];
    float weights[LONGEST];
    bool taken[LONGEST] = {false};
    top_k_select(row, n, k, keys, weights);
    for (size_t i = 0; i < k; i++) {
        size_t best = n;
        for (size_t j = 0; j < n; j++)
            if (!taken[j] && (best == n || row[j] > row[best]))
                best = j;
        taken[best] = true;
        if (keys[i] != best || memcmp(&weights[i], &row[best], sizeof *row) != 0)
            ck_abort_msg("place %zu of %zu of %zu: expected key %zu, got %u with %g", i, k, n, best, keys[i],
                         (double)weights[i]);
    }
}

/* Few different values: ties everywhere. */
START_TEST(test_random_rows)
{
    float row[LONGEST];
    srand((unsigned)_i);
    for (size_t n = 1; n <= LONGEST; n += 3) {
        for (size_t j = 0; j < n; j++)
            row[j] = (float)(rand() % (_i ? 5 : 1000000)) / 4;
        for (size_t k = 1; k <= n; k++)
            check(row, n, k);
    }
}
END_TEST

START_TEST(test_orders)
{
    float up[LONGEST], down[LONGEST], same[LONGEST];
    for (size_t j = 0; j < LONGEST; j++) {
        up[j] = (float)j;
        down[j] = -(float)j;
        same[j] = 0.25f;
    }
    for (size_t k = 1; k <= LONGEST; k++) {
        check(up, LONGEST, k);
        check(down, LONGEST, k);
        check(same, LONGEST, k);
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
