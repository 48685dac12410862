#!/usr/bin/env python3
"""Measures an attnd executable over HTTP, with wrk. usage: bench_http.py BINARY [SCENARIO...]

../README.md says what each scenario measures and how it is computed."""
import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
from load import Invalid  # noqa: E402
from report import Report, Requirement  # noqa: E402
from runs import Settings  # noqa: E402
from scenarios import SCENARIOS  # noqa: E402


def say(text):
    print(text, file=sys.stderr, flush=True)


def requirement(text):
    try:
        return Requirement(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def positive(text):
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("%s is not a whole number from 1" % text)
    return number


def parse_arguments():
    parser = argparse.ArgumentParser(description="Measures a server executable over HTTP, with wrk.")
    parser.add_argument("binary", metavar="BINARY", help="the attnd executable")
    parser.add_argument("scenarios", metavar="SCENARIO", nargs="*", help="%s; default: all" % ", ".join(SCENARIOS))
    parser.add_argument("--repetitions", type=positive, default=5, metavar="N", help="of every run; the median counts (5)")
    parser.add_argument("--seconds", type=positive, metavar="N", help="the length of a run (2; memory: 20)")
    parser.add_argument("--quiet", type=float, metavar="CORES",
                        help="for a shared machine: wait up to 20 s until no more processors than this are in use, and do a run "
                        "again (4 times at most) beside which other processes used more")
    parser.add_argument("--peer", metavar="COMMAND",
                        help="latency: a program beside attnd; {port}, {shape}, {batch}, {tokens}, {d_model}, {num_heads} are filled in")
    parser.add_argument("--other", metavar="BINARY", help="observing: another build, which is the server without")
    parser.add_argument("--json", action="store_true", help="one JSON document instead of the table")
    parser.add_argument("--require", type=requirement, action="append", default=[], metavar="NAME>=NUMBER",
                        help="exit code 1 where the median of NAME is less (or NAME<=NUMBER: more); may be given again")
    arguments = parser.parse_args()
    arguments.scenarios = arguments.scenarios or list(SCENARIOS)
    for scenario in arguments.scenarios:
        if scenario not in SCENARIOS:
            parser.error("there is no scenario '%s'; there are %s" % (scenario, ", ".join(SCENARIOS)))
    for wanted in arguments.require:
        if wanted.name.split(".")[0] not in arguments.scenarios:
            parser.error("%s is not measured by %s" % (wanted.name, ", ".join(arguments.scenarios)))
    for binary in filter(None, (arguments.binary, arguments.other)):
        if not os.access(binary, os.X_OK):
            parser.error("%s cannot be run: build it first (meson compile -C build)" % binary)
    if shutil.which("wrk") is None:
        parser.error("wrk is not installed (Debian: apt-get install wrk)")
    return parser, arguments


def main():
    parser, arguments = parse_arguments()
    binary = os.path.abspath(arguments.binary)
    version = subprocess.run([binary, "--version"], capture_output=True, text=True, timeout=60, check=True).stdout.strip()
    report = Report()
    with tempfile.TemporaryDirectory(prefix="attnd-bench-") as folder:
        for scenario in arguments.scenarios:
            say(scenario)
            settings = Settings(arguments, folder, lambda text, scenario=scenario: say("%s: %s" % (scenario, text)))
            try:
                SCENARIOS[scenario](settings, report)
            except (Invalid, OSError) as error:
                say("%s: %s" % (scenario, error))
                return 1
    if arguments.json:
        print(json.dumps({"version": version, "processors": len(os.sched_getaffinity(0)), "repetitions": arguments.repetitions,
                          "figures": report.rows}))
    else:
        print("%s, %d processors, %d repetitions\n" % (version, len(os.sched_getaffinity(0)), arguments.repetitions))
        print(report.text())
    failed = 0
    for wanted in arguments.require:
        if wanted.name not in report.rows:
            parser.error("there is no figure %s; there are %s" % (wanted.name, ", ".join(report.rows)))
        if not wanted.holds(report):
            say("required %s, found %.4g" % (wanted.text, report.rows[wanted.name]["median"]))
            failed = 1
    return failed


if __name__ == "__main__":
    sys.exit(main())
