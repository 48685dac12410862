"""What every scenario does: runs a load against a server, in repetitions that alternate, when the machine is quiet."""
import os
import time

from load import Load, run
from server import machine_cpu

FORWARD = "/v1/forward"
QUIET_ATTEMPTS = 4
QUIET_WAIT_SECONDS = 20
QUIET_MOMENT_SECONDS = 0.3


class Settings:
    """What the command line says; `folder` is for bodies, `say` takes a line of progress."""

    def __init__(self, arguments, folder, say):
        self.binary, self.peer = os.path.abspath(arguments.binary), arguments.peer
        self.other = os.path.abspath(arguments.other) if arguments.other else None
        self.repetitions, self.seconds, self.quiet = arguments.repetitions, arguments.seconds, arguments.quiet
        self.folder, self.say = folder, say


class Run:
    """Loads that ran at the same time: their Results, the server's CPU seconds meanwhile, how many processors all other
    processes used, and the `stages` of a forward in seconds, where the server tells them."""

    def __init__(self, results, cpu, others, stages):
        self.results, self.cpu, self.others, self.stages = results, cpu, others, stages
        self.first = results[0]

    @property
    def cpu_per_request(self):
        """In seconds, where there is one load."""
        return self.cpu / self.first.requests

    @property
    def client_cpu_per_request(self):
        return self.first.cpu / self.first.requests


def measured(server, *loads):
    """Runs loads (arguments of Load without the address) at the same time."""
    cpu, machine, began = server.cpu(), machine_cpu(), time.monotonic()
    results = run(*[Load(server.address, *load) for load in loads])
    cpu, machine, elapsed = server.cpu() - cpu, machine_cpu() - machine, time.monotonic() - began
    stages = server.stage_seconds()
    server.trim_log()
    return Run(results, cpu, max(0.0, machine - cpu - sum(result.cpu for result in results)) / elapsed, stages)


def wait_for_quiet(cores):
    """Returns once the machine has used no more than `cores` processors for a moment, or after QUIET_WAIT_SECONDS."""
    until = time.monotonic() + QUIET_WAIT_SECONDS
    while time.monotonic() < until:
        machine, began = machine_cpu(), time.monotonic()
        time.sleep(QUIET_MOMENT_SECONDS)
        if (machine_cpu() - machine) / (time.monotonic() - began) <= cores:
            return


def quietest(settings, run_once):
    """A Run of `run_once`; with --quiet it waits for its moment, and is done again while others use more than that: of the
    attempts the quietest counts, whatever it measured."""
    if settings.quiet is None:
        return run_once()
    best = None
    for _ in range(QUIET_ATTEMPTS):
        wait_for_quiet(settings.quiet)
        attempt = run_once()
        if best is None or attempt.others < best.others:
            best = attempt
        if best.others <= settings.quiet:
            break
    return best


def alternating(settings, runs):
    """Calls each of `runs` (name: function) once a repetition, every second repetition in the opposite order, so that a
    drift of the machine falls on all alike; lists of Run by name. One round before that warms up and is thrown away."""
    found = {name: [] for name in runs}
    for run_once in runs.values():
        run_once()
    for repetition in range(settings.repetitions):
        for name in list(runs) if repetition % 2 == 0 else reversed(list(runs)):
            found[name].append(quietest(settings, runs[name]))
        settings.say("repetition %d of %d" % (repetition + 1, settings.repetitions))
    return found
