/* The choice between the instruction sets' ways to write rows of numbers, and the way for those that have none of their
 * own: one number after the other. */
#include "json/number_rows.h"

#include "json/number.h"
#include "json/number_extremes.inc"
#include "json/number_layout.h"

static char *shortest(char *to, const float *numbers, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        to = number_write_f32(to, numbers[i]);
        *to++ = ',';
    }
    return to;
}

static char *fixed_row(char *to, const float *numbers, size_t count, unsigned decimals)
{
    for (size_t i = 0; i < count; i++) {
        to = number_write_fixed(to, numbers[i], decimals);
        *to++ = ',';
    }
    return to;
}

static char *fixed(char *to, const float *numbers, size_t count, unsigned decimals)
{
    const size_t direct = count < NUMBER_FIXED_LAST ? 0 : count - NUMBER_FIXED_LAST;
    to = fixed_row(to, numbers, direct, decimals);
    char last[NUMBER_FIXED_LAST * (NUMBER_FIXED_BYTES(9) + 1)];
    const char *end = fixed_row(last, numbers + direct, count - direct, decimals);
    memcpy(to, last, (size_t)(end - last));
    return to + (end - last);
}

static const struct number_rows number_rows_generic = {.shortest = shortest, .fixed = fixed, .extremes = extremes};

#if defined(__x86_64__)
extern const struct number_rows number_rows_x86_64_v3, number_rows_x86_64_v4;
#endif

const struct number_rows *number_rows_of(enum isa isa)
{
    switch (isa) {
#if defined(__x86_64__)
    case ISA_x86_64_v4:
        return &number_rows_x86_64_v4;
    case ISA_x86_64_v3:
        return &number_rows_x86_64_v3;
#endif
    default:
        return &number_rows_generic;
    }
}

const struct number_rows *number_rows_chosen(void)
{
    return number_rows_of(isa_chosen());
}
