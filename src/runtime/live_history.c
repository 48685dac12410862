/* Totals under a lock that no forward ever waits for. A store adds to them under its own lock, so that of the two locks
 * a reader holds one at a time, and reads again when something was added in between. */
#include "runtime/live_history.h"

#include "base/size.h"
#include "runtime/live_store.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

struct live_history {
    atomic_uint holders;
    pthread_mutex_t lock;       /* of the rest */
    uint64_t added;             /* times */
    struct live_totals emptied; /* what stores had */
    struct live_totals shown;   /* what was read last, and with it all that was read before */
};

/* Of this shape, with what `before` has. */
static bool make_totals(struct live_totals *totals, size_t num_layers, size_t num_heads,
                        const struct live_totals *before)
{
    size_t bytes;
    void *memory = live_totals_bytes(num_layers, num_heads, &bytes) ? malloc(bytes) : NULL;
    if (!memory)
        return false;
    live_totals_init(totals, num_layers, num_heads, memory);
    if (before)
        live_totals_add(totals, before);
    return true;
}

/* The same for both. */
static bool make_both(struct live_history *history, size_t num_layers, size_t num_heads, bool first)
{
    struct live_totals emptied = {0}, shown = {0};
    if (!make_totals(&emptied, num_layers, num_heads, first ? NULL : &history->emptied) ||
        !make_totals(&shown, num_layers, num_heads, first ? NULL : &history->shown)) {
        free(emptied.values);
        return false;
    }
    free(history->emptied.values);
    free(history->shown.values);
    history->emptied = emptied;
    history->shown = shown;
    return true;
}

struct live_history *live_history_create(size_t num_layers, size_t num_heads)
{
    struct live_history *history = calloc(1, sizeof *history);
    if (!history || !make_both(history, num_layers, num_heads, true)) {
        free(history);
        return NULL;
    }
    atomic_init(&history->holders, 1);
    pthread_mutex_init(&history->lock, NULL);
    return history;
}

bool live_history_grow(struct live_history *history, size_t num_layers, size_t num_heads)
{
    pthread_mutex_lock(&history->lock);
    num_layers = size_max(num_layers, history->emptied.num_layers);
    num_heads = size_max(num_heads, history->emptied.num_heads);
    const bool grown = (num_layers == history->emptied.num_layers && num_heads == history->emptied.num_heads) ||
                       make_both(history, num_layers, num_heads, false);
    pthread_mutex_unlock(&history->lock);
    return grown;
}

struct live_history *live_history_hold(struct live_history *history)
{
    if (history)
        atomic_fetch_add(&history->holders, 1);
    return history;
}

void live_history_release(struct live_history *history)
{
    if (!history || atomic_fetch_sub(&history->holders, 1) > 1)
        return;
    pthread_mutex_destroy(&history->lock);
    free(history->emptied.values);
    free(history->shown.values);
    free(history);
}

void live_history_add(struct live_history *history, const struct live_sums *sums)
{
    pthread_mutex_lock(&history->lock);
    live_totals_add_sums(&history->emptied, sums);
    history->added++;
    pthread_mutex_unlock(&history->lock);
}

static uint64_t added(struct live_history *history)
{
    pthread_mutex_lock(&history->lock);
    const uint64_t times = history->added;
    pthread_mutex_unlock(&history->lock);
    return times;
}

void live_history_read(struct live_history *history, struct live_store *store, uint64_t now, struct live_sums *sums,
                       struct live_totals *totals)
{
    const struct live_part all = {LIVE_ALL, 0};
    struct live_stamp stamp;
    uint64_t since;
    for (uint64_t before = added(history);; before = added(history)) {
        live_store_read(store, &all, now, sums, &stamp, &since);
        pthread_mutex_lock(&history->lock);
        if (history->added == before)
            break;
        pthread_mutex_unlock(&history->lock);
        live_sums_clear(sums);
    }
    live_totals_add_sums(totals, sums);
    live_totals_add(totals, &history->emptied);
    live_totals_raise(&history->shown, totals);
    live_totals_raise(totals, &history->shown);
    pthread_mutex_unlock(&history->lock);
}
