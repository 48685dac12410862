/* Starts, watches and stops the executable. One thread a server reads its stderr, so that the pipe never fills; the
 * rest is the test's own thread. */
#include "server_process.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <check.h>

extern char **environ;

/* Of a log that grows without end, the last half of this is kept. */
#define LOG_BYTES ((size_t)16 << 20)

/* A command that does not end is stopped after so long. */
#define COMMAND_SECONDS 120

struct server_process {
    pid_t process;
    unsigned port;
    bool ended;
    int code, log_descriptor;
    bool stop_reading;
    pthread_t reader;
    pthread_mutex_t lock;
    pthread_cond_t grown;
    char *log; /* [log_length], and a NUL */
    size_t log_length, log_capacity;
    bool log_ended, listening;
};

double seconds_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

void sleep_ms(unsigned milliseconds)
{
    usleep(milliseconds * 1000);
}

/* Memory that runs out in a test ends it. */
static void *must(void *memory)
{
    if (!memory) {
        fputs("the test ran out of memory\n", stderr);
        abort();
    }
    return memory;
}

char *quoted(const char *format, ...)
{
    char *text, *quoted_format = must(strdup(format));
    va_list arguments;
    for (char *c = quoted_format; *c; c++)
        if (*c == '\'')
            *c = '"';
    va_start(arguments, format);
    int length = vasprintf(&text, quoted_format, arguments);
    va_end(arguments);
    free(quoted_format);
    return must(length < 0 ? NULL : text);
}

char *folder_with_file(const char *name, const char *text, size_t length)
{
    char *folder = must(strdup("/tmp/attnd-test-XXXXXX")), *path;
    ck_assert_ptr_nonnull(mkdtemp(folder));
    must(asprintf(&path, "%s/%s", folder, name) < 0 ? NULL : path);
    FILE *file = fopen(path, "wb");
    bool written = file && fwrite(text, 1, length, file) == length;
    if (file && fclose(file) != 0)
        written = false;
    free(path);
    if (!written) {
        remove_folder(folder);
        ck_abort_msg("cannot write a file below /tmp");
    }
    return folder;
}

void remove_folder(char *folder)
{
    static const char *const names[] = {"attnd.json", "weights.safetensors"};
    for (size_t i = 0; folder && i < sizeof names / sizeof *names; i++) {
        char *path;
        must(asprintf(&path, "%s/%s", folder, names[i]) < 0 ? NULL : path);
        unlink(path);
        free(path);
    }
    if (folder)
        rmdir(folder);
    free(folder);
}

/* The caller's environment without its ATTND_*, and `added`. */
static const char **environment_with(const char *const *added)
{
    size_t count = 0, total = 1;
    for (char **entry = environ; *entry; entry++)
        total++;
    for (size_t i = 0; added && added[i]; i++)
        total++;
    const char **environment = must(calloc(total, sizeof *environment));
    for (char **entry = environ; *entry; entry++)
        if (strncmp(*entry, "ATTND_", 6) != 0)
            environment[count++] = *entry;
    for (size_t i = 0; added && added[i]; i++)
        environment[count++] = added[i];
    return environment;
}

static const char *binary_or_default(const char *binary)
{
    if (!binary)
        binary = getenv("ATTND_BINARY");
    if (!binary) {
        fputs("ATTND_BINARY does not say where the executable is\n", stderr);
        abort();
    }
    return binary;
}

/* `out` and `err`: descriptors for its stdout and stderr. */
static pid_t spawn(const char **arguments, const char **environment, int out, int err)
{
    pid_t parent = getpid(), process = fork();
    if (process != 0)
        return process;
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    int null = open("/dev/null", O_RDONLY);
    if (getppid() != parent || dup2(null, 0) < 0 || dup2(out, 1) < 0 || dup2(err, 2) < 0)
        _exit(127);
    execve(arguments[0], (char *const *)(uintptr_t)arguments, (char *const *)(uintptr_t)environment);
    _exit(127);
}

/* ---- the log */

