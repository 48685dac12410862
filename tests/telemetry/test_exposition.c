/* The very text of both formats. */
#include "telemetry/exposition.h"

#include "suite.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static struct text text;

static struct exposition begin(enum exposition_format format)
{
    text = (struct text){0};
    return (struct exposition){.text = &text, .format = format};
}

static void expect(const char *wanted)
{
    ck_assert_str_eq(text_terminate(&text), wanted);
    text_free(&text);
}

static void write_counters(struct exposition *exposition)
{
    exposition_family(exposition, METRIC_REQUEST_BODY);
    exposition_integer(exposition, NULL, UINT64_MAX);
    exposition_family(exposition, METRIC_REQUESTS);
    exposition_integer(exposition, (const char *const[]){"/v1/\"a\"", "back\\slash", "two\nlines"}, 0);
    exposition_end(exposition);
}

START_TEST(counters)
{
    struct exposition plain = begin(EXPOSITION_PROMETHEUS);
    write_counters(&plain);
    expect("# HELP attnd_request_body_bytes_total Bytes of bodies that came, as they were sent.\n"
           "# TYPE attnd_request_body_bytes_total counter\n"
           "attnd_request_body_bytes_total 18446744073709551615\n"
           "# HELP attnd_requests_total Requests that are over; code 499 is a client that left before any answer.\n"
           "# TYPE attnd_requests_total counter\n"
           "attnd_requests_total{route=\"/v1/\\\"a\\\"\",method=\"back\\\\slash\",code=\"two\\nlines\"} 0\n");
    struct exposition open = begin(EXPOSITION_OPENMETRICS);
    write_counters(&open);
    expect("# HELP attnd_request_body_bytes Bytes of bodies that came, as they were sent.\n"
           "# TYPE attnd_request_body_bytes counter\n"
           "# UNIT attnd_request_body_bytes bytes\n"
           "attnd_request_body_bytes_total 18446744073709551615\n"
           "# HELP attnd_requests Requests that are over; code 499 is a client that left before any answer.\n"
           "# TYPE attnd_requests counter\n"
           "attnd_requests_total{route=\"/v1/\\\"a\\\"\",method=\"back\\\\slash\",code=\"two\\nlines\"} 0\n"
           "# EOF\n");
}
END_TEST

START_TEST(infos_and_gauges)
{
    for (enum exposition_format format = EXPOSITION_PROMETHEUS; format <= EXPOSITION_OPENMETRICS; format++) {
        struct exposition exposition = begin(format);
        exposition_family(&exposition, METRIC_BUILD);
        exposition_integer(&exposition, (const char *const[]){"1.2.3", "avx"}, 1);
        exposition_family(&exposition, METRIC_READY);
        exposition_number(&exposition, NULL, 0.1);
        exposition_number(&exposition, NULL, (double)NAN);
        exposition_number(&exposition, NULL, (double)INFINITY);
        exposition_number(&exposition, NULL, -(double)INFINITY);
        const char *got = text_terminate(&text);
        ck_assert_ptr_nonnull(strstr(got, format == EXPOSITION_PROMETHEUS ? "# TYPE attnd_build_info gauge\n"
                                                                          : "# TYPE attnd_build info\n"));
        ck_assert_ptr_nonnull(strstr(got, "\nattnd_build_info{version=\"1.2.3\",isa=\"avx\"} 1\n"));
        ck_assert_ptr_nonnull(strstr(got, "\nattnd_ready 0.1\nattnd_ready NaN\nattnd_ready +Inf\nattnd_ready -Inf\n"));
        text_free(&text);
    }
}
END_TEST

/* Nine places, which is enough for a sum; and far out the shortest text. */
START_TEST(numbers_as_text)
{
    static const struct {
        double value;
        const char *text;
    } numbers[] = {{0, "0.0"},
                   {1, "1.0"},
                   {0.5, "0.5"},
                   {-0.25, "-0.25"},
                   {1e-9, "0.000000001"},
                   {4e-10, "0.0"},
                   {0.9999999996, "1.0"},
                   {1234567.000000001, "1234567.000000001"},
                   {1796005559.5, "1796005559.5"},
                   {999999999999999, "999999999999999.0"},
                   {1e15, "1e15"},
                   {1.5e300, "1.5e300"}};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        struct exposition exposition = begin(EXPOSITION_PROMETHEUS);
        char wanted[64];
        exposition.metric = METRIC_READY;
        exposition_number(&exposition, NULL, numbers[i].value);
        snprintf(wanted, sizeof wanted, "attnd_ready %s\n", numbers[i].text);
        expect(wanted);
    }
}
END_TEST

