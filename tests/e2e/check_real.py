#!/usr/bin/env python3
"""The heads of a real model through the server: statistics, links, similarity, importance. usage: check_real.py BINARY GOLDEN [FOLDER]

Every value of every answer that programs of others expect of them (golden/real/heads.json), of posted maps in all layers and of forwards
in layer 0; and the heads that are known to look at the previous token, the next one, or the first one are found. With FOLDER, the whole
set that golden/real/make_heads.py takes from, all of it: long texts too, and forwards in every layer."""
import base64
import json
import os
import struct
import sys
import tempfile

sys.dont_write_bytecode = True
from attnd_process import Attnd  # noqa: E402

ABSOLUTE, RELATIVE = 2e-5, 2e-5
MEANS_OF_INTEGERS = ("keys_for_90", "best_offset_share")     # a row may tip: two of them
ROLES = (("previous_mass", [(0, 2)]), ("next_mass", [(1, 8)]), ("first_mass", [(4, 5), (1, 11)]))
faults, compared = [], 0


def check(right, place, text):
    if not right:
        faults.append("%s: %s" % (place, text))


def same(got, wanted, place, slack=0.0):
    """slack: more for the means of integers."""
    global compared
    if isinstance(wanted, dict):
        for name, value in wanted.items():
            same(got.get(name) if isinstance(got, dict) else None, value, "%s/%s" % (place, name), slack)
    elif isinstance(wanted, list):
        check(isinstance(got, list) and len(got) == len(wanted), place, "expected a list of %d" % len(wanted))
        for i, value in enumerate(wanted):
            same(got[i] if isinstance(got, list) and i < len(got) else None, value, "%s/%d" % (place, i), slack)
    else:
        compared += 1
        if isinstance(wanted, float) and isinstance(got, (int, float)):
            more = slack if place.endswith(MEANS_OF_INTEGERS) else 0
            check(abs(got - wanted) <= ABSOLUTE + RELATIVE * abs(wanted) + more, place, "got %.9g, expected %.9g" % (got, wanted))
        else:
            check(got == wanted, place, "got %r, expected %r" % (got, wanted))


def tensors_of(path):
    data = open(path, "rb").read()
    size, = struct.unpack("<Q", data[:8])
    return {name: {"shape": e["shape"], "dtype": "f32", "base64": base64.b64encode(data[8 + size + e["data_offsets"][0]:8 + size + e["data_offsets"][1]]).decode()}
            for name, e in json.loads(data[8:8 + size]).items() if name != "__metadata__"}


class Case:
    """One text in one layer."""

    def __init__(self, maps, mask, given):
        self.maps, self.mask, self.input = maps, mask, given


def short_cases(golden):
    stored, cases = tensors_of(os.path.join(golden, "real", "heads.safetensors")), {}
    for name, tensor in stored.items():
        case, *layer, kind = name.split("/")
        if kind == "attention":
            cases[case, int(layer[0])] = Case(tensor, stored.get(case + "/attention_mask"), stored.get("%s/%s/input" % (case, layer[0])))
    return cases


def all_cases(folder):
    cases = {}
    for file in sorted(os.listdir(os.path.join(folder, "cases"))):
        case, _, layer = file[:-len(".safetensors")].partition("-layer")
        if layer:
            stored = tensors_of(os.path.join(folder, "cases", file))
            cases[case, int(layer)] = Case(stored["attention"], stored.get("attention_mask"), stored["input"])
    return cases


def ask(server, entry, given):
    reply = server.post(entry["route"], {**entry["request"], **{k: v for k, v in given.items() if v}})
    place = "%s %s %d %s" % (entry["route"], entry["case"], entry["layer"], {k: v for k, v in entry["request"].items() if not isinstance(v, list)})
    if reply.status != 200:
        check(False, place, "status %d: %s" % (reply.status, reply.body[:300]))
        return
    got = json.loads(reply.body)
    same(got, entry["expect"], place, 2 / max(got.get("n_rows") or 1, 1) if entry["route"].endswith("stats") else 0)


def answers(server, entries, cases, layers):
    """layers: which ones have a weight set, minilm-K."""
    asked = 0
    for entry in entries:
        case = cases[entry["case"], entry["layer"]]
        if entry["route"] != "/v1/heads/importance" and entry["request"].get("on") != "output":
            ask(server, entry, {"attention": case.maps, "attention_mask": case.mask})
            asked += 1
        if entry["layer"] in layers:
            ask(server, entry, {"weights": "minilm-%d" % entry["layer"], "input": case.input, "attention_mask": case.mask})
            asked += 1
    return asked


