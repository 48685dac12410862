#!/usr/bin/env python3
"""deploy/systemd: the units are valid, expose little, and attnd works under their system call filter.
usage: check_systemd.py BINARY SOURCE_ROOT VERSION"""
import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile

import parts

# Tenths of what `systemd-analyze security` gives from 0 to 10.
MOST_EXPOSURE = 15
# Debian's modules for Python are not in a virtual environment, nor in a Python of another make.
PYTHON = "/usr/bin/python3"


def verify(folder, units, binary):
    """Copies them with the path of this executable, which systemd looks for."""
    copies = []
    for unit in units:
        with open(unit, encoding="utf-8") as file:
            text = file.read().replace("/usr/local/bin/attnd", binary)
        copies.append(os.path.join(folder, os.path.basename(unit)))
        with open(copies[-1], "w", encoding="utf-8") as file:
            file.write(text)
    done = subprocess.run(["systemd-analyze", "verify", "--man=no", "--recursive-errors=no", *copies], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, check=False)
    print(done.stdout, end="")
    return done.returncode == 0 and not re.search(r"\.(service|socket):", done.stdout)


def exposure(unit):
    done = subprocess.run(["systemd-analyze", "security", "--no-pager", "--offline=true", "--threshold=%d" % MOST_EXPOSURE, unit],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    print(done.stdout.strip().splitlines()[-1])
    return done.returncode == 0


def sandboxed(folder, unit, program):
    """An executable that runs `program` under the unit's filter."""
    path = os.path.join(folder, "sandboxed-" + os.path.basename(program))
    command = [PYTHON, os.path.join(parts.HERE, "sandbox.py"), unit, program]
    with open(path, "w", encoding="utf-8") as file:
        file.write("#!/bin/sh\nexec %s \"$@\"\n" % shlex.join(command))
    os.chmod(path, 0o755)
    return path


def forbids(folder, unit):
    """What a service has no business to do ends it."""
    done = subprocess.run([sandboxed(folder, unit, parts.program("unshare")), "--mount", "true"], stderr=subprocess.DEVNULL, check=False)
    if done.returncode != -signal.SIGSYS:
        print("unshare --mount ended with %d under the filter; expected signal %d" % (done.returncode, signal.SIGSYS))
    return done.returncode == -signal.SIGSYS


def works(folder, unit, binary, root, version):
    """Every route is asked, in good and bad ways, and the server stops as it should."""
    check = os.path.join(root, "tests", "server", "check_openapi.py")
    description = os.path.join(root, "src", "server", "openapi.json")
    return subprocess.run([sys.executable, check, sandboxed(folder, unit, binary), description, version], check=False).returncode == 0


def main():
    if len(sys.argv) != 4:
        print(__doc__, file=sys.stderr)
        return 2
    binary, root = map(os.path.abspath, sys.argv[1:3])
    parts.program("systemd-analyze")
    if subprocess.run([PYTHON, "-c", "import seccomp"], stderr=subprocess.DEVNULL, check=False).returncode != 0:
        print("%s has no module seccomp: scripts/test installs it" % PYTHON)
        return 1 if os.environ.get("CI") == "true" else parts.SKIP
    service, socket = (os.path.join(root, "deploy", "systemd", name) for name in ("attnd.service", "attnd.socket"))
    with tempfile.TemporaryDirectory(prefix="attnd-systemd-") as folder:
        checks = [verify(folder, [service, socket], binary), exposure(service), forbids(folder, service),
                  works(folder, service, binary, root, sys.argv[3])]
    return 0 if all(checks) else 1


if __name__ == "__main__":
    sys.exit(main())
