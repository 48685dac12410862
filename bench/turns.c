/* The lines and the clocks: see turns.h. Entered by the program's main thread; passes run on a worker. */
#include "turns.h"

#include "engine/forward.h"
#include "lanes.h"
#include "peak.h"
#include "samples.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct timing {
    double wall, cpu; /* seconds */
};

struct repeats {
    const struct turns_pass *pass;
    struct arena *scratch;
    unsigned long count;
    struct timing timing;
    bool done;
    struct error error;
};

static double seconds(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static struct timing read_clocks(void)
{
    return (struct timing){seconds(CLOCK_MONOTONIC), seconds(CLOCK_PROCESS_CPUTIME_ID)};
}

static bool run(const struct repeats *repeats, const struct parallel *parallel, struct error *error)
{
    arena_reset(repeats->scratch);
    return repeats->pass->run(repeats->pass->context, parallel, repeats->scratch, error);
}

/* On the thread that the lanes chose, so that no thread is waited for within the time. */
static void run_repeats(const struct parallel *parallel, void *argument)
{
    struct repeats *repeats = argument;
    size_t bytes;
    arena_reset(repeats->scratch);
    if (!repeats->pass->scratch_bytes(repeats->pass->context, parallel->lanes, &bytes) ||
        !arena_reserve(repeats->scratch, bytes)) {
        repeats->done = error_out_of_memory(&repeats->error);
        return;
    }
    repeats->done = run(repeats, parallel, &repeats->error);
    const struct timing start = read_clocks();
    for (unsigned long i = 0; i < repeats->count && repeats->done; i++)
        repeats->done = run(repeats, parallel, &repeats->error);
    const struct timing end = read_clocks();
    repeats->timing = (struct timing){end.wall - start.wall, end.cpu - start.cpu};
}

static double measure_peak(void)
{
    const char *chosen = engine_isa();
    const double start = thread_seconds();
    double flop = NAN;
#define PEAK_CALL(identifier, name) \
    if (strcmp(chosen, name) == 0)  \
        flop = peak_##identifier(2000000);
    KERNEL_VARIANTS(PEAK_CALL)
    return flop / (thread_seconds() - start);
}

static bool save(const struct turns_pass *pass, const char *path, struct error *error)
{
    FILE *file = fopen(path, "wb");
    bool done = file && pass->save(pass->context, file);
    if (file && fclose(file) != 0)
        done = false;
    return done || error_set(error, ERROR_IO, "%s cannot be written", path);
}

static bool answer(const struct turns_pass *pass, struct lanes *lanes, struct arena *scratch, char *line,
                   struct error *error)
{
    line[strcspn(line, "\n")] = '\0';
    if (strcmp(line, "peak") == 0) {
        printf("%.0f\n", measure_peak());
        fflush(stdout);
        return true;
    }
    char *end;
    struct repeats repeats = {.pass = pass, .scratch = scratch, .count = strtoul(line, &end, 10)};
    if (end == line || (*end != '\0' && *end != ' '))
        return error_set(error, ERROR_INVALID, "\"%s\" is not \"REPEATS [FILE]\"", line);
    if (!lanes_run(lanes, pass->flop, run_repeats, &repeats, error))
        return false;
    if (!repeats.done) {
        *error = repeats.error;
        return false;
    }
    if (*end == ' ' && !save(pass, end + 1, error))
        return false;
    printf("%.9f %.9f\n", repeats.timing.wall, repeats.timing.cpu);
    fflush(stdout);
    return true;
}

bool turns_serve(const struct turns_pass *pass, unsigned lanes, struct error *error)
{
    struct lanes *pool = lanes_create(lanes, error);
    struct arena scratch = {0};
    char line[4096];
    bool done = pool != NULL;
    while (done && fgets(line, sizeof line, stdin))
        done = answer(pass, pool, &scratch, line, error);
    lanes_free(pool);
    arena_free(&scratch);
    return done;
}

unsigned turns_lanes(const char *text)
{
    const unsigned long count = strtoul(text, NULL, 10);
    return count > 1024 ? 0 : (unsigned)count;
}
