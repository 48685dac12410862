#!/usr/bin/env python3
"""attnd's engine beside NumPy and ONNX Runtime, and beside itself: same numbers in, same work, alternating within one run.

peers  one forward pass, output and maps returned, against the best variant of each peer, which a run before chooses: ONNX's Attention
       operator, the graph of products and Softmax that exporters write, NumPy
lanes  two lanes against one, for work of 40 Mflop and more
hog    two lanes while another process keeps CPU 1 busy, against one lane without it
isa    the kernels of x86-64-v3 against the best ones

Times are medians of slices of some milliseconds; ratios are medians over the rounds, and the range is their middle half. With one thread the
time is the processor's, which other programs disturb least; with more it is the clock's, other programs are waited for, and rounds in which
one took a processor do not count where enough others are left. Where not, the line is marked * and compares the fastest tenth of each.
`share` is attnd's part of the processor's multiply-adds, `ceiling` the ratio that all of them would give: no requirement beyond it can be met.
"""
import argparse
import json
import os
import platform
import re
import signal
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from programs import Failure, Program, Shape, alternate, attnd, candidates, check, end_with_parent, fastest

SHAPES = "1x4x64x8 1x16x64x8 1x32x384x12 16x32x384x12 1x128x768x12 8x128x512x8 1x512x768x12 1x2048x768x12".split()
LARGE_FLOP = 40e6  # from here on two lanes must pay
TARGETS = "onnx/1x4x64x8>=3,onnx/1x16x64x8>=3,onnx/D384+>=1.15,numpy>=1.4,numpy/1x4x64x8>=4.5,two-lanes>=1.8,hog>=1,x86-64-v3>=0.5"


class Requirement:
    """WHAT[/SHAPE or /DNUMBER+][@THREADS]>=RATIO"""

    def __init__(self, text):
        parts = re.fullmatch(r"([a-z0-9-]+?)(?:/(?:D(\d+)\+|([\dx]+)))?(?:@(\d+))?>=([\d.]+)", text)
        if not parts:
            raise Failure(f'"{text}" is no requirement: WHAT[/SHAPE][@THREADS]>=RATIO is, onnx/D384+>=1.15 for example')
        self.text = text
        self.what, d_model, self.shape, threads, ratio = parts.groups()
        self.d_model, self.threads, self.ratio = int(d_model or 0), threads and int(threads), float(ratio)

    def missed_by(self, row):
        return ((row["against"] + "-").startswith(self.what + "-") and row["d_model"] >= self.d_model and self.shape in (None, row["shape"])
                and self.threads in (None, row["threads"]) and not row["ratio"] >= self.ratio)


def summary(rounds, base, other, clock, quiet):
    """How many times as long as `base` the program `other` takes. Disturbances only ever add time: where no quiet rounds are left, the
    fastest tenth of each program is nearer the truth than its median."""
    def times(name):
        return [getattr(r[name], clock) for r in rounds]
    ratios = [b / a for a, b in zip(times(base), times(other))]
    low, _, high = statistics.quantiles(ratios, n=4)
    if quiet:
        ms, other_ms, ratio = (statistics.median(values) for values in (times(base), times(other), ratios))
    else:
        ms, other_ms = (float(np.quantile(times(name), 0.1)) for name in (base, other))
        ratio = other_ms / ms
    return {"ms": ms * 1e3, "other_ms": other_ms * 1e3, "ratio": ratio, "low": low, "high": high}


