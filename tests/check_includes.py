#!/usr/bin/env python3
"""Holds the folders of src/ to one direction: each may include itself and the folders listed for it, and the engine and the
analysis know neither HTTP nor JSON. usage: check_includes.py SRC"""
import os
import re
import sys

BASE = {"base"}
JSON = BASE | {"json"}
ENGINE = BASE
ANALYSIS = BASE | {"engine"}
CODEC = JSON | {"engine", "analysis"}
CONFIG = JSON
WEIGHTS = JSON | {"engine", "codec", "config"}
RUNTIME = BASE | {"engine", "analysis"}
TELEMETRY = JSON
SERVER = WEIGHTS | CODEC | {"weights", "runtime", "telemetry"}
ALLOWED = {
    "base": set(), "json": BASE, "engine": ENGINE, "analysis": ANALYSIS, "codec": CODEC, "config": CONFIG, "weights": WEIGHTS,
    "runtime": RUNTIME, "telemetry": TELEMETRY, "server": SERVER, ".": SERVER | {"server", "."},
}
GENERATED = {"version.h", "openapi_json.h"}
LIBRARIES = {"jansson.h": {"codec", "server", "telemetry"}, "microhttpd.h": {"server"}, "libdeflate.h": {"codec"}, "zlib.h": {"codec"}, "curl/curl.h": {"telemetry"}}
FORBIDDEN_IN_ENGINE = re.compile(r"json|microhttpd|http", re.IGNORECASE)


def main():
    root, faults, seen = sys.argv[1], [], 0
    for folder, _, names in os.walk(root):
        top = os.path.relpath(folder, root).split(os.sep)[0]
        for name in sorted(names):
            if not name.endswith((".c", ".h", ".inc")):
                continue
            path = os.path.join(folder, name)
            if top not in ALLOWED:
                faults.append("%s: folder %s has no place in the order of folders" % (path, top))
                continue
            with open(path, encoding="utf-8") as f:
                for number, line in enumerate(f, 1):
                    own = re.match(r'\s*#\s*include\s+"([^"]+)"', line)
                    system = re.match(r"\s*#\s*include\s+<([^>]+)>", line)
                    seen += bool(own)
                    if own:
                        target = own.group(1).split("/")[0] if "/" in own.group(1) else "."
                        if target != top and target not in ALLOWED[top] and own.group(1) not in GENERATED:
                            faults.append("%s:%d: %s may not include %s" % (path, number, top, own.group(1)))
                    if system and top not in LIBRARIES.get(system.group(1), {top}):
                        faults.append("%s:%d: %s may not include <%s>" % (path, number, top, system.group(1)))
                    if (own or system) and top in ("engine", "analysis") and FORBIDDEN_IN_ENGINE.search(line):
                        faults.append("%s:%d: the engine knows neither HTTP nor JSON" % (path, number))
    if not seen:
        faults.append("%s: no source found" % root)
    print("\n".join(faults) or "%d includes, one direction" % seen)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
