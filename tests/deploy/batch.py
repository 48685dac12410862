#!/usr/bin/env python3
"""deploy/batch against two replicas: every output is right, and the merged states are those of the whole data set.
usage: batch.py BINARY SOURCE_ROOT [EXAMPLE [PYTHON]]

The example with Ray runs in build/deploy. The one with Spark is run by hand (a download of half a gigabyte):
batch.py BINARY SOURCE_ROOT with_spark.py PYTHON_WITH_PYSPARK"""
import json
import os
import subprocess
import sys
import tempfile

import parts
from attnd_process import Attnd

SEQUENCES, TOKENS = 120, 12


def check(x, folder):
    import numpy
    from golden import reference
    with open(os.path.join(folder, "merged.json"), encoding="utf-8") as file:
        merged = json.load(file)
    output, attention = reference(x)
    entropy = -(attention * numpy.log(attention)).sum(-1).mean((0, 2))
    got = numpy.load(os.path.join(folder, "outputs.npy"))
    faults = []
    if got.shape != x.shape or not numpy.allclose(got, output, rtol=1e-5, atol=1e-5):
        faults.append("the outputs are not the reference's")
    if merged["state"]["n_sequences"] != SEQUENCES or merged["stats"]["n_rows"] != SEQUENCES * TOKENS:
        faults.append("%s sequences and %s rows were counted; expected %d and %d" %
                      (merged["state"]["n_sequences"], merged["stats"]["n_rows"], SEQUENCES, SEQUENCES * TOKENS))
    if not numpy.allclose([head["entropy"] for head in merged["stats"]["heads"]], entropy, rtol=1e-5):
        faults.append("the entropies are not the reference's")
    return faults


def run(binary, python, root, example, x):
    """What is wrong with the example's results, and how many sequences each replica served."""
    import numpy
    with tempfile.TemporaryDirectory(prefix="attnd-batch-") as folder, Attnd(binary) as first, Attnd(binary) as second:
        numpy.save(os.path.join(folder, "x.npy"), x)
        command = [python, os.path.join(root, "deploy", "batch", example), "--replicas", first.base + "," + second.base,
                   "--data", "x.npy", "--output", "outputs.npy", "--merged", "merged.json"]
        # Ray leaves its sessions and a token in these folders.
        quiet = {"HOME": folder, "RAY_TMPDIR": folder, "RAY_USAGE_STATS_ENABLED": "0",
                 "PYSPARK_PYTHON": python, "SPARK_LOCAL_IP": "127.0.0.1",
                 "PYTHONPATH": os.path.join(root, "deploy", "batch"), "PYTHONDONTWRITEBYTECODE": "1"}
        done = subprocess.run(command, cwd=folder, env=parts.own_environment(**quiet), stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, timeout=240, check=False)
        shares = [json.loads(server.request("GET", "/v1/heads/state").body)["n_sequences"] for server in (first, second)]
        print(done.stdout[-3000:])
        return check(x, folder) if done.returncode == 0 else ["%s ended with exit code %d" % (example, done.returncode)], shares


def main():
    if len(sys.argv) not in (3, 4, 5):
        print(__doc__, file=sys.stderr)
        return 2
    binary, root = map(os.path.abspath, sys.argv[1:3])
    example = sys.argv[3] if len(sys.argv) > 3 else "with_ray.py"
    parts.enter(root)
    python = os.path.abspath(sys.argv[4]) if len(sys.argv) > 4 else sys.executable
    os.environ.setdefault("ATTND_GOLDEN", os.path.join(root, "tests", "golden"))
    os.environ.setdefault("ATTND_ADDRESS", "")
    import numpy
    x = numpy.random.default_rng(3).standard_normal((SEQUENCES, TOKENS, 64), numpy.float32)
    # Ray gives sequences to whichever replica is free: all to one, where the machine keeps the other back.
    for _ in range(5):
        faults, shares = run(binary, python, root, example, x)
        if faults or all(shares):
            break
    if not all(shares):
        faults.append("one replica had nothing to do: %s" % shares)
    print("\n".join(faults) or "%s: %d sequences over replicas that served %s" % (example, SEQUENCES, shares))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
