#!/usr/bin/env python3
"""Rules that weight sets have by default, from outside: the examples of the configuration, faults with their lines, numbers that are put in
place of stored ones while requests run, what live statistics count. usage: check_rules.py BINARY CONFIG_FOLDER"""
import glob
import json
import os
import subprocess
import sys
import tempfile
import threading

sys.dont_write_bytecode = True
from attnd_process import Attnd  # noqa: E402

TOKEN = {"Authorization": "Bearer secret", "Content-Type": "application/json"}
EXAMPLES = ("position", "pattern", "low-rank", "keep-heads", "dropout", "rules-of-a-file")
faults = []


def check(right, place, text):
    if not right:
        faults.append("%s: %s" % (place, text))
    return right


def numpy_set(name, **members):
    return {"name": name, "source": "numpy", "d_model": 16, "num_heads": 4, "scale": 0.4, **members}


def rows(tokens):
    return [[((i * 7 + j * 5) % 23 - 11) / 8 for j in range(16)] for i in range(tokens)]


def check_examples(binary, folder):
    """Each can be loaded, and each of its sets answers; what is configured is shown."""
    for name in EXAMPLES:
        path = os.path.join(folder, "examples", name + ".json")
        with open(path, encoding="utf-8") as file:
            entries = json.load(file)["weights"]
        with Attnd(binary, ["--config", path]) as server:
            for entry in entries:
                shown = json.loads(server.request("GET", "/v1/weights/" + entry["name"]).body)
                for rule in ("position", "pattern", "low_rank", "keep_heads", "dropout", "causal", "head_importance"):
                    check(shown.get(rule) == entry.get(rule), "%s, %s" % (name, entry["name"]), "%s is shown as %r, configured as %r" % (rule, shown.get(rule), entry.get(rule)))
                asked = {"weights": entry["name"], "input": [[(i + j) % 5 / 4 for j in range(shown["d_model"])] for i in range(9)], "return": ["output"]}
                reply = server.post("/v1/forward", asked)
                if check(reply.status == 200, "%s, %s" % (name, entry["name"]), "%d: %s" % (reply.status, reply.body[:200])):
                    answer = json.loads(reply.body)
                    check(("output_std" in answer) == ("dropout" in entry) and ("heads_used" in answer) == ("keep_heads" in entry),
                          "%s, %s" % (name, entry["name"]), "the answer has %s" % sorted(answer))
                off = {rule: None for rule in ("position", "pattern", "low_rank", "keep_heads", "dropout", "causal")}
                plain = json.loads(server.post("/v1/forward", {**asked, **off}).body)
                check("output_std" not in plain and "heads_used" not in plain, entry["name"], "null switches nothing off")


def check_faults(binary, folder):
    """FILE:LINE: pointer: message, and exit code 2."""
    for member, line, pointer in (('"pattern": {"kind": "window",\n "left": -1, "right": 0}', 3, "/weights/0/pattern/left"),
                                  ('\n\n"position": {"kind": "rope", "dims": 3}', 4, "/weights/0/position/dims"),
                                  ('"low_rank": {"kind": "svd", "rank": 5}', 2, "/weights/0/low_rank/rank"),
                                  ('"keep_heads": {"count": 2, "mass": 1}', 2, "/weights/0/keep_heads")):
        path = os.path.join(folder, "wrong.json")
        with open(path, "w", encoding="utf-8") as file:
            file.write('{"weights": [\n{"name": "a", "source": "numpy", "d_model": 16, "num_heads": 4, %s}]}' % member)
        done = subprocess.run([binary, "--config", path, "--check-config"], capture_output=True, encoding="utf-8", timeout=60, check=False)
        said = done.stdout + done.stderr
        check(done.returncode == 2 and "%s:%d: %s: " % (path, line, pointer) in said, pointer, "exit %d, said: %s" % (done.returncode, said[:300]))


def serve(binary, folder, sets):
    token = os.path.join(folder, "token")
    with open(token, "w", encoding="utf-8") as file:
        file.write("secret\n")
    path = os.path.join(folder, "attnd.json")
    with open(path, "w", encoding="utf-8") as file:
        json.dump({"admin": {"token_file": token}, "weights": sets}, file)
    return Attnd(binary, ["--config", path])


def put(server, name, numbers, headers=None):
    return server.request("PUT", "/v1/weights/%s/head_importance" % name, json.dumps(numbers), headers or TOKEN)


def used(server, name="chooses", **members):
    reply = server.post("/v1/forward", {"weights": name, "input": rows(3), "return": ["output"], **members})
    return json.loads(reply.body).get("heads_used") if reply.status == 200 else (reply.status, json.loads(reply.body).get("pointer"))


