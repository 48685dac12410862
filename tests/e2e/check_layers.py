#!/usr/bin/env python3
"""Heads of many layers from outside. usage: check_layers.py BINARY GOLDEN

What must hold whatever the numbers are: the maps that a set of many layers returns, posted with their layer axis, and
posted layer by layer, say what the set itself says; importance at the model is what /v1/forward says without the head;
rollout is its definition; heads of layers with different patterns are compared over the entries that both allow."""
import copy
import json
import math
import os
import random
import sys
import tempfile

sys.dont_write_bytecode = True
from attnd_process import Attnd  # noqa: E402

FORWARD, STATS, LINKS, SIMILARITY = "/v1/forward", "/v1/heads/stats", "/v1/heads/links", "/v1/heads/similarity"
IMPORTANCE, ROLLOUT = "/v1/heads/importance", "/v1/heads/rollout"
LAYERS, HEADS, D_MODEL = 2, 3, 12
BLOCKS = {"W_Q": "W_Q", "W_K": "W_K", "W_V": "W_V", "W_O": "W_O", "b_Q": "b_Q", "b_K": "b_K", "b_V": "b_V", "b_O": "b_O"}
faults = []


def check(right, place, text):
    if not right:
        faults.append("%s: %s" % (place, text))
    return right


def near(got, wanted, tolerance):
    if isinstance(wanted, dict):
        return isinstance(got, dict) and set(got) == set(wanted) and all(near(got[k], wanted[k], tolerance) for k in wanted)
    if isinstance(wanted, list):
        return isinstance(got, list) and len(got) == len(wanted) and all(near(g, w, tolerance) for g, w in zip(got, wanted))
    if wanted is None or got is None or isinstance(wanted, str):
        return got == wanted
    return abs(got - wanted) <= tolerance * (1 + abs(wanted))


def configuration(folder, scratch):
    norm = lambda n: {"kind": "layer_norm", "gain": "l.{layer}.norm%d.gain" % n, "bias": "l.{layer}.norm%d.bias" % n}
    whole = {"source": "blocks", "path": os.path.abspath(os.path.join(folder, "models", "blocks", "geglu.safetensors")), "d_model": D_MODEL,
             "num_heads": HEADS, "num_layers": LAYERS, "layout": "in_out",
             "layer": {"tensors": {k: "l.{layer}." + v for k, v in BLOCKS.items()}, "norm1": norm(1), "norm2": norm(2),
                       "ffn": {"kind": "geglu", "W_1": "l.{layer}.W_1", "W_2": "l.{layer}.W_2", "W_gate": "l.{layer}.W_gate",
                               "b_1": "l.{layer}.b_1", "b_2": "l.{layer}.b_2", "b_gate": "l.{layer}.b_gate"}},
             "final_norm": {"kind": "layer_norm", "gain": "final.gain", "bias": "final.bias"}}
    window = {**whole, "layers": [{}, {"pattern": {"kind": "window", "left": 2, "right": 1}}]}
    mixed = {**whole, "layers": [{"pattern": {"kind": "bigbird", "block": 3, "random_blocks": 1}}, {"causal": True}]}
    plain = {"source": "numpy", "seed": 3, "scale": 0.3, "d_model": D_MODEL, "num_heads": HEADS}
    path = os.path.join(scratch, "attnd.json")
    with open(path, "w") as file:
        json.dump({"weights": [{"name": "plain", **plain}, {"name": "whole", **whole}, {"name": "window", **window}, {"name": "mixed", **mixed}]}, file)
    return path


def post(server, place, route, request, status=200):
    reply = server.post(route, request)
    check(reply.status == status, place, "status %d: %s" % (reply.status, reply.body[:300]))
    return json.loads(reply.body) if reply.status == status else None


def random_request(rng, weights):
    batch, length = rng.randint(1, 3), rng.randint(1, 14)
    request = {"weights": weights, "input": [[[rng.gauss(0, 1) for _ in range(D_MODEL)] for _ in range(length)] for _ in range(batch)]}
    if rng.random() < 0.5:
        request["attention_mask"] = [[1 if rng.random() < 0.8 else 0 for _ in range(length)] for _ in range(batch)]
    if rng.random() < 0.4:
        request["causal"] = True
    return request


