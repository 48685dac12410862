#!/usr/bin/env python3
"""Writes the case_*.json of this folder: attention maps, or outputs of heads, and how similar the heads are.

Written from the formulas of docs/MODEL.md with NumPy and SciPy, and nothing of attnd; the similarity_*.json beside it come
from another program. Each number is computed in another way than attnd does: pearson by numpy.corrcoef, js by
scipy.spatial.distance.jensenshannon, hellinger by the Bhattacharyya coefficient, cka by HSIC with a centring matrix.
Needs NumPy and SciPy:  tests/golden/similarity/make_cases.py
"""
import json
import os
import numpy as np
from scipy.spatial.distance import jensenshannon
from scipy.stats import entropy

HERE = os.path.dirname(os.path.abspath(__file__))
rng = np.random.default_rng(31415)
ON_MAPS = ("cosine", "pearson", "centered", "js", "hellinger", "cka")
ON_OUTPUT = ("cosine", "pearson", "cka")
NOTHING = 1e-6


def random_maps(ok, sharp):
    """ok [B,Tq,Tk], sharp [H]: float32 [B,H,Tq,Tk], 0 where not allowed."""
    scores = np.where(ok[:, None], rng.standard_normal((len(ok), len(sharp)) + ok.shape[1:]) * np.asarray(sharp)[None, :, None, None], -np.inf)
    top = scores.max(-1, keepdims=True)
    weights = np.exp(scores - np.where(np.isfinite(top), top, 0))
    total = weights.sum(-1, keepdims=True)
    return np.divide(weights, total, out=np.zeros_like(weights), where=total > 0).astype(np.float32)


def allowed(shape, request, b):
    """[Tq,Tk], and the positions that are no padding (None: there is none)."""
    tq, tk = shape
    ok = np.ones((tq, tk), bool)
    if request.get("causal"):
        ok &= np.tril(np.ones((tq, tk), bool), tk - tq)
    if "attention_mask" not in request:
        return ok, None
    mask = np.asarray(request["attention_mask"][b], bool)
    if mask.ndim == 2:
        return ok & mask, None
    return ok & mask[None, :], np.flatnonzero(mask) if tq == tk else None


def prepare(maps, request, b):
    """One sequence: maps [H,rows,keys] float64 with 0 on what is not allowed, ok [rows,keys], rows in all (words, where there are)."""
    ok, kept = allowed(maps.shape[2:], request, b)
    a = maps[b].astype(float)
    ok = ok & (a.sum(-1) > 0).any(0)[:, None]
    names, every = np.arange(maps.shape[2]), maps.shape[2]
    if kept is not None:
        a, ok, names = a[:, kept][:, :, kept], ok[np.ix_(kept, kept)], kept
    a = a * ok
    if "words" in request:
        words = [[int(np.flatnonzero(names == p)[0]) for p in w] for w in request["words"][b]]
        join = np.zeros((len(names), len(words)))
        for i, w in enumerate(words):
            join[w, i] = 1
        has_row = ok.any(1)
        pieces = join * has_row[:, None]
        a = np.einsum("pw,hpk,kv->hwv", pieces / np.maximum(pieces.sum(0), 1), a, join)
        ok = (pieces.T @ ok @ join) > 0
        names, every = np.arange(len(words)), len(words)
    if "exclude" in request:
        lists = request["exclude"]
        out = lists[b] if lists and isinstance(lists[0], list) else lists
        ok = ok & ~np.isin(names if a.shape[1] == a.shape[2] else np.arange(a.shape[2]), out)[None, :]
        a = a * ok
        total = a.sum(-1, keepdims=True)
        a = np.divide(a, total, out=np.zeros_like(a), where=total > 0)
        ok = ok & (a.sum(-1) > 0).all(0)[:, None]                  # the same rows in all heads
    return a, ok, every


def cosine(u, v):
    return u @ v / np.sqrt((u @ u) * (v @ v))


def hsic(k, l):
    n = len(k)
    c = np.eye(n) - 1 / n
    return np.trace(k @ c @ l @ c)


def by_vectors(metric, vectors, evens):
    """vectors [H,N]: what is compared, flattened; evens [N]: 1/n_i, None for output."""
    h = len(vectors)
    out = np.full((h, h), np.nan)
    before = np.linalg.norm(vectors, axis=1)
    after = vectors - (evens if metric == "centered" else vectors.mean(1, keepdims=True) if metric == "pearson" else 0)
    fine = (before > 0) & (np.linalg.norm(after, axis=1) > NOTHING * before * (metric != "cosine"))
    with np.errstate(all="ignore"):
        r = np.corrcoef(vectors) if metric == "pearson" and vectors.shape[1] > 1 else None
    r = np.atleast_2d(r) if r is not None else None
    for x in range(h):
        for y in range(h):
            if fine[x] and fine[y]:
                out[x, y] = r[x, y] if r is not None else cosine(after[x], after[y])
    return out


