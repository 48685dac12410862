#include "suite.h"
#include "json/reader.h"

#include <string.h>

struct point {
    int64_t x, y;
    double scale;
    struct point *inner;
};

static bool read_x(struct json_reader *r, void *context, struct error *error)
{
    struct point *point = context;
    return json_read_integer(r, 0, 10, &point->x, error);
}

static bool read_y(struct json_reader *r, void *context, struct error *error)
{
    struct point *point = context;
    return json_read_integer(r, 0, 10, &point->y, error);
}

static bool read_inner(struct json_reader *r, void *context, struct error *error);

static const struct json_member members[] = {{"horizontal", read_x}, {"vertical", read_y}, {"inner", read_inner}};
#define COUNT (sizeof members / sizeof *members)

static bool read_inner(struct json_reader *r, void *context, struct error *error)
{
    struct point *point = context;
    return json_read_object(r, members, COUNT, point->inner, NULL, error);
}

static bool read(const char *text, struct point *point, uint64_t *seen, struct error *error)
{
    struct json_reader r;
    json_reader_init(&r, text, strlen(text));
    return json_read_object(&r, members, COUNT, point, seen, error) && json_finish(&r, error);
}

START_TEST(members_are_read_and_seen)
{
    struct point inner = {0}, point = {.inner = &inner};
    struct error error;
    uint64_t seen = 99;
    ck_assert(read(" { \"vertical\" : 3 , \"inner\":{\"horizontal\":4}} ", &point, &seen, &error));
    ck_assert_uint_eq(seen, 6);
    ck_assert_int_eq(point.x, 0);
    ck_assert_int_eq(point.y, 3);
    ck_assert_int_eq(inner.x, 4);
    ck_assert(read("{}", &point, &seen, &error));
    ck_assert_uint_eq(seen, 0);
    ck_assert(read("{\"\\u0068orizontal\":5}", &point, NULL, &error));
    ck_assert_int_eq(point.x, 5);
}
END_TEST

static const struct {
    const char *text;
    enum error_code code;
    const char *pointer, *message;
} faults[] = {
    {"[]", ERROR_INVALID, "", "expected an object, got an array"},
    {"{\"horizontl\":1}", ERROR_UNKNOWN_MEMBER, "/horizontl",
     "unknown member \"horizontl\"; did you mean \"horizontal\"?"},
    {"{\"zzz\":1}", ERROR_UNKNOWN_MEMBER, "/zzz",
     "unknown member \"zzz\"; the members here are \"horizontal\", \"vertical\", \"inner\""},
    {"{\"inner\":{\"verticl\":1}}", ERROR_UNKNOWN_MEMBER, "/inner/verticl",
     "unknown member \"verticl\"; did you mean \"vertical\"?"},
    {"{\"horizontal\":1,\"vertical\":2,\"horizont\\u0061l\":1}", ERROR_DUPLICATE_MEMBER, "/horizontal",
     "the object has the member \"horizontal\" twice; remove one"},
    {"{\"horizontal\":11}", ERROR_INVALID, "/horizontal", "expected an integer from 0 to 10, got 11"},
    {"{\"inner\":{\"horizontal\":true}}", ERROR_INVALID, "/inner/horizontal",
     "expected an integer from 0 to 10, got true"},
    {"{\"horizontal\":1", ERROR_NOT_JSON, "", "not JSON: the text ends at byte 15; expected ',' or '}'"},
    {"{\"horizontal\":1,}", ERROR_NOT_JSON, "",
     "not JSON: expected a member's name in double quotes at byte 16, got '}'"},
};

START_TEST(faults_name_the_member)
{
    struct point inner = {0}, point = {.inner = &inner};
    struct error error;
    uint64_t seen = 99;
    ck_assert_msg(!read(faults[_i].text, &point, &seen, &error), "%s", faults[_i].text);
    ck_assert_int_eq(error.code, faults[_i].code);
    ck_assert_str_eq(error.pointer, faults[_i].pointer);
    ck_assert_str_eq(error.message, faults[_i].message);
    ck_assert_uint_eq(seen, 99);
}
END_TEST

START_TEST(an_object_without_members)
{
    struct json_reader r;
    struct error error;
    json_reader_init(&r, "{\"a\":1}", 7);
    ck_assert(!json_read_object(&r, NULL, 0, NULL, NULL, &error));
    ck_assert_str_eq(error.message, "unknown member \"a\"; there are no members here");
    json_reader_init(&r, "{}", 2);
    ck_assert(json_read_object(&r, NULL, 0, NULL, NULL, &error));
}
END_TEST

Suite *suite(void)
{
    Suite *suite = suite_create("object");
    TCase *cases = tcase_create("object");
    tcase_add_test(cases, members_are_read_and_seen);
    tcase_add_loop_test(cases, faults_name_the_member, 0, sizeof faults / sizeof *faults);
    tcase_add_test(cases, an_object_without_members);
    suite_add_tcase(suite, cases);
    return suite;
}
