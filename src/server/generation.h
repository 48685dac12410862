/* What requests are served from: one reading of the configuration, with the weight sets, the token and the certificates
 * that it names. Nothing in a generation changes. A reload makes another and puts it in front; requests that have begun
 * go on with the one they have found, which is freed when the last of them has ended. */
#ifndef ATTND_SERVER_GENERATION_H
#define ATTND_SERVER_GENERATION_H

#include "base/error.h"
#include "config/config.h"
#include "runtime/budget.h"
#include "server/admin.h"
#include "weights/registry.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

struct tls;
struct usage;

/* One reading of the configuration. Generations that differ in weight sets alone share it. */
struct settings {
    _Atomic unsigned holders;
    const struct config *config; /* `own`, or the one that the process started with */
    struct config own;
    struct admin admin;
    struct tls *tls; /* held; NULL: connections are not encrypted */
};

struct generation {
    struct settings *settings;   /* held */
    const struct config *config; /* of the settings */
    struct weights_registry registry;
    struct usage **usage;       /* [registry.count], each held: counts go on under a set's name */
    struct budget_share charge; /* for the copies of weights that have replaced some of these */
    /* Once it was replaced: among the others that were. */
    bool unused[2]; /* the turn was seen without users */
    struct generation *next;
};

struct generations {
    struct generation *_Atomic current;
    struct memory_budget *budget;
    /* Users by the turn in which they came: turns alternate, so that one of them empties while others come. */
    _Atomic size_t users[2];
    _Atomic unsigned turn;
    pthread_mutex_t lock; /* of the rest */
    struct generation *_Atomic retired;
};

/* Settings that take over *own (where `config` is NULL), the token and the certificates that the configuration names;
 * held once. NULL with ERROR_CONFIGURATION or ERROR_IO for a file that does not do, or ERROR_OUT_OF_MEMORY; *own is
 * then the caller's still. */
struct settings *settings_create(const struct config *config, struct config *own, struct error *error);
struct settings *settings_hold(struct settings *settings);
void settings_free(struct settings *settings);

/* Takes over the hold on `settings` and *registry (which is then empty). `previous` (NULL: none) has the counters of
 * sets of the same name. NULL when memory ran out: nothing was taken over. */
struct generation *generation_create(struct settings *settings, struct weights_registry *registry,
                                     const struct generation *previous);
void generation_free(struct generation *generation);

void generations_init(struct generations *generations, struct memory_budget *budget, struct generation *first);
/* Nobody may be inside. */
void generations_destroy(struct generations *generations);

/* The generation in front, there until generations_leave is given *turn. Any thread, no lock. */
const struct generation *generations_enter(struct generations *generations, unsigned *turn);
void generations_leave(struct generations *generations, unsigned turn);

/* Puts `next` in front. What replaces sets of the generation before is charged to it until it is freed: *charge is
 * emptied. One thread at a time. */
void generations_replace(struct generations *generations, struct generation *next, struct budget_share *charge);

#endif
