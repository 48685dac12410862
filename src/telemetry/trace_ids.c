/* The generator is xoshiro256++ (Blackman and Vigna, "Scrambled linear pseudorandom number generators", 2021). */
#include "telemetry/trace_ids.h"

#include "base/clock.h"
#include "base/hex.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <sys/random.h>

static _Thread_local uint64_t state[4];
static _Thread_local bool seeded;

/* One step of splitmix64: spreads a poor seed over all bits. */
static uint64_t spread(uint64_t *seed)
{
    uint64_t z = *seed += UINT64_C(0x9E3779B97F4A7C15);
    z = (z ^ z >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ z >> 27) * UINT64_C(0x94D049BB133111EB);
    return z ^ z >> 31;
}

static void seed_generator(void)
{
    if (getrandom(state, sizeof state, GRND_NONBLOCK) != (ssize_t)sizeof state) {
        /* Only before the kernel has any entropy: the time and the number of the thread are what is left. */
        static _Atomic uint64_t count;
        uint64_t seed = clock_wall_ns();
        seed ^= atomic_fetch_add(&count, 1) << 56;
        for (unsigned i = 0; i < 4; i++)
            state[i] = spread(&seed);
    }
    state[0] |= 1; /* all zero would stay so */
    seeded = true;
}

static uint64_t rotate(uint64_t x, int by)
{
    return x << by | x >> (64 - by);
}

uint64_t trace_ids_random(void)
{
    if (!seeded)
        seed_generator();
    const uint64_t result = rotate(state[0] + state[3], 23) + state[0], t = state[1] << 17;
    state[2] ^= state[0];
    state[3] ^= state[1];
    state[1] ^= state[2];
    state[0] ^= state[3];
    state[2] ^= t;
    state[3] = rotate(state[3], 45);
    return result;
}

static uint64_t not_zero(void)
{
    uint64_t word;
    do
        word = trace_ids_random();
    while (word == 0);
    return word;
}

void trace_ids_make_trace(char id[TRACE_ID_DIGITS + 1])
{
    hex_write(id, not_zero());
    hex_write(id + 16, trace_ids_random());
    id[TRACE_ID_DIGITS] = '\0';
}

void trace_ids_make_span(char id[SPAN_ID_DIGITS + 1])
{
    hex_write(id, not_zero());
    id[SPAN_ID_DIGITS] = '\0';
}
