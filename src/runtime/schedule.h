/* What a free worker does next: the order of pool.h as a function of what there is and of the time. Any thread. */
#ifndef ATTND_RUNTIME_SCHEDULE_H
#define ATTND_RUNTIME_SCHEDULE_H

#include <stdbool.h>
#include <stdint.h>

/* What a free worker sees. */
struct outlook {
    uint64_t now;
    uint64_t last_light; /* when a light job was submitted; 0: never */
    uint64_t light_ripe; /* when one may be taken: 0 at once, CLOCK_NEVER when none waits */
    bool heavy_waits;
    bool light_region, heavy_region; /* open, with tiles left, of a light and of a heavy job */
    unsigned heavy_running, workers;
};

enum choice {
    CHOICE_NONE,
    CHOICE_LIGHT,
    CHOICE_HEAVY,
    CHOICE_HELP,      /* the oldest open region */
    CHOICE_HELP_LIGHT /* the oldest open region of a light job */
};

/* *due: when it would choose otherwise if nothing happens until then; CLOCK_NEVER when time alone changes nothing. */
enum choice schedule_choose(const struct outlook *outlook, uint64_t *due);

#endif
