#include "server/problem.h"
#include "suite.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

START_TEST(every_code_has_status_title_and_slug)
{
    struct error error = {0};
    error_set_at(&error, (enum error_code)_i, "/a~1b", "a \"quoted\" text\nwith \xff bytes");
    unsigned status = problem_status(error.code, PROBLEM_DETAILS);
    ck_assert(status == 200 || (status >= 400 && status <= 504));
    ck_assert_uint_eq(problem_retry_after(error.code) > 0, status == 429 || status == 503);

    struct text text = {0};
    problem_document(&error, "the-id", PROBLEM_DETAILS, &text);
    ck_assert(!text.failed);
    json_t *document = json_loadb(text.data, text.length, JSON_REJECT_DUPLICATES, NULL);
    ck_assert_ptr_nonnull(document);
    const char *type, *title, *detail, *instance, *pointer, *same;
    int told;
    ck_assert_int_eq(json_unpack(document, "{s:s, s:s, s:i, s:s, s:s, s:s, s:s!}", "type", &type, "title", &title,
                                 "status", &told, "detail", &detail, "instance", &instance, "pointer", &pointer,
                                 "error", &same),
                     0);
    ck_assert_uint_eq((unsigned)told, status);
    ck_assert_str_eq(detail, "a \"quoted\" text\nwith \xEF\xBF\xBD bytes");
    ck_assert_str_eq(same, detail);
    ck_assert_str_eq(instance, "the-id");
    ck_assert_str_eq(pointer, "/a~1b");
    ck_assert_uint_gt(strlen(title), 1);
    ck_assert_str_eq(type + strlen("urn:attnd:problem:"), error_slug(error.code));
    json_decref(document);
    text_free(&text);
}
END_TEST

START_TEST(statuses_are_those_of_the_contract)
{
    static const struct {
        enum error_code code;
        unsigned status;
    } contract[] = {
        {ERROR_NOT_JSON, 400},
        {ERROR_DUPLICATE_MEMBER, 400},
        {ERROR_BAD_FRAMING, 400},
        {ERROR_BAD_ENCODING, 400},
        {ERROR_UNKNOWN_ROUTE, 404},
        {ERROR_UNKNOWN_WEIGHTS, 404},
        {ERROR_TOO_LARGE, 413},
        {ERROR_UPLOAD_TIMEOUT, 408},
        {ERROR_METHOD_NOT_ALLOWED, 405},
        {ERROR_UNSUPPORTED_MEDIA_TYPE, 415},
        {ERROR_INVALID, 422},
        {ERROR_UNKNOWN_MEMBER, 422},
        {ERROR_NOT_FINITE, 422},
        {ERROR_QUEUE_FULL, 429},
        {ERROR_BUDGET_FULL, 429},
        {ERROR_DRAINING, 503},
        {ERROR_NOT_READY, 503},
        {ERROR_OUT_OF_MEMORY, 503},
        {ERROR_DEADLINE, 504},
        {ERROR_EXPECTATION_FAILED, 417},
    };
    for (size_t i = 0; i < sizeof contract / sizeof *contract; i++) {
        unsigned status = contract[i].status;
        ck_assert_uint_eq(problem_status(contract[i].code, PROBLEM_DETAILS), status);
        ck_assert_uint_eq(problem_status(contract[i].code, PROBLEM_OPEN_INFERENCE), status == 422 ? 400 : status);
    }
}
END_TEST

/* What the document of an error is in the other form: one member, with the place in its text. */
static void check_open_inference(const struct error *error, const char *expected)
{
    struct text text = {0};
    problem_document(error, "the-id", PROBLEM_OPEN_INFERENCE, &text);
    ck_assert(!text.failed);
    json_t *document = json_loadb(text.data, text.length, JSON_REJECT_DUPLICATES, NULL);
    const char *told;
    ck_assert_ptr_nonnull(document);
    ck_assert_int_eq(json_unpack(document, "{s:s!}", "error", &told), 0);
    ck_assert_str_eq(told, expected);
    json_decref(document);
    text_free(&text);
}

START_TEST(open_inference_has_one_member)
{
    struct error error;
    error_set_at(&error, ERROR_INVALID, "/inputs/0/data/3", "expected a \"number\"");
    check_open_inference(&error, "expected a \"number\" (at /inputs/0/data/3)");
    error_set_at(&error, ERROR_INVALID, "", "no inputs");
    check_open_inference(&error, "no inputs");
    error_set(&error, ERROR_QUEUE_FULL, "busy");
    check_open_inference(&error, "busy");
    ck_assert_str_eq(problem_media_type(PROBLEM_OPEN_INFERENCE), "application/json");
    ck_assert_str_eq(problem_media_type(PROBLEM_DETAILS), "application/problem+json");
}
END_TEST

START_TEST(open_inference_keeps_the_longest_texts)
{
    struct error error = {.code = ERROR_INVALID, .has_pointer = true};
    char expected[sizeof error.message + sizeof error.pointer + 8];
    memset(error.message, 'm', sizeof error.message - 1);
    memset(error.pointer, '/', sizeof error.pointer - 1);
    snprintf(expected, sizeof expected, "%s (at %s)", error.message, error.pointer);
    check_open_inference(&error, expected);
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("problem");
    TCase *c = tcase_create("problem");
    tcase_add_loop_test(c, every_code_has_status_title_and_slug, 0, ERROR_CODE_COUNT);
    tcase_add_test(c, statuses_are_those_of_the_contract);
    tcase_add_test(c, open_inference_has_one_member);
    tcase_add_test(c, open_inference_keeps_the_longest_texts);
    suite_add_tcase(s, c);
    return s;
}
