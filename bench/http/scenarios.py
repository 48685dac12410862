"""The scenarios: each starts its servers, drives them in alternating repetitions and adds its figures to the report."""
import contextlib
import os
import statistics
import time

import bodies
from beside import echo, latency, peak
from load import Invalid, Load
from observing import observing
from runs import FORWARD, alternating, measured
from server import Server

SMALL_CONNECTIONS = (1, 8, 32, 64)
LIGHT_CLIENTS = 4
DASHBOARD_CLIENTS = 8
RESIDENT_EVERY_SECONDS = 0.1


def small_bodies(settings):
    return bodies.write(settings.folder, "small", 16, 1, 4, 64, "text", weights="narrow")


def noisy(settings, report):
    """Light clients without and beside one heavy client."""
    cores, seconds = len(os.sched_getaffinity(0)), settings.seconds or 2
    if cores < 2:
        raise Invalid("noisy needs two processors: on one the heavy client leaves none to the light ones")
    light = (FORWARD, small_bodies(settings), LIGHT_CLIENTS, seconds)
    # Both cost about 20 ms of one processor; heavy_cpu tells what it really was.
    heavy = {"output": bodies.write(settings.folder, "heavy", 2, 1, 320, 768, "base64", weights="wide",
                                    **{"return": ["output"]}),
             "maps": bodies.write(settings.folder, "heavy-maps", 2, 1, 128, 768, "text", weights="wide")}
    with Server(settings.binary) as server:
        for path in light[1] + heavy["output"] + heavy["maps"]:
            server.forward(path)
        runs = {"light": lambda: measured(server, light)}
        for kind, paths in heavy.items():
            load = (FORWARD, paths, 1, seconds)
            runs[kind + ".alone"] = lambda load=load: measured(server, load)
            runs[kind + ".both"] = lambda load=load: measured(server, light, load)
        found = alternating(settings, runs)

    alone = [one.first for one in found["light"]]
    report.add("noisy.others", [one.others for runs in found.values() for one in runs], "cores")
    report.add("noisy.light.throughput", [result.rate for result in alone], "requests/s")
    report.latencies("noisy.light", alone)
    for kind in heavy:
        name = "noisy." + kind
        heavy_alone = [one.first for one in found[kind + ".alone"]]
        beside, heavy_beside = zip(*[one.results for one in found[kind + ".both"]])
        report.add(name + ".heavy_cpu", [1e3 * one.cpu_per_request for one in found[kind + ".alone"]], "ms/request")
        for case, results in (("heavy_alone", heavy_alone), ("heavy_beside", heavy_beside)):
            report.add("%s.%s.throughput" % (name, case), [result.rate for result in results], "requests/s")
            report.add("%s.%s.p50" % (name, case), [result.percentile(50) for result in results], "us")
            report.add("%s.%s.longest" % (name, case), [result.longest for result in results], "us")
        report.add(name + ".light_beside.throughput", [result.rate for result in beside], "requests/s")
        report.latencies(name + ".light_beside", beside)
        report.add(name + ".server_cores", [one.cpu / one.first.seconds for one in found[kind + ".both"]], "cores")
        report.ratio(name + ".light_share", [result.rate for result in beside], [result.rate for result in alone],
                     scale=cores / (cores - 1), target=">= 0.7")
        for label, percent, target in (("p50", 50, None), ("p99", 99, "<= 10"), ("p999", 99.9, None)):
            report.ratio("%s.light_%s" % (name, label), [result.percentile(percent) for result in beside],
                         [result.percentile(percent) for result in alone], target=target)
        report.ratio(name + ".heavy_share", [result.rate for result in heavy_beside],
                     [result.rate for result in heavy_alone])