def maps_request(request, attention):
    return {"attention": attention, **{name: request[name] for name in ("attention_mask", "causal") if name in request}}


def without(answer, *names):
    return {name: value for name, value in answer.items() if name not in ("weights", "digest") + names}


def of_one_layer(entries):
    return [{name: value for name, value in entry.items() if name != "layer"} for entry in entries]


# ---- a set, its maps with their layer axis, and its maps layer by layer

def statistics_and_links(server):
    for seed in range(24):
        rng = random.Random(seed)
        request = random_request(rng, "whole")
        place = "seed %d" % seed
        forward = post(server, place, FORWARD, {**request, "return": ["attention"]})
        if not forward:
            continue
        maps = forward["attention"]
        for route, more in ((STATS, {"stderr": True, "per_position": True}), (STATS, {"include_heads": [2, 0]}), (LINKS, {"top_k": 4})):
            own = post(server, place, route, {**request, **more})
            posted = post(server, place, route, {**maps_request(request, maps), **more})
            if not own or not posted:
                continue
            check(own["heads"] == posted["heads"], place, "%s: posted maps say something else" % route)
            check(own["n_rows"] == posted["n_rows"] and own["n_excluded"] == posted["n_excluded"], place, "%s: rows" % route)
            heads = more.get("include_heads", range(HEADS))
            check([(entry["layer"], entry["head"]) for entry in own["heads"]] == [(l, h) for l in range(LAYERS) for h in heads], place,
                  "%s: entries are %s" % (route, [(entry.get("layer"), entry["head"]) for entry in own["heads"]]))
            for layer in range(LAYERS):
                alone = post(server, place, route, {**maps_request(request, [sequence[layer] for sequence in maps]), **more})
                check(alone and alone["heads"] == of_one_layer(own["heads"][layer * len(heads):(layer + 1) * len(heads)]), place,
                      "%s: layer %d by itself says something else" % (route, layer))


METRICS = ("cosine", "pearson", "centered", "js", "hellinger")


def similarity(server):
    for seed in range(20):
        rng = random.Random(100 + seed)
        request = random_request(rng, "whole")
        question = {"metric": rng.choice(METRICS), "reduce": rng.choice(["pooled", "mean"]), "threshold": 0.6, "max_pairs": 7}
        place = "similarity, seed %d, %s" % (seed, question)
        maps = post(server, place, FORWARD, {**request, "return": ["attention"]})["attention"]
        own = post(server, place, SIMILARITY, {**request, **question})
        posted = post(server, place, SIMILARITY, {**maps_request(request, maps), **question})
        flat = post(server, place, SIMILARITY, {**maps_request(request, [sum(sequence, []) for sequence in maps]), **question})
        layered = post(server, place, SIMILARITY, {**request, **question, "across": "layer"})
        if not (own and posted and flat and layered):
            continue
        names = [{"layer": l, "head": h} for l in range(LAYERS) for h in range(HEADS)]
        check(without(own) == without(posted), place, "posted maps say something else")
        check(own["heads"] == names and layered["heads"] == names, place, "heads are %s" % own["heads"])
        for member in ("similarity", "redundancy", "clusters", "pairs", "n_rows", "n_excluded"):
            check(own[member] == flat[member], place, "%s is not that of as many heads of one layer" % member)
        check(own["across"] == "model" and layered["across"] == "layer", place, "across")
        pairs = []
        for layer in range(LAYERS):
            alone = post(server, place, SIMILARITY, {**maps_request(request, [sequence[layer] for sequence in maps]), **question, "max_pairs": 99})
            first = layer * HEADS
            for member in ("similarity", "redundancy", "clusters"):
                check(layered[member][layer] == alone[member], place, "%s of layer %d" % (member, layer))
            check(layered["diversity"][layer] == alone["diversity"] and near(own["diversity"][layer], alone["diversity"], 1e-9), place,
                  "diversity of layer %d" % layer)
            block = [row[first:first + HEADS] for row in own["similarity"][first:first + HEADS]]
            check(near(block, alone["similarity"], 1e-7), place, "layer %d within the model" % layer)
            pairs += [{"layer": layer, **pair} for pair in alone["pairs"]]
        pairs.sort(key=lambda pair: (-pair["similarity"], pair["layer"], pair["head_a"], pair["head_b"]))
        check(layered["pairs"] == pairs[:7], place, "pairs %s" % layered["pairs"])


