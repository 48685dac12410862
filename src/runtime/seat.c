/* Binding to a CPU, and leaving it: see seat.h. */
#include "runtime/seat.h"

#include "base/clock.h"
#include "runtime/processors.h"

static uint64_t cpu_ns(void)
{
    struct timespec used;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
    return (uint64_t)used.tv_sec * CLOCK_SECOND + (uint64_t)used.tv_nsec;
}

static void take(struct seat *seat)
{
    seat->taken = processors_pin(seat->cpu);
    seat->ran_ns = 0;
    seat->away_until = 0;
}

void seat_init(struct seat *seat, bool wanted, unsigned cpu)
{
    *seat = (struct seat){.wanted = wanted, .cpu = cpu};
    if (wanted)
        take(seat);
}

struct seat_watch seat_watch_begin(struct seat *seat)
{
    if (!seat->wanted)
        return (struct seat_watch){0};
    uint64_t now = clock_ns();
    if (seat->away_until && now >= seat->away_until)
        take(seat);
    if (!seat->suspect)
        return (struct seat_watch){.wall = now};
    seat->suspect--;
    return (struct seat_watch){.wall = now, .cpu = cpu_ns()};
}

void seat_watch_end(struct seat *seat, const struct seat_watch *watch)
{
    if (!seat->wanted)
        return;
    uint64_t now = clock_ns(), wall = now - watch->wall;
    if (wall > SEAT_LOST_NS) {
        seat->suspect = SEAT_SUSPECT;
        if (watch->cpu) {
            uint64_t had = cpu_ns() - watch->cpu;
            seat_judge(seat, now, wall > had ? wall - had : 0);
        }
    }
    seat->ran_ns += wall;
}

void seat_judge(struct seat *seat, uint64_t now, uint64_t lost_ns)
{
    if (!seat->taken || lost_ns <= SEAT_LOST_NS)
        return;
    bool again = seat->away_ns && seat->ran_ns < SEAT_PROVEN_NS;
    seat->away_ns = again ? seat->away_ns * 2 : SEAT_AWAY_MIN_NS;
    if (seat->away_ns > SEAT_AWAY_MAX_NS)
        seat->away_ns = SEAT_AWAY_MAX_NS;
    seat->away_until = now + seat->away_ns;
    processors_unpin();
    seat->taken = false;
}
