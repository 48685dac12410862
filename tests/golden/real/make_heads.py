#!/usr/bin/env python3
"""Writes heads.safetensors and heads.json of this folder from the whole set of the model's cases. usage: make_heads.py FOLDER

FOLDER has cases/NAME.json and cases/NAME-layerK.safetensors (`input`, `attention`, `output`, `attention_mask`) with the numbers of the
model's reference implementation, and expect.json with answers of programs that are not this project's. Taken are the maps of all short
cases and layers, the inputs of layer 0, and the answers to them. What attends where is computed here, with NumPy: for each head the mean
weight of the previous token, the next one, the first one, and what even attention would give, over all rows of what README.md calls plain.
"""
import json
import os
import struct
import sys
import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
LONG, NOT_PLAIN = ("passage",), ("packed", "prefix", "causal", "batch_keys")


def tensors_of(path):
    data = open(path, "rb").read()
    size, = struct.unpack("<Q", data[:8])
    return {name: np.frombuffer(data[8 + size + e["data_offsets"][0]:8 + size + e["data_offsets"][1]], "<f4").reshape(e["shape"])
            for name, e in json.loads(data[8:8 + size]).items() if name != "__metadata__"}


def save_tensors(path, tensors):
    header, at = {}, 0
    for name, t in tensors.items():
        header[name] = {"dtype": "F32", "shape": list(t.shape), "data_offsets": [at, at + t.nbytes]}
        at += t.nbytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + b"".join(t.astype("<f4").tobytes() for t in tensors.values()))


def roles(maps):
    """maps: of ([H,T,T], how many tokens are no padding)"""
    sums, rows = np.zeros((4, len(maps[0][0]))), np.zeros(4)
    even = np.zeros(4)
    for a, n in maps:
        a = a[:, :n, :n].astype(float)
        parts = (a[:, range(1, n), range(n - 1)], a[:, range(n - 1), range(1, n)], a[:, :, 0], a[:, range(n), range(n)])
        for k, part in enumerate(parts):
            sums[k] += part.sum(1)
            rows[k] += part.shape[1]
            even[k] += part.shape[1] / n
    names = ("previous_mass", "next_mass", "first_mass", "self_mass")
    return {**{n: (s / r).tolist() for n, s, r in zip(names, sums, rows)}, **{"uniform_" + n: e / r for n, e, r in zip(names, even, rows)},
            "rows": dict(zip(names, rows.tolist()))}


def main():
    folder = sys.argv[1]
    tensors, by_layer, entries = {}, {}, []
    for file in sorted(os.listdir(os.path.join(folder, "cases"))):
        name, _, layer = file[:-len(".safetensors")].partition("-layer")
        if not layer or name in LONG:
            continue
        stored = tensors_of(os.path.join(folder, "cases", file))
        tensors["%s/%s/attention" % (name, layer)] = stored["attention"]
        if layer == "0":
            tensors["%s/0/input" % name] = stored["input"]
        if "attention_mask" in stored:
            tensors["%s/attention_mask" % name] = stored["attention_mask"]
        if name not in NOT_PLAIN:
            kept = stored["attention_mask"].sum(1).astype(int) if "attention_mask" in stored else [stored["attention"].shape[2]]
            by_layer.setdefault(layer, []).extend(zip(stored["attention"], kept))
    for entry in json.load(open(os.path.join(folder, "expect.json"))):
        of_maps = entry["route"] != "/v1/heads/importance" and entry["request"].get("on") != "output"
        if entry["case"] not in LONG and (of_maps or entry["layer"] == 0):
            entries.append(entry)
    save_tensors(os.path.join(HERE, "heads.safetensors"), tensors)
    with open(os.path.join(HERE, "heads.json"), "w") as file:
        file.write('{"roles":' + json.dumps({layer: roles(maps) for layer, maps in sorted(by_layer.items())}) + ',\n"plain":' +
                   json.dumps(sorted({k.split("/")[0] for k in tensors} - set(NOT_PLAIN))) + ',\n"answers":[\n')
        file.write(",\n".join(json.dumps(entry, separators=(",", ":")) for entry in entries) + "\n]}\n")


if __name__ == "__main__":
    main()
