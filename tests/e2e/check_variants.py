#!/usr/bin/env python3
"""Attention under rules, and models of many layers, from outside: positions, patterns, low rank, a dynamic number of heads, dropout,
compare; statistics, similarity, importance and rollout of layers. usage: check_variants.py
BINARY GOLDEN [SANITIZER]

Golden answers within their tolerance, on every instruction set of this processor; the same bits as base64 and as safetensors, and a
second time beside others; every refusal with its pointer. Then what must hold of any input, of random ones from fixed seeds. With a
sanitizer, which makes all of it slow, on the best instruction set only."""
import base64
import itertools
import json
import math
import os
import random
import re
import struct
import subprocess
import sys
import tempfile
import threading

sys.dont_write_bytecode = True
from attnd_process import Attnd  # noqa: E402

FORWARD, STATS, IMPORTANCE, ROLLOUT = "/v1/forward", "/v1/heads/stats", "/v1/heads/importance", "/v1/heads/rollout"
CONFIG, KIND = "check-config", "application/x-safetensors"
TENSORS = ("input", "query", "key", "value", "attention_mask", "bias", "head_mask", "inputs_embeds", "pixel_values", "attention")
INTEGERS = ("position_ids", "input_ids", "token_type_ids")
CODES = {"F32": "f", "U8": "B", "I32": "i", "I64": "q", "BOOL": "?"}
TOLERANCE = 2e-5
faults = []


def check(right, place, text):
    if not right:
        faults.append("%s: %s" % (place, text))
    return right


def difference(got, wanted, tolerance, path=""):
    """None where all that is wanted is there, within the tolerance; else where it is not."""
    if isinstance(wanted, dict):
        if not isinstance(got, dict):
            return "%s: %.60r, expected an object" % (path, got)
        own = lambda name: tolerance.get(name, TOLERANCE) if isinstance(tolerance, dict) else tolerance
        found = (difference(got[name], value, own(name), path + "/" + name) if name in got else "%s/%s is not there" % (path, name)
                 for name, value in wanted.items())
    elif isinstance(wanted, list):
        if not isinstance(got, list) or len(got) != len(wanted):
            return "%s: %.60r, expected a list of %d" % (path, got, len(wanted))
        found = (difference(g, w, tolerance, "%s/%d" % (path, i)) for i, (g, w) in enumerate(zip(got, wanted)))
    elif isinstance(wanted, (bool, str)) or wanted is None:
        return None if got is wanted or got == wanted and type(got) is type(wanted) else "%s: %.60r, expected %r" % (path, got, wanted)
    elif isinstance(got, bool) or not isinstance(got, (int, float)):
        return "%s: %.60r, expected %r" % (path, got, wanted)
    else:
        return None if abs(got - wanted) <= tolerance * (1 + abs(wanted)) else "%s: %r, expected %r" % (path, got, wanted)
    return next((fault for fault in found if fault), None)


# ---- cases

class Case:
    def __init__(self, document, folder):
        self.name, self.request, self.expect = document["name"], document["request"], document["expect"]
        self.route, self.tolerance = document.get("route", FORWARD), document.get("tolerance", TOLERANCE)
        self.weights = document["weights"]
        if self.weights and "path" in self.weights:
            self.weights = {**self.weights, "path": os.path.abspath(os.path.join(folder, self.weights["path"]))}
        self.refused = "status" in self.expect


def read_cases(folder):
    names = sorted(name for name in os.listdir(folder) if name.endswith(".json") and name != "tensors.json")
    return [Case(json.load(open(os.path.join(folder, name))), folder) for name in names]


def name_sets(cases):
    """Every weight set of the cases under a name, which the cases' requests then have."""
    names = {}
    for case in cases:
        if case.weights and case.route != CONFIG:
            name = names.setdefault(json.dumps(case.weights, sort_keys=True), "set%d" % len(names))
            case.request = {**case.request, "weights": name}
    return [{"name": name, **json.loads(entry)} for entry, name in names.items()]