/* Each value is in the first bucket whose bound is not below it. */
START_TEST(buckets_of_durations)
{
    static const struct {
        uint64_t ns;
        unsigned bucket;
    } values[] = {{0, 0},       {50000, 0},        {50001, 1},        {100000, 1},         {1000000, 4},
                  {1000001, 5}, {60000000000, 18}, {60000000001, 19}, {UINT64_MAX / 2, 19}};
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        struct histogram histogram = {0};
        ck_assert_uint_eq(histogram_add_duration(&histogram, values[i].ns), values[i].bucket);
        ck_assert(histogram.buckets[values[i].bucket] == 1 && histogram.sum == values[i].ns);
        ck_assert_uint_eq(histogram_total(&histogram), 1);
    }
    for (unsigned i = 0; i < duration_scale.count; i++) { /* the texts are the bounds */
        ck_assert(fabs(atof(duration_scale.text[i]) * 1e9 - (double)duration_scale.bounds[i]) < 1e-3);
        ck_assert(i == 0 || duration_scale.bounds[i] > duration_scale.bounds[i - 1]);
    }
}
END_TEST

START_TEST(histograms)
{
    struct histogram histogram = {0};
    struct exemplar exemplars[HISTOGRAM_BUCKETS] = {0};
    for (uint64_t i = 1; i <= 3; i++)
        histogram_add_count(&histogram, i);
    histogram_add_count(&histogram, 1000);
    exemplars[2] = (struct exemplar){"4bf92f3577b34da6a3ce929d0e0e4736", 3, UINT64_C(1700000000250000000)};
    struct exposition plain = begin(EXPOSITION_PROMETHEUS);
    plain.metric = METRIC_BATCH_REQUESTS;
    exposition_histogram(&plain, NULL, &count_scale, &histogram, exemplars);
    expect("attnd_batch_requests_bucket{le=\"1.0\"} 1\nattnd_batch_requests_bucket{le=\"2.0\"} 2\n"
           "attnd_batch_requests_bucket{le=\"4.0\"} 3\nattnd_batch_requests_bucket{le=\"8.0\"} 3\n"
           "attnd_batch_requests_bucket{le=\"16.0\"} 3\nattnd_batch_requests_bucket{le=\"32.0\"} 3\n"
           "attnd_batch_requests_bucket{le=\"64.0\"} 3\nattnd_batch_requests_bucket{le=\"+Inf\"} 4\n"
           "attnd_batch_requests_sum 1006.0\nattnd_batch_requests_count 4\n");
    struct exposition open = begin(EXPOSITION_OPENMETRICS);
    open.metric = METRIC_BATCH_REQUESTS;
    exposition_histogram(&open, NULL, &count_scale, &histogram, exemplars);
    ck_assert_ptr_nonnull(strstr(text_terminate(&text),
                                 "{le=\"4.0\"} 3 # {trace_id=\"4bf92f3577b34da6a3ce929d0e0e4736\"} 3.0 "
                                 "1700000000.250\n"));
    ck_assert_ptr_nonnull(strstr(text.data, "{le=\"2.0\"} 2\n"));
    text_free(&text);
}
END_TEST

/* Without memory nothing is written, and it can be seen. */
START_TEST(text_that_is_too_long)
{
    char buffer[64];
    struct exposition exposition = begin(EXPOSITION_PROMETHEUS);
    text_init_fixed(&text, buffer, sizeof buffer);
    write_counters(&exposition);
    ck_assert(text.failed);
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("telemetry/exposition");
    TCase *c = tcase_create("text");
    tcase_add_test(c, counters);
    tcase_add_test(c, infos_and_gauges);
    tcase_add_test(c, numbers_as_text);
    tcase_add_test(c, buckets_of_durations);
    tcase_add_test(c, histograms);
    tcase_add_test(c, text_that_is_too_long);
    suite_add_tcase(s, c);
    return s;
}
