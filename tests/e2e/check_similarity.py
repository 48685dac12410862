#!/usr/bin/env python3
"""POST /v1/heads/similarity from outside. usage: check_similarity.py BINARY GOLDEN

Golden answers; maps in every form; what follows from the numbers (clusters, pairs, redundancy); many heads and
many sequences; limits and errors."""
import base64
import json
import math
import os
import random
import struct
import sys
import threading

sys.dont_write_bytecode = True
from attnd_process import Attnd  # noqa: E402

PATH, KIND = "/v1/heads/similarity", "application/x-safetensors"
METRICS = ("cosine", "pearson", "centered", "js", "hellinger", "cka")
faults = []


def check(right, place, text):
    if not right:
        faults.append("%s: %s" % (place, text))
    return right


def near(got, wanted, tolerance):
    if isinstance(wanted, list):
        return isinstance(got, list) and len(got) == len(wanted) and all(near(g, w, tolerance) for g, w in zip(got, wanted))
    if wanted is None or got is None:
        return got is wanted
    return abs(got - wanted) <= tolerance * (1 + abs(wanted))


def post(server, place, request, status=200):
    reply = server.post(PATH, request)
    check(reply.status == status, place, "status %d: %s" % (reply.status, reply.body[:300]))
    return json.loads(reply.body) if reply.status == status else {}


def check_answer(place, request, got):
    """All that follows from the matrix."""
    matrix, n = got["similarity"], len(got["heads"])
    threshold = request.get("threshold", 0.9)
    pairs = sorted(((-matrix[a][b], a, b) for a in range(n) for b in range(a + 1, n) if matrix[a][b] is not None))
    wanted = [{"head_a": a, "head_b": b, "similarity": -s} for s, a, b in pairs[:request.get("max_pairs", 100)]]
    check(got["pairs"] == wanted, place, "the pairs are not the most similar ones")
    for a in range(n):
        others = [matrix[a][b] for b in range(n) if b != a and matrix[a][b] is not None]
        check(got["redundancy"][a] == (max(others) if others else None), place, "redundancy of head %d" % a)
        check(matrix[a][a] in (1, None) and all(matrix[a][b] == matrix[b][a] for b in range(n)), place, "row %d" % a)
    left, clusters = list(range(n)), []
    while left:
        group = [left.pop(0)]
        for head in group:
            more = [other for other in left if matrix[head][other] is not None and matrix[head][other] >= threshold]
            group += more
            left = [other for other in left if other not in more]
        clusters.append(sorted(group))
    check(got["clusters"] == sorted(clusters), place, "clusters %s" % got["clusters"])


def golden(server, folder):
    cases = 0
    for name in sorted(os.listdir(os.path.join(folder, "similarity"))):
        path = os.path.join(folder, "similarity", name)
        if name.startswith("similarity_"):
            document = json.load(open(path))
            got = post(server, name, document["request"])
            check(near(got.get("similarity"), document["expect"]["similarity"], 1e-5), name, "similarity")
            check(near(got.get("diversity"), document["expect"].get("diversity", got.get("diversity")), 1e-5), name, "diversity")
            check_answer(name, document["request"], got)
            cases += 1
        elif name.startswith("case_"):
            document = json.load(open(path))
            for answer in document["answers"]:
                if answer["on"] == "output" or answer["similarity"] is None:
                    continue
                request = {**document["request"], **{k: answer[k] for k in ("metric", "reduce")}, "threshold": 0.5}
                place = "%s, %s, %s" % (name, answer["metric"], answer["reduce"])
                got = post(server, place, request)
                check(near(got.get("similarity"), answer["similarity"], 1e-5), place, "similarity")
                check(near([got.get(k) for k in ("diversity", "n_rows", "n_excluded")], [document[k] for k in ("diversity", "n_rows", "n_excluded")],
                           1e-5), place, "diversity or counts")
                check_answer(place, request, got)
                cases += 1
    check(cases > 300, "golden", "only %d cases" % cases)


