/* The floor of a request over HTTP: libmicrohttpd as src/server/daemon.c starts it, and nothing behind it. A POST's
 * body is read and thrown away, then an answer of fixed length is sent, whose bytes stand in memory. The main thread
 * accepts; the polling threads of libmicrohttpd do the rest, inline.
 *
 * usage: bench_echo PORT ANSWER_BYTES THREADS: serves 127.0.0.1:PORT until SIGTERM. */
#include <microhttpd.h>

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

struct fixed_answer {
    char *bytes; /* [length] */
    size_t length;
};

static enum MHD_Result handle(void *context, struct MHD_Connection *connection, const char *url, const char *method,
                              const char *version, const char *upload_data, size_t *upload_data_size, void **state)
{
    static char seen;
    const struct fixed_answer *answer = context;
    (void)url;
    (void)method;
    (void)version;
    (void)upload_data;
    /* An answer to the first call would close the connection. */
    if (!*state || *upload_data_size) {
        *state = &seen;
        *upload_data_size = 0;
        return MHD_YES;
    }
    struct MHD_Response *response =
        MHD_create_response_from_buffer(answer->length, answer->bytes, MHD_RESPMEM_PERSISTENT);
    if (!response)
        return MHD_NO;
    enum MHD_Result queued = MHD_add_response_header(response, "Content-Type", "application/json");
    if (queued == MHD_YES)
        queued = MHD_queue_response(connection, MHD_HTTP_OK, response);
    MHD_destroy_response(response);
    return queued;
}

static struct MHD_Daemon *start(const struct fixed_answer *answer, unsigned threads)
{
    struct MHD_OptionItem pool[] = {{MHD_OPTION_THREAD_POOL_SIZE, threads, NULL}, {MHD_OPTION_END, 0, NULL}};
    if (threads < 2)
        pool[0].option = MHD_OPTION_END;
    return MHD_start_daemon(MHD_USE_POLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_NO_LISTEN_SOCKET |
                                MHD_USE_ERROR_LOG,
                            0, NULL, NULL, handle, (void *)answer, MHD_OPTION_CONNECTION_LIMIT, 1000 * threads,
                            MHD_OPTION_ARRAY, pool, MHD_OPTION_END);
}

/* A listening socket of 127.0.0.1; -1 on failure. */
static int listen_on(unsigned port)
{
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int descriptor = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (descriptor < 0 || bind(descriptor, (struct sockaddr *)&address, sizeof address) != 0 ||
        listen(descriptor, 128) != 0)
        return -1;
    return descriptor;
}

int main(int argc, char **argv)
{
    unsigned long numbers[3] = {0};
    for (int i = 0; i < 3 && argc == 4; i++)
        numbers[i] = strtoul(argv[i + 1], NULL, 10);
    if (!numbers[0] || numbers[0] > 65535 || !numbers[1] || !numbers[2] || numbers[2] > 256) {
        fprintf(stderr, "usage: bench_echo PORT ANSWER_BYTES THREADS\n");
        return 2;
    }
    struct fixed_answer answer = {.bytes = malloc(numbers[1]), .length = numbers[1]};
    int listener = listen_on((unsigned)numbers[0]);
    struct MHD_Daemon *daemon = answer.bytes ? start(&answer, (unsigned)numbers[2]) : NULL;
    if (listener < 0 || !daemon) {
        perror("bench_echo cannot start");
        return 1;
    }
    memset(answer.bytes, ' ', answer.length);
    for (;;) {
        struct sockaddr_in client;
        socklen_t length = sizeof client;
        int descriptor = accept4(listener, (struct sockaddr *)&client, &length, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (descriptor >= 0)
            MHD_add_connection(daemon, descriptor, (struct sockaddr *)&client, length);
    }
}