# ---- some of the layers

def entries_of(answer, layers):
    return [entry for layer in layers for entry in answer["heads"] if entry["layer"] == layer]


def is_some(some, whole, layers, place, route):
    """An answer under include_layers holds what the whole one says of these layers."""
    if not some or not whole:
        return
    many = max(entry["layer"] for entry in whole["heads"]) + 1
    heads = len(whole["heads"]) // many
    check(some["heads"] == entries_of(whole, layers) and len(some["heads"]) == heads * len(layers), place, "%s: entries %.200s" % (route, some["heads"]))
    check((some["n_rows"], some["n_excluded"]) == (whole["n_rows"], whole["n_excluded"]), place, "%s: rows" % route)
    for name in ("prune_plan", "removable"):
        if name in whole:
            check(some[name] == [whole[name][layer] for layer in layers], place, "%s: %s" % (route, name))
    if "similarity" not in whole:
        return
    check(near(some["diversity"], [whole["diversity"][layer] for layer in layers], 1e-9), place, "diversity")
    if whole["across"] == "layer":
        for name in ("similarity", "redundancy", "clusters"):
            check(some[name] == [whole[name][layer] for layer in layers], place, name)
        pairs = [pair for pair in whole["pairs"] if pair["layer"] in layers]
        pairs.sort(key=lambda pair: (-pair["similarity"], layers.index(pair["layer"]), pair["head_a"], pair["head_b"]))
        check(some["pairs"] == pairs, place, "pairs %s" % some["pairs"])
        return
    flat = [layer * heads + head for layer in layers for head in range(heads)]
    matrix = [[whole["similarity"][a][b] for b in flat] for a in flat]
    check(near(some["similarity"], matrix, 1e-7), place, "similarity %.300s" % some["similarity"])
    for a, row in enumerate(matrix):
        others = [x for b, x in enumerate(row) if b != a and x is not None]
        check(near(some["redundancy"][a], max(others) if others else None, 1e-7), place, "redundancy of %d" % a)
    check(sorted(sum(some["clusters"], [])) == list(range(len(flat))), place, "clusters %s" % some["clusters"])
    for pair in some["pairs"]:
        check(near(pair["similarity"], matrix[pair["head_a"]][pair["head_b"]], 1e-7), place, "pair %s" % pair)
    check(len(some["pairs"]) == sum(matrix[a][b] is not None for b in range(len(flat)) for a in range(b)), place, "%d pairs" % len(some["pairs"]))


MEASURES = ((STATS, {"stderr": True, "per_position": True}), (STATS, {"include_heads": [2, 0]}), (LINKS, {"top_k": 3}),
            (SIMILARITY, {"max_pairs": 999}), (SIMILARITY, {"max_pairs": 999, "across": "layer", "metric": "js"}))


def random_maps(rng, many, length, mask):
    """[B, many, HEADS, T, T], with nothing on masked keys and in masked rows."""
    def row(i, keep):
        weights = [rng.random() ** 3 * keep[i] * k for k in keep]
        return [x / (sum(weights) or 1) for x in weights]
    return [[[[row(i, keep) for i in range(length)] for _ in range(HEADS)] for _ in range(many)] for keep in mask]


