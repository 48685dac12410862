/* The peak of an instruction set as a contender (measure.h). */
#ifndef ATTND_BENCH_PEAK_CONTENDER_H
#define ATTND_BENCH_PEAK_CONTENDER_H

#include "measure.h"

struct contender peak_contender(const char *isa);

#endif