static void *read_log(void *argument)
{
    struct server_process *server = argument;
    char part[4096];
    ssize_t got;
    while ((got = read(server->log_descriptor, part, sizeof part)) > 0 || (got < 0 && errno == EINTR)) {
        if (got < 0)
            continue;
        pthread_mutex_lock(&server->lock);
        if (server->log_length + (size_t)got + 1 > server->log_capacity) {
            server->log_capacity = 2 * (server->log_length + (size_t)got + 1);
            server->log = must(realloc(server->log, server->log_capacity));
        }
        memcpy(server->log + server->log_length, part, (size_t)got);
        server->log_length += (size_t)got;
        server->log[server->log_length] = '\0';
        const char *event = server->listening ? NULL : strstr(server->log, "listening");
        if (event && strchr(event, '\n'))
            server->listening = true;
        if (server->log_length > LOG_BYTES) {
            size_t forgotten = server->log_length - LOG_BYTES / 2;
            server->log_length -= forgotten;
            memmove(server->log, server->log + forgotten, server->log_length + 1);
        }
        bool enough = server->listening && server->stop_reading;
        pthread_cond_broadcast(&server->grown);
        pthread_mutex_unlock(&server->lock);
        if (enough)
            return NULL;
    }
    pthread_mutex_lock(&server->lock);
    server->log_ended = true;
    pthread_cond_broadcast(&server->grown);
    pthread_mutex_unlock(&server->lock);
    return NULL;
}

/* Waits for the log to grow; false when it has ended or the time is over. The lock is held. */
static bool wait_for_more(struct server_process *server, double until)
{
    struct timespec deadline;
    if (server->log_ended || seconds_now() >= until)
        return false;
    clock_gettime(CLOCK_REALTIME, &deadline);
    deadline.tv_nsec += 50 * 1000000L;
    if (deadline.tv_nsec >= 1000000000L) {
        deadline.tv_nsec -= 1000000000L;
        deadline.tv_sec++;
    }
    pthread_cond_timedwait(&server->grown, &server->lock, &deadline);
    return true;
}

char *server_process_log(struct server_process *server)
{
    pthread_mutex_lock(&server->lock);
    char *copy = must(strdup(server->log));
    pthread_mutex_unlock(&server->lock);
    return copy;
}

bool server_process_logs(struct server_process *server, const char *text, double seconds, char **line)
{
    double until = seconds_now() + seconds;
    bool found = false;
    pthread_mutex_lock(&server->lock);
    do {
        char *at = strstr(server->log, text), *end = at ? strchr(at, '\n') : NULL;
        if (!end)
            continue;
        while (at > server->log && at[-1] != '\n')
            at--;
        if (line)
            *line = must(strndup(at, (size_t)(end - at)));
        found = true;
    } while (!found && wait_for_more(server, until));
    pthread_mutex_unlock(&server->lock);
    return found;
}

/* ---- start and stop */

static char *configuration(const struct server_options *options)
{
    char *format;
    const char *members = options->members ? options->members : "";
    must(asprintf(&format, "{'listen':['127.0.0.1:0'],%s%s%s%s'server':{%s}}",
                  options->own_weights ? "" : DEFAULT_WEIGHTS, options->own_weights ? "" : ",", members,
                  *members ? "," : "", options->server_members ? options->server_members : "'drain_delay_s':0") < 0
             ? NULL
             : format);
    for (char *c = format; *c; c++)
        if (*c == '\'')
            *c = '"';
    return format;
}

struct server_process *server_process_start(const struct server_options *options)
{
    static const struct server_options defaults;
    options = options ? options : &defaults;
    struct server_process *server = must(calloc(1, sizeof *server));
    const char *arguments[32] = {binary_or_default(options->binary), "--config"};
    const char **environment = environment_with(options->environment);
    char *config = configuration(options), *folder = folder_with_file("attnd.json", config, strlen(config)), *path,
         *line = NULL;
    int ends[2];

    must(asprintf(&path, "%s/attnd.json", folder) < 0 ? NULL : path);
    arguments[2] = path;
    for (size_t i = 0; options->arguments && options->arguments[i] && i < 28; i++)
        arguments[3 + i] = options->arguments[i];
    server->log = must(strdup(""));
    server->stop_reading = options->stop_reading;
    pthread_mutex_init(&server->lock, NULL);
    pthread_cond_init(&server->grown, NULL);
    ck_assert_int_eq(pipe2(ends, O_CLOEXEC), 0);
    server->log_descriptor = ends[0];
    server->process = spawn(arguments, environment, ends[1], ends[1]);
    close(ends[1]);
    ck_assert_int_gt(server->process, 0);
    ck_assert_int_eq(pthread_create(&server->reader, NULL, read_log, server), 0);
    bool listening = server_process_logs(server, "listening", PATIENCE_SECONDS, &line);
    remove_folder(folder);
    free(path);
    free(environment);
    const char *address = listening ? strstr(line, "127.0.0.1:") : NULL;
    if (!address) {
        fprintf(stderr, "the server did not say that it listens.\nconfiguration: %s\nlog: %s\n", config, server->log);
        ck_abort_msg("the server did not start");
    }
    server->port = (unsigned)strtoul(address + strlen("127.0.0.1:"), NULL, 10);
    ck_assert_uint_gt(server->port, 0);
    free(line);
    free(config);
    return server;
}

