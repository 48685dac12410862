"""The programs under comparison: started once, stopped (SIGSTOP) except while they are measured, so that none of their threads spins while
another's turn is."""
import ctypes
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
SLICE_SECONDS = 0.003
DISAGREEMENT = 1e-4
DISTURBED = 0.05  # of its time that a program may have waited for a processor, in all its threads


PR_SET_PDEATHSIG = 1
libc = ctypes.CDLL(None)


class Failure(Exception):
    pass


def end_with_parent():
    """In a new process: a stopped one would not notice that its parent is gone."""
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


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
    quiet: bool  # its threads had a processor whenever they wanted one


@dataclass
class Program:
    name: str
    command: list
    environment: dict = field(default_factory=dict)
    slice_seconds: float = SLICE_SECONDS

    @property
    def peer(self):
        return self.name.partition("/")[0]

    def start(self):
        self.repeats = 1
        self.errors = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors, text=True,
                                        env=os.environ | self.environment, preexec_fn=end_with_parent)

    def ask(self, line, words=2):
        self.process.send_signal(signal.SIGCONT)
        try:
            self.process.stdin.write(line + "\n")
            self.process.stdin.flush()
            answer = self.process.stdout.readline().split()
        except BrokenPipeError:
            answer = []
        if len(answer) != words:
            self.process.wait()
            self.errors.seek(0)
            raise Failure(f"{self.name} ended: {self.errors.read().strip()[-2000:]}")
        self.process.send_signal(signal.SIGSTOP)
        return [float(word) for word in answer]

    def peak(self):
        """Of attnd only: flop per second of one core, the best of some."""
        return max(self.ask("peak", words=1)[0] for _ in range(3))

    def waited(self):
        """Seconds that its threads were ready to run and had no processor: proc(5), schedstat."""
        threads = Path(f"/proc/{self.process.pid}/task").glob("*/schedstat")
        return sum(int(thread.read_text().split()[1]) for thread in threads) * 1e-9

    def measure(self):
        before = self.waited()
        wall, cpu = self.ask(str(self.repeats))
        return Sample(wall / self.repeats, cpu / self.repeats, self.waited() - before <= DISTURBED * wall)

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


def candidates(path, threads, peers):
    """Every variant of every peer, named PEER/VARIANT; `peers` are the beginnings of those wanted."""
    from graphs import VARIANTS
    found = [Program(name, [sys.executable, HERE / "onnx_peer.py", path, str(threads), name]) for name in VARIANTS]
    environment = {"OPENBLAS_NUM_THREADS": str(threads)}
    found.append(Program("numpy/pip", [sys.executable, HERE / "numpy_peer.py", path], environment))
    debian = os.environ.get("BENCH_DEBIAN_PYTHON")
    if debian:
        found.append(Program("numpy/debian", [debian, HERE / "numpy_peer.py", path], environment))
    return [program for program in found if any(program.name.startswith(peer) for peer in peers)]


def check(reference, program, expected, folder):
    found = program.result(folder)
    difference = float(np.max(np.abs(found - expected))) if found.size == expected.size else float("inf")
    if not difference <= DISAGREEMENT:
        raise Failure(f"{program.name} differs from {reference.name} by {difference:.3g}, more than {DISAGREEMENT:g}")
    return difference


def wait_for_quiet():
    """Until nothing but this process was about to run, three times in a row; for a short while at most."""
    idle, end = 0, time.monotonic() + 0.03
    while idle < 3 and time.monotonic() < end:
        runnable = int(Path("/proc/loadavg").read_text().split()[3].partition("/")[0])
        idle = idle + 1 if runnable <= 1 else 0
        time.sleep(0.002)


def alternate(turns, seconds, clock, rounds_wanted=25, rounds_least=5):
    """Calls the functions `turns` (name: function that gives a Sample) in turn, in an order that rotates, until the time is over. Where the
    clock is the wall's, other programs are waited for, and up to four times as long is spent while there are few quiet rounds. Gives the
    rounds (name: Sample), of these the quiet ones only where they are enough, and whether they are."""
    begin, rounds, quiet, names = time.monotonic(), [], [], list(turns)
    while True:
        if clock == "wall":
            wait_for_quiet()
        round_ = {name: turns[name]() for name in names}
        names = names[1:] + names[:1]
        rounds.append(round_)
        if all(sample.quiet for sample in round_.values()):
            quiet.append(round_)
        spent = time.monotonic() - begin
        done = clock == "cpu" or len(quiet) >= rounds_wanted
        if len(rounds) >= rounds_least and (spent > 4 * seconds or (spent > seconds and done)):
            break
    if clock == "cpu":
        return rounds, True
    enough = len(quiet) >= rounds_least
    return (quiet if enough else rounds), enough


def fastest(programs, clock, seconds):
    """Of the programs (started) of each peer the one with the least median: peer: program."""
    rounds, _ = alternate({p.name: p.measure for p in programs}, seconds, clock)
    chosen = {}
    for program in sorted(programs, key=lambda p: statistics.median(getattr(r[p.name], clock) for r in rounds)):
        chosen.setdefault(program.peer, program)
    return chosen
