/* What loading a Hugging Face folder takes, in turn with reading its file and copying it once, which is the least that
 * it could take; and how much memory it needs beyond the weights that stay.
 * usage: bench_load FOLDER [f32|bf16 [ROUNDS]]
 *
 * Times are the wall's: loading uses all processors. The file is in the page cache, and memory for the copy is fresh
 * each time, as the weights' is. */

#include "config/config.h"
#include "engine/forward.h"
#include "samples.h"
#include "weights/weight_set.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define ROUNDS_MOST 100

/* A program that reads a file takes some of it at a time. */
#define READ_BYTES ((size_t)1 << 20)

static _Noreturn void fail(const char *what, const char *why)
{
    fprintf(stderr, "bench_load: %s: %s\n", what, why);
    exit(EXIT_FAILURE);
}

static double wall_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* The most memory that was resident since the last call, in bytes. */
static double peak_since(void)
{
    double kilobytes = 0;
    char line[256];
    FILE *status = fopen("/proc/self/status", "r");
    while (status && fgets(line, sizeof line, status))
        sscanf(line, "VmHWM: %lf kB", &kilobytes);
    if (status)
        fclose(status);
    FILE *clear = fopen("/proc/self/clear_refs", "w");
    if (!clear || fputs("5", clear) < 0 || fclose(clear) != 0)
        fail("/proc/self/clear_refs", strerror(errno));
    return 1024 * kilobytes;
}

/* The file into memory, and from there to other memory: seconds. */
static double read_and_copy(const char *path, size_t bytes)
{
    const double start = wall_seconds();
    const int descriptor = open(path, O_RDONLY | O_CLOEXEC);
    char *piece = malloc(READ_BYTES);
    char *copy = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (descriptor < 0 || !piece || copy == MAP_FAILED)
        fail(path, strerror(errno));
    madvise(copy, bytes, MADV_HUGEPAGE); /* as the weights' memory is */
    size_t done = 0;
    for (ssize_t got; done < bytes && (got = read(descriptor, piece, READ_BYTES)) > 0; done += (size_t)got)
        memcpy(copy + done, piece, (size_t)got);
    if (done < bytes)
        fail(path, "it ends early");
    close(descriptor);
    const double seconds = wall_seconds() - start;
    free(piece);
    munmap(copy, bytes);
    return seconds;
}

static void print(const char *what, double *samples, size_t count, double factor, const char *unit)
{
    const struct spread s = spread_of(samples, count);
    printf("%-42s %9.4g  [%.4g .. %.4g]  %s\n", what, factor * s.median, factor * s.low, factor * s.high, unit);
}

int main(int argc, char **argv)
{
    const bool bf16 = argc > 2 && strcmp(argv[2], "bf16") == 0;
    const size_t rounds = argc > 3 ? strtoul(argv[3], NULL, 10) : 7;
    double loads[ROUNDS_MOST], copies[ROUNDS_MOST], ratios[ROUNDS_MOST], beyond[ROUNDS_MOST];
    size_t weights = 0;
    struct stat status;
    struct error error;
    char path[4096];
    if (argc < 2 || rounds < 1 || rounds > ROUNDS_MOST) {
        fprintf(stderr, "usage: %s FOLDER [f32|bf16 [ROUNDS]]\n", argv[0]);
        return EXIT_FAILURE;
    }
    const struct weights_config config = {.name = "model",
                                          .source = WEIGHTS_HUGGINGFACE,
                                          .path = argv[1],
                                          .precision = bf16 ? WEIGHTS_BF16 : WEIGHTS_F32};
    snprintf(path, sizeof path, "%s/model.safetensors", argv[1]);
    if (stat(path, &status) != 0)
        fail(path, strerror(errno));
    if (!engine_init(getenv("ATTND_ISA"), &error))
        fail("instruction set", error.message);
    read_and_copy(path, (size_t)status.st_size); /* into the page cache */
    for (size_t i = 0; i < rounds; i++) {
        copies[i] = read_and_copy(path, (size_t)status.st_size);
        peak_since();
        const double before = peak_since(), start = wall_seconds();
        struct weight_set *set = weight_set_load(&config, &error);
        loads[i] = wall_seconds() - start;
        if (!set)
            fail(argv[1], error.message);
        weights = weight_set_bytes(set);
        beyond[i] = peak_since() - before - (double)weights;
        ratios[i] = loads[i] / copies[i];
        weight_set_free(set);
    }
    printf("%.1f MB in the file, %.1f MB of weights%s\n", 1e-6 * (double)status.st_size, 1e-6 * (double)weights,
           bf16 ? " as bfloat16" : "");
    print("load", loads, rounds, 1e3, "ms");
    print("reading and copying the file", copies, rounds, 1e3, "ms");
    print("load / reading and copying", ratios, rounds, 1, "(<= 2.5)");
    /* The first load's, mostly: what it gives back stays with the process. */
    double most = 0;
    for (size_t i = 0; i < rounds; i++)
        most = beyond[i] > most ? beyond[i] : most;
    printf("%-42s %9.4g  MiB at most (<= 64)\n", "peak beyond the weights", most / (1 << 20));
    return EXIT_SUCCESS;
}
