#include "suite.h"
#include "telemetry/otlp_settings.h"

#include <stdio.h>
#include <string.h>

static struct otlp_settings settings;

static void load(const char *endpoint, const char *const *environment)
{
    otlp_settings_free(&settings);
    ck_assert(otlp_settings_read(&settings, endpoint, "1.2.3", environment));
}
#define LOAD(endpoint, ...) load(endpoint, (const char *const[]){__VA_ARGS__, NULL})

static const char *attribute(const char *key)
{
    const char *found = NULL;
    for (size_t i = 0; i < settings.resource.count; i++)
        if (strcmp(settings.resource.items[i].key, key) == 0) {
            ck_assert_msg(!found, "%s stands there twice", key);
            found = settings.resource.items[i].value;
        }
    return found;
}

/* Each of its headers, one behind the other. */
static const char *headers(void)
{
    static char all[512];
    all[0] = '\0';
    for (size_t i = 0; i < settings.header_count; i++)
        snprintf(all + strlen(all), sizeof all - strlen(all), "[%s]", settings.headers[i]);
    return all;
}

START_TEST(nothing_is_said)
{
    LOAD(NULL, "PATH=/bin", "OTEL_EXPORTER_OTLP_ENDPOINT=", "OTEL_SERVICE_NAME=x");
    ck_assert_ptr_null(settings.url);
    ck_assert_uint_eq(settings.warning_count, 0);
}
END_TEST

START_TEST(who_goes_first)
{
    static const char general[] = "OTEL_EXPORTER_OTLP_ENDPOINT=http://general:4318",
                      traces[] = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=https://traces/of/";
    LOAD("http://file:1", general, traces);
    ck_assert_str_eq(settings.url, "http://file:1/v1/traces");
    LOAD(NULL, general, traces);
    ck_assert_str_eq(settings.url, "https://traces/of/");
    LOAD(NULL, general);
    ck_assert_str_eq(settings.url, "http://general:4318/v1/traces");
    LOAD("http://file:1/base//", "A=b");
    ck_assert_str_eq(settings.url, "http://file:1/base/v1/traces");
    ck_assert_uint_eq(settings.warning_count, 0);
}
END_TEST

START_TEST(it_can_be_switched_off)
{
    LOAD("http://file:1", "OTEL_SDK_DISABLED=true");
    ck_assert_ptr_null(settings.url);
    LOAD("http://file:1", "OTEL_SDK_DISABLED=False");
    ck_assert_ptr_nonnull(settings.url);
    LOAD("http://file:1", "OTEL_SDK_DISABLED=1");
    ck_assert_ptr_nonnull(settings.url);
}
END_TEST

START_TEST(the_resource)
{
    LOAD("http://c", "A=b");
    ck_assert_str_eq(attribute("service.name"), "attnd");
    ck_assert_str_eq(attribute("service.version"), "1.2.3");
    ck_assert_uint_eq(strlen(attribute("service.instance.id")), 36);
    LOAD("http://c",
         "OTEL_RESOURCE_ATTRIBUTES=service.name=a%2Cb, k8s.pod.name = p%C3%A9 ,service.instance.id=me,,empty=");
    ck_assert_str_eq(attribute("service.name"), "a,b");
    ck_assert_str_eq(attribute("k8s.pod.name"), "p\xC3\xA9");
    ck_assert_str_eq(attribute("service.instance.id"), "me");
    ck_assert_str_eq(attribute("empty"), "");
    ck_assert_uint_eq(settings.warning_count, 0);
    LOAD("http://c", "OTEL_RESOURCE_ATTRIBUTES=service.name=a", "OTEL_SERVICE_NAME=b");
    ck_assert_str_eq(attribute("service.name"), "b");
}
END_TEST

START_TEST(wrong_attributes_are_left_out_whole)
{
    static const char *const wrong[] = {
        "OTEL_RESOURCE_ATTRIBUTES=team=a,b",      "OTEL_RESOURCE_ATTRIBUTES=team=a,=b",
        "OTEL_RESOURCE_ATTRIBUTES=team=a,b=%4",   "OTEL_RESOURCE_ATTRIBUTES=team=a,b=%",
        "OTEL_RESOURCE_ATTRIBUTES=team=a,b=%G0c", "OTEL_RESOURCE_ATTRIBUTES=service.name=x,b",
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        LOAD("http://c", wrong[i]);
        ck_assert_ptr_null(attribute("team"));
        ck_assert_str_eq(attribute("service.name"), "attnd");
        ck_assert_uint_eq(settings.warning_count, 1);
        ck_assert_msg(strstr(settings.warnings[0], "OTEL_RESOURCE_ATTRIBUTES"), "%s", settings.warnings[0]);
    }
}
END_TEST

