#include "base/hex.h"
#include "suite.h"
#include "telemetry/trace_ids.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

START_TEST(words_have_the_digits_of_printf)
{
    uint64_t word = 0;
    for (unsigned i = 0; i < 1000; i++, word = i % 2 ? trace_ids_random() : UINT64_C(0xF) << i % 64) {
        char own[17] = {0}, wanted[17];
        hex_write(own, word);
        snprintf(wanted, sizeof wanted, "%016" PRIx64, word);
        ck_assert_str_eq(own, wanted);
    }
}
END_TEST

START_TEST(ids_are_digits_and_differ)
{
    char before[33] = "", span_before[17] = "";
    for (unsigned i = 0; i < 1000; i++) {
        char id[33], span[17];
        trace_ids_make_trace(id);
        trace_ids_make_span(span);
        ck_assert_uint_eq(strlen(id), 32);
        ck_assert_uint_eq(strspn(id, "0123456789abcdef"), 32);
        ck_assert_uint_eq(strlen(span), 16);
        ck_assert_uint_eq(strspn(span, "0123456789abcdef"), 16);
        ck_assert_str_ne(id, before);
        ck_assert_str_ne(span, span_before);
        strcpy(before, id);
        strcpy(span_before, span);
    }
}
END_TEST

/* Each bit is set half of the time: 10000 words, 12 standard deviations of 50. */
START_TEST(all_bits_are_random)
{
    unsigned set[64] = {0};
    for (unsigned i = 0; i < 10000; i++) {
        uint64_t word = trace_ids_random();
        for (unsigned bit = 0; bit < 64; bit++)
            set[bit] += word >> bit & 1;
    }
    for (unsigned bit = 0; bit < 64; bit++)
        ck_assert_msg(set[bit] > 4400 && set[bit] < 5600, "bit %u: %u of 10000", bit, set[bit]);
}
END_TEST

static void *first_word(void *word)
{
    *(uint64_t *)word = trace_ids_random();
    return NULL;
}

START_TEST(threads_have_different_ones)
{
    enum { THREADS = 4 };
    pthread_t threads[THREADS];
    uint64_t words[THREADS];
    for (unsigned i = 0; i < THREADS; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, first_word, &words[i]), 0);
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    for (unsigned i = 0; i < THREADS; i++)
        for (unsigned j = 0; j < i; j++)
            ck_assert_uint_ne(words[i], words[j]);
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("telemetry/trace_ids");
    TCase *t = tcase_create("trace_ids");
    tcase_add_test(t, words_have_the_digits_of_printf);
    tcase_add_test(t, ids_are_digits_and_differ);
    tcase_add_test(t, all_bits_are_random);
    tcase_add_test(t, threads_have_different_ones);
    suite_add_tcase(s, t);
    return s;
}
