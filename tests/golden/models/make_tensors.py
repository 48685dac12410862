#!/usr/bin/env python3
"""What the sets of this folder are made of, by the float64 NumPy reference of models, a program that shares no code with this project:
shapes, and for each tensor [rows, columns, sum, mixed], where mixed is the sum of its numbers times c(i) = (i * 2654435761 mod 2^32) / 2^32 - 1/2
for the i-th number in rows, as `x @ W` has them. usage: make_tensors.py REFERENCE CASES > tensors.json
REFERENCE has huggingface.py and reference_models.py; CASES the cases whose entries of source blocks are taken."""
import glob
import json
import os
import sys

import numpy as np

here = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, sys.argv[1])
import reference_models as reference  # noqa: E402

FFN = {"W_1": "W_1", "b_1": "b_1", "W_gate": "W_gate", "b_gate": "b_gate", "W_2": "W_2", "b_2": "b_2"}
EMBEDDING = {"token": "token", "position": "position", "type": "type", "W_projection": "projection.W", "b_projection": "projection.b",
             "W_patch": "patch.W", "b_patch": "patch.b", "class": "class"}


def digest(t):
    t = np.asarray(t, np.float64)
    t = t.reshape(-1, t.shape[-1])
    i = np.arange(t.size, dtype=np.uint64)
    mix = ((i * np.uint64(2654435761)) % np.uint64(2 ** 32)).astype(np.float64) / 2 ** 32 - 0.5
    return [t.shape[0], t.shape[1], float(t.sum()), float((t.ravel() * mix).sum())]


def norm(into, name, n):
    if n is None:
        return {"kind": "none"}
    kind, gain, bias, eps = n
    into[name + ".gain"] = digest(gain)
    if bias is not None:
        into[name + ".bias"] = digest(bias)
    return {"kind": kind, "eps": eps, "bias": bias is not None}


def describe(m):
    first = m["layers"][0]["w"]
    heads = m["heads"]
    kv = first.get("kv_heads", heads)
    d_k, d_v = first["W_Q"].shape[1] // heads, first["W_V"].shape[1] // kv
    out = {"num_heads": heads, "num_kv_heads": kv, "d_model": first["W_Q"].shape[0], "d_k": d_k, "d_v": d_v, "causal": bool(m.get("causal")),
           "layers": [], "shapes": [], "model": {}, "unused": m.get("unused")}
    for layer in m["layers"]:
        tensors, w = {}, layer["w"]
        for name in ("W_Q", "W_K", "W_V", "W_O", "b_Q", "b_K", "b_V", "b_O"):
            if name in w:
                tensors[name] = digest(w[name])
        f = layer.get("ffn")
        tensors.update({FFN[k]: digest(t) for k, t in (f or {}).items() if k in FFN})
        shape = {"placement": layer.get("placement", "pre"), "residual": layer.get("residual", True), "scale": float(layer.get("scale", m.get("scale") or 1 / np.sqrt(d_k))),
                 "norm1": norm(tensors, "norm1", layer.get("norm1")), "norm2": norm(tensors, "norm2", layer.get("norm2")),
                 "ffn": f["kind"] if f else "none", "window": None}
        p = layer.get("pattern")
        if p and p["kind"] == "window":
            shape["window"] = [p["left"], p["right"]]
        out["layers"].append(tensors)
        out["shapes"].append(shape)
    e = m.get("embeddings")
    if e:
        for k, slot in EMBEDDING.items():
            if k in e and not (k == "b_projection" and np.ndim(e[k]) == 0):
                out["model"][slot] = digest(e[k])
        out["embeddings"] = {"norm": norm(out["model"], "embeddings.norm", e.get("norm")), "scale": e.get("scale", 1), "position_offset": e.get("position_offset", 0),
                             "padding_id": e.get("padding_id"), "mask_token": e.get("mask_token"), "zero_padding": bool(e.get("zero_padding"))}
    out["final_norm"] = norm(out["model"], "final_norm", m.get("final_norm"))
    p = m.get("position")
    if p and "blocks" in m and "unused" in m:
        p = dict(p)
        for name in ("R", "frequencies"):
            if name in p:
                p[name] = np.asarray(p[name], np.float64).ravel().tolist()
        out["position"] = p
    return out


sets = {}
for folder in sorted(glob.glob(os.path.join(here, "tiny", "*"))):
    sets[os.path.basename(folder)] = describe(reference.load({"source": "huggingface", "path": folder}))
for path in sorted(glob.glob(os.path.join(sys.argv[2], "*.json"))):
    with open(path) as f:
        entry = json.load(f)["weights"]
    if not entry or entry["source"] != "blocks":
        continue
    file = os.path.basename(entry["path"])
    name = "blocks_" + file.split(".")[0]
    if name in sets or not os.path.exists(os.path.join(here, "blocks", file)):
        continue
    entry["path"] = file
    try:
        sets[name] = dict(describe(reference.load(entry, os.path.join(here, "blocks"))), entry=entry)
    except KeyError:
        continue  # a case of a missing tensor
print("{" + ",\n".join("%s: %s" % (json.dumps(name), json.dumps(s)) for name, s in sets.items()) + "}")
