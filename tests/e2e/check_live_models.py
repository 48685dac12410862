#!/usr/bin/env python3
"""Live statistics of whole models against posted ones. usage: check_live_models.py BINARY GOLDEN (tiny | minilm ROOT SANITIZE)

Texts as token ids, in batches with padding and alone, through both protocols, some at a time. What GET says of every layer and head is what
POST says of all of them at once, and two servers that got half of them each say together what the one says that got all.

minilm: 1,000 requests of real texts (golden/real) and pieces of them, fewer with sanitizers, to the model that scripts/get-minilm has put into
ROOT/build/minilm or $ATTND_MINILM. Without it the test is skipped, or fails where CI=true. tiny: small models of several types."""
import json
import os
import random
import sys
import tempfile

sys.dont_write_bytecode = True
from attnd_process import Attnd  # noqa: E402
from check_live import METRICS, check, faults, get, near, post, send, sums_of  # noqa: E402

SKIPPED = 77
TINY = ("bert", "distilbert", "electra", "roberta", "esm", "gpt2", "llama", "mistral", "qwen2", "t5")
TYPED = ("bert", "electra", "minilm")
ENVIRONMENT = {"ATTND_SERVER_REQUEST_TIMEOUT_S": "600"}


class Text:
    def __init__(self, ids, types):
        self.ids, self.types = ids, types

    def __len__(self):
        return len(self.ids)


def real_texts(golden, rng, count):
    """Whole ones, and pieces between the marks for the beginning and the end."""
    with open(os.path.join(golden, "real", "model.json"), encoding="utf-8") as f:
        cases = json.load(f)
    rows = []
    for case in cases.values():
        for b, (ids, types) in enumerate(zip(case["input_ids"], case["token_type_ids"])):
            mask = case.get("attention_mask")
            kept = sum(mask[b]) if mask and not isinstance(mask[b][0], list) else len(ids)
            rows.append((ids[:kept], types[:kept]))
    texts = [Text(ids, types) for ids, types in rows if len(ids) <= 36]
    while len(texts) < count:
        ids, types = rng.choice(rows)
        length = min(rng.randint(1, 14), len(ids) - 2)
        at = rng.randint(1, len(ids) - 1 - length)
        texts.append(Text(ids[:1] + ids[at:at + length] + ids[-1:], types[:1] + types[at:at + length] + types[-1:]))
    rng.shuffle(texts)
    return texts[:count]


def drawn_texts(rng, count):
    """Ids that are neither padding nor a mask in any of the small models."""
    texts = []
    for _ in range(count):
        length = rng.randint(1, 20)
        cut = rng.randint(0, length)
        texts.append(Text([rng.randint(5, 30) for _ in range(length)], [int(i >= cut) for i in range(length)]))
    return texts


def padded(texts, typed):
    longest = max(map(len, texts))
    fill = lambda row, value: row + [value] * (longest - len(row))
    members = {"input_ids": [fill(text.ids, 1) for text in texts]}
    if typed:
        members["token_type_ids"] = [fill(text.types, 0) for text in texts]
    if any(len(text) < longest for text in texts):
        members["attention_mask"] = [fill([1] * len(text), 0) for text in texts]
    return members


class Traffic:
    """Requests, each a path and a body, and what counts of them in one; `skipped`: sequences under another rule."""

    def __init__(self, name, rng, texts, count):
        self.requests, self.skipped, seen, typed, at = [], 0, [], name in TYPED, 0
        for i in range(count):
            size = (1, 1, 1, 2, 4)[i % 5]
            part = [texts[(at + n) % len(texts)] for n in range(size)]
            at += size
            members = padded(part, typed)
            other_rule = i % 40 == 39
            if i % 7 == 3 and not other_rule:
                tensors = [{"name": k, "datatype": "INT64", "shape": [size, len(v[0])], "data": v} for k, v in members.items()]
                self.requests.append(("/v2/models/%s/infer" % name, {"inputs": tensors, "outputs": [{"name": "output"}]}))
            else:
                asked = ({"return": ["output"]}, {"include_layers": [rng.randrange(2)]}, {"return": ["hidden_states"]})[i % 3]
                rule = {"head_mask": [0.5, 1] * (2 if name != "minilm" else 6)} if other_rule else {}
                self.requests.append(("/v1/forward", {"weights": name, "encoding": "base64", **members, **asked, **rule}))
            if other_rule:
                self.skipped += size
            else:
                seen += part
        self.whole, self.n_sequences, self.n_rows = padded(seen, typed), len(seen), sum(map(len, seen))


