#include "server/listener.h"
#include "suite.h"

#include <arpa/inet.h>
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

Suite *suite(void)
{
    Suite *s = suite_create("listener");
    TCase *c = tcase_create("listener");
    tcase_add_test(c, splits_at_the_last_colon);
    tcase_add_test(c, opens_on_a_free_port_and_names_it);
    tcase_add_test(c, a_taken_port_is_named_with_the_remedy);
    tcase_add_test(c, what_is_no_address_is_named);
    suite_add_tcase(s, c);
    return s;
}
