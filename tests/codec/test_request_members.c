/* A table of three members: each by each way, twice, and by a wrong name. */
#include "codec/expect.h"
#include "codec/request_members.h"
#include "json/reader.h"

/* What came, and how. */
struct came {
    bool flag;
    int json, raw;
    size_t bytes;
};

static bool read_flag(struct json_reader *r, void *context, struct error *error)
{
    return json_read_bool(r, &((struct came *)context)->flag, error);
}

static bool read_tensor(struct json_reader *r, void *context, struct error *error)
{
    ((struct came *)context)->json++;
    return json_skip(r, NULL, NULL, error);
}

static bool read_raw_tensor(const struct raw_tensor *raw, const char *pointer, void *context, struct error *error)
{
    struct came *came = context;
    if (raw->bytes == 0)
        return error_set_at(error, ERROR_INVALID, pointer, "nothing");
    came->raw++;
    came->bytes = raw->bytes;
    return true;
}

static const struct request_member LIST[] = {
    {"flag", read_flag, NULL}, {"input", read_tensor, read_raw_tensor}, {"bias", read_tensor, read_raw_tensor}};

static struct request_members begin(struct came *came)
{
    *came = (struct came){0};
    return (struct request_members){.list = LIST, .count = sizeof LIST / sizeof *LIST, .context = came};
}

START_TEST(objects)
{
    struct came came;
    struct request_members members = begin(&came);
    struct error error;
    struct json_reader r;
    const char text[] = "{\"input\":[1],\"flag\":true}", twice[] = "{\"input\":1,\"input\":2}";
    json_reader_init(&r, text, sizeof text - 1);
    ck_assert(request_members_read_object(&members, &r, &error));
    ck_assert(came.flag && came.json == 1 && came.raw == 0);
    ck_assert_uint_eq(members.seen, 3);
    json_reader_init(&r, twice, sizeof twice - 1);
    ck_assert(!request_members_read_object(&members, &r, &error));
    expect_error(&error, ERROR_DUPLICATE_MEMBER, "/input", "input", "twice");
}
END_TEST

START_TEST(bytes)
{
    struct came came;
    struct request_members members = begin(&came);
    const struct raw_tensor raw = {.bytes = 12}, nothing = {0};
    struct error error;
    ck_assert(request_members_read_raw(&members, "bias", &raw, "elsewhere", &error));
    ck_assert(came.raw == 1 && came.bytes == 12);
    ck_assert_uint_eq(members.seen, 4);
    ck_assert(!request_members_read_raw(&members, "bias", &raw, "elsewhere", &error));
    expect_error(&error, ERROR_DUPLICATE_MEMBER, "/bias", "bias", "twice");
    ck_assert(!request_members_read_raw(&members, "input", &nothing, "elsewhere", &error));
    expect_error(&error, ERROR_INVALID, "/input", "nothing", "the reader's own error");
    ck_assert(!request_members_read_raw(&members, "flag", &raw, "elsewhere", &error));
    expect_error(&error, ERROR_INVALID, "/flag", "flag elsewhere", "no tensor");
    ck_assert(!request_members_read_raw(&members, "baïs", &raw, "elsewhere", &error));
    expect_error(&error, ERROR_UNKNOWN_MEMBER, "/baïs", "tensor bias", "unknown");
    ck_assert(!strstr(error.message, "flag"));
    ck_assert_int_eq(came.raw, 1);
}
END_TEST

START_TEST(texts)
{
    struct came came;
    struct request_members members = begin(&came);
    struct error error;
    ck_assert(request_members_read_text(&members, "flag", " true ", &error));
    ck_assert(came.flag);
    ck_assert_uint_eq(members.seen, 1);
    ck_assert(!request_members_read_text(&members, "flag", "false", &error));
    expect_error(&error, ERROR_DUPLICATE_MEMBER, "/flag", "flag", "twice");
    ck_assert(!request_members_read_text(&members, "input", "[1]", &error));
    expect_error(&error, ERROR_INVALID, "/input", "input tensor", "a tensor");
    ck_assert(!request_members_read_text(&members, "fla/g", "true", &error));
    expect_error(&error, ERROR_UNKNOWN_MEMBER, "/fla~1g", "flag member", "unknown");
    ck_assert(!strstr(error.message, "bias"));
    members = begin(&came);
    ck_assert(!request_members_read_text(&members, "flag", "yes", &error));
    expect_error(&error, ERROR_NOT_JSON, "/flag", "flag yes quotes", "a bare word");
    members = begin(&came);
    ck_assert(!request_members_read_text(&members, "flag", "[true", &error));
    expect_error(&error, ERROR_INVALID, "/flag", "array", "another type");
    members = begin(&came);
    ck_assert(!request_members_read_text(&members, "flag", "true]", &error));
    ck_assert_int_eq(error.code, ERROR_NOT_JSON);
}
END_TEST

START_TEST(finding)
{
    struct came came;
    const struct request_members members = begin(&came);
    ck_assert_uint_eq(request_members_find(&members, "flag"), 0);
    ck_assert_uint_eq(request_members_find(&members, "bias"), 2);
    ck_assert_uint_eq(request_members_find(&members, "bia"), 3);
    ck_assert_uint_eq(request_members_find(&members, ""), 3);
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("request_members");
    TCase *c = tcase_create("request_members");
    tcase_add_test(c, objects);
    tcase_add_test(c, bytes);
    tcase_add_test(c, texts);
    tcase_add_test(c, finding);
    suite_add_tcase(s, c);
    return s;
}
