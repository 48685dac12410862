#!/usr/bin/env python3
"""Writes the case_*.json of this folder: posted attention maps and the statistics and links that they have.

Written from the formulas of docs/MODEL.md with NumPy and SciPy, and nothing of attnd; the stats_*.json beside it come from
another program. Needs NumPy and SciPy:  tests/golden/heads/make_cases.py
"""
import itertools, json, os
import numpy as np
from scipy.stats import entropy as scipy_entropy

HERE = os.path.dirname(os.path.abspath(__file__))
rng = np.random.default_rng(20240229)
MEANS = ("entropy", "normalized_entropy", "effective_keys", "distance", "signed_distance", "uniform_distance", "confidence", "gini", "hoyer",
         "keys_for_90", "previous_mass", "next_mass", "self_mass", "first_mass", "uniform_previous_mass", "uniform_next_mass",
         "uniform_self_mass", "uniform_first_mass")


def random_maps(ok, sharp):
    """ok [B,Tq,Tk] bool, sharp [H]: maps [B,H,Tq,Tk] as float32, 0 where not allowed."""
    scores = rng.standard_normal((ok.shape[0], len(sharp)) + ok.shape[1:]) * np.asarray(sharp)[None, :, None, None]
    weights = np.where(ok[:, None], np.exp(scores - scores.max()), 0)
    total = weights.sum(-1, keepdims=True)
    return np.divide(weights, total, out=np.zeros_like(weights), where=total > 0).astype(np.float32)


class Sequence:
    """One sequence as it is measured: maps [H,rows,keys] float64, ok [rows,keys], what its rows and keys are called in
    answers, the key that row 0 stands at (None: nowhere), how many rows lists have."""

    def __init__(self, maps, ok, names, keys, place, length):
        self.maps, self.ok, self.names, self.keys, self.place, self.length = maps.astype(float), ok, names, keys, place, length


def prepare(maps, request, b):
    """Padding out, words merged, excluded keys dropped."""
    tq, tk = maps.shape[2:]
    ok, square = np.ones((tq, tk), bool), tq == tk
    mask = np.asarray(request["attention_mask"][b], bool) if "attention_mask" in request else None
    if mask is not None:
        ok &= mask[None, :] if mask.ndim == 1 else mask
    if request.get("causal"):
        ok &= np.tril(np.ones((tq, tk), bool), tk - tq)
    place = 0 if square else tk - tq if request.get("causal") else None
    a = maps[b].astype(float)
    ok = ok & (a[0].sum(-1) > 0)[:, None]
    names, length = list(range(tq)), tq
    if mask is not None and mask.ndim == 1 and square:
        kept = np.flatnonzero(mask)
        a, ok, names = a[:, kept][:, :, kept], ok[kept][:, kept], kept.tolist()
    a = np.where(ok, a, 0)
    if "words" in request:
        words = [[names.index(p) for p in w] for w in request["words"][b]]
        columns = np.stack([a[:, :, w].sum(-1) for w in words], -1)
        pairs = np.stack([ok[:, w].any(-1) for w in words], -1)
        rows = [[r for r in w if ok[r].any()] for w in words]
        a = np.stack([columns[:, r].mean(1) if r else np.zeros((len(a), len(words))) for r in rows], 1)
        ok = np.stack([pairs[w].any(0) for w in words])
        names, length = list(range(len(words))), len(words)
    if "exclude" in request:
        lists = request["exclude"]
        out = lists[b] if lists and isinstance(lists[0], list) else lists
        drop = [names.index(p) for p in out if p in names]
        ok = ok.copy()
        ok[:, drop] = False
        a = np.where(ok, a, 0)
        total = a.sum(-1, keepdims=True)
        a = np.divide(a, total, out=np.zeros_like(a), where=total > 0)
    return Sequence(a, ok, names, names if square else list(range(tk)), place, length)


