/* The server as its own files see it. */
#ifndef ATTND_SERVER_CONTEXT_H
#define ATTND_SERVER_CONTEXT_H

#include "codec/gzip.h"
#include "server/acceptor.h"
#include "server/connections.h"
#include "server/generation.h"
#include "server/heartbeat.h"
#include "server/listener.h"
#include "server/reload.h"
#include "server/request_store.h"
#include "server/server.h"
#include "server/watchdog.h"

#include <microhttpd.h>
#include <stdatomic.h>

/* Life runs one way through these. */
enum server_state {
    SERVER_RUNNING,
    SERVER_DRAINING, /* not ready any more; serves, and asks clients to close */
    SERVER_STOPPING  /* no new work begins: 503 */
};

struct server {
    struct server_parts parts;
    _Atomic enum server_state state;
    struct listeners listeners;
    struct connections connections;
    struct request_store requests;
    struct gzip_store gzip;
    struct live_sets *live;
    struct generations generations;
    struct reload reload;
    struct request_counts *counts;
    double started_s; /* since the epoch */
    struct MHD_Daemon *daemon;
    struct acceptor acceptor;
    struct watchdog watchdog;
    struct heartbeat heartbeat;
};

#endif
