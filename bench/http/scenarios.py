"""The scenarios: each starts its servers, drives them in alternating repetitions and adds its figures to the report."""
import contextlib
import os
import statistics
import time

import bodies
from load import Invalid, Load, run
from server import Server

FORWARD = "/v1/forward"
SMALL_CONNECTIONS = (1, 8, 32, 64)
LIGHT_CLIENTS = 4
RESIDENT_EVERY_SECONDS = 0.1


class Settings:
    """What the command line says; `folder` is for bodies, `say` takes a line of progress."""

    def __init__(self, binary, repetitions, seconds, folder, say):
        self.binary, self.repetitions, self.seconds, self.folder, self.say = binary, repetitions, seconds, folder, say


def measured(server, *loads):
    """Runs loads (arguments of Load without the address) at the same time; their Results, and the server's CPU seconds meanwhile."""
    before = server.cpu()
    results = run(*[Load(server.address, *load) for load in loads])
    cpu = server.cpu() - before
    server.trim_log()
    return results, cpu


def alternating(settings, runs):
    """Calls each of `runs` (name: function) once a repetition, every second repetition in the opposite order, so that a drift of the
    machine falls on all alike; what they returned, by name. One round before that warms up and is thrown away."""
    found = {name: [] for name in runs}
    for repetition in range(-1, settings.repetitions):
        for name in list(runs) if repetition % 2 == 0 else reversed(list(runs)):
            result = runs[name]()
            if repetition >= 0:
                found[name].append(result)
        settings.say("repetition %d of %d" % (repetition + 1, settings.repetitions) if repetition >= 0 else "warm")
    return found


def small_bodies(settings):
    return bodies.write(settings.folder, "small", 16, 1, 4, 64, "text", weights="narrow")


def noisy(settings, report):
    """Light clients without and beside one heavy client."""
    cores, seconds = len(os.sched_getaffinity(0)), settings.seconds or 2
    if cores < 2:
        raise Invalid("noisy needs two processors: on one the heavy client leaves none to the light ones")
    light = (FORWARD, small_bodies(settings), LIGHT_CLIENTS, seconds)
    heavy = {"output": bodies.write(settings.folder, "heavy", 2, 1, 256, 768, "base64", weights="wide", **{"return": ["output"]}),
             "maps": bodies.write(settings.folder, "heavy-maps", 2, 1, 96, 768, "text", weights="wide")}
    with Server(settings.binary) as server:
        for path in light[1] + heavy["output"] + heavy["maps"]:
            server.forward(path)
        runs = {"light": lambda: measured(server, light)}
        for kind, paths in heavy.items():
            load = (FORWARD, paths, 1, seconds)
            runs[kind + ".alone"] = lambda load=load: measured(server, load)
            runs[kind + ".both"] = lambda load=load: measured(server, light, load)
        found = alternating(settings, runs)

    alone = [results[0] for results, _ in found["light"]]
    report.add("noisy.light.throughput", [result.rate for result in alone], "requests/s")
    report.latencies("noisy.light", alone)
    for kind in heavy:
        name = "noisy." + kind
        heavy_alone = [results[0] for results, _ in found[kind + ".alone"]]
        beside, heavy_beside = zip(*[results for results, _ in found[kind + ".both"]])
        report.add(name + ".heavy_cpu", [1e3 * cpu / results[0].requests for results, cpu in found[kind + ".alone"]], "ms/request")
        report.add(name + ".heavy_alone.throughput", [result.rate for result in heavy_alone], "requests/s")
        report.add(name + ".heavy_beside.throughput", [result.rate for result in heavy_beside], "requests/s")
        report.add(name + ".light_beside.throughput", [result.rate for result in beside], "requests/s")
        report.latencies(name + ".light_beside", beside)
        report.add(name + ".server_cores", [cpu / results[0].seconds for results, cpu in found[kind + ".both"]], "cores")
        report.ratio(name + ".light_share", [result.rate for result in beside], [result.rate for result in alone],
                     scale=cores / (cores - 1), target=">= 0.7")
        report.ratio(name + ".light_p99", [result.percentile(99) for result in beside], [result.percentile(99) for result in alone],
                     target="<= 10")
        report.ratio(name + ".light_p999", [result.percentile(99.9) for result in beside],
                     [result.percentile(99.9) for result in alone])
        report.ratio(name + ".heavy_share", [result.rate for result in heavy_beside], [result.rate for result in heavy_alone])


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
    for case in cases:
        single, batched = ([results[0] for results, _ in found[case, kind]] for kind in ("single", "batched"))
        for kind, results in (("single", single), ("batched", batched)):
            name = "batching.%s.%s" % (case, kind)
            report.add(name + ".throughput", [result.rate for result in results], "requests/s")
            report.add(name + ".cpu", [1e6 * cpu / results[0].requests for results, cpu in found[case, kind]], "us/request")
            report.latencies(name, results)
        report.ratio("batching.%s.throughput" % case, [result.rate for result in batched], [result.rate for result in single])
        report.ratio("batching.%s.p50" % case, [result.percentile(50) for result in batched],
                     [result.percentile(50) for result in single])
        report.ratio("batching.%s.p99" % case, [result.percentile(99) for result in batched],
                     [result.percentile(99) for result in single])


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
    for connections in SMALL_CONNECTIONS:
        rates, costs = {}, {}
        for kind in ("forward", "healthz"):
            name, entries = "small.c%d.%s" % (connections, kind), found[connections, kind]
            rates[kind] = [results[0].rate for results, _ in entries]
            costs[kind] = [1e6 * cpu / results[0].requests for results, cpu in entries]
            report.add(name + ".throughput", rates[kind], "requests/s")
            report.latencies(name, [results[0] for results, _ in entries])
            report.add(name + ".cpu", costs[kind], "us/request")
            report.add(name + ".client_cpu", [1e6 * results[0].cpu / results[0].requests for results, _ in entries], "us/request")
        report.ratio("small.c%d.throughput" % connections, rates["forward"], rates["healthz"])
        report.ratio("small.c%d.cpu" % connections, costs["forward"], costs["healthz"])


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
    report.latencies("memory", [result])
    report.add("memory.cpu", [1e3 * cpu / result.requests], "ms/request")
    report.add("memory.faults", [faults / result.requests], "pages/request")
    report.ratio("memory.growth", [max(late)], [max(early)], target="<= 1.02")
    report.ratio("memory.peak_of_job", [max(samples) - idle], [job], target="<= 1.5")


SCENARIOS = {"noisy": noisy, "batching": batching, "small": small, "memory": memory}
