"""Scenarios that hold attnd against other programs, or against what its own answer needs: the floor of HTTP, the least memory, a
peer's latency."""
import contextlib
import os

import bodies
from load import Invalid
from runs import FORWARD, alternating, measured
from server import Program, Server

ECHO_CONNECTIONS = (1, 8)
ECHO_THREADS = 2  # server.io_threads of attnd, by default
MIB = 1 << 20
PEAK_ROOM_BYTES = 8 * MIB
LATENCY_SHAPES = {"s3": (1, 128, 768, 12), "s4": (8, 128, 512, 8), "s5": (1, 512, 512, 8)}


def echo(settings, report):
    """What attnd adds to a small request beside parsing, computing and printing, against libmicrohttpd with nothing behind it."""
    seconds = settings.seconds or 2
    program = os.path.join(os.path.dirname(os.path.dirname(settings.binary)), "bench", "http", "bench_echo")
    if not os.access(program, os.X_OK):
        raise Invalid("there is no %s: build it first (ninja -C BUILD bench/http/bench_echo)" % program)
    paths = bodies.write(settings.folder, "small", 16, 1, 4, 64, "text", weights="narrow")
    with Server(settings.binary) as attnd:
        answer_bytes = max(map(attnd.forward, paths))
        with Program(program + " {port} {answer_bytes} {threads}",
                     {"answer_bytes": answer_bytes, "threads": ECHO_THREADS}) as floor:

            runs = {}
            for connections in ECHO_CONNECTIONS:
                load = (FORWARD, paths, connections, seconds)
                runs[connections, "forward"] = lambda load=load: measured(attnd, load)
                runs[connections, "echo"] = lambda load=load: measured(floor, load)
            found = alternating(settings, runs)
    report.add("echo.others", [one.others for runs in found.values() for one in runs], "cores")
    report.add("echo.answer", [answer_bytes], "bytes")
    for connections in ECHO_CONNECTIONS:
        name, attnd_runs, echo_runs = "echo.c%d" % connections, found[connections, "forward"], found[connections, "echo"]
        report.add(name + ".forward.cpu", [1e6 * one.cpu_per_request for one in attnd_runs], "us/request")
        report.add(name + ".forward.stages", [1e6 * one.stages for one in attnd_runs], "us/request")
        report.add(name + ".forward.http", [1e6 * (one.cpu_per_request - one.stages) for one in attnd_runs], "us/request")
        report.add(name + ".echo.cpu", [1e6 * one.cpu_per_request for one in echo_runs], "us/request")
        # Of one connection the figure is informative only: the thread sleeps at each request, and to wake it costs the most.
        # Of one connection it only informs: the thread sleeps at each request, and waking it costs the most.
        report.ratio(name + ".http_of_echo", [one.cpu_per_request - one.stages for one in attnd_runs],
                     [one.cpu_per_request for one in echo_runs], target="<= 1.3" if connections > 1 else None)


def peak(settings, report):
    """The most memory that the first request for 12 maps takes, answered in JSON, beside what it cannot do without."""
    tokens, d_model, heads = 512, 768, 12
    path = bodies.write(settings.folder, "peak", 1, 1, tokens, d_model, "text", weights="wide")[0]
    # Floats: the input, queries, keys and values, each [512, 768]; the maps [12, 512, 512].
    needed = 4 * (4 * tokens * d_model + heads * tokens * tokens)
    taken = []
    for _ in range(settings.repetitions):
        with Server(settings.binary) as server:
            idle = server.resident()
            server.reset_peak()
            answer_bytes = server.forward(path)
            taken.append(server.peak() - idle)
    report.add("peak.body", [os.path.getsize(path) / MIB], "MiB")
    report.add("peak.answer", [answer_bytes / MIB], "MiB")
    report.add("peak.needed", [needed / MIB], "MiB")
    report.add("peak.taken", [bytes_taken / MIB for bytes_taken in taken], "MiB")
    report.add("peak.over", [(bytes_taken - needed) / MIB for bytes_taken in taken], "MiB")
    report.ratio("peak.of_allowed", taken, [needed + PEAK_ROOM_BYTES] * len(taken), target="<= 1")


def latency(settings, report):
    """One connection and large answers: how long does one request take, and how long does a peer's."""
    seconds = settings.seconds or 2
    for name, (batch, tokens, d_model, heads) in LATENCY_SHAPES.items():
        paths = bodies.write(settings.folder, name, 2, batch, tokens, d_model, "nested")
        weights = [{"name": "demo", "source": "numpy", "seed": 42, "scale": 0.1, "d_model": d_model, "num_heads": heads}]
        values = {"shape": name.upper(), "batch": batch, "tokens": tokens, "d_model": d_model, "num_heads": heads}
        with contextlib.ExitStack() as stack:
            servers = {"attnd": stack.enter_context(Server(settings.binary, weights=weights))}
            if settings.peer:
                servers["peer"] = stack.enter_context(Program(settings.peer, values))
            for server in servers.values():
                for path in paths:
                    server.forward(path)
            found = alternating(settings, {kind: lambda server=server: measured(server, (FORWARD, paths, 1, seconds))
                                           for kind, server in servers.items()})
        report.add("latency.%s.others" % name, [one.others for runs in found.values() for one in runs], "cores")
        for kind, runs in found.items():
            report.add("latency.%s.%s.p50" % (name, kind), [1e-3 * one.first.percentile(50) for one in runs], "ms")
            report.add("latency.%s.%s.longest" % (name, kind), [1e-3 * one.first.longest for one in runs], "ms")
        if settings.peer:
            report.ratio("latency.%s.peer_of_attnd" % name, [one.first.percentile(50) for one in found["peer"]],
                         [one.first.percentile(50) for one in found["attnd"]])

