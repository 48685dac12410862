#!/usr/bin/env python3
"""A model's pass on two lanes while another process uses one of their CPUs now and then: what a short visit costs.
usage: neighbour.py BENCH_MODEL FOLDER INPUT      FOLDER and INPUT as bench_model takes them; prints a line for each neighbour
"""
import os
import subprocess
import sys
import time

PASSES = 60
NEIGHBOURS = {"none": None, "8 ms in 158": (0.008, 0.15), "20 ms in 320": (0.02, 0.3), "all the time": (1, 0)}


def visit(cpu, busy, idle):
    os.sched_setaffinity(0, {cpu})
    while True:
        start = time.perf_counter()
        while time.perf_counter() - start < busy:
            pass
        time.sleep(idle)


def main():
    program = sys.argv[1:4] + ["2", "none"]
    cpu = sorted(os.sched_getaffinity(0))[1]
    for name, times in NEIGHBOURS.items():
        neighbour = os.fork() if times else 0
        if times and neighbour == 0:
            visit(cpu, *times)
        try:
            answer = subprocess.run(program, input="%d\n" % PASSES, capture_output=True, text=True, check=True).stdout
        finally:
            if neighbour:
                os.kill(neighbour, 9)
                os.waitpid(neighbour, 0)
        print("%-14s %7.1f ms a pass" % (name, 1e3 * float(answer.split()[0]) / PASSES), flush=True)


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    main()
