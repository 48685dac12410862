#!/usr/bin/env python3
"""Drives attnd with the clients that people have, and runs the examples and the programs of docs/API.md that need packages.
usage: run_clients.py BINARY SOURCE_ROOT [SANITIZER]

The packages are in a virtual environment that scripts/test makes, build/clients or $ATTND_CLIENTS. Where there is none this is a
skip (exit code 77) that says so, or a failure where CI=true. With a SANITIZER (other than "none") it is a skip too: once is enough for
other people's programs."""
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import textwrap
import unittest

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "e2e")]
import virtual_environment

ADDRESS_OF_EXAMPLES = "127.0.0.1:8080"
SUITES = ("test_metrics", "test_requests", "test_safetensors", "test_triton", "test_kserve")


def configuration(golden):
    """The default set, and a layer of a real model."""
    name = "encoder.layer.0.attention.%s.%s"
    parts = {"Q": "self.query", "K": "self.key", "V": "self.value", "O": "output.dense"}
    tensors = {kind + "_" + letter: name % (part, suffix) for letter, part in parts.items()
               for kind, suffix in (("W", "weight"), ("b", "bias"))}
    demo = {"name": "demo", "source": "numpy", "seed": 42, "scale": 0.1, "d_model": 64, "num_heads": 8}
    layer = {"name": "layer0", "source": "safetensors", "path": os.path.join(golden, "real", "minilm-layer0.safetensors"),
             "num_heads": 12, "layout": "out_in", "tensors": tensors}
    return {"default_weights": "demo", "weights": [demo, layer], "admin": {"token_file": "token"}}


def run_example(folder, path, address, x):
    """Runs it against `address`: the map of head 0 that it prints must be the reference's, for the input x [1, T, 64]."""
    import numpy
    from golden import reference
    with open(path, encoding="utf-8") as file:
        text = file.read()
    copy = os.path.join(folder, os.path.basename(path))
    with open(copy, "w", encoding="utf-8") as file:
        file.write(text.replace(ADDRESS_OF_EXAMPLES, address))
    command = [sys.executable if path.endswith(".py") else "node", copy]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120, check=False)
    wanted = reference(x)[1][0, 0]
    printed = [float(number) for number in re.findall(r"\d\.\d+", done.stdout.partition("head 0:")[2])]
    right = len(printed) == wanted.size and numpy.allclose(printed, wanted.ravel(), rtol=0, atol=1e-5)
    if ADDRESS_OF_EXAMPLES not in text or done.returncode != 0 or not right:
        print("%s ended with exit code %d; expected %s after \"head 0:\". It printed:\n%s" %
              (path, done.returncode, wanted.tolist(), done.stdout))
        return False
    return True


def run_examples(root, address):
    import numpy
    drawn = numpy.random.default_rng(1).standard_normal((1, 4, 64), numpy.float32)
    constant = numpy.array([[[0.5] * 64, [-0.25] * 64]], numpy.float32)
    inputs = {"python/with_requests.py": drawn, "python/with_safetensors.py": drawn, "python/with_tritonclient.py": drawn,
              "javascript/with_fetch.mjs": constant}
    right = True
    with tempfile.TemporaryDirectory(prefix="attnd-examples-") as folder:
        for path, x in inputs.items():
            if path.endswith(".mjs") and shutil.which("node") is None:
                print("note: no Node here, %s was not run" % path)
            else:
                right &= run_example(folder, os.path.join(root, "examples", path), address, x)
    if right:
        print("the examples run")
    return right


# What the Python programs that stand in docs/API.md print, in their order.
SNIPPETS_PRINT = ["", "(1, 2, 64) (1, 8, 2, 8)", "(1, 8, 2, 2)", "{'output': (1, 2, 64), 'attention': (1, 8, 2, 2)}"]


def run_snippets(root, address):
    """Runs the indented blocks of docs/API.md that begin with an import."""
    with open(os.path.join(root, "docs", "API.md"), encoding="utf-8") as file:
        snippets = re.findall(r"(?<=\n\n)    import .*\n(?:    .*\n)*", file.read())
    right = len(snippets) == len(SNIPPETS_PRINT)
    if not right:
        print("docs/API.md has %d Python programs, expected %d" % (len(snippets), len(SNIPPETS_PRINT)))
    for snippet, printed in zip(snippets, SNIPPETS_PRINT):
        program = textwrap.dedent(snippet).replace(ADDRESS_OF_EXAMPLES, address)
        done = subprocess.run([sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=120,
                              check=False)
        if done.returncode != 0 or done.stdout.strip() != printed:
            right = False
            print("of docs/API.md, exit code %d, expected %r:\n%s\nprinted\n%s%s" %
                  (done.returncode, printed, program, done.stdout, done.stderr))
    if right:
        print("the programs of docs/API.md run")
    return right


def run_fetch(base, golden):
    if shutil.which("node") is None:
        print("note: no Node here, fetch was not tried")
        return True
    return subprocess.run(["node", os.path.join(HERE, "fetch.mjs"), base, golden], timeout=120, check=False).returncode == 0


def main():
    if len(sys.argv) not in (3, 4):
        print(__doc__, file=sys.stderr)
        return 2
    if sys.argv[3:] not in ([], ["none"]):
        print("not run with sanitizers")
        return virtual_environment.SKIP
    binary, root = map(os.path.abspath, sys.argv[1:3])
    folder = os.environ.get("ATTND_CLIENTS") or os.path.join(root, "build", "clients")
    virtual_environment.enter(folder, os.path.join(HERE, "requirements.txt"))
    from attnd_process import Attnd
    golden = os.path.join(root, "tests", "golden")
    with tempfile.TemporaryDirectory(prefix="attnd-clients-") as folder:
        path = os.path.join(folder, "attnd.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump(configuration(golden), file)
        with open(os.path.join(folder, "token"), "w", encoding="utf-8") as file:
            file.write("token-of-the-clients\n")
        with Attnd(binary, ["--config", path]) as server:
            os.environ.update({"ATTND_ADDRESS": server.address, "ATTND_GOLDEN": golden})
            suite = unittest.defaultTestLoader.loadTestsFromNames(SUITES)
            right = unittest.TextTestRunner(stream=sys.stdout, verbosity=2).run(suite).wasSuccessful()
            right &= run_fetch(server.base, golden)
            right &= run_examples(root, server.address)
            right &= run_snippets(root, server.address)
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
