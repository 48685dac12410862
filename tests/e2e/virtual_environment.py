"""The virtual environments that scripts/test makes for tests that drive other people's programs."""
import os
import sys

SKIP = 77


def enter(folder, wanted):
    """Goes on in the virtual environment `folder`; returns only there. Where it was not made with the requirements file `wanted`, this ends
    the test: as skipped, or as failed where CI=true."""
    if os.path.realpath(sys.prefix) == os.path.realpath(folder):
        return
    try:
        with open(os.path.join(folder, "requirements.txt"), "rb") as made, open(wanted, "rb") as file:
            ready = made.read() == file.read()
    except OSError:
        ready = False
    if not ready:
        print("%s is not the virtual environment of %s: scripts/test makes it, with Python's venv and a package index that pip reaches" %
              (folder, wanted))
        sys.exit(1 if os.environ.get("CI") == "true" else SKIP)
    python = os.path.join(folder, "bin", "python")
    os.execv(python, [python, os.path.abspath(sys.argv[0]), *sys.argv[1:]])
