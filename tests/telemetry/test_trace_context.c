#include "suite.h"
#include "telemetry/trace_context.h"

#include <stdio.h>
#include <string.h>

/* The example of the recommendation. */
#define TRACE       "4bf92f3577b34da6a3ce929d0e0e4736"
#define PARENT      "00f067aa0ba902b7"
#define TRACEPARENT "00-" TRACE "-" PARENT "-01"

static bool reads(struct trace_context *context, const char *text)
{
    return trace_context_read(context, text, strlen(text));
}

START_TEST(a_traceparent_is_read)
{
    struct trace_context context = {0};
    ck_assert(reads(&context, TRACEPARENT));
    ck_assert_str_eq(context.trace_id, TRACE);
    ck_assert_str_eq(context.parent_id, PARENT);
    ck_assert_str_eq(context.span_id, "");
    ck_assert_uint_eq(context.flags, TRACE_SAMPLED);
}
END_TEST

START_TEST(only_known_flags_are_passed_on)
{
    static const struct {
        const char *text;
        unsigned flags;
    } cases[] = {
        {"00-" TRACE "-" PARENT "-00", 0},
        {"00-" TRACE "-" PARENT "-02", TRACE_RANDOM},
        {"00-" TRACE "-" PARENT "-03", TRACE_RANDOM | TRACE_SAMPLED},
        {"00-" TRACE "-" PARENT "-fc", 0},
        {"00-" TRACE "-" PARENT "-ff", TRACE_RANDOM | TRACE_SAMPLED},
        {"00-" TRACE "-" PARENT "-10", 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct trace_context context = {0};
        ck_assert_msg(reads(&context, cases[i].text), "%s", cases[i].text);
        ck_assert_uint_eq(context.flags, cases[i].flags);
    }
}
END_TEST

START_TEST(later_versions_are_read_by_the_fields_of_the_first)
{
    static const char *const later[] = {"01-" TRACE "-" PARENT "-01", "cc-" TRACE "-" PARENT "-01-what-comes",
                                        "fe-" TRACE "-" PARENT "-01-"};
    for (size_t i = 0; i < sizeof later / sizeof *later; i++) {
        struct trace_context context = {0};
        ck_assert_msg(reads(&context, later[i]), "%s", later[i]);
        ck_assert_str_eq(context.trace_id, TRACE);
        ck_assert_uint_eq(context.flags, TRACE_SAMPLED);
    }
}
END_TEST

START_TEST(what_is_malformed_is_refused_and_writes_nothing)
{
    static const char *const wrong[] = {
        "",
        "00",
        "ff-" TRACE "-" PARENT "-01",
        "0-" TRACE "-" PARENT "-01",
        "0g-" TRACE "-" PARENT "-01",
        "0A-" TRACE "-" PARENT "-01",
        TRACEPARENT "-",
        TRACEPARENT "-extra",
        TRACEPARENT "1",
        "01-" TRACE "-" PARENT "-01.what",
        "01-" TRACE "-" PARENT "-011",
        "00-00000000000000000000000000000000-" PARENT "-01",
        "00-" TRACE "-0000000000000000-01",
        "00-4BF92F3577B34DA6A3CE929D0E0E4736-" PARENT "-01",
        "00-" TRACE "-00F067AA0BA902B7-01",
        "00-" TRACE "-" PARENT "-0",
        "00-" TRACE "-" PARENT "-0G",
        "00-" TRACE "-" PARENT "-0A",
        "00-" TRACE "-" PARENT,
        "00_" TRACE "-" PARENT "-01",
        "00-" TRACE "_" PARENT "-01",
        "00-" TRACE "-" PARENT "_01",
        "00-4bf92f3577b34da6a3ce929d0e0e473.-" PARENT "-01",
        "00-4bf92f3577b34da6a3ce929d0e0e4-" PARENT "-01-more",
        " " TRACEPARENT,
        TRACEPARENT "," TRACEPARENT,
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct trace_context context = {.flags = 7}, before = context;
        ck_assert_msg(!reads(&context, wrong[i]), "\"%s\" was taken", wrong[i]);
        ck_assert_mem_eq(&context, &before, sizeof context);
    }
}
END_TEST

START_TEST(a_trace_is_continued_whatever_the_share)
{
    for (int sampled = 0; sampled < 2; sampled++) {
        struct trace_context context = {0};
        const char *text = sampled ? TRACEPARENT : "00-" TRACE "-" PARENT "-00";
        trace_context_begin(&context, text, strlen(text), trace_share(sampled ? 0 : 1));
        ck_assert_str_eq(context.trace_id, TRACE);
        ck_assert_str_eq(context.parent_id, PARENT);
        ck_assert_uint_eq(strlen(context.span_id), 16);
        ck_assert_str_ne(context.span_id, PARENT);
        ck_assert_uint_eq(context.flags, sampled);
    }
}
END_TEST

START_TEST(a_malformed_one_begins_anew)
{
    struct trace_context context = {0};
    trace_context_begin(&context, TRACEPARENT "-", strlen(TRACEPARENT) + 1, trace_share(1));
    ck_assert_str_ne(context.trace_id, TRACE);
    ck_assert_uint_eq(strlen(context.trace_id), 32);
    ck_assert_str_eq(context.parent_id, "");
    ck_assert_uint_eq(context.flags, TRACE_SAMPLED | TRACE_RANDOM);
}
END_TEST

/* By the last 14 digits of the id alone, so that other services can take the same traces. */
START_TEST(blanks_around_the_value_are_none_of_it)
{
    struct trace_context context = {0};
    const char text[] = " \t" TRACEPARENT " \t ";
    trace_context_begin(&context, text, sizeof text - 1, 0);
    ck_assert_str_eq(context.trace_id, TRACE);
    trace_context_begin(&context, " \t ", 3, 0);
    ck_assert_str_ne(context.trace_id, TRACE);
}
END_TEST

START_TEST(new_traces_are_sampled_by_their_ids)
{
    enum { TRACES = 20000 };
    unsigned taken = 0;
    for (unsigned i = 0; i < TRACES; i++) {
        struct trace_context context = {0};
        unsigned long long last;
        trace_context_begin(&context, NULL, 0, trace_share(0.25));
        ck_assert_int_eq(sscanf(context.trace_id + 18, "%14llx", &last), 1);
        /* A quarter of them: those from 3/4 of 2^56 on. */
        ck_assert_int_eq((context.flags & TRACE_SAMPLED) != 0, last >= 0xC0000000000000ull);
        taken += context.flags & TRACE_SAMPLED;
    }
    /* 16 standard deviations of 61. */
    ck_assert_uint_gt(taken, TRACES / 4 - 1000);
    ck_assert_uint_lt(taken, TRACES / 4 + 1000);
}
END_TEST

START_TEST(none_and_all_are_sampled)
{
    for (unsigned i = 0; i < 1000; i++) {
        struct trace_context none = {0}, all = {0};
        trace_context_begin(&none, NULL, 0, trace_share(0));
        trace_context_begin(&all, NULL, 0, trace_share(1));
        ck_assert_uint_eq(none.flags, TRACE_RANDOM);
        ck_assert_uint_eq(all.flags, TRACE_RANDOM | TRACE_SAMPLED);
    }
}
END_TEST

START_TEST(what_is_written_is_read_again)
{
    struct trace_context context = {0}, read = {0};
    char text[TRACEPARENT_LENGTH + 1];
    trace_context_begin(&context, TRACEPARENT, strlen(TRACEPARENT), 0);
    trace_context_write(&context, text);
    ck_assert_uint_eq(strlen(text), TRACEPARENT_LENGTH);
    ck_assert(reads(&read, text));
    ck_assert_str_eq(read.trace_id, TRACE);
    ck_assert_str_eq(read.parent_id, context.span_id);
    ck_assert_uint_eq(read.flags, TRACE_SAMPLED);
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("telemetry/trace_context");
    TCase *t = tcase_create("trace_context");
    tcase_add_test(t, a_traceparent_is_read);
    tcase_add_test(t, only_known_flags_are_passed_on);
    tcase_add_test(t, later_versions_are_read_by_the_fields_of_the_first);
    tcase_add_test(t, what_is_malformed_is_refused_and_writes_nothing);
    tcase_add_test(t, a_trace_is_continued_whatever_the_share);
    tcase_add_test(t, a_malformed_one_begins_anew);
    tcase_add_test(t, blanks_around_the_value_are_none_of_it);
    tcase_add_test(t, new_traces_are_sampled_by_their_ids);
    tcase_add_test(t, none_and_all_are_sampled);
    tcase_add_test(t, what_is_written_is_read_again);
    suite_add_tcase(s, t);
    return s;
}