def row_values(p, ok, place):
    """p [keys] of one row, its allowed keys, the key it stands at (None: nowhere): {statistic: value}"""
    keys = np.flatnonzero(ok)
    q, n = p[keys], len(keys)
    v = {"entropy": scipy_entropy(q) if abs(q.sum() - 1) < 1e-7 else -sum(x * np.log(x) for x in q if x > 0), "confidence": q.max()}
    v["effective_keys"] = np.exp(v["entropy"])
    pairs = np.abs(q[:, None] - q[None, :]).sum()                       # Gini as half the relative mean difference
    v["gini"] = pairs / (2 * n * q.sum())
    big = sorted(q, reverse=True)
    v["keys_for_90"] = next((k for k, s in enumerate(itertools.accumulate(big), 1) if s >= 0.9 - 1e-6), n)
    if n > 1:
        v["normalized_entropy"] = v["entropy"] / np.log(n)
        v["hoyer"] = (np.sqrt(n) - np.abs(q).sum() / np.linalg.norm(q)) / (np.sqrt(n) - 1)
    spots = [("first_mass", 0)]
    if place is not None:
        v["distance"] = np.abs(keys - place) @ q
        v["signed_distance"] = (keys - place) @ q
        v["uniform_distance"] = np.abs(keys - place).mean()
        spots += [("previous_mass", place - 1), ("next_mass", place + 1), ("self_mass", place)]
    for name, key in spots:
        if key in keys:
            v[name], v["uniform_" + name] = p[key], 1 / n
    return v


def statistics(sequences, head):
    """One head's entry of the answer."""
    per_sequence, scored, columns, offsets = [], 0, {}, {}
    lists = {"distance_per_position": [], "entropy_per_position": []}
    for s in sequences:
        sums = {}
        at = {"distance": [None] * s.length, "entropy": [None] * s.length}
        for r in range(s.maps.shape[1]):
            p, ok = s.maps[head, r], s.ok[r]
            if not ok.any() or p.sum() == 0:
                continue
            scored += 1
            place = None if s.place is None else r + s.place
            values = row_values(p, ok, place)
            for name, value in values.items():
                sums.setdefault(name, []).append(value)
            for name in at:
                at[name][s.names[r]] = values.get(name)
            for k in range(len(p)):
                columns[k] = columns.get(k, 0) + p[k]
            if place is not None:
                o = int(np.argmax(p)) - place
                offsets[o] = offsets.get(o, 0) + 1
        per_sequence.append(sums)
        for name in at:
            lists[name + "_per_position"].append(at[name])
    out = {"head": head, "n_rows": scored}
    for name in MEANS:
        y = np.array([sum(s.get(name, [])) for s in per_sequence], float)
        n = np.array([len(s.get(name, [])) for s in per_sequence], float)
        y, n = y[n > 0], n[n > 0]
        out[name] = y.sum() / n.sum() if len(y) else None
        out[name + "_stderr"] = np.sqrt(len(y) / (len(y) - 1) * ((y - out[name] * n) ** 2).sum()) / n.sum() if len(y) > 1 else None
    out["sink_key"] = min(columns, key=lambda k: (-columns[k], k)) if scored else None
    out["sink_mass"] = columns[out["sink_key"]] / scored if scored else None
    best = min(offsets, key=lambda o: (-offsets[o], abs(o), o)) if offsets else None
    out["best_offset"], out["best_offset_share"] = best, offsets[best] / scored if offsets else None
    return {**out, **lists}


def links(sequences, head, top_k, min_weight):
    found = [(-np.float32(s.maps[head, r, k]), b, s.names[r], s.keys[k]) for b, s in enumerate(sequences)
             for r in range(s.maps.shape[1]) for k in range(s.maps.shape[2]) if s.maps[head, r, k] > 0 and s.maps[head, r, k] >= np.float32(min_weight)]
    return [{"batch": b, "query": q, "key": k, "weight": float(-w)} for w, b, q, k in sorted(found)[:top_k]]


def plain(value):
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, (np.floating, np.integer)):
        return value.item()
    return value


def save(name, ok, sharp, top_k=6, min_weight=0.0, zero_rows=(), **more):
    """ok [B,Tq,Tk]: what the maps are made with. more: members of the request."""
    maps = random_maps(ok, sharp)
    for b, r in zero_rows:
        maps[b, :, r] = 0
    sequences = [prepare(maps, more, b) for b in range(len(maps))]
    with_rows = sum(int(s.ok[r].any()) for s in sequences for r in range(len(s.ok)))
    every = sum(len(s.ok) for s in sequences) if "words" in more else maps.shape[0] * maps.shape[2]
    case = {"request": {"attention": maps, **more}, "top_k": top_k, "min_weight": min_weight, "n_rows": with_rows, "n_excluded": every - with_rows,
            "heads": [statistics(sequences, h) for h in range(len(sharp))],
            "links": [links(sequences, h, top_k, min_weight) for h in range(len(sharp))]}
    with open(os.path.join(HERE, f"case_{name}.json"), "w") as file:
        json.dump(plain(case), file)