def forms(server):
    """JSON, base64 and safetensors of the same numbers give the same bytes."""
    rng = random.Random(4)
    maps = []
    for _ in range(2 * 5 * 4):
        row = [rng.random() for _ in range(4)]
        maps += [v / sum(row) for v in row]
    maps = list(struct.unpack("<160f", struct.pack("<160f", *maps)))
    for metric in METRICS:
        more = {"metric": metric, "reduce": "mean", "threshold": 0.25, "max_pairs": 3}
        text = server.post(PATH, {"attention": {"shape": [2, 5, 4, 4], "data": maps}, **more})
        bits = server.post(PATH, {"attention": {"shape": [2, 5, 4, 4], "dtype": "f32", "base64": base64.b64encode(struct.pack("<160f", *maps)).decode()}, **more})
        header = json.dumps({"attention": {"dtype": "F32", "shape": [2, 5, 4, 4], "data_offsets": [0, 640]},
                             "__metadata__": {k: json.dumps(v) for k, v in more.items()}}).encode()
        file = server.request("POST", PATH, struct.pack("<Q", len(header)) + header + struct.pack("<160f", *maps), {"Content-Type": KIND, "Accept": KIND})
        check(text.status == 200 and text.body == bits.body == file.body, "forms, " + metric, "%r, %r, %r" % (text.status, bits.status, file.status))
        check(file.media_type == "application/json", "forms, " + metric, "answered with " + file.media_type)


def even_maps(batch, heads, length):
    """As base64: rows that differ from head to head."""
    rows = []
    for head in range(heads):
        top = 0.25 + 0.5 * head / heads
        rest = (1 - top) / (length - 1)
        for row in range(length):
            rows += [top if key == (row + head) % length else rest for key in range(length)]
    data = struct.pack("<%df" % len(rows), *rows) * batch
    return {"shape": [batch, heads, length, length], "dtype": "f32", "base64": base64.b64encode(data).decode()}


