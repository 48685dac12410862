/* The real executable as a child of the test: started on a free port of 127.0.0.1 and watched from outside. */
#ifndef ATTND_TESTS_E2E_SERVER_PROCESS_H
#define ATTND_TESTS_E2E_SERVER_PROCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct server_process;

/* How long a test waits for what must happen at once or soon; sanitizer builds on a busy machine are slow. */
#define PATIENCE_SECONDS 60

/* A machine may stand still for seconds at any moment. What needs luck, such as that it does not while a short deadline
 * runs, is tried so often; what must be so whenever it stands still is demanded of each try. */
#define TRIES 60

struct server_options {
    const char *server_members;   /* of the configuration's "server"; NULL: drain_delay_s 0 */
    const char *members;          /* of the configuration beside listen, default_weights and server; with "weights"
                                     among them `own_weights` is set */
    bool own_weights;             /* `members` holds weights and default_weights; else DEFAULT_WEIGHTS are served */
    const char *const *arguments; /* NULL-terminated, behind --config FILE; NULL: none */
    const char *const
        *environment;   /* "NAME=value", NULL-terminated; NULL: none. The caller's own ATTND_* are not passed on */
    const char *binary; /* NULL: environment variable ATTND_BINARY */
    bool stop_reading;  /* nobody reads its stderr once it listens */
};

/* What the configuration's text serves unless the options say otherwise. In these texts ' stands for ". */
#define DEFAULT_WEIGHTS                                                                  \
    "'default_weights':'demo','weights':["                                               \
    "{'name':'demo','source':'numpy','seed':42,'scale':0.1,'d_model':64,'num_heads':8}," \
    "{'name':'plain512','source':'identity','d_model':512,'num_heads':8},"               \
    "{'name':'plain64','source':'identity','d_model':64,'num_heads':4}]"

/* Starts it and waits until it listens; ends the test (or program) with a message when it does not. NULL options:
 * defaults. The kernel kills the process when the test ends in any way; its folder is gone by the time this returns. */
struct server_process *server_process_start(const struct server_options *options);

unsigned server_process_port(const struct server_process *server);
pid_t server_process_id(const struct server_process *server);
void server_process_signal(struct server_process *server, int number);

/* The exit code, waited for at most `seconds`; -1 when it still runs, 128 + n when signal n killed it. */
int server_process_wait(struct server_process *server, double seconds);

/* SIGINT (unless it has ended), then demands exit code 0 and a log without a sanitizer's report; frees. */
void server_process_stop(struct server_process *server);

/* Resident memory in KiB. */
long server_process_rss(const struct server_process *server);

/* The log so far; the caller frees it. */
char *server_process_log(struct server_process *server);
/* Whether a line with `text` in it comes within `seconds`. The line is malloc'ed into *line unless that is NULL. */
bool server_process_logs(struct server_process *server, const char *text, double seconds, char **line);

/* A command that ends by itself: its exit code, and what it wrote to stdout and stderr. */
struct program_result {
    int code;
    char *out, *err;
};
struct program_result program_run(const char *const *arguments, const char *const *environment);
void program_result_free(struct program_result *result);

/* A fresh folder below /tmp with the file `name` in it; remove_folder takes both away. */
char *folder_with_file(const char *name, const char *text, size_t length);
void remove_folder(char *folder);

/* printf into fresh memory, with " for every ' of the format (not of what is put in). */
char *quoted(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Seconds of a monotonic clock. */
double seconds_now(void);
void sleep_ms(unsigned milliseconds);

#endif
