/* Which route a target goes to, and what stands for its {name}s. */
#include "server/endpoints.h"
#include "server/routes.h"
#include "suite.h"

#include <stdlib.h>
#include <string.h>

static struct request request;
static struct error error;

static bool find(const char *method, const char *target)
{
    free(request.target);
    request = (struct request){.target = malloc(2 * strlen(target) + 1 + REQUEST_MAX_PARAMETERS)};
    strcpy(request.target, target);
    return route_find(&request, method, &error);
}

static void tear_down(void)
{
    free(request.target);
}

START_TEST(targets_find_their_patterns)
{
    static const struct {
        const char *method, *target, *pattern, *first, *second;
    } cases[] = {
        {"GET", "/healthz", "/healthz", NULL, NULL},
        {"HEAD", "/healthz?x=/v2", "/healthz", NULL, NULL},
        {"GET", "http://host:80/healthz#x", "/healthz", NULL, NULL},
        {"GET", "/v1/weights/a%20b%2Fc", "/v1/weights/{name}", "a b/c", NULL},
        {"GET", "/v2", "/v2", NULL, NULL},
        {"GET", "/v2/models", "/v2/models", NULL, NULL},
        {"GET", "/v2/models/stats", "/v2/models/stats", NULL, NULL},
        {"GET", "/v2/models/stats/config", "/v2/models/{model}/config", "stats", NULL},
        {"GET", "/v2/models/demo", "/v2/models/{model}", "demo", NULL},
        {"GET", "/v2/models/demo/ready", "/v2/models/{model}/ready", "demo", NULL},
        {"POST", "/v2/models/de%6Do/infer", "/v2/models/{model}/infer", "demo", NULL},
        {"GET", "/v2/models/demo/versions/1", "/v2/models/{model}/versions/{version}", "demo", "1"},
        {"POST", "/v2/models/a/versions/1%2F/infer?q", "/v2/models/{model}/versions/{version}/infer", "a", "1/"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ck_assert_msg(find(cases[i].method, cases[i].target), "%s: %s", cases[i].target, error.message);
        ck_assert_str_eq(route_pattern(request.route), cases[i].pattern);
        ck_assert_pstr_eq(request.parameters[0], cases[i].first);
        ck_assert_pstr_eq(request.parameters[1], cases[i].second);
    }
}
END_TEST

START_TEST(others_find_none)
{
    static const char *const targets[] = {
        "/",
        "/v1",
        "/v2/",
        "/v2/models/",
        "/v2/models//infer",
        "/v2/models/demo/",
        "/v2/models/demo/infer/",
        "/v2/models/demo/versions/",
        "/v2/models/demo/versions//infer",
        "/v2/models/demo/nope",
        "/V2",
        "/v2/models/a%2Finfer/x",
        "/v2/models/%zz",
        "/v2/models/%0",
        "/v2/models/a%00b",
        "/v1/weights/a/b",
        "*",
        "",
    };
    for (size_t i = 0; i < sizeof targets / sizeof *targets; i++) {
        ck_assert_msg(!find("GET", targets[i]), "%s", targets[i]);
        ck_assert_int_eq(error.code, ERROR_UNKNOWN_ROUTE);
        ck_assert_ptr_null(request.route);
    }
}
END_TEST

START_TEST(other_methods_are_not_allowed)
{
    ck_assert(!find("GET", "/v2/models/demo/infer"));
    ck_assert_int_eq(error.code, ERROR_METHOD_NOT_ALLOWED);
    ck_assert_str_eq(route_allow(request.route), "POST");
    ck_assert(!find("POST", "/v2/models/demo"));
    ck_assert_int_eq(error.code, ERROR_METHOD_NOT_ALLOWED);
    ck_assert_str_eq(route_allow(request.route), "GET, HEAD");
}
END_TEST

START_TEST(the_form_of_errors_follows_from_the_target)
{
    static const char *const under[] = {"/v2", "/v2/", "/v2?x", "/v2/nope", "http://host/v2", "http://host/v2/models"};
    static const char *const beside[] = {"/", "/v1/forward", "/v2x", "/v", "*", "", "/V2", "http://v2/", "http://v2"};
    for (size_t i = 0; i < sizeof under / sizeof *under; i++)
        ck_assert_int_eq(route_problem_form(under[i]), PROBLEM_OPEN_INFERENCE);
    for (size_t i = 0; i < sizeof beside / sizeof *beside; i++)
        ck_assert_int_eq(route_problem_form(beside[i]), PROBLEM_DETAILS);
}
END_TEST

START_TEST(bodies_are_of_the_routes_types)
{
    ck_assert(find("POST", "/v1/forward"));
    ck_assert(route_takes(request.route, MEDIA_SAFETENSORS) && !route_takes_octets(request.route));
    ck_assert(find("POST", "/v2/models/demo/infer"));
    ck_assert(!route_takes(request.route, MEDIA_SAFETENSORS) && route_takes_octets(request.route));
    ck_assert(route_takes(request.route, MEDIA_JSON) && route_takes_body(request.route));
    ck_assert(find("GET", "/v2/health/ready"));
    ck_assert(route_is_probe(request.route) && !route_takes_body(request.route));
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("routes");
    TCase *c = tcase_create("routes");
    tcase_add_checked_fixture(c, NULL, tear_down);
    tcase_add_test(c, targets_find_their_patterns);
    tcase_add_test(c, others_find_none);
    tcase_add_test(c, other_methods_are_not_allowed);
    tcase_add_test(c, the_form_of_errors_follows_from_the_target);
    tcase_add_test(c, bodies_are_of_the_routes_types);
    suite_add_tcase(s, c);
    return s;
}
