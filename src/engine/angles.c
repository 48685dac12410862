/* Angles of positions: see angles.h. Pure, but for the reader's own memory. */

#include "engine/angles.h"

#include <math.h>

static void fill(const struct angles *angles, double t, double *cosines, double *sines)
{
    for (size_t i = 0; i < angles->count; i++) {
        cosines[i] = cos(t * angles->frequencies[i]);
        sines[i] = sin(t * angles->frequencies[i]);
    }
}

void angles_fill_near(const struct angles *angles, size_t b)
{
    double *row = angles->near + b * 2 * angles->count;
    fill(angles, (double)b, row, row + angles->count);
}

struct angle_reader angle_reader_open(const struct angles *angles, double *memory)
{
    const size_t count = angles->count;
    return (struct angle_reader){.angles = angles,
                                 .far = memory,
                                 .cosines = memory + 2 * count,
                                 .sines = memory + 3 * count,
                                 .block = INT64_MIN};
}

void angle_reader_turn(struct angle_reader *reader, int64_t t)
{
    const struct angles *angles = reader->angles;
    const size_t count = angles->count;
    const int64_t block = t >= 0 ? t / ANGLES_STEP : -((ANGLES_STEP - 1 - t) / ANGLES_STEP); /* rounded down */
    const double *near_cosines = angles->near + (size_t)(t - block * ANGLES_STEP) * 2 * count;
    const double *near_sines = near_cosines + count;
    const double *far_cosines = reader->far, *far_sines = reader->far + count;
    if (block != reader->block) {
        fill(angles, (double)(block * ANGLES_STEP), reader->far, reader->far + count);
        reader->block = block;
    }
    double *cosines = reader->cosines, *sines = reader->sines;
    for (size_t i = 0; i < count; i++) {
        cosines[i] = near_cosines[i] * far_cosines[i] - near_sines[i] * far_sines[i];
        sines[i] = near_sines[i] * far_cosines[i] + near_cosines[i] * far_sines[i];
    }
}