class Run:
    def __init__(self, arguments, folder):
        self.arguments, self.folder = arguments, folder
        self.rows = []
        self.header_printed = False

    def row(self, shape, threads, peak, against, variant, figures, quiet, difference=None):
        row = {"shape": str(shape), "d_model": shape.d_model, "threads": threads, "against": against, "variant": variant, **figures,
               "share": shape.flop / (figures["ms"] / 1e3 * peak * threads), "peak_gflops": peak / 1e9,
               "ceiling": figures["other_ms"] / 1e3 * peak * threads / shape.flop, "quiet": quiet, "difference": difference}
        self.rows.append(row)
        if not self.header_printed:
            print(f'{"B x T x d_model x heads":>23} {"threads":>7} {"attnd ms":>10} {"share":>5} {"other ms":>10} {"ratio":>6} '
                  f'{"middle half":>13}  {"ceiling":>7} {"difference":>10}  other')
            self.header_printed = True
        spread = f'{row["low"]:.2f}-{row["high"]:.2f}'
        print(f'{row["shape"]:>23} {threads:>7} {row["ms"]:>10.4f} {row["share"]:>5.2f} {row["other_ms"]:>10.4f} {row["ratio"]:>6.2f} '
              f'{spread:>13}{" " if quiet else "*"} {row["ceiling"]:>7.2f} {"" if difference is None else format(difference, ".1e"):>10}  {variant}', flush=True)

    def started(self, program, programs):
        program.start()
        programs.append(program)
        return program

    def peers(self, shape, path):
        for threads in self.arguments.threads:
            clock = "cpu" if threads == 1 else "wall"
            programs = []
            try:
                ours = self.started(attnd(self.arguments.build, path, threads), programs)
                expected = ours.result(self.folder)
                ours.settle()
                difference = {}
                for program in candidates(path, threads, self.arguments.peers):
                    self.started(program, programs)
                    difference[program.name] = check(ours, program, expected, self.folder)
                    program.settle()
                chosen = fastest(programs[1:], clock, self.arguments.seconds)
                for program in programs[1:]:
                    if program is not chosen[program.peer]:
                        programs.remove(program)
                        program.end()
                rounds, quiet = alternate({p.name: p.measure for p in [ours, *chosen.values()]}, self.arguments.seconds, clock)
                peak = ours.peak()
                for peer, program in chosen.items():
                    self.row(shape, threads, peak, peer, program.name, summary(rounds, ours.name, program.name, clock, quiet),
                             quiet, difference[program.name])
            finally:
                for program in programs:
                    program.end()

    def beside(self, shape, ours, turns, against, base, other, threads, clock="wall"):
        rounds, quiet = alternate(turns, self.arguments.seconds, clock)
        self.row(shape, threads, ours.peak(), against, other, summary(rounds, base, other, clock, quiet), quiet)

    def lanes(self, shape, path):
        if shape.flop < LARGE_FLOP:
            return
        programs = []
        try:
            one = self.started(attnd(self.arguments.build, path, 1, "one lane"), programs)
            two = self.started(attnd(self.arguments.build, path, 2, "two lanes"), programs)
            for program in programs:
                program.settle()
            self.beside(shape, one, {p.name: p.measure for p in programs}, "two-lanes", two.name, one.name, 2)
        finally:
            for program in programs:
                program.end()

    def hog(self, shape, path):
        """Slices longer than the system's own between two programs on one CPU."""
        if shape.flop < LARGE_FLOP:
            return
        programs = []
        hog = subprocess.Popen([sys.executable, "-c", "import os\nos.sched_setaffinity(0, {1})\nwhile True: pass"],
                               preexec_fn=end_with_parent)
        hog.send_signal(signal.SIGSTOP)
        try:
            one = self.started(attnd(self.arguments.build, path, 1, "one lane, no hog"), programs)
            two = self.started(attnd(self.arguments.build, path, 2, "two lanes, hog"), programs)
            for program in programs:
                program.slice_seconds = 0.05
                program.settle()

            def with_hog():
                hog.send_signal(signal.SIGCONT)
                sample = two.measure()
                hog.send_signal(signal.SIGSTOP)
                sample.quiet = True  # disturbed it is meant to be
                return sample

            self.beside(shape, one, {one.name: one.measure, two.name: with_hog}, "hog", two.name, one.name, 2)
        finally:
            hog.kill()
            hog.wait()
            for program in programs:
                program.end()

    def isa(self, shape, path):
        programs = []
        try:
            best = self.started(attnd(self.arguments.build, path, 1), programs)
            narrow = self.started(attnd(self.arguments.build, path, 1, "x86-64-v3", ATTND_ISA="x86-64-v3"), programs)
            check(best, narrow, best.result(self.folder), self.folder)
            for program in programs:
                program.settle()
            self.beside(shape, best, {p.name: p.measure for p in programs}, "x86-64-v3", narrow.name, best.name, 1, "cpu")
        finally:
            for program in programs:
                program.end()


def environment():
    names = [n for n in sorted(os.environ) if re.match(r"ATTND_|OPENBLAS_|OMP_|MKL_|NPY_|BLIS_|NVPL_|GOTO_|ORT_", n)]
    return {n: os.environ[n] for n in names}


def print_machine():
    import onnxruntime
    model = re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text())
    print(f"{model.group(1) if model else platform.machine()}, {len(os.sched_getaffinity(0))} CPUs, load {os.getloadavg()[0]:.1f}; "
          f"ONNX Runtime {onnxruntime.__version__}, NumPy {np.__version__}")
    print("environment:", " ".join(f"{n}={v}" for n, v in environment().items()) or "nothing that concerns BLAS or threads")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("mode", nargs="?", choices=["peers", "lanes", "hog", "isa"], default="peers")
    parser.add_argument("--build", default="build", help="the build folder that has bench/bench_forward (build)")
    parser.add_argument("--shapes", default=",".join(SHAPES), help="BxTxD_MODELxHEADS, separated by commas")
    parser.add_argument("--threads", default="1,2", help="for peers: numbers of threads (1,2)")
    parser.add_argument("--peers", default="onnx,numpy", help="of onnx-attention, onnx-graph and numpy, or the beginnings of their names (onnx,numpy)")
    parser.add_argument("--seconds", type=float, default=4, help="for each comparison (4); up to four times that on a busy machine")
    parser.add_argument("--json", metavar="FILE", help="writes the figures there too")
    parser.add_argument("--require", metavar="LIST", help='exit code 1 when a ratio falls short: "targets" (the project\'s own), or '
                        "WHAT[/SHAPE or /DNUMBER+][@THREADS]>=RATIO, separated by commas; WHAT is onnx (both), onnx-attention, onnx-graph, numpy, two-lanes, hog or x86-64-v3")
    arguments = parser.parse_args()
    arguments.threads = [int(n) for n in arguments.threads.split(",")]
    arguments.peers = arguments.peers.split(",")
    required = TARGETS if arguments.require == "targets" else arguments.require
    requirements = [Requirement(text) for text in required.split(",")] if required else []
    shapes = [Shape.parse(text) for text in arguments.shapes.split(",")]
    print_machine()
    with tempfile.TemporaryDirectory() as folder:
        run = Run(arguments, Path(folder))
        for shape in shapes:
            path = Path(folder) / "input"
            shape.write_input(path)
            getattr(run, arguments.mode)(shape, path)
    if arguments.json:
        Path(arguments.json).write_text(json.dumps({"mode": arguments.mode, "environment": environment(), "rows": run.rows}, indent=1) + "\n")
    missed = [f'{row["shape"]} with {row["threads"]} threads: {row["ratio"]:.2f} against {row["variant"]}, not {requirement.text}'
              + (" (beyond the ceiling)" if row["ceiling"] < requirement.ratio else "")
              for requirement in requirements for row in run.rows if requirement.missed_by(row)]
    if missed:
        print("fell short:", *missed, sep="\n  ")
    return 1 if missed else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Failure as failure:
        sys.exit(f"compare.py: {failure}")