def wanted_of(server, name, traffic):
    asked = {"weights": name, **traffic.whole}
    stats = post(server, "/v1/heads/stats", {**asked, "stderr": True})
    similar = {m: post(server, "/v1/heads/similarity", {**asked, "metric": m, "across": "layer", "threshold": 0.5, "max_pairs": 20}) for m in METRICS}
    return stats, similar


def expect(stats, similar, wanted, traffic, place):
    """Every layer and head, and the counts of rows that follow from the texts."""
    wanted_stats, wanted_similar = wanted
    check(len(stats["heads"]) == len(wanted_stats["heads"]) and len(stats["heads"][0]) >= 32, place, "%d heads" % len(stats["heads"]))
    for got, of in zip(stats["heads"], wanted_stats["heads"]):
        near(got, {k: of.get(k, "not there") for k in got}, 1e-6, "%s, layer %s, head %s" % (place, of["layer"], of["head"]))
    near(stats, {"n_sequences": traffic.n_sequences, "n_rows": traffic.n_rows, "n_skipped": traffic.skipped}, 0, place)
    near(wanted_stats, {"n_rows": traffic.n_rows}, 0, place + ", posted")
    for metric, got in similar.items():
        same = {k: wanted_similar[metric][k] for k in ("similarity", "redundancy", "clusters", "heads", "across", "n_rows")}
        near(got, same, 1e-6, "%s, %s" % (place, metric))


def state_after(binary, arguments, name, requests):
    with Attnd(binary, arguments, ENVIRONMENT) as server:
        send(server, requests, 3)
        return get(server, "state?weights=" + name)


def model(binary, arguments, name, traffic):
    with Attnd(binary, arguments, ENVIRONMENT) as whole:
        whole.answer_seconds = 600
        send(whole, traffic.requests, 4)
        wanted = wanted_of(whole, name, traffic)                       # analyses do not count
        stats = get(whole, "stats?weights=" + name)
        similar = {m: get(whole, "similarity?threshold=0.5&max_pairs=20&metric=%s&weights=%s" % (m, name)) for m in METRICS}
        expect(stats, similar, wanted, traffic, name)
        state = get(whole, "state?weights=" + name)
    halves = [state_after(binary, arguments, name, traffic.requests[part::2]) for part in (0, 1)]
    with Attnd(binary) as stranger:                                    # does not hold the set
        for metric in METRICS:
            got = post(stranger, "/v1/heads/merge", {"states": halves, "metric": metric, "threshold": 0.5})
            expect(got["stats"], {metric: got["similarity"]}, wanted, traffic, name + ", merged")
            near(sums_of(got["state"]), sums_of(state), 1e-12, name + ", merged sums")
    check(0 < halves[0]["n_sequences"] < traffic.n_sequences, name, "one server got all: %d" % halves[0]["n_sequences"])


def lower_rank(binary, path, name, traffic):
    """The set's own rule is that of the heads that are counted."""
    with tempfile.TemporaryDirectory() as folder:
        config = os.path.join(folder, "attnd.json")
        with open(config, "w") as file:
            json.dump({"weights": [{"name": name, "source": "huggingface", "path": path, "low_rank": {"kind": "svd", "rank": 2, "values": True}}]}, file)
        model(binary, ["--config", config], name, traffic)


def main():
    binary, golden, which = sys.argv[1:4]
    rng = random.Random(11)
    if which == "tiny":
        for name in TINY:
            path = os.path.join(os.path.abspath(golden), "models", "tiny", name)
            model(binary, ["--model", "%s=%s" % (name, path)], name, Traffic(name, rng, drawn_texts(rng, 50), 45))
            if name == "bert":
                lower_rank(binary, path, name, Traffic(name, rng, drawn_texts(rng, 50), 45))
    else:
        root, sanitize = sys.argv[4:6]
        path = os.path.join(os.environ.get("ATTND_MINILM") or os.path.join(root, "build", "minilm"), "model")
        if not os.path.exists(os.path.join(path, "model.safetensors")):
            print("no model in %s; scripts/get-minilm fetches it" % path)
            return 1 if os.environ.get("CI") == "true" else SKIPPED
        count = 1000 if sanitize == "none" else 25
        model(binary, ["--model", "minilm=" + path], "minilm", Traffic("minilm", rng, real_texts(golden, rng, count), count))
    print("\n".join(faults[:40]) or "no fault")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
