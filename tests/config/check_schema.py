#!/usr/bin/env python3
"""Holds config/attnd.schema.json to the loader: the same keys, types, ranges, choices and defaults, and the shipped configurations are valid
under it, while a number of wrong ones are not. usage: check_schema.py PRINT_KEYS CONFIG_FOLDER"""
import copy
import glob
import json
import os
import subprocess
import sys

try:
    import jsonschema
except ImportError:
    print("Python's jsonschema is not installed")
    sys.exit(1 if os.environ.get("CI") == "true" else 77)

TYPES = {"bool": "boolean", "integer": "integer", "number": "number", "name": "string", "path": "string"}
SAFETENSORS = {"name": "s", "source": "safetensors", "path": "p", "num_heads": 2, "tensors": {"W_QKV": "w", "W_O": "o"}}
BLOCKS = {"name": "b", "source": "blocks", "path": "p", "num_heads": 2, "num_layers": 2, "layer": {"tensors": SAFETENSORS["tensors"]}}
HUGGINGFACE = {"name": "h", "source": "huggingface", "path": "folder"}
NUMPY = {"name": "n", "source": "numpy", "d_model": 4, "num_heads": 2}


def main():
    table = json.loads(subprocess.run([sys.argv[1]], check=True, stdout=subprocess.PIPE).stdout)
    folder, faults = sys.argv[2], []

    def read(path):
        with open(path, encoding="utf-8") as f:
            return json.load(f)

    schema, default = read(os.path.join(folder, "attnd.schema.json")), read(os.path.join(folder, "attnd.json"))
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)

    def same(what, found, wanted):
        if found != wanted or type(found) is not type(wanted):
            faults.append("%s: the schema has %r, the loader %r" % (what, found, wanted))

    # The keys outside weights.
    sections = {}
    for key in table["keys"]:
        sections.setdefault(key["section"], []).append(key)
    same("keys at the top", sorted(schema["properties"]), sorted([k["name"] for k in sections[""]] + [s for s in sections if s] + ["weights"]))
    same("additionalProperties", schema.get("additionalProperties"), False)
    for section, keys in sections.items():
        place = schema["properties"][section] if section else schema
        held = default[section] if section else default
        same(section + " additionalProperties", place.get("additionalProperties"), False)
        if section:
            same("keys of " + section, sorted(place["properties"]), sorted(k["name"] for k in keys))
        for key in keys:
            name, p = "%s.%s" % (section, key["name"]), place["properties"][key["name"]]
            if not p.get("description"):
                faults.append(name + " has no description")
            # default_weights is null in the table and "demo" where the built-in set is served.
            wanted = "demo" if key["name"] == "default_weights" else key["default"]
            if key["name"] != "default_weights":
                same(name + ".default", p.get("default"), wanted)
            if key["name"] not in held:
                faults.append("attnd.json has no " + name)
            else:
                same("attnd.json's " + name, held[key["name"]], wanted)
            if key["type"] in TYPES:
                same(name + ".type", p.get("type"), TYPES[key["type"]])
            if key["type"] in ("integer", "number"):
                same(name + ".minimum", float(p.get("minimum")), float(key["minimum"]))
                same(name + ".maximum", float(p.get("maximum")), float(key["maximum"]))
            if key["type"] == "choice":
                same(name + ".enum", p.get("enum"), key["choices"])
            if key["type"] == "string":
                same(name + ".type", p.get("type"), ["string", "null"])
            if key["type"] == "list":
                same(name + ".minItems", p.get("minItems"), key["minimum"])
                same(name + ".maxItems", p.get("maxItems"), key["maximum"])

    # The keys of a weight set, by source.
    for source in ("numpy", "identity", "safetensors", "blocks", "huggingface"):
        keys, place = [k for k in table["weights"] if source in k["sources"]], schema["$defs"][source]
        same("keys of " + source, sorted(place["properties"]), sorted(k["name"] for k in keys))
        same("required of " + source, sorted(place["required"]), sorted(k["name"] for k in keys if source in k["required"]))
        same(source + " additionalProperties", place.get("additionalProperties"), False)
        for key in keys:
            name, p = "%s.%s" % (source, key["name"]), place["properties"][key["name"]]
            if key["type"] in TYPES:
                same(name + ".type", p.get("type"), TYPES[key["type"]])
            if key["type"] in ("integer", "number"):
                same(name + ".minimum", float(p.get("minimum")), float(key["minimum"]))
                same(name + ".maximum", float(p.get("maximum")), float(key["maximum"]))
            if key["type"] == "layout":
                same(name + ".enum", p.get("enum"), table["layouts"])
            if key["type"] == "precision":
                same(name + ".enum", p.get("enum"), table["precisions"])
            if key["default"] is not None:
                same(name + ".default", p.get("default"), key["default"])
    same("tensors", list(schema["$defs"]["tensors"]["properties"]), table["tensors"])
    same("tensors additionalProperties", schema["$defs"]["tensors"].get("additionalProperties"), False)

    # What is valid, and what is not.
    files = [os.path.join(folder, "attnd.json")] + sorted(glob.glob(os.path.join(folder, "examples", "*.json")))
    if len(files) < 8:
        faults.append("expected at least 7 examples, found %d" % (len(files) - 1))
    for path in files:
        for error in validator.iter_errors(read(path)):
            faults.append("%s: %s: %s" % (path, error.json_path, error.message))

    def changed(base, **members):
        entry = copy.deepcopy(base)
        entry.update(members)
        return {"weights": [{k: v for k, v in entry.items() if v is not None}]}

    RULES = {"causal": True, "position": {"kind": "rope", "dims": 4, "scaling": {"kind": "linear", "factor": 2}}, "pattern": {"kind": "window", "left": 2, "right": 0, "global": [0]},
             "low_rank": {"kind": "nystrom", "landmarks": 4}, "keep_heads": {"mass": 0.5, "by": "importance"}, "dropout": {"rate": 0.1}, "head_importance": [[0.1, 2]]}
    for right in ({}, {"weights": []}, changed(NUMPY, **RULES), changed(SAFETENSORS, position={"kind": "t5", "R": "rel"}), changed(NUMPY), changed(SAFETENSORS), changed(BLOCKS), changed(HUGGINGFACE), changed(BLOCKS, precision="f32"), changed(HUGGINGFACE, precision="bf16"), changed(HUGGINGFACE, **{k: v for k, v in RULES.items() if k != "causal"}),
                  changed(BLOCKS, causal=True, final_norm={"kind": "rms_norm", "gain": "g", "eps": 1e-6}, layers=[{}, {"pattern": RULES["pattern"], "causal": False, "scale": 1}],
                          embeddings={"token": "t", "norm": {"kind": "layer_norm", "gain": "g", "bias": "b"}, "projection": {"W": "w"}},
                          layer=dict(BLOCKS["layer"], placement="post", residual=False, norm1={"kind": "none"}, ffn={"kind": "swiglu", "W_1": "a", "W_gate": "b", "W_2": "c"})), {"listen": ["[::1]:80", "localhost:0"]}, {"admin": {"listen": "127.0.0.1:1"}}, {"cors": {"allowed_origins": ["http://localhost:3000"]}},
                  changed(SAFETENSORS, tensors={"W_Q": "{head}", "W_K": "k", "W_V": "v", "W_O": "o"})):
        for error in validator.iter_errors(right):
            faults.append("%s is refused: %s" % (json.dumps(right), error.message))
    for wrong in (changed(NUMPY, pattern={"kind": "window", "left": 2}), changed(NUMPY, pattern={"kind": "top_k", "k": 2, "global": [0]}), changed(NUMPY, position={"kind": "ropee"}),
                  changed(NUMPY, keep_heads={"count": 1, "mass": 1}), changed(NUMPY, dropout={"rate": 1}), changed(NUMPY, dropout={}), changed(NUMPY, head_importance=[-1]), changed(NUMPY, low_rank={"kind": "svd"}),
                  changed(SAFETENSORS, position={"kind": "learned", "P": [[1]]}), {"servers": {}}, {"server": {"worker": 1}}, {"server": {"workers": 1.5}}, {"server": {"workers": -1}}, {"log": {"level": "loud"}},
                  {"listen": []}, {"listen": ["8080"]}, {"admin": {"listen": "a"}}, {"cors": {"allowed_origins": ["https://a.example/"]}}, [],
                  changed(NUMPY, name=None), changed(NUMPY, source=None), changed(NUMPY, source="numpi"), changed(NUMPY, sede=1),
                  changed(NUMPY, path="p"), changed(NUMPY, d_model=None), changed(NUMPY, name="a b"), changed(SAFETENSORS, seed=1),
                  changed(BLOCKS, layer=None), changed(BLOCKS, layer={}), changed(BLOCKS, num_layers=0), changed(BLOCKS, layers={}), changed(BLOCKS, embeddings={}), changed(BLOCKS, tensors={"W_QKV": "w", "W_O": "o"}),
                  changed(BLOCKS, layer=dict(BLOCKS["layer"], ffn={"kind": "gelu", "W_1": "a", "W_gate": "b", "W_2": "c"})), changed(BLOCKS, layer=dict(BLOCKS["layer"], norm1={"kind": "rms_norm"})),
                  changed(HUGGINGFACE, precision="f16"), changed(SAFETENSORS, precision="bf16"), changed(HUGGINGFACE, path=None), changed(HUGGINGFACE, num_heads=2), changed(HUGGINGFACE, causal=True), changed(HUGGINGFACE, layer=BLOCKS["layer"]),
                  changed(SAFETENSORS, layout="sideways"), changed(SAFETENSORS, tensors={"W_QKV": "w"}),
                  changed(SAFETENSORS, tensors={"W_Q": "q", "W_O": "o"}), changed(SAFETENSORS, tensors={"W_QKV": "w", "W_Q": "q", "W_O": "o"}),
                  changed(SAFETENSORS, tensors={"W_QKV": "w", "W_O": "{head}"}), changed(SAFETENSORS, tensors={"W_QKV": "w", "W_O": "o", "W_X": "x"}),
                  changed(SAFETENSORS, tensors={"W_QKV": "w", "W_O": "o", "b_QKV": "b", "b_K": "k"})):
        if validator.is_valid(wrong):
            faults.append("%s is valid" % json.dumps(wrong))

    print("\n".join(faults) or "%d keys, %d files, one schema" % (len(table["keys"]) + len(table["weights"]), len(files)))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
