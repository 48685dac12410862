#include "suite.h"
#include "telemetry/trace_state.h"

#include <stdio.h>
#include <string.h>

static struct trace_state state_of(const char *const *lines)
{
    struct trace_state state = {.length = 0};
    for (; *lines; lines++)
        trace_state_add(&state, *lines, strlen(*lines));
    return state;
}

static void expect(const char *const *lines, const char *wanted)
{
    struct trace_state state = state_of(lines);
    ck_assert_msg(state.length == strlen(wanted) && memcmp(state.text, wanted, state.length) == 0,
                  "\"%s\"...: got \"%.*s\", wanted \"%s\"", *lines, (int)state.length, state.text, wanted);
}
#define EXPECT(wanted, ...) expect((const char *const[]){__VA_ARGS__, NULL}, wanted)

START_TEST(members_are_passed_on)
{
    EXPECT("congo=t61rcWkgMzE", "congo=t61rcWkgMzE");
    EXPECT("rojo=00f067aa0ba902b7,congo=t61rcWkgMzE", "rojo=00f067aa0ba902b7,congo=t61rcWkgMzE");
    EXPECT("1a-2f@foo=bar1,a_-*/z=1", "1a-2f@foo=bar1,a_-*/z=1");
    EXPECT("a=b c !\"#~", "a=b c !\"#~");
    EXPECT("", "");
}
END_TEST

START_TEST(lines_are_one_list_in_their_order)
{
    EXPECT("foo=1,bar=2,rojo=1,congo=2", "foo=1,bar=2", "rojo=1", "congo=2");
    EXPECT("foo=1,bar=2", "foo=1", "", "bar=2");
}
END_TEST

START_TEST(blanks_and_empty_members_are_nothing)
{
    EXPECT("foo=1,bar=2", " foo=1 \t,\t bar=2 ");
    EXPECT("foo=1,bar=2", "foo=1,,bar=2,");
}
END_TEST

START_TEST(what_is_malformed_is_dropped_whole)
{
    EXPECT("", "foo=1,bar");
    EXPECT("", "foo=1", "bar=");
    EXPECT("", "=1");
    EXPECT("", "FOO=1");
    EXPECT("", "_foo=1");
    EXPECT("", "fo o=1");
    EXPECT("", "foo =1");
    EXPECT("", "foo=1=2");
    EXPECT("", "foo=caf\xc3\xa9");
    EXPECT("", "foo=a\tb");
    EXPECT("", "bad", "foo=1");
}
END_TEST

START_TEST(members_are_counted)
{
    char line[256] = "";
    for (unsigned i = 0; i < TRACE_STATE_MEMBERS; i++)
        snprintf(line + strlen(line), sizeof line - strlen(line), "%sa%u=1", i ? "," : "", i);
    EXPECT(line, line);
    EXPECT("", line, "b=1");
}
END_TEST

START_TEST(keys_and_values_have_a_limit)
{
    char member[600];
    memset(member, 'a', sizeof member);
    member[256] = '=';
    member[257 + 256] = '\0';
    EXPECT(member, member);
    member[257 + 256] = 'a';
    member[257 + 257] = '\0';
    EXPECT("", member);
    memset(member, 'a', sizeof member);
    strcpy(member + 257, "=a");
    EXPECT("", member);
}
END_TEST

START_TEST(what_is_too_long_is_cut_between_members)
{
    char long_one[200], wanted[TRACE_STATE_BYTES + 1] = "";
    const char *lines[8] = {0};
    memset(long_one, 'x', sizeof long_one);
    memcpy(long_one, "a=", 2);
    long_one[sizeof long_one - 1] = '\0';
    for (unsigned i = 0; i < 6; i++)
        lines[i] = long_one;
    lines[6] = "b=1"; /* there would be room for it again, but the order says what matters more */
    for (unsigned i = 0; i < 5; i++)
        snprintf(wanted + strlen(wanted), sizeof wanted - strlen(wanted), "%s%s", i ? "," : "", long_one);
    expect(lines, wanted);
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("telemetry/trace_state");
    TCase *t = tcase_create("trace_state");
    tcase_add_test(t, members_are_passed_on);
    tcase_add_test(t, lines_are_one_list_in_their_order);
    tcase_add_test(t, blanks_and_empty_members_are_nothing);
    tcase_add_test(t, what_is_malformed_is_dropped_whole);
    tcase_add_test(t, members_are_counted);
    tcase_add_test(t, keys_and_values_have_a_limit);
    tcase_add_test(t, what_is_too_long_is_cut_between_members);
    suite_add_tcase(s, t);
    return s;
}
