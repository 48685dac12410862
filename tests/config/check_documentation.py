#!/usr/bin/env python3
"""Holds docs/CONFIGURATION.md to the loader's table: a row for every key, with its default, its range and its variable.
usage: check_documentation.py PRINT_KEYS CONFIGURATION.md"""
import json
import subprocess
import sys


def main():
    table = json.loads(subprocess.run([sys.argv[1]], check=True, stdout=subprocess.PIPE).stdout)
    with open(sys.argv[2], encoding="utf-8") as f:
        lines = f.read().splitlines()
    rows = {}
    for line in lines:
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if line.startswith("| `"):
            rows.setdefault(cells[0].strip("`"), []).append(" | ".join(cells[1:]))
    faults, used = [], set()

    def expect(name, words):
        used.add(name)
        if name not in rows:
            faults.append("no row for `%s`" % name)
        elif not any(all(w in row for w in words) for row in rows[name]):
            faults.append("`%s`: %s are not in one row: %s" % (name, ", ".join(words), rows[name]))

    for key in table["keys"]:
        words = ["`%s`" % key["variable"]]
        if key["name"] != "default_weights":
            words.append("`%s`" % json.dumps(key["default"]))
        if key["type"] in ("integer", "number", "list"):
            words.append("%s to %s" % (number(key["minimum"]), number(key["maximum"])))
        words += ["`%s`" % c for c in key.get("choices", [])]
        expect((key["section"] + "." if key["section"] else "") + key["name"], words)
    for key in table["weights"]:
        words = ["all"] if len(key["sources"]) == 5 else key["sources"]
        if key["type"] in ("integer", "number"):
            words = words + ["%s to %s" % (number(key["minimum"]), number(key["maximum"]))]
        if key["default"] is not None:
            words = words + ["`%s`" % json.dumps(key["default"])]
        expect(key["name"], words)
    for name in table["tensors"]:
        expect(name, [])
    faults += ["`%s` is documented and no key" % name for name in rows if name not in used]
    print("\n".join(faults) or "%d rows" % len(used))
    return 1 if faults else 0


def number(value):
    return "%.16g" % value


if __name__ == "__main__":
    sys.exit(main())
