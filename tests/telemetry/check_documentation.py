#!/usr/bin/env python3
"""Holds the table of metrics in docs/OPERATIONS.md to src/telemetry/metric_list.h. usage: check_documentation.py LIST OPERATIONS [--write]

--write puts the table there that the list makes."""
import re
import sys

ENTRY = re.compile(r'X\((\w+), (COUNTER|GAUGE|HISTOGRAM|INFO), "([^"]*)", "([^"]*)", "([^"]*)", "([^"]*)"\)')
SUFFIXES = {"COUNTER": "_total", "INFO": "_info", "GAUGE": "", "HISTOGRAM": ""}
HEAD = ["| metric | type | labels | meaning |", "|---|---|---|---|"]


def rows(text):
    entries = ENTRY.findall(text)
    faults = []
    if len(entries) != len(re.findall(r"^ +X\(", text, re.MULTILINE)) or len(entries) < 20:
        faults.append("not every line of the list could be read")
    for _, kind, family, unit, _, text_of in entries:
        if unit and not family.endswith("_" + unit):
            faults.append("%s does not end with its unit %s" % (family, unit))
        if family.endswith(("_total", "_info", "_count", "_sum", "_bucket")):
            faults.append("%s ends as a sample does" % family)
        if not text_of.endswith(".") or re.search(r"[\\|\n]", text_of):
            faults.append("%s: its help is no sentence" % family)
    lines = ["| `%s%s` | %s | %s | %s |" % (family, SUFFIXES[kind], kind.lower(), ", ".join("`%s`" % label for label in labels.split(",") if label),
                                           text_of) for _, kind, family, _, labels, text_of in entries]
    return HEAD + lines, faults


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        wanted, faults = rows(file.read())
    with open(sys.argv[2], encoding="utf-8") as file:
        lines = file.read().split("\n")
    if HEAD[0] not in lines:
        faults.append("there is no table of metrics")
    else:
        begin = end = lines.index(HEAD[0])
        while lines[end].startswith("|"):
            end += 1
        if sys.argv[3:] == ["--write"]:
            with open(sys.argv[2], "w", encoding="utf-8") as file:
                file.write("\n".join(lines[:begin] + wanted + lines[end:]))
        else:
            faults += ["not in the table: " + line for line in wanted if line not in lines[begin:end]]
            faults += ["not in the list: " + line for line in lines[begin:end] if line not in wanted]
            if not faults and lines[begin:end] != wanted:
                faults.append("the table is not in the order of the list")
    for fault in faults:
        print(fault)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