def batching(settings, report):
    """One token or few a request, many connections: with batches and without."""
    seconds = settings.seconds or 2
    files = {tokens: bodies.write(settings.folder, "tokens-%d" % tokens, 16, 1, tokens, 768, "base64", weights="wide",
                                  **{"return": ["output"]}) for tokens in (1, 4)}
    cases = {"t%d.c%d" % (tokens, connections): (FORWARD, files[tokens], connections, seconds)
             for connections in (32, 2) for tokens in files}
    with contextlib.ExitStack() as stack:
        servers = {"single": stack.enter_context(Server(settings.binary, {"max_batch_tokens": 1})),
                   "batched": stack.enter_context(Server(settings.binary))}
        for server in servers.values():
            for path in files[1] + files[4]:
                server.forward(path)
        runs = {(case, kind): lambda server=server, load=load: measured(server, load)
                for case, load in cases.items() for kind, server in servers.items()}
        found = alternating(settings, runs)
    report.add("batching.others", [one.others for runs in found.values() for one in runs], "cores")
    for case in cases:
        for kind in servers:
            name, entries = "batching.%s.%s" % (case, kind), found[case, kind]
            report.add(name + ".throughput", [one.first.rate for one in entries], "requests/s")
            report.add(name + ".cpu", [1e6 * one.cpu_per_request for one in entries], "us/request")
            report.latencies(name, [one.first for one in entries])
        ratios = {"throughput": lambda one: one.first.rate, "cpu": lambda one: one.cpu_per_request,
                  "p50": lambda one: one.first.percentile(50), "p99": lambda one: one.first.percentile(99)}
        for label, figure in ratios.items():
            report.ratio("batching.%s.%s" % (case, label), map(figure, found[case, "batched"]),
                         map(figure, found[case, "single"]))


def small(settings, report):
    """A small forward against /healthz, which costs what HTTP costs by itself."""
    seconds, paths = settings.seconds or 2, small_bodies(settings)
    with Server(settings.binary) as server:
        for path in paths:
            server.forward(path)
        runs = {}
        for connections in SMALL_CONNECTIONS:
            forward, floor = (FORWARD, paths, connections, seconds), ("/healthz", [], connections, seconds)
            runs[connections, "forward"] = lambda load=forward: measured(server, load)
            runs[connections, "healthz"] = lambda load=floor: measured(server, load)
        found = alternating(settings, runs)
    report.add("small.others", [one.others for runs in found.values() for one in runs], "cores")
    for connections in SMALL_CONNECTIONS:
        for kind in ("forward", "healthz"):
            name, entries = "small.c%d.%s" % (connections, kind), found[connections, kind]
            report.add(name + ".throughput", [one.first.rate for one in entries], "requests/s")
            report.latencies(name, [one.first for one in entries])
            report.add(name + ".cpu", [1e6 * one.cpu_per_request for one in entries], "us/request")
            report.add(name + ".client_cpu", [1e6 * one.client_cpu_per_request for one in entries], "us/request")
        for label, figure in (("throughput", lambda one: one.first.rate), ("cpu", lambda one: one.cpu_per_request)):
            report.ratio("small.c%d.%s" % (connections, label), map(figure, found[connections, "forward"]),
                         map(figure, found[connections, "healthz"]))


