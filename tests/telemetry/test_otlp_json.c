/* Read back by jansson, an independent reader. */
#include "suite.h"
#include "telemetry/otlp_json.h"

#include <jansson.h>
#include <string.h>

static struct otlp_attribute service[] = {{(char[]){"service.name"}, (char[]){"a\"b\\\n"}}};
static const struct otlp_resource resource = {service, 1, "1.2.3"};

static json_t *written(const struct trace_record *records, size_t count)
{
    struct text text = {0};
    json_error_t fault;
    otlp_json_write(&text, &resource, records, count);
    ck_assert(!text.failed);
    json_t *document = json_loadb(text.data, text.length, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &fault);
    ck_assert_msg(document != NULL, "%s: %.*s", fault.text, (int)text.length, text.data);
    text_free(&text);
    return document;
}

static const json_t *spans_of(const json_t *document)
{
    const json_t *one = json_array_get(json_object_get(document, "resourceSpans"), 0);
    return json_object_get(json_array_get(json_object_get(one, "scopeSpans"), 0), "spans");
}

static const char *attribute(const json_t *span, const char *key)
{
    size_t i;
    json_t *item;
    json_array_foreach(json_object_get(span, "attributes"), i, item)
    {
        if (strcmp(json_string_value(json_object_get(item, "key")), key) == 0) {
            const json_t *value = json_object_get(item, "value"), *integer = json_object_get(value, "intValue");
            return json_string_value(integer ? integer : json_object_get(value, "stringValue"));
        }
    }
    return NULL;
}

static void fill(struct trace_record *record)
{
    static const char parent[] = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    memset(record, 0, sizeof *record);
    trace_context_begin(&record->context, parent, sizeof parent - 1, 0);
    record->request = (struct trace_interval){1700000000000000001u, 1700000000000000100u};
    record->method = "GET";
    record->scheme = "http";
    record->version = "1.1";
    record->status = 200;
}

START_TEST(no_record_is_an_empty_list)
{
    json_t *document = written(NULL, 0);
    ck_assert(json_is_array(spans_of(document)));
    ck_assert_uint_eq(json_array_size(spans_of(document)), 0);
    json_decref(document);
}
END_TEST

START_TEST(times_are_whole)
{
    struct trace_record record;
    fill(&record);
    json_t *document = written(&record, 1);
    const json_t *span = json_array_get(spans_of(document), 0);
    ck_assert_str_eq(json_string_value(json_object_get(span, "startTimeUnixNano")), "1700000000000000001");
    ck_assert_str_eq(json_string_value(json_object_get(span, "endTimeUnixNano")), "1700000000000000100");
    json_decref(document);
}
END_TEST

START_TEST(stages_that_were_reached_are_spans)
{
    struct trace_record records[2];
    fill(&records[0]);
    fill(&records[1]);
    records[1].stages[TRACE_QUEUE] = (struct trace_interval){1700000000000000002u, 1700000000000000003u};
    records[1].stages[TRACE_ENCODE] = (struct trace_interval){1700000000000000005u, 1700000000000000004u};
    ck_assert_uint_eq(trace_record_spans(&records[0]) + trace_record_spans(&records[1]), 4);
    json_t *document = written(records, 2);
    ck_assert_uint_eq(json_array_size(spans_of(document)), 4);
    const json_t *queue = json_array_get(spans_of(document), 2), *encode = json_array_get(spans_of(document), 3);
    ck_assert_str_eq(json_string_value(json_object_get(queue, "name")), "queue");
    ck_assert_str_eq(json_string_value(json_object_get(queue, "parentSpanId")), records[1].context.span_id);
    /* No span ends before it begins. */
    ck_assert_str_eq(json_string_value(json_object_get(encode, "endTimeUnixNano")), "1700000000000000005");
    json_decref(document);
}
END_TEST

START_TEST(texts_of_any_kind_and_length_are_carried)
{
    struct trace_record record;
    char text[4000];
    fill(&record);
    memset(text, '"', sizeof text);
    for (unsigned which = 0; which < TRACE_TEXTS; which++)
        trace_record_take(&record, which, text, sizeof text);
    ck_assert_uint_le(record.used, sizeof record.text);
    json_t *document = written(&record, 1);
    const json_t *span = json_array_get(spans_of(document), 0);
    ck_assert_uint_eq(strlen(attribute(span, "url.path")), 256);
    ck_assert_uint_eq(strlen(attribute(span, "attnd.request_id")), 128);
    json_decref(document);

    fill(&record);
    trace_record_take(&record, TRACE_TEXT_USER_AGENT, "a\x01\xFF\n\0b", 6);
    trace_record_take(&record, TRACE_TEXT_PATH, NULL, 7);
    document = written(&record, 1);
    span = json_array_get(spans_of(document), 0);
    ck_assert_ptr_null(attribute(span, "url.path"));
    ck_assert_mem_eq(attribute(span, "user_agent.original"),
                     "a\x01\xEF\xBF\xBD\n\0"
                     "b",
                     8);
    json_decref(document);
}
END_TEST

START_TEST(what_the_collector_rejected)
{
    static const struct {
        const char *body;
        uint64_t count;
        const char *reason;
    } cases[] = {
        {"{}", 0, ""},
        {"", 0, ""},
        {"<html>", 0, ""},
        {"{\"partialSuccess\":{}}", 0, ""},
        {"{\"partialSuccess\":{\"rejectedSpans\":\"3\",\"errorMessage\":\"why\"}}", 3, "why"},
        {"{\"partialSuccess\":{\"rejectedSpans\":4}}", 4, ""},
        {"{\"partialSuccess\":{\"rejectedSpans\":-4}}", 0, ""},
        {"{\"partialSuccess\":{\"errorMessage\":\"a warning\"}}", 0, "a warning"},
        {"{\"partialSuccess\":[1]}", 0, ""},
        {"{\"partialSuccess\":{\"rejectedSpans\":\"x\",\"errorMessage\":5}}", 0, ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char reason[16] = "before";
        ck_assert_uint_eq(otlp_json_rejected(cases[i].body, strlen(cases[i].body), reason, sizeof reason),
                          cases[i].count);
        ck_assert_str_eq(reason, cases[i].reason);
    }
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("telemetry/otlp_json");
    TCase *t = tcase_create("otlp_json");
    tcase_add_test(t, no_record_is_an_empty_list);
    tcase_add_test(t, times_are_whole);
    tcase_add_test(t, stages_that_were_reached_are_spans);
    tcase_add_test(t, texts_of_any_kind_and_length_are_carried);
    tcase_add_test(t, what_the_collector_rejected);
    suite_add_tcase(s, t);
    return s;
}
