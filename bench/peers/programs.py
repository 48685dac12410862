"""The programs under comparison: started once, stopped (SIGSTOP) except while they are measured, so that none of their threads spins while
another's turn is."""
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
SLICE_SECONDS = 0.004
DISAGREEMENT = 1e-4


class Failure(Exception):
    pass


@dataclass(frozen=True)
class Shape:
    batch: int
    length: int
    d_model: int
    heads: int

    @classmethod
    def parse(cls, text):
        numbers = re.fullmatch(r"(\d+)x(\d+)x(\d+)x(\d+)", text)
        if not numbers:
            raise Failure(f'"{text}" is no shape: BxTxD_MODELxHEADS is, 1x128x768x12 for example')
        return cls(*map(int, numbers.groups()))

    def __str__(self):
        return f"{self.batch}x{self.length}x{self.d_model}x{self.heads}"

    @property
    def flop(self):
        rows = self.batch * self.length
        return 8 * rows * self.d_model**2 + 4 * rows * self.length * self.d_model

    def write_input(self, path):
        """Scores of deviation 1, as layers have at their start: neither flat maps nor peaked ones."""
        random = np.random.default_rng(42)
        with open(path, "wb") as file:
            np.array([self.batch, self.length, self.d_model, self.heads], np.uint64).tofile(file)
            weights = random.standard_normal((4, self.d_model, self.d_model), np.float32)
            (weights / np.float32(np.sqrt(self.d_model))).tofile(file)
            random.standard_normal((self.batch, self.length, self.d_model), np.float32).tofile(file)


@dataclass
class Sample:
    wall: float  # seconds of one forward pass
    cpu: float
    quiet: bool  # no other program took one of its processors for long


@dataclass
class Program:
    name: str
    command: list
    environment: dict = field(default_factory=dict)
    slice_seconds: float = SLICE_SECONDS

    def start(self):
        self.repeats = 1
        self.errors = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors, text=True,
                                        env=os.environ | self.environment)

    def ask(self, line):
        self.process.send_signal(signal.SIGCONT)
        try:
            self.process.stdin.write(line + "\n")
            self.process.stdin.flush()
            answer = self.process.stdout.readline().split()
        except BrokenPipeError:
            answer = []
        if len(answer) != 3:
            self.process.wait()
            self.errors.seek(0)
            raise Failure(f"{self.name} ended: {self.errors.read().strip()[-2000:]}")
        self.process.send_signal(signal.SIGSTOP)
        return float(answer[0]), float(answer[1]), int(answer[2])

    def measure(self):
        wall, cpu, switches = self.ask(str(self.repeats))
        return Sample(wall / self.repeats, cpu / self.repeats, switches <= wall / 0.02)

    def result(self, folder):
        """Output and maps in one row."""
        path = folder / "result"
        self.ask(f"1 {path}")
        numbers = np.fromfile(path, np.float32)
        path.unlink()
        return numbers

    def settle(self):
        """Chooses the repeats that fill one slice."""
        seconds = min(self.measure().wall for _ in range(3))
        self.repeats = max(1, round(self.slice_seconds / seconds))
        seconds = min(self.measure().wall for _ in range(3))
        self.repeats = max(1, round(self.slice_seconds / seconds))

    def end(self):
        self.process.send_signal(signal.SIGCONT)
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()
        self.errors.close()


def attnd(build, path, lanes, name="attnd", **environment):
    return Program(name, [f"{build}/bench/bench_forward", path, str(lanes)], environment)


def numpy_candidates(path, threads):
    environment = {"OPENBLAS_NUM_THREADS": str(threads)}
    yield Program("numpy/pip", [sys.executable, HERE / "numpy_peer.py", path], environment)
    debian = os.environ.get("BENCH_DEBIAN_PYTHON")
    if debian:
        yield Program("numpy/debian", [debian, HERE / "numpy_peer.py", path], environment)


def onnx_candidates(path, threads):
    from graphs import VARIANTS
    for variant in VARIANTS:
        yield Program("onnx/" + variant, [sys.executable, HERE / "onnx_peer.py", path, str(threads), variant])


def check(reference, program, expected, folder):
    found = program.result(folder)
    difference = float(np.max(np.abs(found - expected))) if found.size == expected.size else float("inf")
    if not difference <= DISAGREEMENT:
        raise Failure(f"{program.name} differs from {reference.name} by {difference:.3g}, more than {DISAGREEMENT:g}")
    return difference


def alternate(turns, seconds, quiet_wanted=25, rounds_least=5):
    """Calls the functions `turns` (name: function that gives a Sample) in turn, in an order that rotates, until the time is over; up to
    three times as long while there are few quiet rounds. Gives the rounds (name: Sample), the quiet ones only where these are enough,
    and whether they are."""
    import time
    begin, rounds, names = time.monotonic(), [], list(turns)
    while True:
        rounds.append({name: turns[name]() for name in names})
        names = names[1:] + names[:1]
        quiet = [r for r in rounds if all(sample.quiet for sample in r.values())]
        spent = time.monotonic() - begin
        if len(rounds) >= rounds_least and (spent > 3 * seconds or (spent > seconds and len(quiet) >= quiet_wanted)):
            break
    enough = len(quiet) >= rounds_least
    return (quiet if enough else rounds), enough


def fastest(candidates, clock, seconds):
    """Of these programs (started), the one with the least median."""
    rounds, _ = alternate({p.name: p.measure for p in candidates}, seconds)
    return min(candidates, key=lambda p: statistics.median(getattr(r[p.name], clock) for r in rounds))
