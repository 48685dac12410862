#!/usr/bin/env python3
"""Similarity of heads beside NumPy and SciPy, one thread each, in turn. usage: similarity.py BUILD [--require targets]
Needs numpy and scipy. CPU time of the thread; the median of the ratios of the rounds."""
import os
import subprocess
import sys
import tempfile
import time

for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[name] = "1"
import numpy as np
import scipy
from scipy.spatial.distance import cdist, jensenshannon

ROUNDS, SLICE = 9, 0.15


def maps(batch, heads, rows, keys, seed=5):
    """Peaked rows, as real heads have them: softmax of normal scores of deviation 2."""
    scores = np.random.default_rng(seed).standard_normal((batch, heads, rows, keys)) * 2
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return (weights / weights.sum(-1, keepdims=True)).astype(np.float32)


def numpy_product(a):
    """The Gram matrix alone, float32: what a cosine takes at the very least."""
    x = a[0].reshape(a.shape[1], -1)
    return lambda: x @ x.T


def from_product(gram):
    norm = np.sqrt(np.diag(gram))
    return gram / norm / norm[:, None]


def scipy_cosine(a):
    x = a[0].reshape(a.shape[1], -1)
    return lambda: 1 - cdist(x, x, "cosine")


def scipy_js(a):
    """Each pair once, all rows at a time."""
    heads = a.shape[1]

    def run():
        out = np.eye(heads)
        for p in range(heads):
            for q in range(p):
                out[p, q] = out[q, p] = 1 - (jensenshannon(a[0, p], a[0, q], axis=1) ** 2).mean() / np.log(2)
        return out
    return run


# The matrix alone, as the peers have it; then with the diversity that the route's answer has beside it, which has no target.
CASES = (("cosine", (1, 144, 128, 128), "NumPy X @ X.T", numpy_product, from_product, 1.3, ()),
         ("cosine", (1, 144, 128, 128), "SciPy cdist", scipy_cosine, lambda m: m, 3, ()),
         ("js", (1, 12, 128, 128), "SciPy jensenshannon", scipy_js, lambda m: m, 15, ()),
         ("cosine", (1, 144, 128, 128), "NumPy, + diversity", numpy_product, from_product, 0, ("diversity",)),
         ("js", (1, 12, 128, 128), "SciPy, + diversity", scipy_js, lambda m: m, 0, ("diversity",)))


def timed(run, runs):
    began = time.thread_time()
    for _ in range(runs):
        out = run()
    return (time.thread_time() - began) / runs, out


def compare(program, metric, shape, peer, finish, more, folder):
    a = maps(*shape)
    path = os.path.join(folder, "maps")
    a.tofile(path)
    own = subprocess.Popen([program, path, *map(str, shape), metric, *more], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def own_run(runs):
        own.stdin.write("%d\n" % runs)
        own.stdin.flush()
        return float(own.stdout.readline())
    run = peer(a)
    own_runs = max(1, int(SLICE / own_run(3)))
    peer_runs = max(1, int(SLICE / timed(run, 1)[0]))
    rounds = []
    for _ in range(ROUNDS):
        seconds, out = timed(run, peer_runs)
        rounds.append((own_run(own_runs), seconds))
    own.stdin.close()
    got = np.array([float(line) for line in own.stdout]).reshape(shape[1], shape[1])
    own.wait()
    error = np.abs(got - finish(out)).max()
    if error > 2e-5:
        sys.exit("%s: the results are %g apart" % (metric, error))
    return [float(np.median([t[i] for t in rounds])) for i in (0, 1)] + [float(np.median([p / o for o, p in rounds]))]


def main():
    program = os.path.join(sys.argv[1], "bench", "heads", "bench_similarity")
    require = sys.argv[2:] == ["--require", "targets"]
    short = []
    print("NumPy %s, SciPy %s" % (np.__version__, scipy.__version__))
    print("%-7s %-16s %-20s %10s %10s %7s %7s" % ("metric", "maps", "peer", "attnd us", "peer us", "ratio", "target"))
    with tempfile.TemporaryDirectory() as folder:
        for metric, shape, name, peer, finish, target, more in CASES:
            own, other, ratio = compare(program, metric, shape, peer, finish, more, folder)
            print("%-7s %-16s %-20s %10.0f %10.0f %6.2fx %6.1fx" % (metric, "x".join(map(str, shape)), name, own * 1e6, other * 1e6, ratio, target))
            if ratio < target:
                short.append("%s against %s: %.2fx, not %gx" % (metric, name, ratio, target))
    print("\n".join(short))
    return 1 if require and short else 0


if __name__ == "__main__":
    sys.exit(main())