def some_layers(server):
    for seed in range(8):
        rng = random.Random(500 + seed)
        request = random_request(rng, ("whole", "window", "mixed")[seed % 3])
        for layers in ([1, 0], [0], [1], [0, 1]):
            place = "some layers, seed %d, %s" % (seed, layers)
            for route, more in MEASURES + ((SIMILARITY, {"max_pairs": 999, "on": "output"}), (IMPORTANCE, {}), (IMPORTANCE, {"method": "mean"}),
                                           (IMPORTANCE, {"prune_plan": True, "tolerance": 0.4}), (IMPORTANCE, {"at": "model"})):
                asked = {**request, **more}
                is_some(post(server, place, route, {**asked, "include_layers": layers}), post(server, place, route, asked), layers, place, route)
        length = rng.randint(2, 9)
        mask = [[int(i == 0 or rng.random() < 0.8) for i in range(length)] for _ in range(2)]
        posted = {"attention": random_maps(rng, 4, length, mask), "attention_mask": mask}
        for layers in ([3, 1], [2], [3, 2, 1, 0], [0, 2, 3]):
            place = "some posted layers, seed %d, %s" % (seed, layers)
            for route, more in MEASURES:
                asked = {**posted, **more}
                is_some(post(server, place, route, {**asked, "include_layers": layers}), post(server, place, route, asked), layers, place, route)
    # a bare layer is layer 0, and so are maps without the axis
    bare = {"weights": "plain", "input": [[0.1 * i + 0.05 * j for j in range(D_MODEL)] for i in range(4)]}
    flat = {"attention": [[[1, 0], [0.5, 0.5]], [[1, 0], [0.25, 0.75]]]}
    for route in (STATS, LINKS, SIMILARITY, IMPORTANCE):
        for asked in (bare,) if route == IMPORTANCE else (bare, flat):
            check(post(server, route, route, {**asked, "include_layers": [0]}) == post(server, route, route, asked), route, "layer 0 of one layer")
    # what is not asked for is not looked at
    broken = {"attention": [[[[[1, 0], [0.5, 0.5]]], [[[1, 0], [0.7, 0.7]]], [[[1, 0], [0.9, 0.1]]]]]}
    said = post(server, "a broken layer", STATS, {**broken, "include_layers": [2, 0]})
    check(said and [entry["layer"] for entry in said["heads"]] == [2, 0], "a broken layer", "%s" % said)


# ---- layers with different patterns

def compare(metric, a, b):
    """Over the rows of (allowed keys, their weights in one head, in the other)."""
    rows = [row for row in zip(a, b) if row[0]]
    p, q = [x for row, _ in rows for x in row], [x for _, row in rows for x in row]
    if metric == "js":
        f = lambda x: x * math.log(x) if x > 0 else 0
        return 1 - sum((f(x) + f(y)) / 2 - f((x + y) / 2) for x, y in zip(p, q)) / len(rows) / math.log(2)
    if metric == "hellinger":
        return 1 - sum(math.sqrt(sum((math.sqrt(x) - math.sqrt(y)) ** 2 for x, y in zip(r, s))) for r, s in rows) / len(rows) / math.sqrt(2)
    if metric == "centered":
        p = [x - 1 / len(row) for row, _ in rows for x in row]
        q = [x - 1 / len(row) for _, row in rows for x in row]
    if metric == "pearson":
        p, q = ([x - sum(v) / len(v) for x in v] for v in (p, q))
    norm = lambda v: math.sqrt(sum(x * x for x in v))
    return sum(x * y for x, y in zip(p, q)) / norm(p) / norm(q) if norm(p) * norm(q) > 1e-9 else None


def different_patterns(server):
    for seed in range(15):
        rng = random.Random(200 + seed)
        request = random_request(rng, "window")
        metric = METRICS[seed % len(METRICS)]
        place = "different patterns, seed %d, %s" % (seed, metric)
        got = post(server, place, SIMILARITY, {**request, "metric": metric})
        maps = post(server, place, FORWARD, {**request, "return": ["attention"]})["attention"]
        if not got:
            continue
        length = len(request["input"][0])
        kept = request.get("attention_mask") or [[1] * length] * len(maps)
        sees = lambda b, i, j: kept[b][i] and kept[b][j] and (j <= i or not request.get("causal")) and i - 2 <= j <= i + 1
        cut = lambda layer, head: [[maps[b][layer][head][i][j] for j in range(length) if sees(b, i, j)] for b in range(len(maps)) for i in range(length)]
        for a in range(HEADS):
            for b in range(HEADS):
                found = got["similarity"][a][HEADS + b]
                if not any(cut(0, a)):
                    check(found is None, place, "no row, and %r" % found)
                    continue
                wanted = compare(metric, cut(0, a), cut(1, b))
                if wanted is not None and (found is None or abs(found - wanted) > 2e-5):
                    check(False, place, "heads %d and %d of the layers: %r, expected %r" % (a, b, found, wanted))
                check(got["similarity"][HEADS + b][a] == found, place, "is not symmetric")
        overruled = post(server, place, SIMILARITY, {**request, "metric": metric, "pattern": None})
        whole = post(server, place, SIMILARITY, {**request, "metric": metric, "weights": "whole"})
        check(overruled and without(overruled) == without(whole), place, "a pattern that is switched off still tells")


