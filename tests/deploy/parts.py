"""What the tests of deploy/ share: the environment with the real programs, replicas of attnd, and waiting."""
import json
import os
import shutil
import subprocess
import sys
import time
import urllib.error
import urllib.request

HERE = os.path.dirname(os.path.abspath(__file__))
sys.dont_write_bytecode = True
sys.path[:0] = [HERE, os.path.join(HERE, "..", "e2e"), os.path.join(HERE, "..", "clients")]
import virtual_environment
from attnd_process import free_port  # noqa: F401

SKIP = virtual_environment.SKIP


def enter(root):
    """Goes on in build/deploy (or $ATTND_DEPLOY), which scripts/test makes; returns that folder."""
    folder = os.environ.get("ATTND_DEPLOY") or os.path.join(root, "build", "deploy")
    virtual_environment.enter(folder, os.path.join(HERE, "requirements.txt"))
    return folder


def program(name, folder=None):
    """The path of a program, in the environment or the system's; where there is none the test ends, as skipped, or failed where CI=true."""
    path = os.path.join(folder, "bin", name) if folder else ""
    path = path if os.access(path, os.X_OK) else shutil.which(name)
    if not path:
        print("%s is not here: scripts/test installs it" % name)
        sys.exit(1 if os.environ.get("CI") == "true" else SKIP)
    return path


def own_environment(**variables):
    """The environment without the settings of attnd that the caller has, and with `variables`."""
    return {**{name: value for name, value in os.environ.items() if not name.startswith("ATTND_")}, **variables}


def get(url, timeout=60):
    """Status and body of GET."""
    try:
        with urllib.request.urlopen(url, timeout=timeout) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def get_json(url):
    status, body = get(url)
    if status != 200:
        raise AssertionError("%s answered %d: %s" % (url, status, body[:500]))
    return json.loads(body)


def wait_until(what, condition, seconds=60, pause=0.05):
    """Asks until it is true; an error of the network is not yet true."""
    until, last = time.monotonic() + seconds, None
    while time.monotonic() < until:
        try:
            if condition():
                return
        except (OSError, AssertionError, ValueError) as error:
            last = error
        time.sleep(pause)
    raise AssertionError("not in %d s: %s%s" % (seconds, what, " (last error: %r)" % last if last else ""))


class Program:
    """`with Program(command, folder) as p:` runs it until the block ends. Its output goes to a file in `folder`; it is shown where the
    block fails."""

    def __init__(self, command, folder, environment=None):
        self.log = os.path.join(folder, "%s-%d.log" % (os.path.basename(command[0]), time.monotonic_ns()))
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
                                            env=environment)

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        self.process.terminate()
        try:
            self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        if kind is not None:
            with open(self.log, encoding="utf-8", errors="replace") as log:
                print("the end of %s:\n%s" % (self.log, "".join(log.readlines()[-40:])))