def write_configuration(folder, sets):
    path = os.path.join(folder, "attnd.json")
    with open(path, "w") as file:
        json.dump({"weights": sets}, file)
    return path


def instruction_sets(binary):
    """Those of the build that this processor has."""
    said = subprocess.run([binary, "--check-config"], env={"ATTND_ISA": "none"}, capture_output=True, text=True).stderr
    names = re.search(r"known are: (.*?)\.(?:\s|$)", said).group(1).split(", ")
    return [name for name in names if not name.endswith(" (not here)")]


# ---- forms

def nested(numbers, shape):
    for extent in reversed(shape[1:]):
        numbers = [numbers[i:i + extent] for i in range(0, len(numbers), extent)]
    return numbers


def flat(value):
    return list(itertools.chain.from_iterable(map(flat, value))) if isinstance(value, list) else [value]


def shape_of(value):
    return [len(value)] + shape_of(value[0]) if isinstance(value, list) else []


def from_base64(value):
    """An answer whose tensors are base64, as the same in JSON."""
    if isinstance(value, dict) and "base64" in value:
        code = CODES[value["dtype"].upper()]
        data = base64.b64decode(value["base64"])
        return nested(list(struct.unpack("<%d%s" % (len(data) // struct.calcsize(code), code), data)), value["shape"])
    return {name: from_base64(member) for name, member in value.items()} if isinstance(value, dict) else value


def from_file(body):
    """A safetensors answer as the same in JSON."""
    length = struct.unpack("<Q", body[:8])[0]
    header = json.loads(body[8:8 + length])
    answer = {name: json.loads(value) for name, value in header.pop("__metadata__").items()}
    for name, entry in header.items():
        code, (begin, end) = CODES[entry["dtype"]], entry["data_offsets"]
        data = body[8 + length + begin:8 + length + end]
        answer[name] = nested(list(struct.unpack("<%d%s" % (len(data) // struct.calcsize(code), code), data)), entry["shape"])
    return answer


def to_file(request):
    """A request as safetensors; what is no tensor is JSON text beside them."""
    header, data = {"__metadata__": {}}, b""
    for name, value in request.items():
        if name not in TENSORS + INTEGERS:
            header["__metadata__"][name] = json.dumps(value)
            continue
        numbers, dtype = flat(value), "I64" if name in INTEGERS else "U8" if name == "attention_mask" else "F32"
        part = struct.pack("<%d%s" % (len(numbers), CODES[dtype]), *numbers)
        header[name] = {"dtype": dtype, "shape": shape_of(value), "data_offsets": [len(data), len(data) + len(part)]}
        data += part
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + data


def ask(server, route, request, form):
    """(status, answer without its timing)."""
    if form == "safetensors":
        reply = server.request("POST", route, to_file(request), {"Content-Type": KIND, "Accept": KIND})
    else:
        reply = server.post(route, {**request, "encoding": "base64"} if form == "base64" else request)
    if reply.media_type == KIND:
        answer = from_file(reply.body)
    else:
        answer = json.loads(reply.body)
        answer = from_base64(answer) if form == "base64" else answer
    answer.pop("timing_us", None)
    return reply.status, answer


def as_float32(value):
    """Decimals as the float32 that they stand for."""
    if isinstance(value, float):
        return struct.unpack("<f", struct.pack("<f", value))[0]
    if isinstance(value, list):
        return [as_float32(member) for member in value]
    return value


def same_bits(a, b):
    """Two answers that hold the same numbers: float32 in tensors, doubles and words elsewhere."""
    if set(a) != set(b):
        return "members %s and %s" % (sorted(set(a) - set(b)), sorted(set(b) - set(a)))
    return next(("%s differs" % name for name in a if a[name] != b[name] and as_float32(a[name]) != as_float32(b[name])), None)


# ---- golden answers

def right_answer(place, case, status, answer):
    if case.refused:
        wanted = (case.expect["status"], case.expect.get("pointer", answer.get("pointer")))
        return check((status, answer.get("pointer")) == wanted, place, "%s at %r, expected %s at %r: %.200s" %
                     (status, answer.get("pointer"), *wanted, answer.get("detail")))
    if not check(status == 200, place, "%d: %.300s" % (status, answer)):
        return False
    fault = difference(answer, case.expect, case.tolerance)
    return check(not fault, place, fault)


def forms_of(case):
    """A forward and a rollout answer in three forms; the other analyses answer in JSON, and are asked in any."""
    names = ["json"]
    if case.route in (FORWARD, ROLLOUT):
        names.append("base64")
    return names + ["safetensors"]


def golden(server, isa, cases):
    answers = {}
    for case in cases:
        place = "%s, %s" % (case.name, isa)
        status, answer = ask(server, case.route, case.request, "json")
        if not right_answer(place, case, status, answer):
            continue
        answers[case] = answer
        for form in forms_of(case)[1:]:
            status, other = ask(server, case.route, case.request, form)
            if case.refused:
                right_answer("%s, %s" % (place, form), case, status, other)
            elif check(status == 200, "%s, %s" % (place, form), "%d: %.300s" % (status, other)):
                fault = same_bits(answer, other)
                check(not fault, "%s, %s" % (place, form), "not what JSON has: %s" % fault)
    beside_others(server, isa, answers)


def beside_others(server, isa, answers):
    """All of them again, in an order of their own on each of six connections."""
    def go_round(seed):
        order = sorted(answers, key=lambda case: case.name)
        random.Random(seed).shuffle(order)
        for case in order:
            status, other = ask(server, case.route, case.request, "json")
            if case.refused:
                right_answer("%s, %s, beside others" % (case.name, isa), case, status, other)
            else:
                fault = "status %d" % status if status != 200 else same_bits(answers[case], other)
                check(not fault, "%s, %s, beside others" % (case.name, isa), "not what it was alone: %s" % fault)
    threads = [threading.Thread(target=go_round, args=(seed,)) for seed in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def configurations(binary, folder, cases):
    for case in cases:
        path = write_configuration(folder, [{"name": "wrong", **case.weights}])
        said = subprocess.run([binary, "--config", path, "--check-config"], capture_output=True, text=True)
        check(said.returncode == case.expect["exit"], case.name, "exit code %d, expected %d" % (said.returncode, case.expect["exit"]))
        for word in case.expect["mentions"]:
            check(word in said.stdout + said.stderr, case.name, "%r is not in %s" % (word, said.stderr))


# ---- what holds of any input

D_MODEL, HEADS = 48, (1, 3, 4, 6)
PLAIN = [{"name": "heads%d" % heads, "source": "numpy", "seed": 10 + heads, "scale": 0.3, "d_model": D_MODEL, "num_heads": heads} for heads in HEADS]


class Scene:
    """A random request and what is allowed in it."""

    def __init__(self, rng, longest=40, causal=None, padding=None):
        self.heads, self.batch, self.length = rng.choice(HEADS), rng.randint(1, 3), rng.randint(2, longest)
        self.causal = rng.random() < 0.5 if causal is None else causal
        x = [[[as_float32(rng.gauss(0, 1)) for _ in range(D_MODEL)] for _ in range(self.length)] for _ in range(self.batch)]
        self.request = {"weights": "heads%d" % self.heads, "input": x, "causal": self.causal}
        self.kept = [[True] * self.length for _ in range(self.batch)]
        if rng.random() < 0.5 if padding is None else padding: # on either side, and holes
            self.kept = [[rng.random() < 0.8 for _ in range(self.length)] for _ in range(self.batch)]
            self.request["attention_mask"] = [[int(kept) for kept in row] for row in self.kept]

    def allows(self, b, i, j):
        return self.kept[b][i] and self.kept[b][j] and (not self.causal or j <= i)


def answer_to(server, place, request, **more):
    status, answer = ask(server, FORWARD, {**request, **more}, "json")
    return answer if check(status == 200, place, "%d: %.300s" % (status, answer)) else None


def both(server, place, request, one, other):
    """The answers to a request with these members, and with those. None where one was refused."""
    answers = answer_to(server, place, request, **one), answer_to(server, place, request, **other)
    return answers if None not in answers else None


def expect_same_bits(server, place, request, one, other):
    answers = both(server, place, request, one, other)
    if answers:
        fault = same_bits(*answers)
        check(not fault, place, fault)


def expect_near(server, place, request, one, other, tolerance):
    answers = both(server, place, request, one, other)
    if answers:
        fault = difference(*({name: answer[name] for name in ("output", "attention")} for answer in answers), tolerance)
        check(not fault, place, fault)


def philox(counter, key):
    """Philox4x32-10 (Salmon et al. 2011)."""
    c, k = list(counter), list(key)
    for _ in range(10):
        a, b = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [b >> 32 ^ c[1] ^ k[0], b & 0xFFFFFFFF, a >> 32 ^ c[3] ^ k[1], a & 0xFFFFFFFF]
        k = [(k[0] + 0x9E3779B9) & 0xFFFFFFFF, (k[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return c


def blocks_seen(p, a, n_blocks):
    """By a row of blocks of bigbird."""
    seen = [abs(a - b) <= (p["window_blocks"] - 1) // 2 or b < p["global_blocks"] or a < p["global_blocks"] for b in range(n_blocks)]
    left = [b for b in range(n_blocks) if not seen[b]]
    for t in range(min(p["random_blocks"], len(left))):
        u = philox((0, 0, a, t // 4), (p["seed"] & 0xFFFFFFFF, p["seed"] >> 32))[t % 4]
        pick = t + (u * (len(left) - t) >> 32)
        left[t], left[pick] = left[pick], left[t]
        seen[left[t]] = True
    return seen


def sees(p, i, j, length):
    """Whether the pattern lets query i see key j."""
    kind = p["kind"]
    if i in p.get("global", []) or j in p.get("global", []):
        return True
    if kind == "window":
        return i - p["left"] <= j <= i + p["right"]
    if kind == "dilated":
        return abs(i - j) <= p["window"] * p["step"] and (i - j) % p["step"] == 0
    if kind == "block":
        return i // p["size"] == j // p["size"]
    if kind == "strided":
        return j <= i and (i - j < p["stride"] or (i - j) % p["stride"] == 0)
    return blocks_seen(p, i // p["block"], (length - 1) // p["block"] + 1)[j // p["block"]]


def random_pattern(rng, length):
    few = lambda least=0: rng.randint(least, max(least, length // 3))
    pattern = rng.choice([
        {"kind": "window", "left": few(), "right": few()},
        {"kind": "dilated", "window": rng.randint(0, 3), "step": rng.randint(1, 4)},
        {"kind": "block", "size": few(1)},
        {"kind": "strided", "stride": few(1)},
        {"kind": "bigbird", "block": rng.randint(1, 4), "window_blocks": rng.choice([1, 3]), "global_blocks": rng.randint(0, 2),
         "random_blocks": rng.randint(0, 3), "seed": rng.randrange(2 ** 53)},
    ])
    if rng.random() < 0.4:
        pattern = {**pattern, "global": sorted(rng.sample(range(length + 3), 2))}
    return pattern


def patterns_renormalise(server):
    """The map under a pattern is the full one on the allowed keys, divided by what it has there."""
    for seed in range(60):
        rng = random.Random(seed)
        scene = Scene(rng)
        pattern = random_pattern(rng, scene.length)
        place = "renormalised, seed %d, %s" % (seed, pattern)
        answers = both(server, place, scene.request, {"pattern": pattern}, {})
        if not answers:
            continue
        wanted, empty = [], 0
        for b in range(scene.batch):
            wanted.append([])
            keys = [[scene.allows(b, i, j) and sees(pattern, i, j, scene.length) for j in range(scene.length)] for i in range(scene.length)]
            empty += sum(kept and not any(row) for kept, row in zip(scene.kept[b], keys))
            for full in answers[1]["attention"][b]:
                rows = [[weight if allowed else 0 for weight, allowed in zip(row, keys[i])] for i, row in enumerate(full)]
                wanted[-1].append([[weight / sum(row) if weight else 0 for weight in row] for row in rows])
        fault = difference(answers[0], {"attention": wanted, "fully_masked_rows": empty}, 1e-5)
        check(not fault, place, fault)
        hidden = all((weight == 0) == (want == 0) for weight, want in zip(flat(answers[0]["attention"]), flat(wanted)))
        check(hidden, place, "a hidden key has weight, or a seen one has none")


def patterns_of_everything(server):
    for seed in range(12):
        scene = Scene(random.Random(seed))
        n = scene.length
        for pattern in ({"kind": "full"}, {"kind": "window", "left": n - 1, "right": n - 1}, {"kind": "window", "left": 2 ** 53, "right": 2 ** 53},
                        {"kind": "block", "size": n}, {"kind": "dilated", "window": n, "step": 1}, {"kind": "top_k", "k": n},
                        {"kind": "bigbird", "block": 1, "global_blocks": n}, {"kind": "bigbird", "block": 1, "random_blocks": n},
                        {"kind": "block", "size": 1, "global": list(range(n))}):
            expect_same_bits(server, "everything, seed %d, %s" % (seed, pattern), scene.request, {"pattern": pattern}, {})


def positions(server):
    for seed in range(12):
        rng = random.Random(seed)
        scene = Scene(rng)
        rope = {"kind": "rope", "style": rng.choice(["half", "interleaved"])}
        if scene.heads < 6:
            rope["dims"] = 2 * rng.randint(1, 4)
        shift = rng.randint(1, 2000)
        ids = [i + shift for i in range(scene.length)]
        expect_near(server, "rope moved by %d, seed %d" % (shift, seed), scene.request, {"position": rope}, {"position": rope, "position_ids": ids}, 1e-5)
        low = 2 ** int(math.log2(scene.heads))
        slopes = [2 ** (-8 * (h + 1) / low) for h in range(low)] + [2 ** (-4 * (2 * h + 1) / low) for h in range(scene.heads - low)]
        far = [[i - j if scene.causal else abs(i - j) for j in range(scene.length)] for i in range(scene.length)]
        bias = [[[-slope * distance for distance in row] for row in far] for slope in slopes]
        expect_near(server, "alibi as a bias, seed %d" % seed, scene.request, {"position": {"kind": "alibi"}}, {"bias": bias}, 1e-6)


def low_rank(server):
    for seed in range(12):
        rng = random.Random(seed)
        scene = Scene(rng, causal=False)
        nystrom = {"kind": "nystrom", "landmarks": scene.length + rng.randint(0, 3)}
        expect_same_bits(server, "nystrom of all tokens, seed %d" % seed, scene.request, {"low_rank": nystrom}, {})
        scene = Scene(rng)
        expect_near(server, "svd of full rank, seed %d" % seed, scene.request, {"weights": "svd"}, {"weights": "svd", "low_rank": None}, 1e-5)


def dropout_tends_to_the_plain_output(server):
    for seed in range(4):
        rng = random.Random(seed)
        scene, samples = Scene(rng, 12), 1024
        place = "dropout, seed %d" % seed
        dropout = {"rate": rng.choice([0.1, 0.5]), "seed": rng.randrange(2 ** 53), "samples": samples}
        answers = both(server, place, scene.request, {"dropout": dropout}, {})
        if answers:
            mean, deviation, plain = (flat(value) for value in (answers[0]["output"], answers[0]["output_std"], answers[1]["output"]))
            far = [abs(m - p) / (d / samples ** 0.5 + 1e-5 * (1 + abs(p))) for m, d, p in zip(mean, deviation, plain)]
            check(max(far) < 6, place, "%g standard errors from the plain output" % max(far))
            check(max(deviation) > 0.01, place, "no sample differs from another")
            check(answers[0]["attention"] == answers[1]["attention"], place, "the maps are those of a pass with dropout")


def large_requests():
    """Of which several workers have something to do."""
    rng = random.Random(5)
    x = [[[as_float32(rng.gauss(0, 1)) for _ in range(D_MODEL)] for _ in range(260)] for _ in range(2)]
    bigbird = {"kind": "bigbird", "block": 8, "random_blocks": 4, "seed": 99}
    plain = {"weights": "heads6", "input": x, "return": ["output"]}
    return [{**plain, "dropout": {"rate": 0.2, "seed": 7, "samples": 24}},
            {**plain, "pattern": bigbird, "return": ["output", "attention"]},
            {**plain, "pattern": bigbird, "dropout": {"rate": 0.2, "seed": 7, "samples": 5}},
            {**plain, "pattern": bigbird, "keep_heads": {"count": 3}, "position": {"kind": "alibi"}, "compare": "full"}]


def same_bits_with_any_workers(binary, configuration):
    requests, first = large_requests(), None
    for workers in (1, 2, 4):
        with Attnd(binary, ["--config", configuration], {"ATTND_SERVER_WORKERS": str(workers)}) as server:
            answers = [answer_to(server, "request %d, %d workers" % (n, workers), request) for n, request in enumerate(requests)]
        first = first or answers
        for n, answer in enumerate(answers):
            check(answer == first[n], "request %d, %d workers" % (n, workers), "not the bits that one worker computes")


# ---- statistics of heads

def analysed(server, place, route, request, **more):
    status, answer = ask(server, route, {**request, **more}, "json")
    return answer if check(status == 200, place, "%d: %.300s" % (status, answer)) else {}


def pairs_mask(scene, pattern):
    n = scene.length
    return [[[int(sees(pattern, i, j, n)) for j in range(n)] for i in range(n)]] * scene.batch


def statistics_under_patterns(server):
    """A pattern says what a mask of pairs says, where there is no padding."""
    for seed in range(20):
        rng = random.Random(seed)
        scene = Scene(rng, padding=False)
        pattern = random_pattern(rng, scene.length)
        place = "statistics, seed %d, %s" % (seed, pattern)
        a, b = (analysed(server, place, STATS, scene.request, **more)
                for more in ({"pattern": pattern}, {"attention_mask": pairs_mask(scene, pattern)}))
        fault = difference(a.get("heads"), b.get("heads"), 1e-6)
        check(not fault, place, fault)


def importance_under_rules(server):
    """A pattern is a mask, a head that is not kept has a head_mask of 0, and dropout is left out."""
    for seed in range(12):
        rng = random.Random(seed)
        scene = Scene(rng, 20, padding=False)
        pattern, keep = random_pattern(rng, scene.length), rng.choice([{"count": 1}, {"mass": 0.7}, {"entropy_below": 0.8}])
        for method in ("zero", "mean", "uniform", "norm"):
            place = "importance, seed %d, %s" % (seed, method)
            a, b = (analysed(server, place, IMPORTANCE, scene.request, method=method, **more)
                    for more in ({"pattern": pattern}, {"attention_mask": pairs_mask(scene, pattern)}))
            fault = difference(a, b, 1e-5)
            check(not fault, "%s, %s" % (place, pattern), fault)
            one = {**scene.request, "input": scene.request["input"][0]}
            used = (answer_to(server, place, one, keep_heads=keep) or {}).get("heads_used")
            a, b = (analysed(server, place, IMPORTANCE, one, method=method, **more) for more in ({"keep_heads": keep}, {"head_mask": used}))
            fault = difference(a, b, 1e-5)
            check(not fault, "%s, %s" % (place, keep), fault)
            dropout = {"rate": 0.5, "samples": 3}
            a, b = (analysed(server, place, IMPORTANCE, one, method=method, **more) for more in ({"dropout": dropout}, {}))
            check(a == b, place + ", dropout", "%s, without %s" % (a, b))
            scene.request["weights"] = "svd"
            a, b = (analysed(server, place, IMPORTANCE, scene.request, method=method, **more) for more in ({}, {"low_rank": None}))
            fault = difference(a, b, 1e-4)
            check(not fault, place + ", svd of full rank", fault)
            scene.request["weights"] = "heads%d" % scene.heads


def maps_without_dropout(server):
    scene = Scene(random.Random(1), 20)
    for route in (STATS, "/v1/heads/similarity", "/v1/heads/links"):
        a, b = (analysed(server, route, route, scene.request, **more) for more in ({"dropout": {"rate": 0.5, "samples": 3}}, {}))
        check(a == b, route + " with dropout", "not what it is without")


# ---- all of it

def random_weights(folder, rng):
    """A set with biases, and what a configuration says of it under an svd of full rank."""
    header, data = {}, b""
    for name in ("W_Q", "W_K", "W_V", "W_O", "b_Q", "b_K", "b_V", "b_O"):
        shape = [D_MODEL, D_MODEL] if name[0] == "W" else [D_MODEL]
        part = struct.pack("<%df" % math.prod(shape), *(rng.gauss(0, 0.15) for _ in range(math.prod(shape))))
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [len(data), len(data) + len(part)]}
        data += part
    text = json.dumps(header).encode()
    path = os.path.join(folder, "random.safetensors")
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)
    return {"name": "svd", "source": "safetensors", "path": path, "num_heads": 4, "layout": "in_out", "tensors": {name: name for name in header},
            "low_rank": {"kind": "svd", "rank": D_MODEL // 4, "values": True}}


def states_of_bare_layers(server):
    """What reaches the one layer, and what it leaves; all else has the bits that it has without."""
    rng = random.Random(11)
    for n in range(12):
        scene = Scene(rng)
        rule = [{}, {"pattern": {"kind": "window", "left": 2, "right": 1}, "compare": "full"}, {"position": {"kind": "rope"}} if scene.heads != 6 else {},
                {"position": {"kind": "sinusoidal"}}, {"keep_heads": {"count": 1}}, {"dropout": {"rate": 0.2, "samples": 2}}][n % 6]
        place, request = "states %d" % n, {**scene.request, **rule}
        plain = answer_to(server, place, request)
        answer = answer_to(server, place, request, **{"return": ["output", "attention", "hidden_states"]})
        if not plain or not answer:
            continue
        states = answer.pop("hidden_states")
        answer["shapes"].pop("hidden_states")
        fault = same_bits(plain, answer)
        check(not fault, place, fault)
        first = [[row if kept else [0] * D_MODEL for row, kept in zip(rows, keeps)] for rows, keeps in zip(scene.request["input"], scene.kept)]
        if "position" not in rule or rule["position"]["kind"] != "sinusoidal":
            check(as_float32([state[0] for state in states]) == first, place, "the first state is not the input")
        else:
            offset = max(abs(state[0][t][1] - x[t][1] - math.cos(t)) for state, x, keeps in zip(states, scene.request["input"], scene.kept)
                         for t, kept in enumerate(keeps) if kept)
            check(offset < 1e-5, place, "positions are not in the first state: %g" % offset)
        check("dropout" in rule or [state[1] for state in states] == answer["output"], place, "the last state is not the output")


def main():
    binary, folder = sys.argv[1], os.path.join(sys.argv[2], "models")
    cases = read_cases(folder)
    with tempfile.TemporaryDirectory() as scratch:
        configurations(binary, scratch, [case for case in cases if case.route == CONFIG])
        cases = [case for case in cases if case.route != CONFIG]
        configuration = write_configuration(scratch, name_sets(cases) + PLAIN + [random_weights(scratch, random.Random(3))])
        environment = {"ATTND_SERVER_WORKERS": "2", "ATTND_LIMITS_MAX_BATCH_DELAY_US": "300"}
        sanitized = len(sys.argv) > 3 and sys.argv[3] != "none"
        for isa in instruction_sets(binary)[:1 if sanitized else None]:
            with Attnd(binary, ["--config", configuration], {**environment, "ATTND_ISA": isa}) as server:
                golden(server, isa, cases)
                patterns_renormalise(server)
                patterns_of_everything(server)
                positions(server)
                low_rank(server)
                dropout_tends_to_the_plain_output(server)
                statistics_under_patterns(server)
                importance_under_rules(server)
                maps_without_dropout(server)
                states_of_bare_layers(server)
        same_bits_with_any_workers(binary, configuration)
    print("\n".join(faults[:60]) or "no fault in %d cases" % len(cases))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
