/* Bytes as they are, for what no HTTP client would send: bad framing, half requests, readers that stop. */
#ifndef ATTND_TESTS_E2E_RAW_SOCKET_H
#define ATTND_TESTS_E2E_RAW_SOCKET_H

#include "server_process.h"

#include <stdbool.h>
#include <stddef.h>

/* A connection to the server; `receive_buffer` in bytes, 0: the system's own. */
int raw_connect(const struct server_process *server, int receive_buffer);

/* False when the peer has closed (its answer may still be there to be read). */
bool raw_send(int descriptor, const void *data, size_t length);
bool raw_send_text(int descriptor, const char *text);

struct raw_answer {
    char *data; /* [length], and a NUL */
    size_t length;
    bool closed; /* by the peer; else it was silent for the whole time */
};

/* Reads until the peer closes, or nothing comes for `silence` seconds, or (unless NULL) until `text` is there. */
struct raw_answer raw_receive(int descriptor, double silence, const char *text);

/* Connects, sends, receives until the end, closes. */
struct raw_answer raw_exchange(const struct server_process *server, const void *data, size_t length, double silence);
struct raw_answer raw_exchange_text(const struct server_process *server, const char *text, double silence);
void raw_answer_free(struct raw_answer *answer);

/* 0 when it does not begin with a status line. */
int raw_status(const struct raw_answer *answer);
/* The number of answers in it, by their status lines. */
size_t raw_answers(const struct raw_answer *answer);
/* How often `text` stands in it. */
size_t raw_count(const struct raw_answer *answer, const char *text);

#endif