every = lambda b, tq, tk: np.ones((b, tq, tk), bool)
causal = lambda b, tq, tk: np.tril(every(b, tq, tk), tk - tq)
padded = lambda mask: np.asarray(mask, bool)[:, :, None] & np.asarray(mask, bool)[:, None, :]
holes = [[1, 1, 0, 1, 1, 0, 1, 1, 1], [0, 0, 1, 1, 1, 1, 1, 1, 1], [1, 1, 1, 1, 1, 0, 0, 0, 0]]
words9 = [[[0, 1], [3], [4, 6, 7], [8]], [[2, 3, 4], [5], [6, 7], [8]], [[0], [1], [2], [3], [4]]]
pairs = rng.random((2, 6, 6)) < 0.5
pairs[0, 2] = False

save("plain", every(3, 7, 7), (0.2, 1, 3, 9))
save("one_token", every(1, 1, 1), (1,))
save("one_token_many", every(4, 1, 1), (1, 2))
save("one_head", every(2, 5, 5), (2,), min_weight=0.25)
save("causal", causal(2, 21, 21), (1, 4), causal=True)
save("pairs", pairs, (1, 3), attention_mask=pairs.astype(int))
save("pairs_causal", pairs & causal(2, 6, 6), (1, 3), attention_mask=pairs.astype(int), causal=True)
save("cross", every(2, 4, 9), (1, 3))
save("cross_keys", every(2, 3, 5) & np.array([[1, 1, 0, 1, 0], [1, 0, 0, 0, 1]], bool)[:, None, :], (1, 2), attention_mask=[[1, 1, 0, 1, 0], [1, 0, 0, 0, 1]])
save("cross_causal", causal(2, 3, 8), (1, 3), causal=True)
save("cross_causal_short", causal(2, 6, 4), (1, 3), causal=True)
save("padding", padded(holes), (1, 3), attention_mask=holes)
save("padding_causal", padded(holes) & causal(3, 9, 9), (1, 3), attention_mask=holes, causal=True)
save("exclude", every(2, 8, 8), (1, 3), exclude=[0, 7])
save("exclude_each", padded(holes), (1, 3), attention_mask=holes, exclude=[[0, 8], [2], []])
save("exclude_all", every(2, 3, 3), (1, 3), exclude=[0, 1, 2])
save("exclude_pairs", pairs, (1, 3), attention_mask=pairs.astype(int), exclude=[1])
save("exclude_causal", causal(2, 6, 6), (1, 3), causal=True, exclude=[0])
save("words", every(2, 6, 6), (1, 3), words=[[[0], [1, 2], [3, 4, 5]], [[0, 1], [2, 3], [4, 5]]])
save("words_padding", padded(holes), (1, 3), attention_mask=holes, words=words9)
save("words_causal_exclude", padded(holes) & causal(3, 9, 9), (1, 3), attention_mask=holes, causal=True, words=words9, exclude=[[1], [0, 3], [4]])
save("words_pairs", pairs, (1, 3), attention_mask=pairs.astype(int), words=[[[0, 1], [2], [3, 4], [5]], [[0], [1, 2, 3], [4, 5]]])
save("zero_rows", every(2, 5, 5), (1, 3), zero_rows=((0, 1), (1, 4)))
save("zero_rows_words", every(2, 5, 5), (1, 3), zero_rows=((0, 1), (0, 2), (1, 4)), words=[[[0], [1, 2], [3, 4]], [[0, 1], [2], [3, 4]]])
save("all_padding", padded([[1, 1, 1], [0, 0, 0]]), (1, 3), attention_mask=[[1, 1, 1], [0, 0, 0]])
save("nothing_left", padded([[0, 0], [0, 0]]), (1,), attention_mask=[[0, 0], [0, 0]])
save("long", every(1, 19, 300), (0.5, 6))
save("sharp", every(2, 33, 33), (30, 60))
