/* A worker's own CPU, and what it does where another process uses that CPU too.
 *
 * A thread that is bound to a CPU and shares it is without it for a tick of the scheduler (up to 4 ms) every other
 * tick. The owner of a region waits that long for a helper that lost its CPU in mid-tile, and two workers are slower
 * than one. So a worker that lost its CPU while it ran tiles leaves its seat for a while: it is bound to none, so that
 * the system moves it to a CPU that is idle, and does not help. Then it tries again; the time away doubles while it
 * keeps losing, so that trying costs little. Used by the worker's own thread only. */
#ifndef ATTND_RUNTIME_SEAT_H
#define ATTND_RUNTIME_SEAT_H

#include <stdbool.h>
#include <stdint.h>

/* A CPU lost for longer went to another process's work; the server's own threads, which read and send, give it back
 * sooner. */
#define SEAT_LOST_NS UINT64_C(1000000)
/* Away for at least as long as such a process's next few turns; at most so long that a turn lost by trying is 0.4 %. */
#define SEAT_AWAY_MIN_NS UINT64_C(10000000)
#define SEAT_AWAY_MAX_NS UINT64_C(1000000000)
/* A seat that was kept through so much work, many turns of the scheduler, is shared now and then only: what is lost
 * after that counts as a first loss. */
#define SEAT_PROVEN_NS UINT64_C(40000000)

struct seat {
    bool wanted;         /* it has a CPU of its own at all */
    bool taken;          /* bound to it now */
    unsigned cpu;        /* of the process's, from 0 */
    uint64_t ran_ns;     /* of tiles since it was taken, but for those in which it was lost */
    uint64_t away_until; /* it does not help before; 0: never away */
    uint64_t away_ns;    /* how long it was away the last time */
    unsigned suspect;    /* so many watches yet ask how much CPU the thread had */
};

/* Binds the thread. Where the system refuses, it runs unbound. */
void seat_init(struct seat *seat, bool wanted, unsigned cpu);

/* Around tiles: takes the seat again where the time away is over, and looks how long the thread is without a CPU. */
struct seat_watch {
    uint64_t wall, cpu; /* cpu: 0 where it is not asked */
};
/* To ask costs about a microsecond, more than some regions: it is done only for a while after one took so long that it
 * may have lost the CPU. */
#define SEAT_SUSPECT 16
struct seat_watch seat_watch_begin(struct seat *seat);
void seat_watch_end(struct seat *seat, const struct seat_watch *watch);

/* seat_watch_end, of the two times that it finds. */
void seat_judge(struct seat *seat, uint64_t now, uint64_t lost_ns);

#endif
