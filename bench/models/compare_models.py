#!/usr/bin/env python3
"""Whole models in attnd's engine beside ONNX Runtime and Hugging Face's own (PyTorch, eager), and beside itself: the same folder and ids,
alternating within one run (../peers/programs.py).

output  the last hidden state of MiniLM, against ONNX Runtime: the graph as two exporters write it, as ONNX Runtime's own optimiser rewrites
        it, and of its fused operators by hand; the best of them, which a run before chooses
maps    the same with the maps of all layers, against ONNX Runtime giving maps too, and against Hugging Face with output_attentions
server  the same of attnd's server over HTTP, in bytes, against ONNX Runtime in process
layers  of a BERT-base: the maps of one layer against those of all
llama   the last hidden state of 8 layers of 1024 over 512 tokens, against Hugging Face

Times are medians of slices; with one thread processor time, with more the clock's. `ratio` is how many times as long the other takes, its
range the middle half of the rounds; * marks lines without five quiet rounds. `share` is attnd's part of the processor's multiply-adds, `ceiling` the ratio that all of them would give: no program can do better there.
"""
import argparse
import json
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import paths  # noqa: F401

from compare import print_machine, summary
from folders import Ids, flop, write_folder
from programs import Failure, Program, alternate, fastest

HERE = Path(__file__).resolve().parent
DISAGREEMENT = 2e-4
SLICE_SECONDS = 0.04
LEAST_REPEATS = 2
REQUIREMENTS = {("output", "onnx"): 1, ("maps", "onnx"): 1.15, ("maps", "torch"): 1.5, ("layers", "attnd"): 1, ("llama", "torch"): 1.1}


@dataclass
class Task:
    """Of one row: a folder and ids."""
    name: str
    folder: Path
    ids: Ids
    maps: str
    path: Path

    @property
    def config(self):
        return json.loads((self.folder / "config.json").read_text())

    def prepare(self):
        self.ids.write(self.path, self.config["vocab_size"])
        return self

    def __str__(self):
        return f"{self.name} {self.ids.batch} x {self.ids.length}"


class Turns(Program):
    """Some passes in a turn, so that what the others have left in the caches is met once."""

    def settle(self):
        super().settle()
        self.repeats = max(self.repeats, LEAST_REPEATS)


def program(name, *command):
    return Turns(name, [str(word) for word in command], slice_seconds=SLICE_SECONDS)


