/* Which format several lines of Accept mean. */
#include "server/metrics_accept.h"

#include "suite.h"

#define OPEN "application/openmetrics-text"

static const struct {
    const char *lines[3];
    enum exposition_format format;
} CASES[] = {
    {{NULL}, EXPOSITION_PROMETHEUS},
    {{OPEN}, EXPOSITION_OPENMETRICS},
    {{"text/plain", OPEN}, EXPOSITION_PROMETHEUS},
    {{"text/plain;q=0.5", OPEN}, EXPOSITION_OPENMETRICS},
    {{OPEN ";q=0.5", "text/plain;q=0.4"}, EXPOSITION_OPENMETRICS},
    {{OPEN ";version=1.0.0", "text/plain"}, EXPOSITION_OPENMETRICS},
    {{OPEN ";version=0.0.1", "text/plain;q=0.1"}, EXPOSITION_PROMETHEUS},
    {{OPEN ";version=0.0.1", OPEN ";version=1.0.0;q=0.2", "text/plain;q=0.1"}, EXPOSITION_OPENMETRICS},
    {{OPEN ";q=0", "*/*"}, EXPOSITION_PROMETHEUS},
    {{OPEN ";q=0.9", OPEN ";version=1.0.0;q=0.1", "text/plain;q=0.5"}, EXPOSITION_PROMETHEUS},
    {{OPEN ";q=2"}, EXPOSITION_PROMETHEUS},
    {{OPEN ";q=0.5,*/*;q=1"}, EXPOSITION_PROMETHEUS},
    {{"application/*;q=1,text/plain;q=0.1"}, EXPOSITION_PROMETHEUS},
    {{",;,q=1,/," OPEN}, EXPOSITION_OPENMETRICS},
};

START_TEST(formats)
{
    struct metrics_accept accept = {0};
    for (size_t i = 0; i < 3 && CASES[_i].lines[i]; i++)
        metrics_accept_read(&accept, CASES[_i].lines[i]);
    ck_assert_msg(metrics_accept_choose(&accept) == CASES[_i].format, "%s ...", CASES[_i].lines[0]);
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("server/metrics_accept");
    TCase *c = tcase_create("accept");
    tcase_add_loop_test(c, formats, 0, sizeof CASES / sizeof *CASES);
    suite_add_tcase(s, c);
    return s;
}
