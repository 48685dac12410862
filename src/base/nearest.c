#include "base/nearest.h"

#include "base/size.h"

#include <string.h>

/* Names are short; a longer one is compared by this much of it. */
#define LONGEST 64

static size_t distance(const char *a, size_t a_length, const char *b, size_t b_length)
{
    size_t rows[3][LONGEST + 1];
    size_t *before = rows[0], *last = rows[1], *now = rows[2];
    for (size_t j = 0; j <= b_length; j++)
        last[j] = j;
    for (size_t i = 1; i <= a_length; i++) {
        now[0] = i;
        for (size_t j = 1; j <= b_length; j++) {
            size_t substituted = last[j - 1] + (a[i - 1] != b[j - 1]);
            now[j] = size_min(substituted, size_min(last[j], now[j - 1]) + 1);
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                now[j] = size_min(now[j], before[j - 2] + 1);
        }
        size_t *oldest = before;
        before = last;
        last = now;
        now = oldest;
    }
    return last[b_length];
}

const char *nearest_name(const char *name, const char *const *known, size_t count)
{
    const char *best = NULL;
    size_t best_distance = 0, length = strnlen(name, LONGEST);
    for (size_t i = 0; i < count; i++) {
        size_t known_length = strnlen(known[i], LONGEST);
        size_t d = distance(name, length, known[i], known_length);
        if (d <= (size_max(length, known_length) + 2) / 3 && (!best || d < best_distance)) {
            best = known[i];
            best_distance = d;
        }
    }
    return best;
}