# ---- importance

def norm_over(rows, kept):
    return math.sqrt(sum(x * x for sequence, keep in zip(rows, kept) for row, k in zip(sequence, keep) if k for x in row))


def importance(server):
    for seed in range(8):
        rng = random.Random(300 + seed)
        request = random_request(rng, rng.choice(["whole", "window"]))
        if rng.random() < 0.5:
            request["head_mask"] = [[rng.choice([0, 0.5, 1]) for _ in range(HEADS)] for _ in range(LAYERS)]
        place = "importance, seed %d" % seed
        got = post(server, place, IMPORTANCE, {**request, "at": "model"})
        output = lambda more: post(server, place, FORWARD, {**request, **more, "return": ["output"]})["output"]
        y = output({})
        kept = request.get("attention_mask") or [[1] * len(y[0])] * len(y)
        whole = norm_over(y, kept)
        for entry in got["heads"] if got else []:
            mask = copy.deepcopy(request.get("head_mask", [[1] * HEADS] * LAYERS))
            mask = [list(row) for row in mask]
            mask[entry["layer"]][entry["head"]] = 0
            less = [[[a - b for a, b in zip(r, s)] for r, s in zip(p, q)] for p, q in zip(y, output({"head_mask": mask}))]
            wanted = norm_over(less, kept) / whole if whole else None
            check(near(entry["importance"], wanted, 1e-6), place, "%s, expected %r" % (entry, wanted))
        for method in ("zero", "uniform", "mean", "norm"):
            layered = post(server, place, IMPORTANCE, {**request, "method": method})
            check(layered and [(e["layer"], e["head"]) for e in layered["heads"]] == [(l, h) for l in range(LAYERS) for h in range(HEADS)], place, method)
        planned = post(server, place, IMPORTANCE, {**request, "prune_plan": True, "tolerance": 0.5})
        check(planned and [sorted(step["head"] for step in plan) for plan in planned["prune_plan"]] == [list(range(HEADS))] * LAYERS and
              all([step["head"] for step in plan[:len(removable)]] == removable for plan, removable in zip(planned["prune_plan"], planned["removable"])),
              place, "plan %s" % planned)
    one = {"weights": "plain", "input": [[0.1 * i + 0.05 * j for j in range(D_MODEL)] for i in range(4)]}
    check(without(post(server, "one layer", IMPORTANCE, {**one, "at": "model"})) == without(post(server, "one layer", IMPORTANCE, one)), "one layer",
          "its output is the set's")


# ---- rollout

def product(a, b):
    return [[sum(x * b[k][j] for k, x in enumerate(row)) for j in range(len(b[0]))] for row in a]


def roll_out(maps, fusion, per_head):
    length = len(maps[0][0])
    r = [[float(i == j) for j in range(length)] for i in range(length)]
    fuse = {"mean": lambda values: sum(values) / len(values), "max": max, "min": min}[fusion]
    for index, heads in enumerate(maps):
        if per_head and index + 1 == len(maps):
            return [product(head, r) for head in heads]
        mixed = [[fuse([head[i][j] for head in heads]) + (i == j) for j in range(length)] for i in range(length)]
        r = product([[x / sum(row) for x in row] for row in mixed], r)
    return r


