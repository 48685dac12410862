#!/usr/bin/env python3
"""Every statistic, similarity, importance, fusion of heads and rule of the code must have a row in a table of its part of docs/MODEL.md, with a formula, a range or cost, and
a source, and every work that is cited there a line in its list of sources, and the other way round. usage: check_model.py ROOT"""
import os
import re
import sys

# The part of docs/MODEL.md, where its names are listed, and how. The parts may use a name each in its own way.
LISTS = [("Statistics of heads", "src/analysis/row_statistics.h", r'X\(STATISTIC_\w+, *"(\w+)"'),
         ("Similarity of heads", "src/analysis/head_similarity.h", r'X\(SIMILARITY_\w+, *"(\w+)"'),
         ("Importance of heads", "src/analysis/importance.h", r'X\(IMPORTANCE_\w+, *"(\w+)"'),
         ("Rollout over layers", "src/analysis/rollout.h", r'X\(ROLLOUT_\w+, *"(\w+)"'),
         ("Positions", "src/engine/rules.h", r'X\(POSITION_\w+, *"(\w+)"'), ("Patterns", "src/engine/rules.h", r'X\(PATTERN_\w+, *"(\w+)"'),
         ("Low rank", "src/engine/rules.h", r'X\(LOW_RANK_\w+, *"(\w+)"'),
         ("A dynamic number of heads", "src/engine/rules.h", r'X\(KEEP_BY_\w+, *"(\w+)"')]
OTHERS = {"Statistics of heads": ["sink_mass", "sink_key", "best_offset", "best_offset_share"], "Similarity of heads": ["diversity"]}  # that are in no list of the code
WORK = r"((?:[A-Z][A-Za-z]+(?: and [A-Z][A-Za-z]+| et al\.)?) (?:1[89]|20)\d\d\b)"


def main():
    root = sys.argv[1]

    def read(name):
        with open(os.path.join(root, name), encoding="utf-8") as file:
            return file.read()

    text, _, sources = read("docs/MODEL.md").partition("\n## Sources\n")
    rows, part = {}, None
    for line in text.splitlines():
        if line.startswith("#"):
            part = line.strip("# ")
        elif line.startswith("| `"):
            cells = [cell.strip() for cell in line.strip("|").split(" | ")]
            rows.update({(part, name): cells for name in re.findall(r"`(\w+)`", cells[0])})
    faults, count = [], 0
    for part, path, pattern in LISTS:
        names = re.findall(pattern, read(path))
        if not names:
            faults.append("%s has no list that matches %s" % (path, pattern))
        for name in names + OTHERS.get(part, []):
            count += 1
            row = rows.get((part, name))
            if not row:
                faults.append("docs/MODEL.md: no table of \"%s\" has a row for %s, of %s" % (part, name, path))
            elif len(row) != 5 or not all(row):
                faults.append("docs/MODEL.md: the row of %s must have five cells with something in them, and is %s" % (name, row))
    listed = set(re.findall(r"^\| %s \| \S" % WORK, sources, re.MULTILINE))
    cited = set(re.findall(WORK, re.sub(r", (?=\d{4})|, [A-Z][^,]*, (?=\d{4})|\s", " ", text)))
    faults += ["docs/MODEL.md: %s is cited, and not among the sources" % work for work in sorted(cited - listed)]
    faults += ["docs/MODEL.md: %s is among the sources, and not cited" % work for work in sorted(listed - cited)]
    print("\n".join(faults) or "%d names have their row, %d works are cited" % (count, len(cited)))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
