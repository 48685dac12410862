/* Numbers against independent implementations, millions of them: reading against strtof and strtod, which are exact in
 * glibc, and writing against std::to_chars where a C++ compiler was there, in every instruction set that this processor
 * has. With --all every float32 is written and read back, by as many threads as there are processors: minutes.
 * usage: exhaust_numbers [MILLIONS [SEED]], or exhaust_numbers --all */
#include "expected_text.h"
#include "random_numbers.h"
#include "json/number.h"
#include "json/number_rows.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ROW 65536 /* numbers written at once */

struct totals {
    unsigned long long numbers, beyond, faults;
};

static void report(struct totals *totals, const char *what, const char *found, const char *expected)
{
    if (totals->faults++ < 20)
        fprintf(stderr, "%s: %s, expected %s\n", what, found, expected);
}

static void check_reading(struct totals *totals, const char *text, size_t length)
{
    char found[64], expected[64];
    const char *at = text;
    float value = INFINITY, wanted = strtof(text, NULL);
    enum number_status status = number_read_f32(&at, text + length, &value);
    bool beyond = isinf(wanted), right = at == text + length && status == (beyond ? NUMBER_RANGE : NUMBER_OK);
    if (!right || (!beyond && memcmp(&value, &wanted, sizeof value) != 0)) {
        snprintf(found, sizeof found, "status %d, %a", (int)status, (double)value);
        snprintf(expected, sizeof expected, "%a", (double)wanted);
        report(totals, text, found, expected);
    }
    totals->beyond += beyond;

    at = text;
    double number = INFINITY, wanted_number = strtod(text, NULL);
    status = number_read_f64(&at, text + length, &number);
    right = at == text + length && status == (isinf(wanted_number) ? NUMBER_RANGE : NUMBER_OK);
    if (!right || (status == NUMBER_OK && memcmp(&number, &wanted_number, sizeof number) != 0)) {
        snprintf(found, sizeof found, "status %d, %a", (int)status, number);
        snprintf(expected, sizeof expected, "%a", wanted_number);
        report(totals, text, found, expected);
    }
    totals->numbers++;
}

/* Writes numbers [count], all finite, one by one and as rows in every instruction set, reads them back, and compares
 * them with the expected text. */
static void check_writing(struct totals *totals, const float *numbers, size_t count)
{
    static _Thread_local char texts[ISA_COUNT][ROW * 16];
    const char *rows[ISA_COUNT];
    for (int isa = 0; isa < ISA_COUNT; isa++) {
        rows[isa] = texts[isa];
        if (isa_supported((enum isa)isa))
            number_rows_of((enum isa)isa)->shortest(texts[isa], numbers, count);
    }
    for (size_t i = 0; i < count; i++) {
        char text[NUMBER_F32_BYTES + 2], expected[EXPECTED_TEXT_BYTES];
        char *end = number_write_f32(text, numbers[i]);
        const size_t length = (size_t)(end - text);
        const char *at = text;
        float back = 0;
        if (number_read_f32(&at, end, &back) != NUMBER_OK || at != end ||
            memcmp(&back, &numbers[i], sizeof back) != 0) {
            *end = '\0';
            snprintf(expected, sizeof expected, "what reads back as %a", (double)numbers[i]);
            report(totals, "written", text, expected);
        }
        expected_shortest(numbers[i], expected);
        *end = '\0';
        if (strcmp(text, expected) != 0)
            report(totals, "written", text, expected);
        *end = ',';
        for (int isa = 0; isa < ISA_COUNT; isa++) {
            if (!isa_supported((enum isa)isa))
                continue;
            if (memcmp(rows[isa], text, length + 1) != 0) {
                char found[17] = "";
                memcpy(found, rows[isa], 16);
                report(totals, isa_name((enum isa)isa), found, expected);
                rows[isa] = strchr(rows[isa], ',') + 1;
            } else {
                rows[isa] += length + 1;
            }
        }
    }
    totals->numbers += count;
}

/* All bit patterns, in parts that threads take from one counter. */
struct all {
    atomic_uint next_part; /* of ROW patterns */
    atomic_ullong numbers, faults;
};

static void *check_all(void *context)
{
    struct all *all = context;
    struct totals totals = {0};
    static _Thread_local float numbers[ROW];
    for (unsigned part; (part = atomic_fetch_add(&all->next_part, 1)) < (UINT64_C(1) << 32) / ROW;) {
        size_t count = 0;
        for (uint32_t i = 0; i < ROW; i++) {
            const uint32_t bits = part * ROW + i;
            float value;
            memcpy(&value, &bits, sizeof value);
            if (isfinite(value))
                numbers[count++] = value;
        }
        check_writing(&totals, numbers, count);
    }
    atomic_fetch_add(&all->numbers, totals.numbers);
    atomic_fetch_add(&all->faults, totals.faults);
    return NULL;
}

static int run_all(void)
{
    enum { MOST = 64 };
    struct all all = {0};
    pthread_t threads[MOST];
    const long processors = sysconf(_SC_NPROCESSORS_ONLN);
    int count = 0;
    while (count < processors && count < MOST && pthread_create(&threads[count], NULL, check_all, &all) == 0)
        count++;
    for (int i = 0; i < count; i++)
        pthread_join(threads[i], NULL);
    printf("wrote %llu float32, all there are, and read them back: %llu faults\n", atomic_load(&all.numbers),
           atomic_load(&all.faults));
    return atomic_load(&all.numbers) != 2 * UINT64_C(0x7F800000) || atomic_load(&all.faults) ? EXIT_FAILURE
                                                                                             : EXIT_SUCCESS;
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "--all") == 0)
        return run_all();
    unsigned long millions = argc > 1 ? strtoul(argv[1], NULL, 10) : 10;
    struct random random = {argc > 2 ? strtoul(argv[2], NULL, 10) : 1};
    struct totals reading = {0}, writing = {0};
    char text[RANDOM_DECIMAL_BYTES];
    static float numbers[ROW];
    if (millions == 0) {
        fprintf(stderr, "usage: %s [MILLIONS [SEED]], or --all\n", argv[0]);
        return EXIT_FAILURE;
    }
    for (size_t left = millions * 1000000, count; left; left -= count) {
        count = left < ROW ? left : ROW;
        for (size_t i = 0; i < count; i++) {
            check_reading(&reading, text, random_decimal(&random, text));
            numbers[i] = random_f32(&random);
        }
        check_writing(&writing, numbers, count);
    }
    printf("read %llu decimals (%llu beyond float32) as strtof and strtod do: %llu faults\n", reading.numbers,
           reading.beyond, reading.faults);
    printf("wrote %llu float32 as %s has them: %llu faults\n", writing.numbers, expected_shortest_source(),
           writing.faults);
    return reading.faults || writing.faults ? EXIT_FAILURE : EXIT_SUCCESS;
}
