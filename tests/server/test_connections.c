/* The list of connections, with sockets of the test's own. */
#include "base/clock.h"
#include "server/connections.h"
#include "suite.h"

#include <sys/socket.h>
#include <unistd.h>

static struct connections connections;
static const struct address nobody;
static int pairs[2][2];

static void set_up(void)
{
    ck_assert(connections_init(&connections));
    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pairs[i]), 0);
}

static void tear_down(void)
{
    connections_destroy(&connections);
    for (int i = 0; i < 2; i++) {
        close(pairs[i][0]);
        close(pairs[i][1]);
    }
}

static struct connection *opened(int descriptor)
{
    ck_assert(connections_add(&connections, descriptor, &nobody, false));
    struct connection *c = connections_started(&connections, descriptor, NULL, clock_ns(), CLOCK_NEVER, CLOCK_NEVER);
    ck_assert_ptr_nonnull(c);
    return c;
}

static bool reading_ended(int descriptor)
{
    char byte;
    return recv(descriptor, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0;
}

/* libmicrohttpd closes a socket in silence when its own memory runs out: such a record must not outlive its time. */
START_TEST(what_is_never_taken_up_has_a_deadline)
{
    ck_assert(connections_add(&connections, pairs[0][0], &nobody, false));
    ck_assert(!connections_close_idle(&connections));
    ck_assert_uint_lt(connections.first->deadline, clock_ns() + 60 * CLOCK_SECOND);
    pthread_mutex_lock(&connections.lock);
    connections_drop(&connections, connections.first);
    pthread_mutex_unlock(&connections.lock);
    ck_assert_uint_eq(connections_count(&connections).open, 0);
    ck_assert(connections_close_idle(&connections));
    ck_assert_ptr_null(connections_started(&connections, pairs[0][0], NULL, clock_ns(), CLOCK_NEVER, CLOCK_NEVER));
}
END_TEST

/* The thread that stops looks at it as soon as it is there: a handshake has longer to begin. */
START_TEST(what_is_encrypted_is_so_from_the_start)
{
    int anything;
    struct tls *tls = (struct tls *)&anything;
    ck_assert(connections_add(&connections, pairs[0][0], &nobody, false));
    const struct connection *c =
        connections_started(&connections, pairs[0][0], tls, clock_ns(), CLOCK_NEVER, CLOCK_NEVER);
    ck_assert_ptr_nonnull(c);
    ck_assert_ptr_eq(c->tls, tls);
    ck_assert_ptr_null(opened(pairs[1][0])->tls);
}
END_TEST

START_TEST(a_number_that_comes_back_replaces_its_record)
{
    ck_assert(connections_add(&connections, pairs[0][0], &nobody, false));
    ck_assert(connections_add(&connections, pairs[0][0], &nobody, false));
    ck_assert_uint_eq(connections_count(&connections).open, 1);
}
END_TEST

START_TEST(the_longest_idle_gives_way_but_none_with_something_to_read)
{
    opened(pairs[0][0]);
    opened(pairs[1][0]);
    ck_assert_int_eq(write(pairs[0][1], "GET", 3), 3);
    ck_assert(connections_evict(&connections));
    ck_assert(!reading_ended(pairs[0][0]));
    ck_assert(reading_ended(pairs[1][0]));
    ck_assert_uint_eq(connections_count(&connections).open, 1);
    ck_assert(!connections_evict(&connections));
}
END_TEST

START_TEST(a_request_that_raced_with_the_end_of_reading_counts_again)
{
    char id[REQUEST_ID_BYTES] = "id";
    struct connection *c = opened(pairs[0][0]);
    ck_assert(connections_evict(&connections));
    ck_assert_uint_eq(connections_count(&connections).open, 0);
    connections_begin(&connections, c, NULL, id, clock_ns(), CLOCK_NEVER);
    ck_assert_uint_eq(connections_count(&connections).open, 1);
    ck_assert_uint_eq(connections_count(&connections).requests, 1);
    ck_assert(!c->closing);
    ck_assert(!connections_leave(&connections, c, clock_ns(), CLOCK_NEVER));
    ck_assert_uint_eq(connections_count(&connections).requests, 0);
    connections_closed(&connections, c);
    ck_assert(connections_close_idle(&connections));
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("connections");
    TCase *c = tcase_create("connections");
    tcase_add_checked_fixture(c, set_up, tear_down);
    tcase_add_test(c, what_is_never_taken_up_has_a_deadline);
    tcase_add_test(c, what_is_encrypted_is_so_from_the_start);
    tcase_add_test(c, a_number_that_comes_back_replaces_its_record);
    tcase_add_test(c, the_longest_idle_gives_way_but_none_with_something_to_read);
    tcase_add_test(c, a_request_that_raced_with_the_end_of_reading_counts_again);
    suite_add_tcase(s, c);
    return s;
}