unsigned server_process_port(const struct server_process *server)
{
    return server->port;
}

pid_t server_process_id(const struct server_process *server)
{
    return server->process;
}

void server_process_signal(struct server_process *server, int number)
{
    ck_assert_msg(!server->ended, "the server has ended already, with exit code %d", server->code);
    ck_assert_int_eq(kill(server->process, number), 0);
}

/* -1 while it runs. */
static int exit_code(pid_t process, double seconds)
{
    double until = seconds_now() + seconds;
    for (;;) {
        int status;
        pid_t ended = waitpid(process, &status, WNOHANG);
        if (ended == process)
            return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
        if (seconds_now() >= until)
            return -1;
        sleep_ms(5);
    }
}

int server_process_wait(struct server_process *server, double seconds)
{
    if (server->ended)
        return server->code;
    server->code = exit_code(server->process, seconds);
    server->ended = server->code >= 0;
    return server->code;
}

void server_process_stop(struct server_process *server)
{
    static const char *const reports[] = {"AddressSanitizer", "ThreadSanitizer", "LeakSanitizer", "runtime error:"};
    if (!server->ended)
        kill(server->process, SIGINT);
    int code = server_process_wait(server, PATIENCE_SECONDS);
    if (code < 0)
        kill(server->process, SIGKILL);
    pthread_join(server->reader, NULL);
    for (size_t i = 0; i < sizeof reports / sizeof *reports; i++)
        if (strstr(server->log, reports[i])) {
            fprintf(stderr, "%s\n", strstr(server->log, reports[i]));
            ck_abort_msg("%s has something to say of the server", reports[i]);
        }
    if (code != 0)
        fprintf(stderr, "the end of the server's log:\n%s\n",
                server->log + (server->log_length > 2000 ? server->log_length - 2000 : 0));
    ck_assert_msg(code >= 0, "the server did not stop");
    ck_assert_msg(code == 0, "the server's exit code is %d, expected 0", code);
    close(server->log_descriptor);
    pthread_cond_destroy(&server->grown);
    pthread_mutex_destroy(&server->lock);
    free(server->log);
    free(server);
}

long server_process_rss(const struct server_process *server)
{
    char path[64], line[256];
    long kib = -1;
    snprintf(path, sizeof path, "/proc/%d/status", (int)server->process);
    FILE *file = fopen(path, "r");
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "VmRSS: %ld kB", &kib) == 1)
            break;
    if (file)
        fclose(file);
    return kib;
}

/* ---- commands */

struct program_result program_run(const char *const *arguments, const char *const *environment)
{
    struct program_result result = {.code = -1};
    const char *all[32] = {binary_or_default(NULL)}, **variables = environment_with(environment);
    FILE *out = tmpfile(), *err = tmpfile();
    ck_assert_ptr_nonnull(out);
    ck_assert_ptr_nonnull(err);
    for (size_t i = 0; arguments && arguments[i] && i < 30; i++)
        all[1 + i] = arguments[i];
    pid_t process = spawn(all, variables, fileno(out), fileno(err));
    ck_assert_int_gt(process, 0);
    result.code = exit_code(process, COMMAND_SECONDS);
    if (result.code < 0) {
        kill(process, SIGKILL);
        waitpid(process, NULL, 0);
    }
    FILE *files[] = {out, err};
    char **texts[] = {&result.out, &result.err};
    for (size_t i = 0; i < 2; i++) {
        fseek(files[i], 0, SEEK_END);
        size_t length = (size_t)ftell(files[i]);
        rewind(files[i]);
        *texts[i] = must(calloc(length + 1, 1));
        ck_assert_uint_eq(fread(*texts[i], 1, length, files[i]), length);
        fclose(files[i]);
    }
    free(variables);
    return result;
}

void program_result_free(struct program_result *result)
{
    free(result->out);
    free(result->err);
    *result = (struct program_result){0};
}
