#include "raw_socket.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <check.h>

int raw_connect(const struct server_process *server, int receive_buffer)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)server_process_port(server)),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int descriptor = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;
    ck_assert_int_ge(descriptor, 0);
    if (receive_buffer)
        setsockopt(descriptor, SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof receive_buffer);
    setsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    ck_assert_msg(connect(descriptor, (struct sockaddr *)&address, sizeof address) == 0, "cannot connect: %s",
                  strerror(errno));
    return descriptor;
}

bool raw_send(int descriptor, const void *data, size_t length)
{
    const char *from = data;
    while (length) {
        ssize_t sent = send(descriptor, from, length, MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR)
            continue;
        if (sent <= 0)
            return false;
        from += sent;
        length -= (size_t)sent;
    }
    return true;
}

bool raw_send_text(int descriptor, const char *text)
{
    return raw_send(descriptor, text, strlen(text));
}

struct raw_answer raw_receive(int descriptor, double silence, const char *text)
{
    struct raw_answer answer = {.data = calloc(1, 1)};
    char part[65536];
    ck_assert_ptr_nonnull(answer.data);
    while (!text || !strstr(answer.data, text)) {
        struct pollfd polled = {.fd = descriptor, .events = POLLIN};
        if (poll(&polled, 1, (int)(silence * 1000)) <= 0)
            break;
        ssize_t got = recv(descriptor, part, sizeof part, 0);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0) {
            answer.closed = true;
            break;
        }
        answer.data = realloc(answer.data, answer.length + (size_t)got + 1);
        ck_assert_ptr_nonnull(answer.data);
        memcpy(answer.data + answer.length, part, (size_t)got);
        answer.length += (size_t)got;
        answer.data[answer.length] = '\0';
    }
    return answer;
}

struct raw_answer raw_exchange(const struct server_process *server, const void *data, size_t length, double silence)
{
    int descriptor = raw_connect(server, 0);
    (void)raw_send(descriptor, data, length); /* refused early: the answer is there to be read */
    struct raw_answer answer = raw_receive(descriptor, silence, NULL);
    close(descriptor);
    return answer;
}

struct raw_answer raw_exchange_text(const struct server_process *server, const char *text, double silence)
{
    return raw_exchange(server, text, strlen(text), silence);
}

void raw_answer_free(struct raw_answer *answer)
{
    free(answer->data);
    *answer = (struct raw_answer){0};
}

int raw_status(const struct raw_answer *answer)
{
    int status;
    return sscanf(answer->data, "HTTP/1.%*1[01] %3d", &status) == 1 ? status : 0;
}

size_t raw_answers(const struct raw_answer *answer)
{
    size_t count = 0;
    for (const char *at = answer->data; (at = strstr(at, "HTTP/1.1 ")) != NULL; at += strlen("HTTP/1.1 "))
        count += at[strlen("HTTP/1.1 ")] >= '1' && at[strlen("HTTP/1.1 ")] <= '5';
    return count;
}

size_t raw_count(const struct raw_answer *answer, const char *text)
{
    size_t count = 0;
    for (const char *at = answer->data; (at = strstr(at, text)) != NULL; at += strlen(text))
        count++;
    return count;
}
