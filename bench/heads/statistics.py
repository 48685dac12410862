#!/usr/bin/env python3
"""The statistics of attention heads: attnd on one thread beside a straightforward NumPy version of the same set, in turn.

    meson compile -C build bench/heads/bench_statistics
    bench/heads/statistics.py build/bench/heads/bench_statistics [--shape B,H,T] [--causal] [--rounds N]

NumPy is kept to one thread and works in float32, with sums in float64. The values are compared before the times are.
"""
import argparse, os, subprocess, sys, tempfile, time

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[name] = "1"
import numpy as np


def head_statistics(a, causal):
    """a [B,H,T,T], rows that sum to 1. The statistics of all heads, in the program's order: [H, 22]"""
    b, h, t, _ = a.shape
    i, k = np.arange(t)[:, None], np.arange(t)[None, :]
    ok = k <= i if causal else np.ones((t, t), bool)
    n = ok.sum(-1)                                                   # [T]
    mean = lambda rows: rows.mean((0, 2), dtype=np.float64)          # over [B,H,T]
    logs = np.log(np.where(a > 0, a, 1))
    entropy = -(a * logs).sum(-1)
    choosing = n > 1
    away = (k - i).astype(np.float32)
    ordered = np.sort(a, axis=-1)                                    # keys that are not allowed are zeros, in front
    rank = (2 * (np.arange(1, t + 1) - t + n[:, None]) - n[:, None] - 1).astype(np.float32)
    total = a.sum(-1)
    gini = (ordered * rank).sum(-1) / (n * total)
    held = np.cumsum(ordered[..., ::-1], axis=-1, dtype=np.float64)
    keys_for_90 = (held < 0.9 - 1e-6).sum(-1) + 1
    norm = np.sqrt((a * a).sum(-1))
    root = np.sqrt(n)
    hoyer = ((root - total / norm) / np.where(choosing, root - 1, 1))[..., choosing]
    diagonal = lambda o: np.diagonal(a, o, 2, 3)
    nan = np.full(h, np.nan)
    mass = lambda o: mean(diagonal(o)) if t > abs(o) and not (causal and o > 0) else nan
    uniform = lambda o: np.full(h, (1 / n[1:] if o < 0 else 1 / n[:t - o]).mean()) if t > abs(o) and not (causal and o > 0) else nan
    columns = a.sum((0, 2), dtype=np.float64)                        # [H,T]
    offsets = np.argmax(a, -1) - np.arange(t)
    peaks = []
    for head in range(h):
        counts = np.bincount((offsets[:, head] + t - 1).ravel(), minlength=2 * t - 1)
        best = min(np.flatnonzero(counts == counts.max()) - (t - 1), key=lambda o: (abs(o), o))
        sink = int(np.argmax(columns[head]))
        peaks.append((sink, columns[head, sink] / (b * t), best, counts.max() / (b * t)))
    even = np.abs(away)
    return np.column_stack([
        mean(entropy), mean(entropy[..., choosing] / np.log(n[choosing])) if choosing.any() else nan, mean(np.exp(entropy)),
        mean((a * even).sum(-1)), mean((a * away).sum(-1)), np.full(h, ((even * ok).sum(-1) / n).mean()), mean(a.max(-1)),
        mean(gini), mean(hoyer) if choosing.any() else nan, mean(keys_for_90), mass(-1), mass(1), mass(0), mean(a[..., 0]),
        uniform(-1), uniform(1), uniform(0), np.full(h, (1 / n).mean()), np.array(peaks, float)])


def run_program(program, path, shape, causal, repetitions):
    out = subprocess.run([program, path, *map(str, shape), str(repetitions), *(["causal"] if causal else [])],
                         check=True, capture_output=True, text=True).stdout.splitlines()
    return [float(s) for s in out[0].split()], np.array([[float(v) for v in line.split()] for line in out[1:]])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program")
    parser.add_argument("--shape", default="8,12,128")
    parser.add_argument("--causal", action="store_true")
    parser.add_argument("--rounds", type=int, default=7)
    args = parser.parse_args()
    b, h, t = map(int, args.shape.split(","))
    rng = np.random.default_rng(7)
    scores = rng.standard_normal((b, h, t, t), np.float32) * rng.uniform(0.2, 4, (1, h, 1, 1)).astype(np.float32)
    if args.causal:
        scores = np.where(np.tri(t, dtype=bool), scores, -np.inf).astype(np.float32)
    a = np.exp(scores - scores.max(-1, keepdims=True))
    a /= a.sum(-1, keepdims=True)
    ours, numpys = [], []
    with tempfile.NamedTemporaryFile() as file:
        a.tofile(file)
        file.flush()
        for _ in range(args.rounds):
            seconds, got = run_program(args.program, file.name, (b, h, t), args.causal, 5)
            ours += seconds[1:]
            begun = time.thread_time()
            want = head_statistics(a, args.causal)
            numpys.append(time.thread_time() - begun)
    wrong = ~np.isclose(got, want, rtol=2e-5, atol=2e-5, equal_nan=True)
    if wrong.any():
        sys.exit(f"statistics {sorted(set(np.nonzero(wrong)[1]))} differ:\n{got[wrong]}\n{want[wrong]}")
    mine, theirs = np.median(ours), np.median(numpys)
    print(f"[{b},{h},{t},{t}]{' causal' if args.causal else ''}: attnd {mine * 1e3:.2f} ms ({mine * 1e9 / a.size:.2f} ns a weight), "
          f"NumPy {np.__version__} {theirs * 1e3:.1f} ms: {theirs / mine:.1f} times; all values agree")


if __name__ == "__main__":
    main()