def check_importance(binary, folder):
    chooses = {"count": 1, "by": "importance"}
    sets = [numpy_set("chooses", keep_heads=chooses), numpy_set("stored", head_importance=[0.5, 0.1, 2, 0]), numpy_set("other")]
    with serve(binary, folder, sets) as server:
        check(used(server) == (422, "/keep_heads/by"), "nothing is stored", used(server))
        check(used(server, "stored", keep_heads=chooses) == [0, 0, 1, 0], "configured numbers", used(server, "stored", keep_heads=chooses))
        for wanted, numbers, headers in ((401, [1, 2, 3, 4], {"Content-Type": "application/json"}), (422, [1, 2, 3], None), (422, [1, 2, 3, -4], None), (422, {}, None),
                                         (422, [[1, 2, 3, 4], [1, 2, 3, 4]], None)):
            check(put(server, "chooses", numbers, headers).status == wanted, "PUT %r" % (numbers,), "is not %d" % wanted)
        check(put(server, "nobody", [1]).status == 404, "PUT to no set", "is not 404")
        check(used(server) == (422, "/keep_heads/by"), "nothing was stored", used(server))
        for head in (2, 0, 3):
            numbers = [int(h == head) for h in range(4)]
            reply = put(server, "chooses", numbers if head else [numbers])
            check(reply.status == 200 and json.loads(reply.body)["head_importance"] == numbers, "PUT", reply.body[:200])
            check(used(server) == numbers, "after PUT", used(server))
            check(json.loads(server.request("GET", "/v1/weights/chooses").body)["head_importance"] == numbers, "GET after PUT", "other numbers")
        check(put(server, "stored", [9, 0, 0, 0]).status == 200 and used(server, "stored", keep_heads=chooses) == [1, 0, 0, 0], "PUT over configured numbers", "has no effect")
        server.reload()
        check(used(server) == (422, "/keep_heads/by"), "after SIGHUP", used(server))
        check(used(server, "stored", keep_heads=chooses) == [0, 0, 1, 0], "configured numbers after SIGHUP", "are not back")
        put(server, "chooses", [0, 1, 0, 0])
        check(server.request("POST", "/v1/weights/other/reload", "", TOKEN).status == 200 and used(server) == [0, 1, 0, 0], "reload of another set", "takes numbers away")
        check(server.request("POST", "/v1/weights/chooses/reload", "", TOKEN).status == 200 and used(server) == (422, "/keep_heads/by"), "reload", "leaves numbers")
        storm(server)
    with Attnd(binary) as server:
        check(put(server, "demo", [1] * 8).status == 404, "PUT without admin routes", "is not 404")


def storm(server):
    """Numbers are put while requests go by them: each answer is one of two."""
    put(server, "chooses", [1, 0, 0, 0])
    over, answers = threading.Event(), []

    def ask():
        while not over.is_set():
            answers.append(used(server))

    askers = [threading.Thread(target=ask) for _ in range(3)]
    for thread in askers:
        thread.start()
    for i in range(60):
        put(server, "chooses", [i % 2, 1 - i % 2, 0, 0])
    over.set()
    for thread in askers:
        thread.join()
    wrong = [a for a in answers if a not in ([1, 0, 0, 0], [0, 1, 0, 0])]
    check(answers and not wrong, "while numbers are put", wrong[:3])


def counted(server, name):
    stats = json.loads(server.request("GET", "/v1/heads/stats?weights=" + name).body)
    return stats["n_sequences"], stats["n_skipped"]


def check_live(binary, folder):
    """Traffic under the set's own rules is counted, under the request's not."""
    sets = [numpy_set("window", causal=True, pattern={"kind": "window", "left": 1, "right": 0}), numpy_set("nystrom", low_rank={"kind": "nystrom", "landmarks": 2}), numpy_set("plain")]
    with serve(binary, folder, sets) as server:
        for members in ({}, {"causal": True}, {"causal": False}, {"pattern": None}, {"pattern": {"kind": "window", "left": 1, "right": 0}}, {"dropout": None}):
            check(server.post("/v1/forward", {"weights": "window", "input": rows(4), **members}).status == 200, "window", members)
        check(counted(server, "window") == (2, 4), "live statistics of window", counted(server, "window"))
        for members in ({}, {"low_rank": None}):
            check(server.post("/v1/forward", {"weights": "nystrom", "input": rows(4), **members}).status == 200, "nystrom", members)
        check(counted(server, "nystrom") == (0, 2), "live statistics of nystrom", counted(server, "nystrom"))
        for members in ({}, {"causal": True}, {"position": {"kind": "none"}}, {"compare": "full"}, {"position_ids": [0, 1, 2, 3]}):
            check(server.post("/v1/forward", {"weights": "plain", "input": rows(4), **members}).status == 200, "plain", members)
        check(counted(server, "plain") == (2, 3), "live statistics of plain", counted(server, "plain"))


def check_together(binary, folder):
    """Requests of a set with rules are computed together: each as it is alone, whatever the others ask."""
    sets = [numpy_set("window", causal=True, pattern={"kind": "window", "left": 2, "right": 0}, keep_heads={"mass": 0.6})]
    asked = [{"weights": "window", "input": rows(1 + i % 7), **({"pattern": None} if i % 5 == 4 else {"causal": False} if i % 5 == 3 else {})} for i in range(40)]
    essence = lambda body: {name: value for name, value in json.loads(body).items() if name != "timing_us"}
    with serve(binary, folder, sets) as server:
        alone, together = [essence(server.post("/v1/forward", a).body) for a in asked], [None] * len(asked)

        def ask(first):
            for i in range(first, len(asked), 8):
                together[i] = essence(server.post("/v1/forward", asked[i]).body)

        threads = [threading.Thread(target=ask, args=(first,)) for first in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for i, one in enumerate(alone):
            check(one == together[i], "request %d" % i, "differs in company")


def main():
    binary, config = sys.argv[1:]
    check_examples(binary, config)
    with tempfile.TemporaryDirectory() as folder:
        for part in (check_faults, check_importance, check_live, check_together):
            part(binary, folder)
    print("\n".join(faults) or "rules of weight sets: no fault")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
