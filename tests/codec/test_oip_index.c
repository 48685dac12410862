/* Bodies of POST /v2/repository/index. */
#include "codec/expect.h"
#include "codec/oip_index.h"

START_TEST(test_bodies)
{
    static const struct {
        const char *body;
        bool ready_only;
    } bodies[] = {{"", false},
                  {"{}", false},
                  {"{\"ready\":true}", true},
                  {" {\"repository_name\":\"a\",\"ready\":false} ", false},
                  {"{\"x\":[1,{\"ready\":false}],\"ready\":true}", true}};
    for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++) {
        struct error error;
        bool ready_only = !bodies[i].ready_only;
        ck_assert_msg(oip_index_decode(bodies[i].body, strlen(bodies[i].body), &ready_only, &error), "%s",
                      error.message);
        ck_assert_int_eq(ready_only, bodies[i].ready_only);
    }
}
END_TEST

START_TEST(test_faults)
{
    static const struct {
        const char *body;
        enum error_code code;
        const char *pointer;
    } faults[] = {{" ", ERROR_NOT_JSON, NULL},
                  {"{\"ready\":true", ERROR_NOT_JSON, NULL},
                  {"{} {}", ERROR_NOT_JSON, NULL},
                  {"[]", ERROR_INVALID, ""},
                  {"{\"ready\":1}", ERROR_INVALID, "/ready"},
                  {"{\"ready\":true,\"ready\":true}", ERROR_DUPLICATE_MEMBER, "/ready"}};
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        struct error error;
        bool ready_only = true;
        ck_assert(!oip_index_decode(faults[i].body, strlen(faults[i].body), &ready_only, &error));
        expect_error(&error, faults[i].code, faults[i].pointer, NULL, faults[i].body);
        ck_assert(ready_only);
    }
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("oip_index");
    TCase *c = tcase_create("oip_index");
    tcase_add_test(c, test_bodies);
    tcase_add_test(c, test_faults);
    suite_add_tcase(s, c);
    return s;
}
