"""The running executable with too little of everything: 200 MB of addresses, 64 descriptors. It refuses (413, 429, 503, or a connection that
is closed) and goes on; what it answers is right. Usage: check_scarcity.py ATTND"""
import collections
import http.client
import json
import resource
import sys
import threading
import time

from attnd_process import START_SECONDS, Attnd

JSON = {"Content-Type": "application/json"}
REFUSED = (413, 429, 503)


def expect(what, got, wanted):
    if got != wanted:
        raise SystemExit("%s: %r, expected %r" % (what, got, wanted))


def forward(tokens, returned):
    return json.dumps({"input": [[(i * 5 + j) % 17 / 17 for j in range(64)] for i in range(tokens)], "return": returned})


def without_times(text):
    return text[:text.index(b'"timing_us"')]


def storm(server, bodies, right, threads, seconds, enough):
    """Posts from many threads, each request on a connection of its own every other time. Counts statuses; 0: the connection was closed. For
    so long, and longer where the machine stands still, until there are enough of them."""
    counts, faults, until = collections.Counter(), [], time.monotonic() + seconds
    at_last = until + START_SECONDS

    def run(number):
        connection, i = server.connect(), number
        while time.monotonic() < (until if enough(counts) else at_last):
            i += 1
            which = i % len(bodies)
            try:
                connection.request("POST", "/v1/forward", bodies[which], JSON)
                reply = connection.getresponse()
                text = reply.read()
            except (OSError, http.client.HTTPException):
                counts[0] += 1
                connection.close()
                continue
            counts[reply.status] += 1
            if reply.status == 200 and right[which] is not None and without_times(text) != right[which]:
                faults.append("other numbers for body %d" % which)
            if reply.status not in (200, *REFUSED):
                faults.append("%d %r" % (reply.status, text[:200]))
            if i % 2:
                connection.close()
        connection.close()

    running = [threading.Thread(target=run, args=(i,)) for i in range(threads)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    expect("what went wrong", faults[:3], [])
    return counts


def until_answered(server, body):
    """What the others held comes back a little behind their answers."""
    until = time.monotonic() + START_SECONDS
    while True:
        try:
            reply = server.request("POST", "/v1/forward", body, JSON)
            if reply.status == 200:
                return reply
        except (OSError, http.client.HTTPException):
            pass
        expect("room again", time.monotonic() < until, True)
        time.sleep(0.01)


def memory(binary):
    bodies = [forward(4, ["output"]), forward(900, ["output", "attention"]), forward(3000, ["output", "attention"]), forward(1200, ["output"])]
    with Attnd(binary) as server: # with all that it wants
        right = [without_times(server.request("POST", "/v1/forward", text, JSON).body) for text in (bodies[0], bodies[3])]
    right = [right[0], None, None, right[1]]
    with Attnd(binary, limits=[(resource.RLIMIT_AS, 200 << 20)]) as server:
        counts = storm(server, bodies, right, 8, 3, lambda c: c[200] > 0 and sum(c[status] for status in REFUSED) > 0)
        expect("some were answered (%s)" % counts, counts[200] > 0, True)
        expect("some were refused (%s)" % counts, sum(counts[status] for status in REFUSED) > 0, True)
        reply = until_answered(server, bodies[0])
        expect("a small one behind them", without_times(reply.body), right[0])
    print("memory: %s" % dict(counts))


def descriptors(binary):
    body = forward(4, ["output"])
    with Attnd(binary, limits=[(resource.RLIMIT_NOFILE, 64)]) as server:
        right = without_times(server.request("POST", "/v1/forward", body, JSON).body)
        counts = storm(server, [body], [right], 100, 3, lambda c: c[200] > 100)
        expect("some were answered (%s)" % counts, counts[200] > 100, True)
        until_answered(server, body)
        server.reload()
        expect("a forward behind a reload", server.request("POST", "/v1/forward", body, JSON).status, 200)
    print("descriptors: %s" % dict(counts))


def main():
    memory(sys.argv[1])
    descriptors(sys.argv[1])


if __name__ == "__main__":
    main()