def pooled(server, cases, plain, layer):
    """Masses of all heads over all rows of these texts: the means that /v1/heads/stats gives, each by its number of rows."""
    sums, rows = {}, {}
    for name in plain:
        case = cases.get((name, layer))
        if not case:
            continue
        got = json.loads(server.post("/v1/heads/stats", {"attention": case.maps, **({"attention_mask": case.mask} if case.mask else {})}).body)
        sequences = case.maps["shape"][0] if case.mask else 1
        for mass in ("previous_mass", "next_mass", "first_mass", "self_mass"):
            n = got["n_rows"] - (sequences if mass in ("previous_mass", "next_mass") else 0)
            rows[mass] = rows.get(mass, 0) + n
            for kind in (mass, "uniform_" + mass):
                of = sums.setdefault(kind, [0.0] * len(got["heads"]))
                for head in got["heads"]:
                    of[head["head"]] += n * head[kind]
    return {kind: [v / rows[kind.replace("uniform_", "")] for v in of] for kind, of in sums.items()}, rows


def roles(server, document, cases):
    found = {}
    for layer, wanted in document["roles"].items():
        masses, rows = pooled(server, cases, document["plain"], int(layer))
        same(rows, {k: int(v) for k, v in wanted["rows"].items()}, "roles, layer %s" % layer)
        for kind, of in masses.items():
            same(of, wanted[kind] if isinstance(wanted[kind], list) else [wanted[kind]] * len(of), "roles, layer %s, %s" % (layer, kind))
            for head, mass in enumerate(of):
                found.setdefault(kind, []).append((mass, int(layer), head))
    for mass, heads in ROLES:
        strongest = sorted(found[mass], reverse=True)[:len(heads)]
        check([h[1:] for h in strongest] == heads, mass, "the strongest heads are %s" % strongest)
        even = max(v for v, *_ in found["uniform_" + mass])
        check(all(v > 10 * even for v, *_ in strongest), mass, "%s are not far above even attention's %g" % (strongest, even))


def all_roles(server, folder, cases):
    """Of the layers that the long text is there of: the masses that were measured in the model itself."""
    document = json.load(open(os.path.join(folder, "roles.json")))
    names = {"previous": "previous_mass", "next": "next_mass", "cls": "first_mass", "self": "self_mass"}
    plain = sorted({case for case, _ in cases} - {"packed", "prefix", "causal", "batch_keys"})
    for layer in sorted(layer for case, layer in cases if case == "passage"):
        masses, rows = pooled(server, cases, plain, layer)
        for short, mass in names.items():
            check(rows[mass] == document["rows"][short], "roles.json", "%d rows of %s" % (rows[mass], mass))
            same(masses[mass], [h[short] for h in document["heads"] if h["layer"] == layer], "roles.json, layer %d, %s" % (layer, mass))
            same(masses["uniform_" + mass], [document["uniform"][short]] * 12, "roles.json, layer %d, uniform %s" % (layer, mass))


def layer_0(golden, where):
    prefix, names = "encoder.layer.0.attention.", {"Q": "self.query", "K": "self.key", "V": "self.value", "O": "output.dense"}
    tensors = {"%s_%s" % (kind, letter): prefix + "%s.%s" % (name, part) for letter, name in names.items() for kind, part in (("W", "weight"), ("b", "bias"))}
    path = os.path.join(where, "attnd.json")
    with open(path, "w") as file:
        json.dump({"default_weights": "minilm-0", "weights": [
            {"name": "minilm-0", "source": "safetensors", "path": os.path.abspath(os.path.join(golden, "real", "minilm-layer0.safetensors")), "num_heads": 12,
             "layout": "out_in", "tensors": tensors}]}, file)
    return path


def main():
    binary, golden, *folder = sys.argv[1:]
    document = json.load(open(os.path.join(golden, "real", "heads.json")))
    cases = short_cases(golden)
    with tempfile.TemporaryDirectory() as where:
        with Attnd(binary, ["--config", layer_0(golden, where)]) as server:
            asked = answers(server, document["answers"], cases, (0,))
            roles(server, document, cases)
    check(asked > 700, "golden", "only %d requests" % asked)
    if folder:
        cases = all_cases(folder[0])
        with Attnd(binary, ["--config", os.path.join(folder[0], "attnd.json")]) as server:
            asked += answers(server, json.load(open(os.path.join(folder[0], "expect.json"))), cases, range(6))
            all_roles(server, folder[0], cases)
    print("\n".join(faults[:40]) or "no fault")
    print("%d requests, %d values, %d faults" % (asked, compared, len(faults)))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
