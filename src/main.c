/* attnd: the order of start, the signals, the order of stop. Everything else is in the folders. */
#include "base/size.h"
#include "config/command_line.h"
#include "config/config.h"
#include "engine/attention.h"
#include "runtime/arena_store.h"
#include "runtime/budget.h"
#include "runtime/pool.h"
#include "runtime/processors.h"
#include "runtime/service_manager.h"
#include "server/forward_batch.h"
#include "server/health_probe.h"
#include "server/server.h"
#include "server/weights.h"
#include "telemetry/log.h"
#include "telemetry/tracer.h"
#include "version.h"
#include "weights/registry.h"

#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

enum exit_code { EXIT_STOPPED = 0, EXIT_UNHEALTHY = 1, EXIT_CANNOT_START = 2 };

/* Beside connections: listeners, threads' descriptors, libraries, the weights' files. */
#define DESCRIPTORS_BESIDE 64

static int cannot_start(const struct error *error)
{
    fprintf(stderr, "attnd: %s\n", error->message);
    return EXIT_CANNOT_START;
}

static void print_faults(const struct faults *faults, const char *prefix)
{
    for (size_t i = 0; i < faults->count; i++) {
        char *text = fault_text(&faults->items[i]);
        fprintf(stderr, "%s%s\n", prefix, text ? text : "memory ran out");
        free(text);
    }
    if (faults->out_of_memory)
        fprintf(stderr, "%smemory ran out; some faults are not shown\n", prefix);
}

static void log_warnings(const struct faults *warnings)
{
    for (size_t i = 0; i < warnings->count; i++) {
        char *text = fault_text(&warnings->items[i]);
        log_event(LOG_WARNING, "configuration", LOG_STRING("message", text ? text : "memory ran out"));
        free(text);
    }
}

/* --check-config: what it would serve. */
static void print_plan(const struct config *config, const struct weights_registry *registry)
{
    printf("configuration: %s\n", config->file ? config->file : "built in (no --config)");
    for (size_t i = 0; i < config->listen_count; i++)
        printf("listen: %s\n", config->listen[i]);
    printf("kernels: %s\n", engine_isa());
    for (size_t i = 0; i < registry->count; i++) {
        const struct weight_set *set = registry->sets[i];
        const char *mark = set == registry->fallback ? " (default)" : "";
        if (set->ready)
            printf("weights: %s%s, %s, %zu layer%s, d_model %zu, %zu heads, %zu parameters, %s\n", set->name, mark,
                   set->source, set->num_layers, set->num_layers == 1 ? "" : "s", set->shape.d_model,
                   set->shape.num_heads, set->parameters, set->digest);
        else
            printf("weights: %s%s, %s, failed: %s\n", set->name, mark, set->source, set->failure);
    }
}

/* A connection is a descriptor: ask for as many as max_connections needs. */
static void raise_descriptor_limit(int64_t connections)
{
    struct rlimit limit;
    rlim_t needed = (rlim_t)connections + DESCRIPTORS_BESIDE;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= needed)
        return;
    limit.rlim_cur = needed < limit.rlim_max ? needed : limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
    if (limit.rlim_cur < needed)
        log_event(
            LOG_WARNING, "descriptors", LOG_INTEGER("limit", limit.rlim_cur), LOG_INTEGER("needed", needed),
            LOG_STRING("remedy", "raise the hard limit of open files (ulimit -Hn), or lower server.max_connections"));
}

static void log_listening(const struct server *server, const struct config *config, unsigned workers)
{
    const char *address, **names = calloc(config->weights_count + 1, sizeof *names);
    for (size_t i = 0; names && i < config->weights_count; i++)
        names[i] = config->weights[i].name;
    for (size_t n = 0; (address = server_address(server, n)); n++)
        log_event(LOG_INFO, "listening", LOG_STRING("address", address), LOG_STRING("version", ATTND_VERSION),
                  LOG_STRING("isa", engine_isa()), LOG_INTEGER("workers", workers), LOG_INTEGER("pid", getpid()),
                  LOG_STRING("role", server_address_is_admin(server, n) ? "admin" : NULL),
                  LOG_STRINGS("weights", names, names ? config->weights_count : 0));
    free(names);
}

/* SIGTERM, SIGINT and SIGHUP are taken here and nowhere else: blocked before any thread starts. */
static void handled_signals(sigset_t *set)
{
    sigemptyset(set);
    sigaddset(set, SIGTERM);
    sigaddset(set, SIGINT);
    sigaddset(set, SIGHUP);
}

/* The signal that ends the process, waited for at most `seconds` (negative: for ever); 0 when the time is over. SIGHUP
 * reloads meanwhile. */
