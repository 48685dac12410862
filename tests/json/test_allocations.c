/* The reader where there is no memory. */
#include "suite.h"
#include "json/reader.h"

#include <stdlib.h>
#include <string.h>

void *__real_malloc(size_t bytes);
void *__wrap_malloc(size_t bytes);

static bool exhausted;

void *__wrap_malloc(size_t bytes)
{
    return exhausted ? NULL : __real_malloc(bytes);
}

START_TEST(strings_without_memory)
{
    const char *text = "{\"a\":\"b\"}";
    struct json_reader r;
    struct json_key key;
    struct error error;
    char untouched, *string = &untouched;
    size_t length = 7;
    json_reader_init(&r, text, strlen(text));
    exhausted = true;
    bool entered = json_enter_object(&r, &error) && json_next_member(&r, &key, &error) == JSON_ITEM;
    char *name = entered ? json_key_copy(&key, &length) : NULL;
    bool read = json_read_string(&r, &string, &length, &error);
    exhausted = false;
    ck_assert(entered);
    ck_assert_ptr_null(name);
    ck_assert(!read);
    ck_assert_int_eq(error.code, ERROR_OUT_OF_MEMORY);
    ck_assert_ptr_eq(string, &untouched);
    ck_assert_uint_eq(length, 7);
}
END_TEST

Suite *suite(void)
{
    Suite *suite = suite_create("allocations");
    TCase *cases = tcase_create("allocations");
    tcase_add_test(cases, strings_without_memory);
    suite_add_tcase(suite, cases);
    return suite;
}