def memory(settings, report):
    """Resident memory while one client asks for maps again and again."""
    tokens, d_model, heads = 512, 768, 12
    seconds = settings.seconds or 20
    paths = bodies.write(settings.folder, "memory", 2, 1, tokens, d_model, "base64", weights="wide")
    with Server(settings.binary) as server:
        idle = server.resident()
        answer_bytes = 0
        for path in paths * 4:
            answer_bytes = max(answer_bytes, server.forward(path))
        faults, cpu = server.minor_faults(), server.cpu()
        load, samples = Load(server.address, FORWARD, paths, 1, seconds), []
        while load.running():
            samples.append(server.resident())
            time.sleep(RESIDENT_EVERY_SECONDS)
        result = load.finish()
        faults, cpu = server.minor_faults() - faults, server.cpu() - cpu
        time.sleep(1)
        rest = server.resident()
    # Floats: the input, queries, keys, values, heads side by side and output, each [512, 768]; the maps [12, 512, 512].
    job = 4 * (6 * tokens * d_model + heads * tokens * tokens) + os.path.getsize(paths[0]) + answer_bytes
    early, late = samples[:len(samples) // 2], samples[len(samples) // 2:]
    second = max(1, round(1 / RESIDENT_EVERY_SECONDS))
    megabyte = 1 << 20
    report.add("memory.idle", [idle / megabyte], "MiB")
    report.add("memory.first", [statistics.median(samples[:second]) / megabyte], "MiB")
    report.add("memory.peak", [max(samples) / megabyte], "MiB")
    report.add("memory.last", [statistics.median(samples[-second:]) / megabyte], "MiB")
    report.add("memory.rest", [rest / megabyte], "MiB")
    report.add("memory.job", [job / megabyte], "MiB")
    report.add("memory.throughput", [result.rate], "requests/s")
    report.add("memory.p50", [result.percentile(50)], "us")
    report.add("memory.longest", [result.longest], "us")
    report.add("memory.cpu", [1e3 * cpu / result.requests], "ms/request")
    report.add("memory.faults", [faults / result.requests], "pages/request")
    report.ratio("memory.growth", [max(late)], [max(early)], target="<= 1.02")
    report.ratio("memory.peak_of_job", [max(samples) - idle], [job], target="<= 1.5")


def dashboard(settings, report):
    """What reading live statistics of many heads costs while forwards run at full load, and whether forwards wait for it."""
    seconds, heads, d_k = settings.seconds or 2, 144, 8
    weights = [{"name": "heads", "source": "identity", "d_model": heads * d_k, "num_heads": heads}]
    paths = bodies.write(settings.folder, "dashboard", 4, 1, 16, heads * d_k, "base64", **{"return": ["output"]})
    reads = {"matrix": "/v1/heads/similarity", "centered": "/v1/heads/similarity?metric=centered",
             "rows": "/v1/heads/similarity?format=rows", "stats": "/v1/heads/stats"}
    with Server(settings.binary, weights=weights) as server:
        for path in paths:
            server.forward(path)
        forwards = (FORWARD, paths, DASHBOARD_CLIENTS, seconds)
        runs = {"alone": lambda: measured(server, forwards)}
        for kind, path in reads.items():
            load = (path, [], 1, seconds)
            runs[kind + ".idle"] = lambda load=load: measured(server, load)
            runs[kind] = lambda load=load: measured(server, forwards, load)
        found = alternating(settings, runs)
    report.add("dashboard.others", [one.others for runs in found.values() for one in runs], "cores")
    report.add("dashboard.forward.cpu", [1e6 * one.cpu_per_request for one in found["alone"]], "us/request")
    report.latencies("dashboard.forward", [one.first for one in found["alone"]])
    for kind in reads:
        name = "dashboard." + kind
        beside, read = zip(*[one.results for one in found[kind]])
        # What the forwards would have taken without the reads is taken off.
        taken = [one.cpu - forward.requests * alone.cpu_per_request
                 for one, forward, alone in zip(found[kind], beside, found["alone"])]
        report.add(name + ".idle_cpu", [1e3 * one.cpu_per_request for one in found[kind + ".idle"]], "ms/request")
        report.add(name + ".rate", [result.rate for result in read], "requests/s")
        report.add(name + ".cpu", [1e3 * cpu / result.requests for cpu, result in zip(taken, read)], "ms/request",
                   target="<= 2" if kind == "matrix" else None)
        for label, percent in (("p50", 50), ("p99", 99)):
            report.ratio("%s.forward_%s" % (name, label), [result.percentile(percent) for result in beside],
                         [one.first.percentile(percent) for one in found["alone"]])


SCENARIOS = {"noisy": noisy, "batching": batching, "small": small, "echo": echo, "memory": memory, "peak": peak, "latency": latency,
             "dashboard": dashboard, "observing": observing}