def large(server):
    got = post(server, "1024 heads", {"attention": even_maps(1, 1024, 8), "max_pairs": 2})
    check(len(got.get("similarity", [])) == 1024 and got["similarity"][1023][1023] == 1 and len(got["pairs"]) == 2, "1024 heads", "matrix")
    for metric in METRICS:
        place = "3000 sequences, " + metric
        answers = [post(server, place, {"attention": even_maps(3000, 3, 4), "metric": metric, "reduce": reduce}) for reduce in ("pooled", "mean")]
        one = post(server, place, {"attention": even_maps(1, 3, 4), "metric": metric})
        for got in answers: # all sequences are the same
            check(near(got.get("similarity"), one.get("similarity"), 1e-6) and got.get("n_rows") == 12000, place, str(got.get("similarity"))[:200])
    # The same bits whatever else is computed.
    request, seen = {"attention": even_maps(8, 12, 64), "metric": "js"}, []
    alone = server.post(PATH, request).body
    threads = [threading.Thread(target=lambda: seen.append(server.post(PATH, request).body)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    check(seen == [alone] * 8, "eight at a time", "different answers")


def edges(server):
    one = post(server, "one head", {"attention": [[[0.25, 0.75], [1, 0]]]})
    check((one.get("similarity"), one.get("clusters"), one.get("redundancy"), one.get("pairs"), one.get("diversity")) == ([[1]], [[0]], [None], [], 0),
          "one head", str(one)[:300])
    for metric in METRICS:
        got = post(server, "one token, " + metric, {"attention": [[[1.0]], [[1.0]]], "metric": metric})
        defined = metric in ("cosine", "js", "hellinger")
        check(got.get("similarity") == ([[1, 1], [1, 1]] if defined else [[None, None]] * 2), "one token, " + metric, str(got.get("similarity")))
        check(got.get("clusters") == ([[0, 1]] if defined else [[0], [1]]) and got.get("redundancy") == ([1, 1] if defined else [None, None]),
              "one token, " + metric, "clusters or redundancy")
        got = post(server, "all excluded, " + metric, {"attention": [[[0.5, 0.5]] * 2] * 2, "metric": metric, "exclude": [0, 1]})
        check((got.get("similarity"), got.get("diversity"), got.get("n_rows"), got.get("n_excluded")) == ([[None, None]] * 2, None, 0, 2),
              "all excluded, " + metric, str(got)[:300])
    # A row that one head has nothing left of is left out of all.
    got = post(server, "nothing left", {"attention": [[[1, 0, 0], [0.2, 0.3, 0.5]], [[0.4, 0.3, 0.3], [0.2, 0.5, 0.3]]], "exclude": [0]})
    u, v = [0.375, 0.625], [0.625, 0.375]
    check(near(got.get("similarity", [[0, 0]])[0][1], sum(a * b for a, b in zip(u, v)) / sum(a * a for a in u), 1e-6), "nothing left", str(got.get("similarity")))
    check((got.get("n_rows"), got.get("n_excluded")) == (1, 1), "nothing left", "counts")
    got = post(server, "no key in common", {"attention": [[[1, 0]], [[0, 1]]], "metric": "hellinger"})
    check(near(got.get("similarity"), [[1, 0], [0, 1]], 1e-6) and near(got.get("diversity"), math.log(2), 1e-6), "no key in common", str(got))
    # Outputs too large or too small to be squared in float32 have a direction all the same.
    x = [[math.cos(i * j) for i in range(1, 65)] for j in range(1, 4)]
    for metric in ("cosine", "pearson", "cka"):
        request = {"query": x, "key": x, "on": "output", "metric": metric}
        usual = post(server, "outputs", request)
        for size in (2.0 ** -100, 2.0 ** 90):
            place = "%s of outputs of size %g" % (metric, size)
            got = post(server, place, {**request, "value": [[v * size for v in row] for row in x]})
            check(near(got.get("similarity"), usual.get("similarity"), 1e-6), place, str(got.get("similarity"))[:200])


def wrong(server):
    maps, x = [[[0.5, 0.5], [0.25, 0.75]]] * 2, [[0.5] * 64] * 2
    cases = (
        ("zero rows differ", {"attention": [[[0, 0], [0.5, 0.5]], [[1, 0], [0.5, 0.5]]]}, 422, None, []),
        ("an unknown metric", {"attention": maps, "metric": "cosin"}, 422, "/metric", ["cosin", "cosine"]),
        ("js on output", {"input": x, "metric": "js", "on": "output"}, 422, "/metric", ["js", "output"]),
        ("centered on output", {"input": x, "metric": "centered", "on": "output"}, 422, "/metric", ["centered"]),
        ("hellinger on output", {"input": x, "metric": "hellinger", "on": "output"}, 422, "/metric", ["hellinger"]),
        ("output of posted maps", {"attention": maps, "on": "output"}, 422, "/on", ["input"]),
        ("exclude on output", {"input": x, "on": "output", "exclude": [0]}, 422, "/exclude", ["exclude"]),
        ("exclude out of range", {"attention": maps, "exclude": [2]}, 422, None, []),
        ("words that miss a piece", {"attention": maps, "words": [[[0]]]}, 422, "/words/0", []),
        ("features of two lengths", {"attention": [[[[0.5, 0.5, 0], [0.25, 0.75, 0], [0, 0, 0]]] * 2, [[[0.2, 0.3, 0.5]] * 3] * 2],
                                     "attention_mask": [[1, 1, 0], [1, 1, 1]], "metric": "cka"}, 422, "/metric", ["2", "3", "mean"]),
        ("a threshold over 1", {"attention": maps, "threshold": 1.5}, 422, "/threshold", ["1.5"]),
        ("include_heads", {"attention": maps, "include_heads": [0]}, 422, "/include_heads", ["include_heads"]),
        ("rows that do not sum to 1", {"attention": [[[0.5, 0.2], [0.5, 0.5]]]}, 422, "/attention/0/0", ["0.7"]),
    )
    for place, request, status, pointer, words in cases:
        problem = post(server, place, request, status)
        check(pointer is None or problem.get("pointer") == pointer, place, "pointer %r" % problem.get("pointer"))
        check(all(word in problem.get("detail", "") for word in words), place, problem.get("detail", ""))
    check(server.request("PUT", PATH, "{}").status == 405, "PUT", "expected 405")


def limited(binary):
    """Work and answers over their limits are 413, and name the setting."""
    with Attnd(binary, environment={"ATTND_LIMITS_MAX_REQUEST_GFLOP": "0.001", "ATTND_LIMITS_MAX_RESPONSE_BYTES": "65536"}) as server:
        problem = post(server, "much work", {"attention": even_maps(200, 4, 16), "metric": "cka"}, 413)
        check("max_request_gflop" in problem.get("detail", ""), "much work", problem.get("detail", ""))
        problem = post(server, "a long answer", {"attention": even_maps(1, 64, 2)}, 413)
        check("max_response_bytes" in problem.get("detail", ""), "a long answer", problem.get("detail", ""))


def main():
    binary, folder = sys.argv[1:3]
    with Attnd(binary, environment={"ATTND_LIMITS_MAX_BODY_BYTES": "134217728"}) as server:
        golden(server, folder)
        forms(server)
        large(server)
        edges(server)
        wrong(server)
    limited(binary)
    print("\n".join(faults[:40]) or "no fault")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
