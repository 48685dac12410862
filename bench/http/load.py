"""Drives a server with wrk and reads what it measured.

One Load is one wrk process with one thread; several run at the same time. Each connection sends its next request when it
has the answer to its last one (a closed loop).
"""
import json
import os
import subprocess
import tempfile

SCRIPT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "post.lua")
TIMEOUT_SECONDS = 10


class Invalid(Exception):
    """What was measured means nothing: requests failed, or the server did."""


class Result:
    """One wrk run. `cpu` is the client's own CPU time in seconds."""

    def __init__(self, requests, seconds, histogram, cpu):
        self.requests, self.seconds, self.histogram, self.cpu = requests, seconds, histogram, cpu
        self.rate = requests / seconds

    def percentile(self, percent):
        """The latency in microseconds that `percent` of the requests did not exceed (nearest rank)."""
        rank, seen = percent / 100 * self.requests, 0
        for value, count in self.histogram:
            seen += count
            if seen >= rank:
                return value
        return self.longest

    @property
    def longest(self):
        return self.histogram[-1][0]


def uncorrected(histogram, interval):
    """Takes out of wrk's histogram the requests that were never sent.

    wrk 4 makes up for coordinated omission: for each latency of at least twice `interval` (microseconds), the mean time
    between the requests of a connection, it adds one entry every `interval` below it. A percentile would then be of requests
    that nobody made. The additions lie below their cause, so that going down from the longest finds each count already free
    of them.
    """
    counts = dict(histogram)
    for value in sorted(counts, reverse=True):
        if value < 2 * interval:
            break
        added = value - interval
        while counts[value] and added > interval:
            counts[added] = counts.get(added, 0) - counts[value]
            added -= interval
    return sorted((value, count) for value, count in counts.items() if count)


class Load:
    """`connections` clients that send `bodies` (file names) in turn to `path` of the server at `address`, or GET it where there
    are none."""

    def __init__(self, address, path, bodies, connections, seconds):
        self.connections, self.path = connections, path
        self.output = tempfile.TemporaryFile(mode="w+", encoding="utf-8")
        command = ["wrk", "--threads", "1", "--connections", str(connections), "--duration", "%ds" % seconds, "--timeout",
                   "%ds" % TIMEOUT_SECONDS, "--script", SCRIPT, "http://%s%s" % (address, path)]
        if bodies:
            command += ["--", *bodies]
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=self.output, stderr=subprocess.STDOUT)

    def running(self):
        """True until wrk has ended; leaves it to `finish` to collect it."""
        return os.waitid(os.P_PID, self.process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None

    def finish(self):
        _, status, usage = os.wait4(self.process.pid, 0)
        self.process.returncode = os.waitstatus_to_exitcode(status)
        self.output.seek(0)
        text = self.output.read()
        self.output.close()
        line = next((line for line in text.splitlines() if line.startswith("RESULT ")), None)
        if self.process.returncode != 0 or line is None:
            raise Invalid("wrk ended with exit code %d:\n%s" % (self.process.returncode, text))
        found = json.loads(line[len("RESULT "):])
        failed = {name: count for name, count in found["errors"].items() if count}
        if failed or found["requests"] < self.connections:
            raise Invalid("%s, %d connections: %d requests answered, failed: %s" %
                          (self.path, self.connections, found["requests"], failed or "none"))
        histogram = [tuple(entry) for entry in found["histogram"]]
        if sum(count for _, count in histogram) != found["requests"]:
            histogram = uncorrected(histogram, found["microseconds"] // (found["requests"] // self.connections))
        if sum(count for _, count in histogram) != found["requests"] or min(count for _, count in histogram) < 0:
            raise Invalid("the latencies that wrk lists are not those of its requests: another version of wrk than 4?")
        return Result(found["requests"], found["microseconds"] / 1e6, histogram, usage.ru_utime + usage.ru_stime)


def run(*loads):
    """Waits for loads that were started together, all of them even where one failed; their Results, in order."""
    results, failure = [], None
    for load in loads:
        try:
            results.append(load.finish())
        except Invalid as error:
            failure = failure or error
    if failure:
        raise failure
    return results