def rollout(server):
    for seed in range(18):
        rng = random.Random(400 + seed)
        request = random_request(rng, ("whole", "window", "plain")[seed % 3])
        question = {"head_fusion": rng.choice(["mean", "max", "min"]), "per_head": rng.random() < 0.5}
        place = "rollout, seed %d, %s" % (seed, question)
        maps = post(server, place, FORWARD, {**request, "return": ["attention"]})["attention"]
        if request["weights"] == "plain":
            maps = [[sequence] for sequence in maps]
        own = post(server, place, ROLLOUT, {**request, **question})
        posted = post(server, place, ROLLOUT, {**maps_request(request, maps), **question})
        if not own or not posted:
            continue
        check(near(own["rollout"], [roll_out(sequence, **{"fusion": question["head_fusion"], "per_head": question["per_head"]}) for sequence in maps], 2e-6),
              place, "is not the definition")
        check(own["rollout"] == posted["rollout"] and own["head_fusion"] == question["head_fusion"], place, "posted maps say something else")
        single = post(server, place, ROLLOUT, {"attention": maps[0], **question})
        check(single and near(single["rollout"], own["rollout"][0], 1e-6), place, "a sequence without the batch axis says something else")
        rounded = [[[[[round(x, 2) for x in row] for row in head] for head in layer] for layer in sequence] for sequence in maps]
        even = [[[[[x / (sum(row) or 1) for x in row] for row in head] for head in layer] for layer in sequence] for sequence in rounded]
        first = post(server, place, ROLLOUT, {**maps_request(request, rounded), **question, "renormalize": True})
        second = post(server, place, ROLLOUT, {**maps_request(request, even), **question})
        check(first and second and near(first["rollout"], second["rollout"], 1e-6), place, "renormalize")
    # rows of padding say nothing, whatever they hold
    maps = [[[[0.5, 0.5, 0], [0.25, 0.75, 0], [0.1, 0.1, 0.8]]]] * 2
    answer = post(server, "padding", ROLLOUT, {"attention": [[layer[0]] for layer in maps], "attention_mask": [1, 1, 0]})
    check(answer and answer["rollout"][2] == [0, 0, 1], "padding", "%s" % answer)


# ---- live statistics

LIVE = ("entropy", "normalized_entropy", "effective_keys", "distance", "signed_distance", "uniform_distance", "confidence", "hoyer", "previous_mass",
        "next_mass", "self_mass", "first_mass", "uniform_previous_mass", "uniform_next_mass", "uniform_self_mass", "uniform_first_mass")


def get(server, path):
    reply = server.request("GET", path)
    check(reply.status == 200, path, "status %d: %s" % (reply.status, reply.body[:300]))
    return json.loads(reply.body)


def close(got, wanted, place):
    """What `wanted` has, to 1e-6; `got` may have more."""
    if isinstance(wanted, dict):
        for name, value in wanted.items():
            close(got.get(name), value, place + "/" + name)
    elif isinstance(wanted, list):
        if check(isinstance(got, list) and len(got) == len(wanted), place, "expected a list of %d: %.100s" % (len(wanted), got)):
            for i, value in enumerate(wanted):
                close(got[i], value, "%s/%d" % (place, i))
    elif isinstance(wanted, (int, float)) and isinstance(got, (int, float)):
        check(abs(got - wanted) <= 1e-6 * (1 + abs(wanted)), place, "%r, expected %r" % (got, wanted))
    else:
        check(got == wanted, place, "%r, expected %r" % (got, wanted))


def live(binary, path, workers):
    rng, length = random.Random(7), 21
    sequences = [([[rng.gauss(0, 1) for _ in range(D_MODEL)] for _ in range(length)], [int(rng.random() < 0.8) for _ in range(length)]) for _ in range(40)]
    with Attnd(binary, ["--config", path], {"ATTND_SERVER_WORKERS": str(workers)}) as server:
        return [live_of(server, sequences, weights, "live, %s, %d workers" % (weights, workers)) for weights in ("whole", "window", "mixed")]


