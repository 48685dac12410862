/* src/runtime/service_manager.c, with this program as the manager. */
#include "suite.h"

#include "runtime/service_manager.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

static void set_number(const char *name, long long number)
{
    char text[32];
    snprintf(text, sizeof text, "%lld", number);
    setenv(name, text, 1);
}

START_TEST(takes_sockets_that_are_meant_for_this_process)
{
    int first;
    unsetenv("LISTEN_PID");
    setenv("LISTEN_FDS", "2", 1);
    ck_assert_uint_eq(service_manager_sockets(&first), 0);
    set_number("LISTEN_PID", getppid());
    ck_assert_uint_eq(service_manager_sockets(&first), 0);
    set_number("LISTEN_PID", getpid());
    ck_assert_uint_eq(service_manager_sockets(&first), 2);
    ck_assert_int_eq(first, 3);
    for (const char *const *wrong = (const char *const[]){"", "-1", "2 ", "x", NULL}; *wrong; wrong++) {
        setenv("LISTEN_FDS", *wrong, 1);
        ck_assert_uint_eq(service_manager_sockets(&first), 0);
    }
    unsetenv("LISTEN_FDS");
    ck_assert_uint_eq(service_manager_sockets(&first), 0);
}
END_TEST

START_TEST(knows_how_often_it_is_to_be_heard)
{
    unsetenv("WATCHDOG_USEC");
    unsetenv("WATCHDOG_PID");
    ck_assert_uint_eq(service_manager_watchdog_ns(), 0);
    setenv("WATCHDOG_USEC", "30000000", 1);
    ck_assert_uint_eq(service_manager_watchdog_ns(), UINT64_C(30000000000));
    set_number("WATCHDOG_PID", getppid());
    ck_assert_uint_eq(service_manager_watchdog_ns(), 0);
    set_number("WATCHDOG_PID", getpid());
    ck_assert_uint_eq(service_manager_watchdog_ns(), UINT64_C(30000000000));
    setenv("WATCHDOG_USEC", "18446744073709551615", 1);
    ck_assert_uint_eq(service_manager_watchdog_ns(), 0);
    setenv("WATCHDOG_USEC", "99999999999999999999", 1);
    ck_assert_uint_eq(service_manager_watchdog_ns(), 0);
}
END_TEST

/* A manager's socket at `path` ('@' begins a name without a file). */
static int manager(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    socklen_t length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(path) + (*path == '/'));
    int descriptor = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0);
    memcpy(address.sun_path, path, strlen(path));
    if (*path == '@')
        address.sun_path[0] = '\0';
    ck_assert_int_eq(bind(descriptor, (struct sockaddr *)&address, length), 0);
    setenv("NOTIFY_SOCKET", path, 1);
    return descriptor;
}

static const char *heard(int descriptor, char text[256])
{
    ssize_t length = recv(descriptor, text, 255, 0);
    text[length < 0 ? 0 : length] = '\0';
    return text;
}

START_TEST(tells_the_manager)
{
    char file[64], name[64], text[256];
    snprintf(file, sizeof file, "/tmp/attnd-notify-%d", (int)getpid());
    snprintf(name, sizeof name, "@attnd-notify-%d", (int)getpid());
    const char *const paths[] = {file, name};
    for (size_t i = 0; i < 2; i++) {
        int descriptor = manager(paths[i]);
        service_manager_notify("READY=1\nSTATUS=serving");
        ck_assert_str_eq(heard(descriptor, text), "READY=1\nSTATUS=serving");
        close(descriptor);
    }
    unlink(file);
}
END_TEST

START_TEST(says_when_it_began_to_reload)
{
    char name[64], text[256];
    struct timespec now;
    unsigned long long before, after, said;
    snprintf(name, sizeof name, "@attnd-reload-%d", (int)getpid());
    int descriptor = manager(name);
    clock_gettime(CLOCK_MONOTONIC, &now);
    before = (unsigned long long)now.tv_sec * 1000000 + (unsigned long long)now.tv_nsec / 1000;
    service_manager_notify_reloading();
    clock_gettime(CLOCK_MONOTONIC, &now);
    after = (unsigned long long)now.tv_sec * 1000000 + (unsigned long long)now.tv_nsec / 1000;
    ck_assert_int_eq(sscanf(heard(descriptor, text), "RELOADING=1\nMONOTONIC_USEC=%llu", &said), 1);
    ck_assert(before <= said && said <= after);
    close(descriptor);
}
END_TEST

START_TEST(is_quiet_where_nobody_listens)
{
    char path[256];
    unsetenv("NOTIFY_SOCKET");
    service_manager_notify("READY=1");
    memset(path, 'x', sizeof path - 1);
    path[0] = '/';
    path[sizeof path - 1] = '\0';
    for (const char *const *wrong = (const char *const[]){"", "@", "relative", "/no/such/file", path, NULL}; *wrong;
         wrong++) {
        setenv("NOTIFY_SOCKET", *wrong, 1);
        service_manager_notify("READY=1");
    }
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("service_manager");
    TCase *c = tcase_create("service_manager");
    tcase_add_test(c, takes_sockets_that_are_meant_for_this_process);
    tcase_add_test(c, knows_how_often_it_is_to_be_heard);
    tcase_add_test(c, tells_the_manager);
    tcase_add_test(c, says_when_it_began_to_reload);
    tcase_add_test(c, is_quiet_where_nobody_listens);
    suite_add_tcase(s, c);
    return s;
}