def by_features(features):
    """features [H,N,K]"""
    h = len(features)
    out = np.full((h, h), np.nan)
    centred = features - features.mean(1, keepdims=True)
    fine = [np.linalg.norm(c) > NOTHING * np.linalg.norm(f) for c, f in zip(centred, features)]
    kernels = [f @ f.T for f in features]
    for x in range(h):
        for y in range(h):
            if fine[x] and fine[y]:
                out[x, y] = hsic(kernels[x], kernels[y]) / np.sqrt(hsic(kernels[x], kernels[x]) * hsic(kernels[y], kernels[y]))
    return out


def on_maps(metric, sequences):
    """sequences: of (a [H,rows,keys], ok [rows,keys]); only rows that have a key count."""
    h = len(sequences[0][0])
    rows = [(a[:, r], ok[r]) for a, ok, *_ in sequences for r in range(len(ok)) if ok[r].any()]
    if not rows:
        return np.full((h, h), np.nan)
    if metric in ("cosine", "pearson", "centered"):
        evens = np.concatenate([np.full(ok.sum(), 1 / ok.sum()) for _, ok in rows])
        return by_vectors(metric, np.concatenate([a[:, ok] for a, ok in rows], 1), evens)
    if metric == "cka":
        if len({a.shape[1] for a, _ in rows}) > 1:
            return None
        return by_features(np.stack([a for a, _ in rows], 1))
    out = np.ones((h, h))
    for x in range(h):
        for y in range(x):
            if metric == "js":
                each = [jensenshannon(a[x], a[y]) ** 2 / np.log(2) for a, _ in rows]
            else:
                unit = [(a[x] / a[x].sum(), a[y] / a[y].sum()) for a, _ in rows]
                each = [np.sqrt(max(0, 1 - np.sqrt(p * q).sum())) for p, q in unit]
            out[x, y] = out[y, x] = 1 - np.mean(each)
    return out


def on_output(metric, z, rows):
    """z [B,H,T,d_v], rows: of (sequence, position)"""
    picked = np.stack([z[b, :, t] for b, t in rows], 1).astype(float) if rows else np.zeros((z.shape[1], 0, z.shape[3]))
    if not rows:
        return np.full((z.shape[1], z.shape[1]), np.nan)
    return by_features(picked) if metric == "cka" else by_vectors(metric, picked.reshape(z.shape[1], -1), None)


def mean_of(matrices):
    """Of the sequences where it is defined."""
    stack = np.stack(matrices)
    n = (~np.isnan(stack)).sum(0)
    return np.where(n > 0, np.nansum(stack, 0) / np.maximum(n, 1), np.nan)


def plain(value):
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, (np.floating, np.integer, np.bool_)):
        return plain(value.item())
    return None if isinstance(value, float) and np.isnan(value) else value


def diversity(sequences):
    each = [entropy(np.clip(a[:, r].mean(0), 0, None)) - np.mean([entropy(p) for p in a[:, r]])
            for a, ok, _ in sequences for r in range(len(ok)) if ok[r].any()]
    return float(np.mean(each)) if each else None


def save(name, ok, sharp, same=(), even=(), zero_rows=(), d_v=0, huge=1.0, **more):
    """ok [B,Tq,Tk]: what the maps are made with. same: pairs of heads that are alike; even: heads with even attention."""
    maps = random_maps(ok, sharp)
    for head in even:
        maps[:, head] = ok / np.maximum(ok.sum(-1, keepdims=True), 1)
    for x, y in same:
        maps[:, y] = maps[:, x]
    for b, r in zero_rows:
        maps[b, :, r] = 0
    sequences = [prepare(maps, more, b) for b in range(len(maps))]
    answers = []
    for metric in ON_MAPS:
        for reduce in ("pooled", "mean"):
            found = on_maps(metric, sequences) if reduce == "pooled" else mean_of([on_maps(metric, [s]) for s in sequences])
            answers.append({"metric": metric, "on": "attention", "reduce": reduce, "similarity": found})
    n_rows = sum(int(k.any(-1).sum()) for _, k, _ in sequences)
    case = {"request": {"attention": maps, **more}, "answers": answers, "diversity": diversity(sequences), "n_rows": n_rows,
            "n_excluded": sum(e for *_, e in sequences) - n_rows if "words" in more else maps.shape[0] * maps.shape[2] - n_rows}
    if d_v:
        z = (rng.standard_normal(maps.shape[:3] + (d_v,)) * huge).astype(np.float32)
        for x, y in same:
            z[:, y] = z[:, x] * np.float32(0.5)
        for head in even:
            z[:, head] = 0.1 * np.float32(huge)
        rows = []
        for b in range(len(maps)):
            k, kept = allowed(maps.shape[2:], more, b)
            rows += [(b, t) for t in (range(maps.shape[2]) if kept is None else kept) if k[t].any()]
        for metric in ON_OUTPUT:
            each = [on_output(metric, z, [r for r in rows if r[0] == b]) for b in range(len(maps))]
            for reduce, found in (("pooled", on_output(metric, z, rows)), ("mean", mean_of(each))):
                answers.append({"metric": metric, "on": "output", "reduce": reduce, "similarity": found})
        case["heads"] = z
    with open(os.path.join(HERE, f"case_{name}.json"), "w") as file:
        json.dump(plain(case), file)