START_TEST(headers_are_read)
{
    LOAD("http://c", "OTEL_EXPORTER_OTLP_HEADERS=api-key=a%20b%3D , x=1=2,none=");
    ck_assert_str_eq(headers(), "[api-key: a b=][x: 1=2][none;]");
    LOAD("http://c", "OTEL_EXPORTER_OTLP_HEADERS=a=b", "OTEL_EXPORTER_OTLP_TRACES_HEADERS=c=d");
    ck_assert_str_eq(headers(), "[c: d]");
}
END_TEST

START_TEST(wrong_headers_are_left_out)
{
    static const char *const wrong[] = {
        "OTEL_EXPORTER_OTLP_HEADERS=a=b,c",      "OTEL_EXPORTER_OTLP_HEADERS=a=b,c d=e",
        "OTEL_EXPORTER_OTLP_HEADERS=a=b,c:=e",   "OTEL_EXPORTER_OTLP_HEADERS=a=b%0d%0aHost: evil",
        "OTEL_EXPORTER_OTLP_HEADERS=a=b,c%0a=d", "OTEL_EXPORTER_OTLP_HEADERS=a=b%00",
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        LOAD("http://c", wrong[i]);
        ck_assert_str_eq(headers(), "");
        ck_assert_uint_eq(settings.warning_count, 1);
    }
}
END_TEST

START_TEST(timeouts)
{
    LOAD("http://c", "A=b");
    ck_assert_int_eq(settings.timeout_ms, 10000);
    LOAD("http://c", "OTEL_EXPORTER_OTLP_TIMEOUT=250", "OTEL_EXPORTER_OTLP_TRACES_TIMEOUT=300");
    ck_assert_int_eq(settings.timeout_ms, 300);
    LOAD("http://c", "OTEL_EXPORTER_OTLP_TIMEOUT=0");
    ck_assert_int_eq(settings.timeout_ms, 10000);
    ck_assert_uint_eq(settings.warning_count, 1);
    ck_assert_str_eq(settings.warnings[0],
                     "OTEL_EXPORTER_OTLP_TIMEOUT: expected milliseconds, 1 or more, got \"0\"; it is left out");
}
END_TEST

START_TEST(a_switch_that_is_neither_is_said)
{
    LOAD("http://c", "OTEL_SDK_DISABLED=yes");
    ck_assert_ptr_nonnull(settings.url);
    ck_assert_uint_eq(settings.warning_count, 1);
    ck_assert_msg(strstr(settings.warnings[0], "OTEL_SDK_DISABLED: expected true or false"), "%s",
                  settings.warnings[0]);
    LOAD("http://c", "OTEL_SDK_DISABLED=False");
    ck_assert_uint_eq(settings.warning_count, 0);
}
END_TEST

START_TEST(an_address_that_is_none_is_left_out)
{
    LOAD(NULL, "OTEL_EXPORTER_OTLP_ENDPOINT=collector:4317");
    ck_assert_ptr_null(settings.url);
    ck_assert_uint_eq(settings.warning_count, 1);
    ck_assert_msg(strstr(settings.warnings[0], "OTEL_EXPORTER_OTLP_ENDPOINT"), "%s", settings.warnings[0]);
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("telemetry/otlp_settings");
    TCase *t = tcase_create("otlp_settings");
    tcase_add_test(t, nothing_is_said);
    tcase_add_test(t, who_goes_first);
    tcase_add_test(t, it_can_be_switched_off);
    tcase_add_test(t, the_resource);
    tcase_add_test(t, wrong_attributes_are_left_out_whole);
    tcase_add_test(t, headers_are_read);
    tcase_add_test(t, wrong_headers_are_left_out);
    tcase_add_test(t, timeouts);
    tcase_add_test(t, a_switch_that_is_neither_is_said);
    tcase_add_test(t, an_address_that_is_none_is_left_out);
    suite_add_tcase(s, t);
    return s;
}
