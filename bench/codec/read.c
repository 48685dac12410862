/* The benchmark of reading tensors as JSON text: attnd, jansson and, where it is installed, simdjson on the same bodies
 * {"input": [1, 512, 768]}, one form of numbers after the other. One thread. Each repetition runs all readers in turn;
 * the medians of the processor time are shown.
 *
 * usage: bench_read [--repetitions N] [--width N] [--alone] [--check] [FORM ...]
 *
 * --width makes the innermost arrays shorter than 768, --alone runs attnd only (to count instructions in a profiler),
 * and --check compares what it read with strtof. */
#include "read.h"

#include "../samples.h"
#include "base/isa.h"
#include "codec/tensor.h"
#include "json/reader.h"

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COUNT = 512 * 768, NUMBER_BYTES = 40 };

struct options {
    unsigned repetitions;
    size_t width; /* of an innermost array; divides COUNT */
    bool alone, check;
};

static uint64_t random_state;

/* splitmix64 */
static uint64_t random_u64(void)
{
    uint64_t x = random_state += UINT64_C(0x9E3779B97F4A7C15);
    x = (x ^ x >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    x = (x ^ x >> 27) * UINT64_C(0x94D049BB133111EB);
    return x ^ x >> 31;
}

static double uniform(void)
{
    return (double)(random_u64() >> 11) * 0x1p-53;
}

static double normal(void)
{
    return sqrt(-2 * log(1 - uniform())) * cos(2 * M_PI * uniform());
}

/* The shortest "%g" that reads back as the same double, with ".0" where it would be whole: repr() of Python. */
static int write_double(char *to, double value)
{
    int length = 0;
    for (int digits = 15; digits <= 17; digits++) {
        length = sprintf(to, "%.*g", digits, value);
        if (strtod(to, NULL) == value)
            break;
    }
    return strpbrk(to, ".e") ? length : length + sprintf(to + length, ".0");
}

static int write_float(char *to, float value)
{
    int length = 0;
    for (int digits = 6; digits <= 9; digits++) {
        length = sprintf(to, "%.*g", digits, (double)value);
        if (strtof(to, NULL) == value)
            break;
    }
    return length;
}

static int python(char *to)
{
    return write_double(to, 2 * uniform() - 1);
}

static int float32(char *to)
{
    return write_float(to, (float)normal());
}

static int digits_17(char *to)
{
    return sprintf(to, "%.16e", 1 + 9 * uniform()) - 4; /* without "e+00" */
}

static int wide(char *to)
{
    return write_double(to, 30 * normal());
}

static int integers(char *to)
{
    return sprintf(to, "%d", (int)(random_u64() % 511) - 255);
}

static int mixed(char *to)
{
    return random_u64() % 2 ? sprintf(to, "%d", (int)(random_u64() % 2)) : sprintf(to, "%.3g", uniform());
}

static int exponents(char *to)
{
    return sprintf(to, "%.8e", exp(-20 * uniform()));
}

/* Weights of a peaked softmax as Python has them: many with an exponent, and which ones cannot be foretold. */
static int peaked(char *to)
{
    return write_double(to, exp(-20 * uniform()));
}

static const struct form {
    const char *name;
    int (*write)(char *to);
    const char *separator;
} FORMS[] = {
    {"python", python, ", "},      {"float32", float32, ","},   {"17 digits", digits_17, ","},
    {"wide", wide, ", "},          {"integers", integers, ","}, {"mixed", mixed, ","},
    {"exponents", exponents, ","}, {"peaked", peaked, ", "},    {"pretty", float32, ",\n        "},
};

enum { FORM_COUNT = sizeof FORMS / sizeof *FORMS };

static char *write_body(const struct form *form, size_t width, size_t *length)
{
    size_t separator = strlen(form->separator), rows = COUNT / width;
    char *body = malloc(COUNT * (NUMBER_BYTES + separator) + rows * (separator + 4) + READ_PADDING + 64), *to = body;
    if (!body)
        return NULL;
    random_state = 42;
    to += sprintf(to, "{\"input\": [[");
    for (size_t row = 0; row < rows; row++) {
        to += sprintf(to, "%s[", row ? form->separator : "");
        for (size_t i = 0; i < width; i++) {
            if (i)
                to = stpcpy(to, form->separator);
            to += form->write(to);
        }
        *to++ = ']';
    }
    to += sprintf(to, "]]}");
    *length = (size_t)(to - body);
    return body;
}

static bool read_attnd(const char *body, size_t length, void *context)
{
    struct arena *arena = context;
    struct json_reader r;
    struct json_key key;
    struct tensor tensor;
    struct error error;
    arena_reset(arena);
    json_reader_init(&r, body, length);
    if (json_enter_object(&r, &error) && json_next_member(&r, &key, &error) == JSON_ITEM &&
        tensor_read_json(&r, arena, &tensor, 3, &error) && tensor.count == COUNT)
        return true;
    fprintf(stderr, "attnd: %s\n", error.message);
    return false;
}

/* What the arena holds after read_attnd, against strtof. */
static bool check(const char *body, const struct arena *arena)
{
    const float *read = (const float *)arena->base;
    const char *at = body + sizeof "{\"input\":" - 1;
    for (size_t i = 0; i < COUNT; i++) {
        char *behind;
        at += strcspn(at, "-0123456789");
        float expected = strtof(at, &behind);
        if (memcmp(&expected, read + i, sizeof expected) != 0) {
            fprintf(stderr, "number %zu: %.*s was read as %a\n", i, (int)(behind - at), at, (double)read[i]);
            return false;
        }
        at = behind;
    }
    return true;
}

static bool measure(const struct form *form, const struct options *options, struct arena *arena, float *floats)
{
    const struct reader {
        const char *name;
        read_function *read;
        void *context;
    } readers[] = {
        {"attnd", read_attnd, arena},
        {"jansson", read_jansson, floats},
#ifdef HAVE_SIMDJSON
        {"simdjson", read_simdjson, floats},
#endif
    };
    enum { READERS = sizeof readers / sizeof *readers };
    const int used = options->alone ? 1 : READERS;
    const unsigned repetitions = options->repetitions;
    size_t length = 0;
    char *body = write_body(form, options->width, &length);
    double *ns[READERS] = {NULL};
    bool right = body != NULL;
    for (int i = 0; i < READERS; i++)
        right = (ns[i] = calloc(repetitions, sizeof **ns)) && right;
    for (unsigned repetition = 0; right && repetition < repetitions; repetition++)
        for (int i = 0; right && i < used; i++) {
            double begin = thread_seconds();
            right = readers[i].read(body, length, readers[i].context);
            ns[i][repetition] = 1e9 * (thread_seconds() - begin) / COUNT;
        }
    right = right && (!options->check || (read_attnd(body, length, arena) && check(body, arena)));
    if (right) {
        printf("%-10s %5.1f", form->name, (double)length / COUNT);
        double own = 0;
        for (int i = 0; i < used; i++) {
            const double median = spread_of(ns[i], repetitions).median;
            printf("  %s %6.2f ns", readers[i].name, median);
            if (i == 0)
                own = median;
            else
                printf(" (%.1fx)", median / own);
        }
        printf("\n");
    }
    for (int i = 0; i < READERS; i++)
        free(ns[i]);
    free(body);
    return right;
}

static bool read_options(int argc, char **argv, struct options *options, int *first)
{
    for (*first = 1; *first < argc && argv[*first][0] == '-'; ++*first) {
        const char *name = argv[*first];
        bool has_value = *first + 1 < argc;
        if (strcmp(name, "--check") == 0)
            options->check = true;
        else if (strcmp(name, "--alone") == 0)
            options->alone = true;
        else if (strcmp(name, "--repetitions") == 0 && has_value)
            options->repetitions = (unsigned)strtoul(argv[++*first], NULL, 10);
        else if (strcmp(name, "--width") == 0 && has_value)
            options->width = strtoul(argv[++*first], NULL, 10);
        else
            return false;
    }
    return options->repetitions && options->width && COUNT % options->width == 0;
}

int main(int argc, char **argv)
{
    struct options options = {.repetitions = 15, .width = 768};
    struct arena arena = {0};
    struct error error;
    float *floats = calloc(COUNT, sizeof *floats);
    int first;
    bool right = floats && arena_reserve(&arena, (size_t)32 << 20);
    if (!read_options(argc, argv, &options, &first)) {
        fprintf(stderr, "usage: bench_read [--repetitions N] [--width N] [--alone] [--check] [FORM ...]\n");
        right = false;
    } else if (!isa_choose(getenv("ATTND_ISA"), &error)) {
        fprintf(stderr, "%s\n", error.message);
        right = false;
    }
    if (right)
        printf("%s. Form, bytes a number, medians of %u in ns a number (how many times attnd's)\n",
               isa_name(isa_chosen()), options.repetitions);
    for (int i = 0; right && i < FORM_COUNT; i++) {
        bool wanted = first == argc;
        for (int j = first; j < argc; j++)
            wanted = wanted || strcmp(argv[j], FORMS[i].name) == 0;
        if (wanted)
            right = measure(&FORMS[i], &options, &arena, floats);
    }
    arena_free(&arena);
    free(floats);
    return right ? 0 : 1;
}
