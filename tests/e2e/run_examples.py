#!/usr/bin/env python3
"""Runs the example clients and the example request against a server of their own. usage: run_examples.py BINARY EXAMPLES

Each must end with exit code 0 and have printed what only a right answer lets it print; then SIGTERM must end the server with exit
code 0. The numbers of labs.py are compared with those computed here. The JavaScript client is left out, with a note, where there is no Node 18."""
import json
import math
import os
import re
import shutil
import subprocess
import sys

sys.dont_write_bytecode = True
from attnd_process import Attnd  # noqa: E402


def has_node():
    node = shutil.which("node")
    if node is None:
        return False
    version = subprocess.run([node, "--version"], capture_output=True, text=True, timeout=60, check=False).stdout
    major = re.match(r"v(\d+)", version)
    return major is not None and int(major.group(1)) >= 18


def run_client(command, base, faults):
    name = os.path.basename(command[-1])
    done = subprocess.run([*command, base], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120, check=False)
    print("--- %s\n%s" % (name, done.stdout))
    if done.returncode != 0:
        faults.append("%s ended with exit code %d" % (name, done.returncode))
    if len(re.findall(r"^head \d: the last token attends to( [01]\.\d{3}){4}$", done.stdout, re.MULTILINE)) != 8:
        faults.append("%s did not print the attention of 8 heads to 4 tokens" % name)
    if not re.search(r"answered with 422 at /input: .*3.*64", done.stdout):
        faults.append("%s did not show the problem of its wrong request" % name)


def softmax(scores):
    weights = [math.exp(score) for score in scores]
    return [weight / sum(weights) for weight in weights]


def expected_labs(examples):
    """What labs.py has to print below its titles, computed here from its inputs alone."""
    with open(os.path.join(examples, "maps.json"), encoding="utf-8") as file:
        maps = json.load(file)["attention"]
    with open(os.path.join(examples, "request.json"), encoding="utf-8") as file:
        tokens = json.load(file)["input"]
    for head, length in enumerate((1, 4)):  # <q, k> of equal vectors; of the others it is 0
        likely, other = softmax([length / math.sqrt(2), 0])
        yield "head %d, query 0: %.4f %.4f" % (head, likely, other)
        yield "head %d, query 1: %.4f %.4f" % (head, other, likely)
    for heads in (1, 4, 16, 64):
        width, rows = 64 // heads, []
        for first in range(0, 64, width):
            parts = [token[first:first + width] for token in tokens]
            rows += [(i, softmax([sum(x * y for x, y in zip(query, key)) / math.sqrt(width) for key in parts]))
                     for i, query in enumerate(parts)]
        keys = sum(math.exp(-sum(p * math.log(p) for p in row if p)) for _, row in rows) / len(rows)
        yield "%2d heads, d_k %2d: %.3f on itself, %.3f keys" % (heads, width, sum(row[i] for i, row in rows) / len(rows), keys)
    for head, rows in enumerate(maps):
        distances = [sum(p * abs(i - j) for j, p in enumerate(row)) for i, row in enumerate(rows)]
        yield "head %d: %.3f | %s" % (head, sum(distances) / len(distances), " ".join("%.2f" % x for x in distances))
    flat = [[p for row in rows for p in row] for rows in maps]
    for head, a in enumerate(flat):
        cosines = [sum(x * y for x, y in zip(a, b)) / math.sqrt(sum(x * x for x in a) * sum(y * y for y in b)) for b in flat]
        yield "head %d: %s" % (head, " ".join("%.3f" % x for x in cosines))
    yield "clusters: [[0, 1, 2], [3], [4], [5], [6, 7]]"


def run_labs(binary, examples, faults):
    configuration = os.path.join(examples, "..", "config", "examples", "labs.json")
    with Attnd(binary, ["--config", configuration]) as server:
        done = subprocess.run([sys.executable, os.path.join(examples, "python", "labs.py"), server.base], stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, timeout=120, check=False)
    print("--- labs.py\n%s" % done.stdout)
    printed = [line for line in done.stdout.splitlines() if not re.match(r"\d\. ", line)]
    if done.returncode != 0 or printed != list(expected_labs(examples)):
        faults.append("labs.py ended with exit code %d, and should have printed\n%s" %
                      (done.returncode, "\n".join(expected_labs(examples))))


def main():
    if len(sys.argv) != 3:
        print(__doc__, file=sys.stderr)
        return 2
    binary, examples = sys.argv[1:]
    faults = []
    with Attnd(binary) as server:
        with open(os.path.join(examples, "request.json"), encoding="utf-8") as file:
            reply = server.request("POST", "/v1/forward", file.read(), {"Content-Type": "application/json"})
        shapes = json.loads(reply.body).get("shapes") if reply.status == 200 else None
        if shapes != {"output": [3, 64], "attention": [8, 3, 3]}:
            faults.append("request.json was answered with status %d and shapes %s" % (reply.status, shapes))
        run_client([sys.executable, os.path.join(examples, "python", "client.py")], server.base, faults)
        if has_node():
            run_client(["node", os.path.join(examples, "javascript", "client.mjs")], server.base, faults)
        else:
            print("note: no Node 18 here, the JavaScript client was not run")
    run_labs(binary, examples, faults)
    refused = subprocess.run([sys.executable, os.path.join(examples, "python", "client.py"), "http://127.0.0.1:9"],
                             capture_output=True, text=True, timeout=120, check=False)
    if refused.returncode == 0:
        faults.append("the Python client ended with exit code 0 where nobody listens")
    print("\n".join(faults) or "the examples run")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
