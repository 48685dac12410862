/* Flags: every form, and every way to be wrong. */
#include "config/command_line.h"
#include "suite.h"

#include <string.h>

#define PARSE(line, error, ...)                                                     \
    command_line_parse(sizeof((char *[]){"attnd", ##__VA_ARGS__}) / sizeof(char *), \
                       (char *[]){"attnd", ##__VA_ARGS__, NULL}, (line), (error))

START_TEST(none)
{
    struct command_line line;
    struct error error;
    ck_assert(PARSE(&line, &error));
    ck_assert_int_eq(line.command, COMMAND_SERVE);
    ck_assert_ptr_null(line.flags.file);
    ck_assert_uint_eq(line.flags.listen_count, 0);
    command_line_free(&line);
    ck_assert(command_line_parse(0, (char *[]){NULL}, &line, &error));
    command_line_free(&line);
}
END_TEST

START_TEST(values)
{
    struct command_line line;
    struct error error;
    ck_assert(PARSE(&line, &error, "--listen", "a:1", "--config", "f.json", "--listen=[::1]:2"));
    ck_assert_int_eq(line.command, COMMAND_SERVE);
    ck_assert_str_eq(line.flags.file, "f.json");
    ck_assert_uint_eq(line.flags.listen_count, 2);
    ck_assert_str_eq(line.flags.listen[0], "a:1");
    ck_assert_str_eq(line.flags.listen[1], "[::1]:2");
    command_line_free(&line);
    ck_assert(PARSE(&line, &error, "--config=a=b"));
    ck_assert_str_eq(line.flags.file, "a=b");
    command_line_free(&line);
    ck_assert(PARSE(&line, &error, "--config", "-"));
    ck_assert_str_eq(line.flags.file, "-");
    command_line_free(&line);
}
END_TEST

START_TEST(commands)
{
    struct command_line line;
    struct error error;
    ck_assert(PARSE(&line, &error, "--check-config", "--config", "x", "--check-config"));
    ck_assert_int_eq(line.command, COMMAND_CHECK_CONFIG);
    ck_assert_str_eq(line.flags.file, "x");
    command_line_free(&line);
    ck_assert(PARSE(&line, &error, "--health"));
    ck_assert_int_eq(line.command, COMMAND_HEALTH);
    command_line_free(&line);
    ck_assert(PARSE(&line, &error, "--version"));
    ck_assert_int_eq(line.command, COMMAND_VERSION);
    command_line_free(&line);
    ck_assert(PARSE(&line, &error, "--nonsense", "--version", "--help"));
    ck_assert_int_eq(line.command, COMMAND_HELP);
    command_line_free(&line);
}
END_TEST

static void expect_error(const struct error *error, const char *first, const char *second)
{
    ck_assert_int_eq(error->code, ERROR_CONFIGURATION);
    ck_assert_msg(strstr(error->message, first) && strstr(error->message, second),
                  "expected \"%s\" and \"%s\" in \"%s\"", first, second, error->message);
}

#define WRONG(first, second, ...)                      \
    do {                                               \
        struct command_line line;                      \
        struct error error;                            \
        ck_assert(!PARSE(&line, &error, __VA_ARGS__)); \
        expect_error(&error, (first), (second));       \
        command_line_free(&line);                      \
    } while (0)

START_TEST(wrong)
{
    WRONG("--conifg", "--config", "--conifg", "x");
    WRONG("--conifg", "--config", "--conifg=x");
    WRONG("--modell", "--model", "--modell", "a=b");
    WRONG("--model", "NAME=PATH", "--model");
    WRONG("-h", "--help", "-h");
    WRONG("attnd.json", "--config FILE", "attnd.json");
    WRONG("--config", "FILE", "--config");
    WRONG("--listen", "ADDR:PORT", "--listen", "--health");
    WRONG("--config", "twice", "--config", "a", "--config", "b");
    WRONG("--config", "empty", "--config=");
    WRONG("--health", "no value", "--health=yes");
    WRONG("--check-config", "--health", "--check-config", "--health");
}
END_TEST

START_TEST(help_names_every_flag)
{
    static const char *const words[] = {
        "--config FILE",        "--model NAME=PATH", "ATTND_MODELS",  "--listen ADDR:PORT",
        "--check-config",       "--health",          "--version",     "--help",
        "ATTND_SERVER_WORKERS", "ATTND_LISTEN",      "Exit codes: 0", "Example"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        ck_assert_msg(strstr(command_line_help(), words[i]), "%s is not in the help", words[i]);
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("command_line");
    TCase *c = tcase_create("command_line");
    tcase_add_test(c, none);
    tcase_add_test(c, values);
    tcase_add_test(c, commands);
    tcase_add_test(c, wrong);
    tcase_add_test(c, help_names_every_flag);
    suite_add_tcase(s, c);
    return s;
}
