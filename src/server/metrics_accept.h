/* Which of the two formats of /metrics a client takes (Accept; RFC 9110, section 12.5.1). Pure: any thread. */
#ifndef ATTND_SERVER_METRICS_ACCEPT_H
#define ATTND_SERVER_METRICS_ACCEPT_H

#include "telemetry/exposition.h"

/* What has been read of Accept, for each format; zero at first. */
struct metrics_accept {
    struct {
        unsigned precision; /* how precisely it was named; 0: not at all */
        short weight;       /* its q in thousandths */
    } formats[EXPOSITION_OPENMETRICS + 1];
};

/* Reads one line of several. What is no element of such a list is passed over, and so is a version that we do not
 * write.
 */
void metrics_accept_read(struct metrics_accept *accept, const char *value);

/* OpenMetrics where it is wanted more than Prometheus text, or as much and named more precisely; else Prometheus text,
 * also for who takes neither. */
enum exposition_format metrics_accept_choose(const struct metrics_accept *accept);

#endif
