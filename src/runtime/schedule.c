/* The order in which work is taken: see schedule.h. */
#include "runtime/schedule.h"

#include "base/clock.h"
#include "runtime/pool.h"

enum choice schedule_choose(const struct outlook *outlook, uint64_t *due)
{
    const uint64_t now = outlook->now;
    const uint64_t grace_end = outlook->last_light ? outlook->last_light + HELP_GRACE_NS : 0;
    const bool light_traffic = now < grace_end;
    /* One worker is kept for light jobs while they come, where there is a second one. */
    const unsigned heavy_most = light_traffic && outlook->workers > 1 ? outlook->workers - 1 : outlook->workers;

    *due = CLOCK_NEVER;
    if (outlook->light_ripe > now)
        *due = outlook->light_ripe;
    if (light_traffic && grace_end < *due && (outlook->heavy_waits || outlook->heavy_region))
        *due = grace_end;

    if (outlook->heavy_waits && outlook->heavy_running == 0)
        return CHOICE_HEAVY;
    if (outlook->light_ripe <= now)
        return CHOICE_LIGHT;
    if (outlook->light_region || (outlook->heavy_region && !light_traffic))
        return light_traffic ? CHOICE_HELP_LIGHT : CHOICE_HELP;
    if (outlook->heavy_waits && outlook->heavy_running < heavy_most)
        return CHOICE_HEAVY;
    return CHOICE_NONE;
}
