#!/usr/bin/env python3
"""Every file that states the project's version must state this one. usage: check_version.py ROOT VERSION"""
import json
import os
import re
import sys


def stated(root):
    """(file, version as it stands there), once for each file."""
    with open(os.path.join(root, "src/server/openapi.json"), encoding="utf-8") as file:
        yield "src/server/openapi.json", json.load(file)["info"]["version"]
    for name, pattern in (("docs/man/attnd.1", r'^\.TH ATTND 1 "" "attnd ([^"]+)"'),
                          ("Dockerfile", r'org\.opencontainers\.image\.version="([^"]+)"'),
                          ("deploy/kubernetes/base/kustomization.yaml", r"^    newTag: (\S+)$"),
                          ("deploy/kserve/servingruntime.yaml", r"^      image: attnd:(\S+)$"),
                          ("deploy/compose/compose.yaml", r"^    image: attnd:(\S+)$"),
                          ("CHANGELOG.md", r"^## (?:\[Unreleased\]: |\[)([0-9][^\]\s]*)")):
        with open(os.path.join(root, name), encoding="utf-8") as file:
            found = re.search(pattern, file.read(), re.MULTILINE)
        yield name, found and found.group(1)


def main():
    root, version = sys.argv[1:]
    faults = ["%s: states %s, the project is %s" % (name, found, version) for name, found in stated(root) if found != version]
    print("\n".join(faults) or "all state %s" % version)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