def live_of(server, sequences, weights, place):
    """Layers that all see the same keys, and layers that do not."""
    everything = {"weights": weights, "input": [x for x, _ in sequences], "attention_mask": [mask for _, mask in sequences]}
    for at in range(0, 40, 4):
        part = sequences[at:at + 4]
        post(server, place, FORWARD, {"weights": weights, "input": [x for x, _ in part], "attention_mask": [mask for _, mask in part], "return": ["output"]})
    # not its rule
    post(server, place, FORWARD, {"weights": weights, "input": sequences[0][0], "causal": True, "return": ["output"]})
    post(server, place, FORWARD, {"weights": weights, "input": sequences[0][0], "pattern": {"kind": "block", "size": 2}, "return": ["output"]})
    said = post(server, place, STATS, {**everything, "stderr": True})
    got = get(server, STATS + "?weights=" + weights)
    keep = ("layer", "head") + LIVE + tuple(name + "_stderr" for name in LIVE)
    close(got["heads"], [{name: entry[name] for name in keep} for entry in said["heads"]], place)
    check((got["n_skipped"], got["n_sequences"], got["n_rows"], got["n_excluded"]) == (2, 40, said["n_rows"], said["n_excluded"]), place,
          "counts %s" % {k: v for k, v in got.items() if k[:2] == "n_"})
    rows = get(server, STATS + "?weights=%s&format=rows&include_heads=2&statistics=entropy" % weights)
    check([(row["layer"], row["head"]) for row in rows] == [(0, 2), (1, 2)], place, "rows %s" % rows)
    state = get(server, "/v1/heads/state?weights=" + weights)
    check(state["num_layers"] == LAYERS and state["num_heads"] == HEADS, place, "state of %s layers" % state["num_layers"])
    check(isinstance(state["n_allowed"], list) == (weights != "whole"), place, "n_allowed is %s" % state["n_allowed"])
    for metric in ("cosine", "pearson", "centered"):
        question = {"metric": metric, "threshold": 0.5, "max_pairs": 4}
        said = post(server, place, SIMILARITY, {**everything, **question, "across": "layer"})
        got = get(server, SIMILARITY + "?weights=%s&threshold=0.5&max_pairs=4&metric=%s" % (weights, metric))
        wanted = {name: said[name] for name in ("heads", "similarity", "redundancy", "clusters", "across", "pairs")}
        close(got, wanted, "%s, %s" % (place, metric))
        merged = post(server, place, "/v1/heads/merge", {"states": [state], "metric": metric, "threshold": 0.5})
        close(merged["similarity"], {**wanted, "pairs": merged["similarity"]["pairs"]}, "%s, %s, merged" % (place, metric))
        flat = get(server, SIMILARITY + "?weights=%s&format=rows&metric=%s" % (weights, metric))
        check([(p["layer"], p["head_a"], p["head_b"]) for p in flat] == [(l, a, b) for l in range(LAYERS) for a in range(HEADS) for b in range(a + 1, HEADS)],
              place, "rows %s" % flat)
    drift = get(server, "/v1/heads/drift?weights=%s&statistics=entropy" % weights)
    check([(e["layer"], e["head"]) for e in drift["heads"]] == [(l, h) for l in range(LAYERS) for h in range(HEADS)], place, "drift %s" % drift["heads"])
    doubled = post(server, place, "/v1/heads/merge", {"states": [state, state]})
    check(doubled["state"]["n_allowed"] == ([2 * n for n in state["n_allowed"]] if weights != "whole" else 2 * state["n_allowed"]), place,
          "twice %s is %s" % (state["n_allowed"], doubled["state"]["n_allowed"]))
    again = post(server, place, "/v1/heads/merge", {"states": [doubled["state"]]})["state"]
    close({**again, "instance": ""}, {**doubled["state"], "instance": ""}, place + ", merged twice")
    text = server.request("GET", "/metrics").body.decode()
    for layer in range(LAYERS):
        check('weights="%s",layer="%d",head="2"' % (weights, layer) in text, place, "/metrics has no layer %d" % layer)
    return state