class Run:
    def __init__(self, arguments, scratch):
        self.arguments, self.scratch = arguments, scratch
        self.rows, self.missed = [], []

    # The programs.

    def attnd(self, task, threads, name="attnd"):
        return program(name, f"{self.arguments.build}/bench/models/bench_model", task.folder, task.path, threads, task.maps)

    def python(self, name, script, *arguments):
        return program(name, sys.executable, HERE / script, *arguments)

    def onnx(self, task, threads):
        folder = self.arguments.folders / f"onnx-{task.name}-{task.ids.batch}-{task.ids.length}-{task.maps}"
        if not (folder / "ready").exists():
            for script in ("bert_graphs.py", "export.py"):
                made = subprocess.run([sys.executable, HERE / script, task.folder, task.path, task.maps, folder], stderr=subprocess.PIPE, text=True)
                if made.returncode:
                    raise Failure(f"{script}: {made.stderr[-2000:]}")
                self.say(line for line in made.stderr.splitlines() if "left out" in line)
            (folder / "ready").touch()
        wanted = self.arguments.graphs.split(",")
        return [self.python(f"onnx/{path.stem}", "onnx_peer.py", path, task.path, threads) for path in sorted(folder.glob("*.onnx"))
                if any(path.stem.startswith(name) for name in wanted)]

    def torch(self, task, threads):
        return [self.python("torch/eager", "torch_peer.py", task.folder, task.path, threads, task.maps)]

    def server(self, task, threads):
        return self.python("server", "server_peer.py", task.folder, task.path, threads, task.maps, f"{self.arguments.build}/src/attnd")

    def say(self, lines):
        for line in lines:
            print("  ", line, file=sys.stderr)

    # What is measured.

    def compare(self, mode, task, threads, ours, others, checked=True):
        """`ours` against the best of the others of each peer."""
        others = [other for other in others if other.peer in self.arguments.peers]
        clock, programs = "cpu" if threads == 1 else "wall", []

        def started(one):
            programs.append(one)
            one.start()
            return one

        try:
            started(ours)
            expected = ours.result(self.scratch)
            ours.settle()
            difference = {}
            for other in others:
                started(other)
                difference[other.name] = self.check(ours, other, expected) if checked else None
                other.settle()
            if not others:
                return
            alone = {other.peer: other for other in others}
            chosen = alone if len(alone) == len(others) else fastest(others, clock, self.arguments.seconds)
            for other in others:
                if other is not chosen[other.peer]:
                    programs.remove(other)
                    other.end()
            rounds, quiet = alternate({p.name: p.measure for p in [ours, *chosen.values()]}, self.arguments.seconds, clock)
            peak = ours.peak() if ours.name == "attnd" else None
            for peer, other in chosen.items():
                self.row(mode, task, threads, peer, other.name, summary(rounds, ours.name, other.name, clock, quiet), quiet, peak, difference[other.name])
        finally:
            for one in programs:
                one.end()

    def check(self, ours, other, expected):
        found = other.result(self.scratch)
        difference = float(np.max(np.abs(found - expected))) if found.size == expected.size else float("inf")
        if not difference <= DISAGREEMENT:
            raise Failure(f"{other.name} differs from {ours.name} by {difference:.3g}, more than {DISAGREEMENT:g}")
        return difference

    def row(self, mode, task, threads, peer, other, figures, quiet, peak, difference):
        share, ceiling = None, None
        if peak:
            least_ms = 1e3 * flop(task.config, task.ids) / (peak * threads)
            share, ceiling = least_ms / figures["ms"], figures["other_ms"] / least_ms
        bound = REQUIREMENTS.get((mode, peer))
        row = {"mode": mode, "model": str(task), "maps": task.maps, "threads": threads, "against": peer, "variant": other, **figures, "share": share,
               "ceiling": ceiling, "quiet": quiet, "difference": difference, "bound": bound}
        if not self.rows:
            print(f'{"mode":>7} {"model":>18} {"maps":>4} {"threads":>7} {"attnd ms":>9} {"share":>5} {"other ms":>9} {"ratio":>6} {"middle half":>12}  '
                  f'{"ceiling":>7} {"asked":>5} {"difference":>10}  other')
        self.rows.append(row)
        print(f'{mode:>7} {str(task):>18} {task.maps:>4} {threads:>7} {row["ms"]:>9.3f} {"" if share is None else format(share, ".3f"):>5} {row["other_ms"]:>9.3f} '
              f'{row["ratio"]:>6.3f} {format(row["low"], ".2f") + "-" + format(row["high"], ".2f"):>12}{" " if quiet else "*"} {"" if ceiling is None else format(ceiling, ".2f"):>7} {bound or "":>5} '
              f'{"" if difference is None else format(difference, ".1e"):>10}  {other}', flush=True)
        if bound and not row["ratio"] >= bound:
            self.missed.append(f'{task} with {threads} threads, {mode}: {row["ratio"]:.3f} against {other}, asked: {bound}'
                               + (" (beyond the ceiling)" if ceiling and ceiling < bound else ""))

    def task(self, name, batch, length, maps):
        folder = self.arguments.minilm if name == "MiniLM" else write_folder({"BERT-base": "bert-base", "Llama": "llama"}[name], self.arguments.folders / name)
        return Task(name, Path(folder), Ids(batch, length), maps, self.scratch / f"ids-{name}-{batch}-{length}").prepare()

    def minilm(self, maps):
        return [self.task("MiniLM", batch, length, maps) for batch, length in self.arguments.inputs]

    def output(self, threads):
        for task in self.minilm("none"):
            self.compare("output", task, threads, self.attnd(task, threads), self.onnx(task, threads))

    def maps(self, threads):
        for task in self.minilm("all"):
            self.compare("maps", task, threads, self.attnd(task, threads), self.onnx(task, threads) + self.torch(task, threads))

    def over_http(self, threads):
        for maps in ("none", "all"):
            for task in self.minilm(maps):
                self.compare("server", task, threads, self.server(task, threads), self.onnx(task, threads) + (self.torch(task, threads) if maps == "all" else []))

    def layers(self, threads):
        task = self.task("BERT-base", 1, 128, "last")
        self.compare("layers", task, threads, self.attnd(task, threads),
                     [self.attnd(self.task("BERT-base", 1, 128, maps), threads, name) for maps, name in (("all", "attnd/all-layers"),)], checked=False)

    def llama(self, threads):
        task = self.task("Llama", 1, 512, "none")
        self.compare("llama", task, threads, self.attnd(task, threads), self.torch(task, threads))


MODES = {"output": Run.output, "maps": Run.maps, "server": Run.over_http, "layers": Run.layers, "llama": Run.llama}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("modes", nargs="*", metavar="MODE", help=f'{", ".join(MODES)}; all of them without')
    parser.add_argument("--minilm", type=Path, required=True, help="the folder that scripts/get-minilm has unpacked: its model")
    parser.add_argument("--build", default="build", help="the build folder (build)")
    parser.add_argument("--folders", type=Path, help="where random models and exported graphs are kept (BUILD/models)")
    parser.add_argument("--threads", default="1,2", help="numbers of threads (1,2)")
    parser.add_argument("--peers", default="onnx,torch,attnd", help="of onnx, torch and attnd, separated by commas (all)")
    parser.add_argument("--graphs", default="", help="beginnings of the names of ONNX Runtime's graphs, separated by commas (all)")
    parser.add_argument("--inputs", default="1x128,16x32", help="MiniLM's: sequences x tokens, separated by commas (1x128,16x32)")
    parser.add_argument("--seconds", type=float, default=4, help="for each comparison (4); up to four times that on a busy machine")
    parser.add_argument("--json", metavar="FILE", help="writes the figures there too")
    parser.add_argument("--require", action="store_true", help="exit code 1 where a ratio is below what is asked")
    arguments = parser.parse_args()
    arguments.folders = arguments.folders or Path(arguments.build) / "models"
    arguments.inputs = [tuple(map(int, text.split("x"))) for text in arguments.inputs.split(",")]
    arguments.peers = arguments.peers.split(",")
    for mode in arguments.modes:
        if mode not in MODES:
            parser.error(f'"{mode}" is not one of {", ".join(MODES)}')
    print_machine()
    with tempfile.TemporaryDirectory() as scratch:
        run = Run(arguments, Path(scratch))
        for mode in arguments.modes or MODES:
            for threads in map(int, arguments.threads.split(",")):
                MODES[mode](run, threads)
    if arguments.json:
        Path(arguments.json).write_text(json.dumps(run.rows, indent=1) + "\n")
    if run.missed:
        print("fell short:", *run.missed, sep="\n  ")
    return 1 if run.missed and arguments.require else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Failure as failure:
        sys.exit(f"compare_models.py: {failure}")
