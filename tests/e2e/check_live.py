#!/usr/bin/env python3
"""Live statistics against posted ones. usage: check_live.py BINARY

The same random traffic, in any order, on 1, 2 and 4 workers, and divided among servers: what GET says is what POST says of all of it at
once, sums are the same to 1e-12, and so are those of merged states. Sets of one head and sequences of one token. A set that is loaded again
begins anew when its weights are others, and goes on when they are the same."""
import json
import math
import os
import random
import struct
import sys
import tempfile
import threading
import time

sys.dont_write_bytecode = True
from attnd_process import Attnd  # noqa: E402

TOKENS, WIDTH = 9, 16
METRICS = ("cosine", "pearson", "centered")
SETS = [{"name": "plain", "source": "identity", "d_model": WIDTH, "num_heads": 4}, {"name": "one", "source": "identity", "d_model": WIDTH, "num_heads": 1},
        {"name": "drawn", "source": "numpy", "seed": 3, "scale": 0.4, "d_model": WIDTH, "num_heads": 8}]
# Sets whose own rule is a pattern: padding counts in what it lets a row see.
SPARSE = [{"pattern": {"kind": "window", "left": 2, "right": 1}}, {"pattern": {"kind": "dilated", "window": 2, "step": 3, "global": [4]}},
          {"pattern": {"kind": "strided", "stride": 3}, "causal": True}, {"pattern": {"kind": "bigbird", "block": 2, "window_blocks": 1, "random_blocks": 1}},
          {"pattern": {"kind": "top_k", "k": 3}}]
SETS += [{**SETS[2], "name": "sparse%d" % n, **rule} for n, rule in enumerate(SPARSE)]
faults = []


def check(right, place, text):
    if not right:
        faults.append("%s: %s" % (place, text))


def near(got, wanted, tolerance, place):
    """Every number of `wanted`; what is null is null."""
    if isinstance(wanted, dict):
        for name, value in wanted.items():
            near(got.get(name), value, tolerance, place + "/" + name)
    elif isinstance(wanted, list):
        check(isinstance(got, list) and len(got) == len(wanted), place, "expected a list of %d" % len(wanted))
        for i, (g, w) in enumerate(zip(got, wanted)):
            near(g, w, tolerance, "%s/%d" % (place, i))
    elif isinstance(wanted, (int, float)) and isinstance(got, (int, float)):
        check(abs(got - wanted) <= tolerance * (1 + abs(wanted)), place, "got %.15g, expected %.15g" % (got, wanted))
    else:
        check(got == wanted, place, "got %r, expected %r" % (got, wanted))


class Traffic:
    """Requests of some sequences each, some of them padded; and all in one."""

    def __init__(self, seed, count):
        rng, self.requests, rows, masks = random.Random(seed), [], [], []
        for i in range(count):
            batch = rng.randint(1, 3)
            x = [[[round(rng.gauss(0, 1), 3) for _ in range(WIDTH)] for _ in range(TOKENS)] for _ in range(batch)]
            mask = [[int(i % 3 == 0 or rng.random() < 0.7) for _ in range(TOKENS)] for _ in range(batch)]
            if i == 1:
                mask[0] = [0] * TOKENS              # nothing of it counts
            self.requests.append({"input": x, "return": ["output"] if i % 2 else ["attention"], **({} if i % 3 == 0 else {"attention_mask": mask})})
            rows, masks = rows + x, masks + mask
        self.whole = {"input": rows, "attention_mask": masks}


def served(binary, folder, workers, members=None):
    path = os.path.join(folder, "attnd-%d.json" % random.getrandbits(60))
    with open(path, "w") as file:
        json.dump({"default_weights": "plain", "weights": SETS, "server": {"workers": workers}, **(members or {})}, file)
    return Attnd(binary, ["--config", path])


def get(server, target, place="GET"):
    reply = server.request("GET", "/v1/heads/" + target)
    check(reply.status == 200, place, "%s: status %d: %s" % (target, reply.status, reply.body[:300]))
    return json.loads(reply.body)


def post(server, path, document, status=200):
    reply = server.post(path, document)
    check(reply.status == status, path, "status %d: %s" % (reply.status, reply.body[:300]))
    return json.loads(reply.body)