REFUSED = [
    (ROLLOUT, {"attention": [[[0.5, 0.5], [0, 1]]]}, "/attention"),
    (ROLLOUT, {"attention": [[[[0.5, 0.5, 0], [0, 1, 0]]]]}, "/attention"),
    (ROLLOUT, {"attention": [[[[0.5, 0.4], [0, 1]]]]}, "/attention/0/0/0"),
    (ROLLOUT, {"attention": [[[[[1, 0], [0, 1]]], [[[1, 0], [0.7, 0.7]]]]]}, "/attention/0/1/0/1"),
    (ROLLOUT, {"attention": [[[[[1, 0], [0.5, 0.5]]]]], "causal": True, "attention_mask": [[[1, 1], [1, 0]]]}, "/attention/0/0/0/1"),
    (ROLLOUT, {"attention": [[[[1]]]], "per_head": 1}, "/per_head"),
    (ROLLOUT, {"attention": [[[[1]]]], "exclude": [0]}, "/exclude"),
    (ROLLOUT, {"attention": [[[[1]]]], "weights": "plain"}, "/weights"),
    (ROLLOUT, {"weights": "whole", "input": [[0] * D_MODEL], "renormalize": True}, "/renormalize"),
    (ROLLOUT, {"weights": "whole", "input": [[0] * D_MODEL], "low_rank": {"kind": "nystrom", "landmarks": 1}}, "/low_rank"),
    (STATS, {"attention": [[[[[0.5, 0.5, 0], [0, 1, 0]]]]]}, "/attention"),
    (STATS, {"attention": [[[[[1, 0], [0, 1]]], [[[1, 0], [-0.5, 1.5]]]]]}, "/attention/0/1/0/1"),
    (STATS, {"weights": "whole", "input": [[0] * D_MODEL], "include_heads": [3]}, "/include_heads/0"),
    (STATS, {"weights": "whole", "input": [[0] * D_MODEL], "include_layers": [1, 2]}, "/include_layers/1"),
    (LINKS, {"weights": "whole", "input": [[0] * D_MODEL], "include_layers": [0, 1, 0]}, "/include_layers/2"),
    (IMPORTANCE, {"weights": "whole", "input": [[0] * D_MODEL], "include_layers": [-1]}, "/include_layers/0"),
    (IMPORTANCE, {"weights": "plain", "input": [[0] * D_MODEL], "include_layers": [1]}, "/include_layers/0"),
    (SIMILARITY, {"attention": [[[[[1]]], [[[1]]]]], "include_layers": [2]}, "/include_layers/0"),
    (STATS, {"attention": [[[1]]], "include_layers": [1]}, "/include_layers/0"),
    (LINKS, {"attention": [[[[[1]]]]], "include_layers": []}, "/include_layers"),
    (STATS, {"attention": [[[[[1, 0], [0, 1]]], [[[1, 0], [0.7, 0.7]]]]], "include_layers": [1]}, "/attention/0/1/0/1"),
    (ROLLOUT, {"attention": [[[[1]]]], "include_layers": [0]}, "/include_layers"),
    (SIMILARITY, {"attention": [[[1]]], "across": "heads"}, "/across"),
    (IMPORTANCE, {"weights": "whole", "input": [[0] * D_MODEL], "at": "model", "method": "norm"}, "/method"),
    (IMPORTANCE, {"weights": "whole", "input": [[0] * D_MODEL], "at": "model", "prune_plan": True}, "/prune_plan"),
    (IMPORTANCE, {"weights": "whole", "input": [[0] * D_MODEL], "at": "head"}, "/at"),
]


def refusals(server):
    for route, request, pointer in REFUSED:
        place = "%s %.120s" % (route, json.dumps(request))
        said = post(server, place, route, request, 422)
        check(said and said.get("pointer") == pointer, place, "pointer %r, expected %r: %s" % (said and said.get("pointer"), pointer, said))


def limits(binary, path):
    with Attnd(binary, ["--config", path], {"ATTND_LIMITS_MAX_RESPONSE_BYTES": "20000"}) as server:
        even = [[[[1 / 64] * 64] * 64] * 2] * 2
        reply = server.post(ROLLOUT, {"attention": even, "per_head": True})
        check(reply.status == 413, "a long answer", "status %d" % reply.status)
        reply = server.post(ROLLOUT, {"attention": even, "decimals": 0})
        check(reply.status == 200, "few decimals", "status %d: %s" % (reply.status, reply.body[:200]))
    with Attnd(binary, ["--config", path], {"ATTND_LIMITS_MAX_REQUEST_GFLOP": "0.0005"}) as server:
        reply = server.post(ROLLOUT, {"attention": even})
        check(reply.status == 413, "much work", "status %d" % reply.status)


def main():
    binary, folder = sys.argv[1], sys.argv[2]
    with tempfile.TemporaryDirectory() as scratch:
        path = configuration(folder, scratch)
        with Attnd(binary, ["--config", path], {"ATTND_SERVER_WORKERS": "2"}) as server:
            statistics_and_links(server)
            similarity(server)
            some_layers(server)
            different_patterns(server)
            importance(server)
            rollout(server)
            refusals(server)
        limits(binary, path)
        live(binary, path, 1)
        live(binary, path, 3)
    print("\n".join(faults[:60]) or "no fault")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
