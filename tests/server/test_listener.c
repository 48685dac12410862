#include "server/listener.h"
#include "suite.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

START_TEST(splits_at_the_last_colon)
{
    static const struct {
        const char *text, *host, *port;
    } good[] = {{"127.0.0.1:80", "127.0.0.1", "80"}, {"[::1]:8080", "::1", "8080"}, {"localhost:0", "localhost", "0"}};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        char copy[64], *host, *port;
        snprintf(copy, sizeof copy, "%s", good[i].text);
        ck_assert(listener_split(copy, &host, &port));
        ck_assert_str_eq(host, good[i].host);
        ck_assert_str_eq(port, good[i].port);
    }
    char none[] = "localhost", *host, *port;
    ck_assert(!listener_split(none, &host, &port));
}
END_TEST

START_TEST(opens_on_a_free_port_and_names_it)
{
    char *listen[] = {(char *)"127.0.0.1:0", (char *)"127.0.0.1:0"};
    struct listeners listeners = {0};
    struct error error;
    ck_assert(listeners_open(&listeners, listen, 2, false, &error));
    ck_assert_uint_eq(listeners.count, 2);
    ck_assert_str_ne(listeners.items[0].address, listeners.items[1].address);
    for (size_t i = 0; i < 2; i++) {
        int port;
        ck_assert_int_eq(sscanf(listeners.items[i].address, "127.0.0.1:%d", &port), 1);
        struct sockaddr_in to = {
            .sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr = {htonl(INADDR_LOOPBACK)}};
        int client = socket(AF_INET, SOCK_STREAM, 0);
        ck_assert_int_eq(connect(client, (struct sockaddr *)&to, sizeof to), 0);
        close(client);
    }
    listeners_close(&listeners);
    listeners_free(&listeners);
}
END_TEST

START_TEST(a_taken_port_is_named_with_the_remedy)
{
    char *any[] = {(char *)"127.0.0.1:0"};
    struct listeners first = {0}, second = {0};
    struct error error = {0};
    ck_assert(listeners_open(&first, any, 1, false, &error));
    ck_assert(!listeners_open(&second, &first.items[0].address, 1, false, &error));
    ck_assert_int_eq(error.code, ERROR_IO);
    ck_assert_ptr_nonnull(strstr(error.message, first.items[0].address));
    ck_assert_ptr_nonnull(strstr(error.message, "--listen"));
    ck_assert(!listeners_open(&second, &first.items[0].address, 1, true, &error));
    ck_assert_ptr_nonnull(strstr(error.message, "admin.listen needs a port of its own"));
    ck_assert_ptr_null(strstr(error.message, "--listen"));
    listeners_close(&first);
    listeners_free(&first);
}
END_TEST

START_TEST(what_is_no_address_is_named)
{
    char *wrong[] = {(char *)"no.such.host.invalid:80"};
    struct listeners listeners = {0};
    struct error error = {0};
    ck_assert(!listeners_open(&listeners, wrong, 1, false, &error));
    ck_assert_ptr_nonnull(strstr(error.message, "no.such.host.invalid:80"));
    ck_assert_uint_eq(listeners.count, 0);
}
END_TEST

static int listening_socket(int type)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    int descriptor = socket(AF_INET, type, 0);
    ck_assert_int_eq(bind(descriptor, (struct sockaddr *)&address, sizeof address), 0);
    if (type == SOCK_STREAM)
        ck_assert_int_eq(listen(descriptor, 1), 0);
    return descriptor;
}

START_TEST(takes_a_socket_that_listens)
{
    int given = listening_socket(SOCK_STREAM);
    struct sockaddr_in address;
    socklen_t length = sizeof address;
    char wanted[64];
    struct listeners listeners;
    struct error error;
    getsockname(given, (struct sockaddr *)&address, &length);
    snprintf(wanted, sizeof wanted, "127.0.0.1:%d", ntohs(address.sin_port));
    ck_assert(listeners_adopt(&listeners, given, 1, &error));
    ck_assert_uint_eq(listeners.count, 1);
    ck_assert_int_eq(listeners.items[0].descriptor, given);
    ck_assert_str_eq(listeners.items[0].address, wanted);
    ck_assert(listeners.items[0].given);
    ck_assert_int_ne(fcntl(given, F_GETFL) & O_NONBLOCK, 0);
    ck_assert_int_eq(fcntl(given, F_GETFD), FD_CLOEXEC);
    listeners_close(&listeners);
    listeners_free(&listeners);
}
END_TEST

START_TEST(refuses_a_socket_that_is_of_no_use)
{
    int unbound = socket(AF_INET, SOCK_STREAM, 0), datagrams = listening_socket(SOCK_DGRAM);
    int local = socket(AF_UNIX, SOCK_STREAM, 0), pipes[2], none = 1000000;
    ck_assert_int_eq(listen(local, 1) == 0 || errno == EINVAL, true);
    ck_assert_int_eq(pipe(pipes), 0);
    const int wrong[] = {unbound, datagrams, local, pipes[0], none};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct listeners listeners;
        struct error error = {0};
        char number[16];
        snprintf(number, sizeof number, "%d", wrong[i]);
        ck_assert(!listeners_adopt(&listeners, wrong[i], 1, &error));
        ck_assert_int_eq(error.code, ERROR_IO);
        ck_assert_ptr_nonnull(strstr(error.message, number));
        ck_assert_uint_eq(listeners.count, 0);
    }
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("listener");
    TCase *c = tcase_create("listener");
    tcase_add_test(c, splits_at_the_last_colon);
    tcase_add_test(c, opens_on_a_free_port_and_names_it);
    tcase_add_test(c, a_taken_port_is_named_with_the_remedy);
    tcase_add_test(c, what_is_no_address_is_named);
    tcase_add_test(c, takes_a_socket_that_listens);
    tcase_add_test(c, refuses_a_socket_that_is_of_no_use);
    suite_add_tcase(s, c);
    return s;
}
