#!/usr/bin/env python3
"""Runs a command under the SystemCallFilter= of a unit of systemd. usage: sandbox.py UNIT COMMAND [ARGUMENT...]

Where systemd gives EPERM the process is killed here, so that no test passes by being content with less. Needs libseccomp's module and
systemd-analyze, which knows the groups of calls."""
import os
import re
import subprocess
import sys

import seccomp

# For starting the command, under the filter already.
TO_START = {"execve"}


def calls_of(name):
    """The system calls of a group such as @system-service, or the one that is named."""
    if not name.startswith("@"):
        return {name}
    shown = subprocess.run(["systemd-analyze", "syscall-filter", "--no-pager", name], stdout=subprocess.PIPE, text=True, check=True)
    entries = [line.strip() for line in shown.stdout.splitlines()[1:]]
    return set().union(*(calls_of(entry) for entry in entries if entry and not entry.startswith("#")))


def allowed_by(unit):
    """What its lines leave: the first says whether it is a list of what is allowed, the others add and take away."""
    allowed = set()
    with open(unit, encoding="utf-8") as file:
        lines = re.findall(r"^SystemCallFilter=(.*)$", file.read(), re.MULTILINE)
    if not lines or lines[0].startswith("~"):
        raise SystemExit("%s allows everything that it does not name" % unit)
    for line in lines:
        calls = set().union(*(calls_of(name) for name in line.removeprefix("~").split()))
        allowed = allowed - calls if line.startswith("~") else allowed | calls
    return allowed


def main():
    if len(sys.argv) < 3:
        print(__doc__, file=sys.stderr)
        return 2
    sandbox = seccomp.SyscallFilter(seccomp.KILL_PROCESS)
    for call in sorted(allowed_by(sys.argv[1]) | TO_START):
        try:
            sandbox.add_rule(seccomp.ALLOW, call)
        except (ValueError, RuntimeError):
            pass  # a call of another architecture, or newer than the library
    sandbox.load()
    os.execv(sys.argv[2], sys.argv[2:])
    return 1


if __name__ == "__main__":
    sys.exit(main())