static int wait_for_end(struct server *server, double seconds)
{
    sigset_t set;
    struct timespec until, now, left;
    handled_signals(&set);
    clock_gettime(CLOCK_MONOTONIC, &until);
    double whole = seconds < 0 ? 0 : seconds;
    until.tv_sec += (time_t)whole;
    until.tv_nsec += (long)((whole - (double)(time_t)whole) * 1e9);
    for (;;) {
        clock_gettime(CLOCK_MONOTONIC, &now);
        left = (struct timespec){.tv_sec = until.tv_sec - now.tv_sec, .tv_nsec = until.tv_nsec - now.tv_nsec};
        while (left.tv_nsec < 0) {
            left.tv_nsec += 1000000000;
            left.tv_sec--;
        }
        while (left.tv_nsec >= 1000000000) {
            left.tv_nsec -= 1000000000;
            left.tv_sec++;
        }
        if (seconds >= 0 && left.tv_sec < 0)
            return 0;
        int number = seconds < 0 ? sigwaitinfo(&set, NULL) : sigtimedwait(&set, NULL, &left);
        if (number == SIGTERM || number == SIGINT)
            return number;
        if (number == SIGHUP)
            server_reload(server);
        else if (number < 0 && errno == EAGAIN)
            return 0;
    }
}

static void serve_until_stopped(struct server *server)
{
    int number = wait_for_end(server, -1);
    double delay = number == SIGINT ? 0 : server_drain_delay(server);
    log_event(LOG_INFO, "drain", LOG_STRING("signal", number == SIGINT ? "SIGINT" : "SIGTERM"),
              LOG_NUMBER("delay_s", delay));
    server_drain(server);
    service_manager_notify("STOPPING=1\nSTATUS=draining");
    if (delay > 0)
        wait_for_end(server, delay); /* a second signal ends the delay, not the answers */
    server_stop(server);
}

/* What the machine gives, within what the configuration allows. */
struct resources {
    struct memory_budget budget;
    unsigned workers;
    bool pin;
};

static void find_resources(const struct config *config, struct resources *resources)
{
    struct processors processors = processors_count();
    budget_init(&resources->budget, (size_t)config->limits.memory_budget_bytes);
    resources->workers = config->server.workers ? (unsigned)config->server.workers : processors.usable;
    resources->pin = config->server.pin && resources->workers == processors.allowed && !processors.quota;
}

/* *tracer stays NULL where no collector is named. */
static bool start_tracer(const struct config *config, struct tracer **tracer, struct error *error)
{
    extern char **environ;
    struct otlp_settings settings;
    if (!otlp_settings_read(&settings, config->tracing.endpoint, ATTND_VERSION, (const char *const *)environ)) {
        otlp_settings_free(&settings);
        return error_out_of_memory(error);
    }
    for (size_t i = 0; i < settings.warning_count; i++)
        log_event(LOG_WARNING, "configuration", LOG_STRING("message", settings.warnings[i]));
    const bool wanted = settings.url != NULL;
    if (wanted)
        *tracer = tracer_start(&settings, config->tracing.sample_rate, error);
    otlp_settings_free(&settings);
    return !wanted || *tracer;
}

static void tell_of_reload(bool begins)
{
    if (begins)
        service_manager_notify_reloading();
    else
        service_manager_notify("READY=1\nSTATUS=serving");
}

/* Weights may take long to load, and nobody waits for signals meanwhile: what asks for an end has it at once, as
 * process 1 too, for which the system would ignore it; SIGHUP waits. */
static void end_at_once(int number)
{
    (void)number;
    _exit(EXIT_STOPPED);
}

static void take_signals_while_loading(void)
{
    const struct sigaction ending = {.sa_handler = end_at_once};
    sigset_t hangup;
    sigaction(SIGTERM, &ending, NULL);
    sigaction(SIGINT, &ending, NULL);
    sigemptyset(&hangup);
    sigaddset(&hangup, SIGHUP);
    pthread_sigmask(SIG_BLOCK, &hangup, NULL);
}

static int serve(const struct config *config, const struct config_flags *flags, struct weights_registry *registry,
                 struct resources *resources, const struct faults *warnings)
{
    struct error error;
    sigset_t set;
    int code = EXIT_CANNOT_START;
    enum log_level level;
    enum log_format format;

    signal(SIGPIPE, SIG_IGN);
    handled_signals(&set);
    pthread_sigmask(SIG_BLOCK, &set, NULL);

    log_level_from_name(config->log.level, &level);
    log_format_from_name(config->log.format, &format);
    if (!log_start(STDERR_FILENO, level, format, &error))
        return cannot_start(&error);
    log_warnings(warnings);
    for (size_t i = 0; i < registry->count; i++)
        weights_log_unused(registry->sets[i]);
    raise_descriptor_limit(config->server.max_connections);