def send(server, requests, together):
    """Pairs of a path and a body, some at a time."""
    left, lock = list(requests), threading.Lock()

    def one_by_one():
        while True:
            with lock:
                if not left:
                    return
                path, body = left.pop()
            post(server, path, body)

    threads = [threading.Thread(target=one_by_one) for _ in range(together)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def forwards(requests, weights):
    return [("/v1/forward", {**request, "weights": weights}) for request in requests]


def answers_of(server, traffic, weights):
    """What POST says of all of it."""
    stats = post(server, "/v1/heads/stats", {**traffic.whole, "weights": weights, "stderr": True})
    similar = {m: post(server, "/v1/heads/similarity", {**traffic.whole, "weights": weights, "metric": m, "threshold": 0.5}) for m in METRICS}
    return stats, similar


def expect_live(stats, similar, wanted, place):
    wanted_stats, wanted_similar = wanted
    check(len(stats["heads"][0]) >= 31, place, "only %d members" % len(stats["heads"][0]))
    for head, of in enumerate(stats["heads"]):
        near(of, {k: wanted_stats["heads"][head].get(k, "not there") for k in of}, 1e-6, "%s, head %d" % (place, head))
    near({k: stats[k] for k in ("n_rows", "n_excluded")}, {k: wanted_stats[k] for k in ("n_rows", "n_excluded")}, 0, place)
    for metric, got in similar.items():
        same = {k: wanted_similar[metric][k] for k in ("similarity", "redundancy", "clusters", "n_rows")}
        near(got, same, 1e-6, "%s, %s" % (place, metric))


def sums_of(state):
    """The sums themselves, whatever offset a server has kept them about."""
    sums = {k: state[k] for k in ("n_sequences", "n_rows", "n_excluded", "n_skipped", "n_allowed", "even", "products")}
    for name, s in state["statistics"].items():
        for i, r0 in enumerate(s["offset"]):
            # of each layer, where layers see different keys
            sequences, n, nn = (s[k][i * len(s[k]) // len(s["offset"])] if isinstance(s[k], list) else s[k] for k in ("sequences", "n", "nn"))
            sums["%s/%d" % (name, i)] = [sequences, n, nn, s["z"][i] + r0 * n, s["zz"][i] + 2 * r0 * s["zn"][i] + r0 * r0 * nn, s["zn"][i] + r0 * nn]
    return sums


def any_order_and_workers(binary, folder):
    traffic, states = Traffic(1, 14), {}
    for workers, together, order in ((1, 1, 1), (2, 6, -1), (4, 8, 1)):
        with served(binary, folder, workers) as server:
            for weights in [entry["name"] for entry in SETS]:
                place = "%s on %d workers" % (weights, workers)
                send(server, forwards(traffic.requests[::order], weights), together)
                wanted = answers_of(server, traffic, weights)          # analyses do not count
                for window in ("", "&window=5m"):
                    stats = get(server, "stats?weights=" + weights + window)
                    similar = {m: get(server, "similarity?threshold=0.5&metric=%s&weights=%s%s" % (m, weights, window)) for m in METRICS}
                    expect_live(stats, similar, wanted, place + window)
                if weights == "one":
                    check((similar["cosine"]["similarity"], similar["cosine"]["clusters"], similar["cosine"]["redundancy"]) == ([[1]], [[0]], [None]),
                          place, "one head")
                states.setdefault(weights, []).append(get(server, "state?weights=" + weights))
    for weights, of in states.items():
        for state in of[1:]:
            near(sums_of(state), sums_of(of[0]), 1e-12, "sums of " + weights)


def divided_among_servers(binary, folder):
    """Three of them; merged by one that does not hold the set, in two steps."""
    traffic, states = Traffic(2, 12), []
    with served(binary, folder, 1) as whole:
        send(whole, forwards(traffic.requests, "drawn"), 1)
        wanted, one = answers_of(whole, traffic, "drawn"), get(whole, "state?weights=drawn")
    for part in range(3):
        with served(binary, folder, 2) as server:
            send(server, forwards(traffic.requests[part::3], "drawn"), 4)
            states.append(get(server, "state?weights=drawn"))
    with Attnd(binary) as stranger:
        for metric in METRICS:
            half = post(stranger, "/v1/heads/merge", {"states": [states[2], states[0]]})
            for documents in (states, [half["state"], states[1]], [states[1], half["state"]]):
                got = post(stranger, "/v1/heads/merge", {"states": documents, "metric": metric, "threshold": 0.5})
                expect_live(got["stats"], {metric: got["similarity"]}, wanted, "merged")
                near(sums_of(got["state"]), sums_of(one), 1e-12, "merged sums")
                check(got["duplicates"] == 0 and got["state"]["since"] == min(s["since"] for s in states), "merged", "since or duplicates")


def one_token(binary, folder):
    """Undefined is null."""
    with served(binary, folder, 1) as server:
        for _ in range(2):
            post(server, "/v1/forward", {"input": [[[0.5] * WIDTH]] * 3})
        head = get(server, "stats")["heads"][0]
        check(head["entropy"] == 0 and head["self_mass"] == 1 and head["entropy_stderr"] == 0, "one token", str(head))
        check([head[k] for k in ("normalized_entropy", "hoyer", "previous_mass", "next_mass", "hoyer_stderr")] == [None] * 5, "one token", str(head))
        for metric in METRICS:
            got = get(server, "similarity?metric=" + metric)["similarity"]
            check(got == [[1 if metric == "cosine" else None] * 4] * 4, "one token", "%s: %s" % (metric, got))
        drift = get(server, "drift?min_sequences=0")
        check(all(h["z"] is None and h["effect"] is None and not h["drifted"] for h in drift["heads"]), "one token", "drift before there is a baseline")


def write_weights(path, seed, form):
    rng = random.Random(seed)
    numbers = [struct.unpack("<f", struct.pack("<f", rng.gauss(0, 0.3)))[0] for _ in range(4 * WIDTH * WIDTH)]
    size = WIDTH * WIDTH * (8 if form == "d" else 4)
    header = json.dumps({name: {"dtype": "F64" if form == "d" else "F32", "shape": [WIDTH, WIDTH], "data_offsets": [i * size, (i + 1) * size]}
                         for i, name in enumerate(("W_Q", "W_K", "W_V", "W_O"))}).encode()
    with open(path + ".new", "wb") as file:
        file.write(struct.pack("<Q", len(header)) + header + struct.pack("<%d%s" % (len(numbers), form), *numbers))
    os.rename(path + ".new", path)


def loaded_again(binary, folder):
    path, token = os.path.join(folder, "w.safetensors"), os.path.join(folder, "token")
    with open(token, "w") as file:
        file.write("secret\n")
    write_weights(path, 1, "f")
    config = os.path.join(folder, "reload.json")
    with open(config, "w") as file:
        json.dump({"default_weights": "w", "admin": {"token_file": token}, "weights": [
            {"name": "w", "source": "safetensors", "path": path, "num_heads": 2, "tensors": {k: k for k in ("W_Q", "W_K", "W_V", "W_O")}}]}, file)

    def reload(server, status=200):
        reply = server.request("POST", "/v1/weights/w/reload", "", {"Authorization": "Bearer secret"})
        check(reply.status == status, "reload", "status %d: %s" % (reply.status, reply.body[:300]))
        return json.loads(reply.body)

    request = {"input": [[[math.sin(i * j) for i in range(WIDTH)] for j in range(1, 5)]]}
    with Attnd(binary, ["--config", config]) as server:
        post(server, "/v1/forward", request)
        before = get(server, "stats")
        check(before["n_rows"] == 4, "reload", "%d rows" % before["n_rows"])
        write_weights(path, 1, "d")                                    # the same numbers, kept in another form
        loaded = reload(server)
        after = get(server, "stats")
        check(loaded["digest"] == before["digest"] == after["digest"], "the same weights", "another digest")
        check((after["since"], after["n_rows"]) == (before["since"], 4), "the same weights", "%s, %d rows" % (after["since"], after["n_rows"]))
        post(server, "/v1/forward", request)
        check(get(server, "stats")["n_rows"] == 8, "the same weights", "traffic that is not added")
        with open(path, "wb") as file:
            file.write(b"nothing")
        reload(server, 422)
        check(get(server, "stats")["n_rows"] == 8, "a broken file", "what was counted is gone")
        time.sleep(0.01)
        write_weights(path, 2, "f")
        loaded = reload(server)
        after = get(server, "stats")
        check(loaded["digest"] != before["digest"] and after["digest"] == loaded["digest"], "other weights", "the same digest")
        check(after["since"] > before["since"] and after["n_rows"] == 0, "other weights", "%s, %d rows" % (after["since"], after["n_rows"]))
        post(server, "/v1/forward", request)
        post(server, "/v1/forward", request)
        live, posted = get(server, "stats"), post(server, "/v1/heads/stats", request)
        check(live["n_rows"] == 8, "other weights", "%d rows" % live["n_rows"])
        for head, of in enumerate(live["heads"]):
            near(of, {k: posted["heads"][head][k] for k in of if not k.endswith("_stderr")}, 1e-6, "other weights")
        # Many at a time, between two files: no set is left with the sums of the other.
        threads = [threading.Thread(target=lambda: [reload(server) for _ in range(5)]) for _ in range(4)]
        for thread in threads:
            thread.start()
        for i in range(20):
            write_weights(path, i, "f")
            post(server, "/v1/forward", request)
            get(server, "stats", "between reloads")
            get(server, "similarity", "between reloads")
        for thread in threads:
            thread.join()
        rows = get(server, "stats")["n_rows"]
        post(server, "/v1/forward", request)
        check(get(server, "stats")["n_rows"] == rows + 4, "after many reloads", "traffic is not counted any more")


def main():
    binary = sys.argv[1]
    with tempfile.TemporaryDirectory() as folder:
        any_order_and_workers(binary, folder)
        divided_among_servers(binary, folder)
        one_token(binary, folder)
        loaded_again(binary, folder)
    print("\n".join(faults[:40]) or "no fault")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
