/* Content-Type and Accept, as RFC 9110 has them. */
#include "server/media_type.h"
#include "suite.h"

#include <stddef.h>

static const struct {
    const char *value;
    enum media_type type;
} CONTENT_TYPES[] = {
    {"application/json", MEDIA_JSON},
    {"APPLICATION/Json", MEDIA_JSON},
    {"application/json; charset=utf-8", MEDIA_JSON},
    {"application/json ;charset=\"utf-8\"", MEDIA_JSON},
    {" application/json\t", MEDIA_JSON},
    {"application/x-safetensors", MEDIA_SAFETENSORS},
    {"Application/X-Safetensors; v=1", MEDIA_SAFETENSORS},
    {"application/x-safetensor", MEDIA_TYPE_COUNT},
    {"application/x-safetensorss", MEDIA_TYPE_COUNT},
    {"application/jsonx", MEDIA_TYPE_COUNT},
    {"text/json", MEDIA_TYPE_COUNT},
    {"application/json, text/plain", MEDIA_TYPE_COUNT},
    {"*/*", MEDIA_TYPE_COUNT},
    {";", MEDIA_TYPE_COUNT},
    {"", MEDIA_TYPE_COUNT},
};

START_TEST(content_types)
{
    ck_assert_msg(media_type_of(CONTENT_TYPES[_i].value) == CONTENT_TYPES[_i].type, "%s", CONTENT_TYPES[_i].value);
}
END_TEST

/* Up to two header lines. */
static const struct {
    const char *first, *second;
    enum media_type type;
} ACCEPTS[] = {
    {NULL, NULL, MEDIA_JSON},
    {"", NULL, MEDIA_JSON},
    {"*/*", NULL, MEDIA_JSON},
    {"application/*", NULL, MEDIA_JSON},
    {"application/json", NULL, MEDIA_JSON},
    {"application/x-safetensors", NULL, MEDIA_SAFETENSORS},
    {"APPLICATION/X-Safetensors", NULL, MEDIA_SAFETENSORS},
    {"application/x-safetensors, application/json", NULL, MEDIA_JSON},
    {"application/x-safetensors, */*", NULL, MEDIA_SAFETENSORS},
    {"*/*, application/x-safetensors", NULL, MEDIA_SAFETENSORS},
    {"application/x-safetensors, application/*", NULL, MEDIA_SAFETENSORS},
    {"application/json, */*", NULL, MEDIA_JSON},
    {"application/x-safetensors;q=0.9, application/json;q=0.8", NULL, MEDIA_SAFETENSORS},
    {"application/x-safetensors;q=0.8, application/json;q=0.9", NULL, MEDIA_JSON},
    {"application/x-safetensors ; Q=0.801 , application/json;q=0.8", NULL, MEDIA_SAFETENSORS},
    {"application/x-safetensors;q=0.5, */*;q=0.6", NULL, MEDIA_JSON},
    {"application/json;q=0.1, */*", NULL, MEDIA_SAFETENSORS},
    {"application/json;q=0, */*;q=0.1", NULL, MEDIA_SAFETENSORS},
    {"application/json;q=0, application/x-safetensors;q=0", NULL, MEDIA_JSON},
    {"application/x-safetensors;q=0", NULL, MEDIA_JSON},
    {"application/x-safetensors;q=0, */*", NULL, MEDIA_JSON},
    {"text/html, image/*", NULL, MEDIA_JSON},
    {"text/html, application/x-safetensors;q=0.001", NULL, MEDIA_SAFETENSORS},
    {"application/x-safetensors;v=1", NULL, MEDIA_SAFETENSORS},
    {"application/x-safetensors;v=1;q=0.2, application/x-safetensors, application/json;q=0.5", NULL, MEDIA_JSON},
    {"text/html;p=\"a, application/x-safetensors\"", NULL, MEDIA_JSON},
    {"text/html;p=\"\\\", x\", application/x-safetensors", NULL, MEDIA_SAFETENSORS},
    {",, application/x-safetensors ,", NULL, MEDIA_SAFETENSORS},
    {"application/x-safetensors;q=high", NULL, MEDIA_JSON},
    {"application/x-safetensors;q=1.5", NULL, MEDIA_JSON},
    {"application/x-safetensors;q=", NULL, MEDIA_JSON},
    {"application/x-safetensors;q", NULL, MEDIA_JSON},
    {"text/html", "application/x-safetensors", MEDIA_SAFETENSORS},
    {"application/x-safetensors;q=0.3", "application/json;q=0.4", MEDIA_JSON},
};

START_TEST(accepts)
{
    struct accept accept = {0};
    if (ACCEPTS[_i].first)
        accept_read(&accept, ACCEPTS[_i].first);
    if (ACCEPTS[_i].second)
        accept_read(&accept, ACCEPTS[_i].second);
    ck_assert_msg(accept_choose(&accept) == ACCEPTS[_i].type, "%s", ACCEPTS[_i].first);
}
END_TEST

START_TEST(names)
{
    for (int type = 0; type < MEDIA_TYPE_COUNT; type++)
        ck_assert_int_eq(media_type_of(media_type_name((enum media_type)type)), type);
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("media_type");
    TCase *c = tcase_create("media_type");
    tcase_add_loop_test(c, content_types, 0, sizeof CONTENT_TYPES / sizeof *CONTENT_TYPES);
    tcase_add_loop_test(c, accepts, 0, sizeof ACCEPTS / sizeof *ACCEPTS);
    tcase_add_test(c, names);
    suite_add_tcase(s, c);
    return s;
}
