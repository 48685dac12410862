#!/usr/bin/env python3
"""Runs the example clients and the example request against a server of their own. usage: run_examples.py BINARY EXAMPLES

Each must end with exit code 0 and have printed what only a right answer lets it print; then SIGTERM must end the server with exit
code 0. The JavaScript client is left out, with a note, where there is no Node 18."""
import json
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
    refused = subprocess.run([sys.executable, os.path.join(examples, "python", "client.py"), "http://127.0.0.1:9"],
                             capture_output=True, text=True, timeout=120, check=False)
    if refused.returncode == 0:
        faults.append("the Python client ended with exit code 0 where nobody listens")
    print("\n".join(faults) or "the examples run")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