    struct arena_store *arenas = arena_store_create(resources->budget.total / 2, &error);
    struct pool_options options = {.workers = resources->workers,
                                   .queue_depth = (size_t)config->limits.queue_depth,
                                   .arenas = arenas,
                                   .batch_rows = size_min((size_t)config->limits.max_batch_tokens, FORWARD_BATCH_ROWS),
                                   .batch_delay_ns = (uint64_t)config->limits.max_batch_delay_us * 1000,
                                   .pin = resources->pin};
    struct pool *pool = arenas ? pool_create(&options, &error) : NULL;
    struct server_parts parts = {.config = config,
                                 .flags = flags,
                                 .reloading = tell_of_reload,
                                 .registry = registry,
                                 .budget = &resources->budget,
                                 .arenas = arenas,
                                 .pool = pool};
    struct server *server = pool && start_tracer(config, &parts.tracer, &error) ? server_start(&parts, &error) : NULL;
    if (server) {
        registry_free(registry); /* the server holds what is served, for as long as it is */
        log_listening(server, config, resources->workers);
        service_manager_notify("READY=1\nSTATUS=serving");
        serve_until_stopped(server);
        code = EXIT_STOPPED;
    } else {
        cannot_start(&error);
    }
    pool_free(pool);
    arena_store_free(arenas);
    tracer_stop(parts.tracer);
    if (code == EXIT_STOPPED)
        log_event(LOG_INFO, "stopped", LOG_INTEGER("log_dropped", log_dropped()));
    log_stop();
    return code;
}

static int check_health(const struct config *config)
{
    struct error error;
    for (size_t i = 0; i < config->listen_count; i++)
        if (!health_probe(config->listen[i], config, &error)) {
            fprintf(stderr, "attnd: %s\n", error.message);
            return EXIT_UNHEALTHY;
        }
    return EXIT_STOPPED;
}

/* Loads what the command needs, and runs it. */
static int run(const struct command_line *line)
{
    struct config config;
    struct faults faults = {0}, warnings = {0};
    struct weights_registry registry = {0};
    struct resources resources;
    struct error error;
    int code = EXIT_CANNOT_START;
    extern char **environ;

    if (line->command == COMMAND_SERVE)
        take_signals_while_loading();
    if (!engine_init(getenv("ATTND_ISA"), &error))
        return cannot_start(&error);
    bool loaded = config_load(&line->flags, (const char *const *)environ, &config, &faults, &warnings);
    if (loaded && line->command == COMMAND_HEALTH) {
        code = check_health(&config);
        goto done;
    }
    if (loaded)
        find_resources(&config, &resources);
    const bool files = loaded && server_check(&config, &faults, &warnings);
    if (!loaded || !registry_load(&config, &registry, &faults, &warnings) ||
        !registry_check_memory(&registry, &config, resources.workers, resources.budget.total, &faults, &warnings) ||
        !files) {
        print_faults(&faults, "");
        goto done;
    }
    if (line->command == COMMAND_CHECK_CONFIG) {
        print_faults(&warnings, "warning: ");
        print_plan(&config, &registry);
        code = EXIT_STOPPED;
    } else {
        code = serve(&config, &line->flags, &registry, &resources, &warnings);
    }
done:
    if (!loaded && line->command == COMMAND_HEALTH)
        code = EXIT_UNHEALTHY;
    registry_free(&registry);
    faults_free(&warnings);
    faults_free(&faults);
    config_free(&config);
    return code;
}

/* Large pieces of memory go back to the system when they are freed: the C library keeps what is as large as what was
 * freed before, and the store of arenas keeps what will be used again already. */
static void return_large_pieces(void)
{
#ifdef __GLIBC__
    mallopt(M_MMAP_THRESHOLD, 1 << 20);
#endif
}

/* Where addresses are limited (RLIMIT_AS) they are kept for requests: the C library would take 64 MiB for each thread
 * that allocates, and 8 MiB for each stack. */
#define FRUGAL_ARENAS      2
#define FRUGAL_STACK_BYTES ((size_t)1 << 20)
static void spare_addresses(void)
{
#ifdef __GLIBC__
    struct rlimit limit;
    pthread_attr_t attributes;
    if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
        return;
    mallopt(M_ARENA_MAX, FRUGAL_ARENAS);
    if (pthread_attr_init(&attributes) == 0) {
        pthread_attr_setstacksize(&attributes, FRUGAL_STACK_BYTES);
        pthread_setattr_default_np(&attributes);
        pthread_attr_destroy(&attributes);
    }
#endif
}

/* Whoever starts it may have closed its first descriptors. What was opened next would have their numbers, and the log
 * would be written into a client's connection. */
static void open_standard_descriptors(void)
{
    int descriptor;
    do
        descriptor = open("/dev/null", O_RDWR);
    while (descriptor >= 0 && descriptor <= STDERR_FILENO);
    if (descriptor >= 0)
        close(descriptor);
}

int main(int argc, char **argv)
{
    struct command_line line;
    struct error error;
    int code = EXIT_STOPPED;
    open_standard_descriptors();
    return_large_pieces();
    spare_addresses();
    if (!command_line_parse(argc, argv, &line, &error)) {
        code = cannot_start(&error);
    } else if (line.command == COMMAND_HELP) {
        fputs(command_line_help(), stdout);
    } else if (line.command == COMMAND_VERSION) {
        if (engine_init(getenv("ATTND_ISA"), &error))
            printf("attnd %s (kernels: %s)\n", ATTND_VERSION, engine_isa());
        else
            code = cannot_start(&error);
    } else {
        code = run(&line);
    }
    command_line_free(&line);
    return code;
}