every = lambda b, tq, tk: np.ones((b, tq, tk), bool)
causal = lambda b, tq, tk: np.tril(every(b, tq, tk), tk - tq)
padded = lambda mask: np.asarray(mask, bool)[:, :, None] & np.asarray(mask, bool)[:, None, :]
holes = [[1, 1, 0, 1, 1, 0, 1, 1, 1], [0, 0, 1, 1, 1, 1, 1, 1, 1], [1, 1, 1, 1, 1, 0, 0, 0, 0]]
words9 = [[[0, 1], [3], [4, 6, 7], [8]], [[2, 3, 4], [5], [6, 7], [8]], [[0], [1], [2], [3], [4]]]
pairs = rng.random((2, 6, 6)) < 0.5
pairs[0, 2] = False

save("plain", every(3, 7, 7), (0.2, 1, 3, 9, 1), same=((1, 4),), d_v=5)
save("even", every(2, 6, 6), (1, 1, 2), even=(1,), d_v=3)
save("even_causal", causal(2, 6, 6), (1, 1, 2), even=(0,), d_v=3, causal=True)
save("one_token", every(1, 1, 1), (1, 1), d_v=4)
save("one_token_many", every(4, 1, 1), (1, 2, 3), d_v=2)
save("one_head", every(2, 5, 5), (2,), d_v=1)
save("many_heads", every(1, 5, 5), tuple(np.linspace(0.5, 4, 19)), same=((2, 17),), d_v=3)
save("causal", causal(2, 21, 21), (1, 4, 2), causal=True)
save("pairs", pairs, (1, 3, 2), attention_mask=pairs.astype(int), d_v=2)
save("cross", every(2, 4, 9), (1, 3, 2), d_v=6)
save("cross_causal_short", causal(2, 6, 4), (1, 3), causal=True, d_v=3)
save("padding", padded(holes), (1, 3, 2), attention_mask=holes, d_v=4)
save("padding_causal", padded(holes) & causal(3, 9, 9), (1, 3), attention_mask=holes, causal=True)
save("exclude", every(2, 8, 8), (1, 3, 2), exclude=[0, 7])
save("exclude_each", padded(holes), (1, 3), attention_mask=holes, exclude=[[0, 8], [2], []])
save("exclude_all", every(2, 3, 3), (1, 3), exclude=[0, 1, 2])
save("exclude_causal", causal(2, 6, 6), (1, 3), causal=True, exclude=[0])
save("exclude_sharp", every(2, 12, 12), (300, 2, 300), exclude=[3, 4, 5])
save("words", every(2, 6, 6), (1, 3, 2), words=[[[0], [1, 2], [3, 4, 5]], [[0, 1], [2, 3], [4, 5]]])
save("words_padding", padded(holes), (1, 3), attention_mask=holes, words=words9)
save("words_causal_exclude", padded(holes) & causal(3, 9, 9), (1, 3), attention_mask=holes, causal=True, words=words9, exclude=[[1], [0, 3], [4]])
save("zero_rows", every(2, 5, 5), (1, 3), zero_rows=((0, 1), (1, 4)))
save("all_padding", padded([[1, 1, 1], [0, 0, 0]]), (1, 3), attention_mask=[[1, 1, 1], [0, 0, 0]], d_v=2)
save("nothing_left", padded([[0, 0], [0, 0]]), (1, 2), attention_mask=[[0, 0], [0, 0]], d_v=2)
save("long", every(1, 9, 290), (0.5, 6, 2))
save("tall", every(1, 70, 20), (0.5, 6, 2), d_v=3, huge=1e30)
save("sharp", every(2, 33, 33), (30, 60, 60))
save("small_output", every(2, 5, 5), (1, 2, 3), d_v=3, huge=1e-30)
save("pairs_causal", pairs & causal(2, 6, 6), (1, 3, 2), attention_mask=pairs.astype(int), causal=True, d_v=3)
save("cross_causal", causal(2, 3, 8), (1, 3, 2), causal=True, d_v=2)
save("cross_keys", every(2, 3, 5) & np.array([[1, 1, 0, 1, 0], [1, 0, 0, 0, 1]], bool)[:, None, :], (1, 2, 4), attention_mask=[[1, 1, 0, 1, 0], [1, 0, 0, 0, 1]], d_v=3)
save("cross_exclude", every(2, 4, 7), (1, 3, 2), exclude=[[6], [0, 2]])
save("exclude_pairs", pairs, (1, 3, 2), attention_mask=pairs.astype(int), exclude=[1])
save("words_pairs", pairs, (1, 3, 2), attention_mask=pairs.astype(int), words=[[[0, 1], [2], [3, 4], [5]], [[0], [1, 2, 3], [4, 5]]])
save("words_exclude", every(2, 6, 6), (1, 3, 2), words=[[[0], [1, 2], [3, 4, 5]], [[0, 1], [2, 3], [4, 5]]], exclude=[[0], [2]])
save("zero_rows_words", every(2, 5, 5), (1, 3, 2), zero_rows=((0, 1), (0, 2), (1, 4)), words=[[[0], [1, 2], [3, 4]], [[0, 1], [2], [3, 4]]])
