#!/usr/bin/env python3
"""Every statistic, similarity and importance of the code must have a row in a table of docs/MODEL.md, with no cell empty (formula, range, source), and
every work that is cited there a line in its list of sources, and the other way round. usage: check_model.py ROOT"""
import os
import re
import sys

LISTS = {"src/analysis/row_statistics.h": r'X\(STATISTIC_\w+, *"(\w+)"', "src/analysis/head_similarity.h": r'X\(SIMILARITY_\w+, *"(\w+)"',
         "src/analysis/importance.h": r'X\(IMPORTANCE_\w+, *"(\w+)"'}
OTHERS = ["sink_mass", "sink_key", "best_offset", "best_offset_share", "diversity"]  # that are in no list of the code
WORK = r"((?:[A-Z][A-Za-z]+(?: and [A-Z][A-Za-z]+| et al\.)?) (?:1[89]|20)\d\d\b)"


def main():
    root = sys.argv[1]

    def read(name):
        with open(os.path.join(root, name), encoding="utf-8") as file:
            return file.read()

    text, _, sources = read("docs/MODEL.md").partition("\n## Sources\n")
    rows = {}
    for line in text.splitlines():
        if line.startswith("| `"):
            cells = [cell.strip() for cell in line.strip("|").split(" | ")]
            rows.update({name: cells for name in re.findall(r"`(\w+)`", cells[0])})
    faults, count = [], 0
    for path, pattern in LISTS.items():
        names = re.findall(pattern, read(path))
        if not names:
            faults.append("%s has no list that matches %s" % (path, pattern))
        for name in names + (OTHERS if path == list(LISTS)[0] else []):
            count += 1
            if name not in rows:
                faults.append("docs/MODEL.md: no table has a row for %s, of %s" % (name, path))
            elif len(rows[name]) != 5 or not all(rows[name]):
                faults.append("docs/MODEL.md: the row of %s must have five cells with something in them, and is %s" % (name, rows[name]))
    listed = set(re.findall(r"^\| %s \| \S" % WORK, sources, re.MULTILINE))
    cited = set(re.findall(WORK, re.sub(r", (?=\d{4})|, [A-Z][^,]*, (?=\d{4})|\s", " ", text)))
    faults += ["docs/MODEL.md: %s is cited, and not among the sources" % work for work in sorted(cited - listed)]
    faults += ["docs/MODEL.md: %s is among the sources, and not cited" % work for work in sorted(listed - cited)]
    print("\n".join(faults) or "%d names have their row, %d works are cited" % (count, len(cited)))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
