/* Cosines and sines of t * f for any position t and a few frequencies f, in float64: the product of two numbers of
 * the unit circle, of 64 a f and of b f, where t = 64 a + b, each by the C library. So a row of positions in order
 * costs about a multiplication for each frequency, and a position has the same bits whatever it is asked for beside. */
#ifndef ATTND_ENGINE_ANGLES_H
#define ATTND_ENGINE_ANGLES_H

#include <stddef.h>
#include <stdint.h>

enum { ANGLES_STEP = 64 };

struct angles {
    size_t count;        /* of frequencies */
    double *frequencies; /* [count] */
    size_t n_near;       /* b is below this, at most ANGLES_STEP */
    double *near;        /* [n_near, 2, count]: cosines and sines of b f */
};

/* The row `b` of `near`. */
void angles_fill_near(const struct angles *angles, size_t b);

/* What one thread needs to ask. */
struct angle_reader {
    const struct angles *angles;
    double *far;     /* [2, count] of 64 a f */
    double *cosines; /* [count] the answer */
    double *sines;   /* [count] */
    int64_t block;   /* the a whose numbers `far` has */
};

/* `memory` [4, count] stays the caller's. */
struct angle_reader angle_reader_open(const struct angles *angles, double *memory);

/* Makes cosines and sines those of position t. */
void angle_reader_turn(struct angle_reader *reader, int64_t t);

#endif
