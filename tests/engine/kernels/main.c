/* Compares the kernels of every instruction set that this machine runs with plain C, on random and extreme arguments
 * between guard pages, and times them. Needs nothing but a C compiler, so that it can be built for any processor and
 * run under an emulator. */

#include "check.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name;
    check_function *check;
} functions[] = {
    {"pack", check_pack},         {"multiply", check_multiply},
    {"softmax", check_softmax},   {"softmax_rows", check_softmax_rows},
    {"largest", check_largest},   {"scale", check_scale},
    {"drop", check_drop},         {"multiply_double", check_multiply_double},
    {"rotate", check_rotate},     {"normalize", check_normalize},
    {"activate", check_activate}, {"bfloat", check_bfloat},
    {"forward", check_forward},
};

enum { N_FUNCTIONS = sizeof functions / sizeof *functions };

/* `pack` is checked with packed_floats and pack_transposed, scale with scale_rows and add_rows, narrow_panel and widen
 * as bfloat. A member that is added to the kernels needs a check. */
_Static_assert(sizeof(struct kernels) == 20 * sizeof(void *), "check the new kernel, and count it here");

static const char usage[] =
    "usage: check_kernels [--variant NAME] [--function NAME] [--seed N] [--repeat N] [--bench]\n"
    "  --variant    only this instruction set, as ATTND_ISA names it\n"
    "  --function   only this check: pack, multiply, softmax, softmax_rows, largest, scale, drop, multiply_double,\n"
    "               rotate, normalize, activate, bfloat, forward\n"
    "  --seed       of the random arguments (1)\n"
    "  --repeat     do it again with the next N - 1 seeds\n"
    "  --bench      time the functions instead, beside the generic ones\n";

struct options {
    const char *variant, *function;
    uint64_t seed, repeat;
    bool bench;
};

static uint64_t number(const char *text)
{
    char *end;
    errno = 0;
    const uint64_t value = strtoull(text, &end, 10);
    if (*text < '0' || *text > '9' || *end || errno) {
        fprintf(stderr, "check_kernels: \"%s\" is not a number\n%s", text, usage);
        exit(2);
    }
    return value;
}

static struct options parse(int argc, char **argv)
{
    static const struct option known[] = {{"variant", required_argument, NULL, 'v'},
                                          {"function", required_argument, NULL, 'f'},
                                          {"seed", required_argument, NULL, 's'},
                                          {"repeat", required_argument, NULL, 'r'},
                                          {"bench", no_argument, NULL, 'b'},
                                          {"help", no_argument, NULL, 'h'},
                                          {NULL, 0, NULL, 0}};
    struct options o = {.seed = 1, .repeat = 1};
    for (int option; (option = getopt_long(argc, argv, "", known, NULL)) != -1;)
        switch (option) {
        case 'v':
            o.variant = optarg;
            break;
        case 'f':
            o.function = optarg;
            break;
        case 's':
            o.seed = number(optarg);
            break;
        case 'r':
            o.repeat = number(optarg);
            break;
        case 'b':
            o.bench = true;
            break;
        case 'h':
            fputs(usage, stdout);
            exit(0);
        default:
            fputs(usage, stderr);
            exit(2);
        }
    if (optind < argc) {
        fputs(usage, stderr);
        exit(2);
    }
    return o;
}

/* Runs the checks that are asked for; counts them, so that a wrong name does not pass. */
static void run(const struct options *o, unsigned *passed, unsigned *failed)
{
    for (size_t v = 0; v < KERNEL_VARIANT_COUNT; v++) {
        const struct kernels *k = kernel_variants[v];
        if (o->variant && strcmp(o->variant, k->name) != 0)
            continue;
        if (!isa_supported((enum isa)v)) {
            printf("%-12s cannot run here\n", k->name);
            continue;
        }
        for (size_t f = 0; f < N_FUNCTIONS; f++) {
            if (o->function && strcmp(o->function, functions[f].name) != 0)
                continue;
            unsigned bad = 0;
            for (uint64_t i = 0; i < o->repeat; i++)
                bad += !check_run(k, functions[f].name, functions[f].check, o->seed + i);
            printf("%-12s %-12s %s\n", k->name, functions[f].name, bad ? "FAILED" : "ok");
            fflush(stdout);
            *(bad ? failed : passed) += 1;
        }
    }
}

int main(int argc, char **argv)
{
    const struct options o = parse(argc, argv);
    if (o.bench) {
        bench(o.variant, o.function);
        return 0;
    }
    unsigned passed = 0, failed = 0;
    run(&o, &passed, &failed);
    if (passed + failed == 0) {
        fputs("check_kernels: no check of these names can run here\n", stderr);
        return 2;
    }
    printf("%u checks passed, %u failed\n", passed, failed);
    return failed ? 1 : 0;
}
