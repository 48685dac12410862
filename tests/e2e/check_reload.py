"""Reloads of the running executable under load: every answer is compared, none may be lost. Weights files are replaced, cut short and written
to while they are read, configurations are broken and mended, sets come and go. Usage: check_reload.py ATTND SECONDS SANITIZER"""
import json
import os
import random
import re
import struct
import sys
import tempfile
import threading
import time

from attnd_process import START_SECONDS, Attnd
from certificates import Authority, client

JSON = {"Content-Type": "application/json"}
NAMES = ("W_Q", "W_K", "W_V", "W_O")
TOKEN = {"Authorization": "Bearer secret"}


def expect(what, got, wanted):
    if got != wanted:
        raise SystemExit("%s: %r, expected %r" % (what, got, wanted))


def weights_bytes(seed, d_model):
    """A safetensors file of four [d_model, d_model] float32 matrices."""
    random_numbers = random.Random(seed)
    size = 4 * d_model * d_model
    header = json.dumps({name: {"dtype": "F32", "shape": [d_model, d_model], "data_offsets": [i * size, (i + 1) * size]} for i, name in enumerate(NAMES)}).encode()
    row = struct.pack("<%df" % d_model, *(random_numbers.uniform(-0.3, 0.3) for _ in range(d_model)))
    rows = b"".join(row[4 * (i % d_model):] + row[:4 * (i % d_model)] for i in range(4 * d_model))
    return struct.pack("<Q", len(header)) + header + rows


def put(path, content):
    """Whole or not at all."""
    with open(path + ".new", "wb") as file:
        file.write(content if isinstance(content, bytes) else json.dumps(content).encode())
    os.rename(path + ".new", path)


def entry(name, d_model=64, **members):
    return {"name": name, "source": "safetensors", "path": name + ".safetensors", "d_model": d_model, "num_heads": 8, "tensors": {n: n for n in NAMES}, **members}


def body(tokens):
    return json.dumps({"weights": "main", "input": [[(i * 7 + j) % 13 / 13 for j in range(64)] for i in range(tokens)], "return": ["output"]})


BODIES = [body(2), body(3), body(40), body(400)]


def essence(text):
    """An answer without its times."""
    return re.sub(rb',"timing_us":\{[^}]*\}', b"", text)


class Load:
    """Clients that post, and what went wrong."""

    def __init__(self, server, references):
        self.server, self.references, self.faults, self.answers, self.seen, self.stop = server, references, [], 0, set(), threading.Event()
        self.threads = [threading.Thread(target=self.run, args=(i,)) for i in range(4)]

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.stop.set()
        for thread in self.threads:
            thread.join()
        if self.faults:
            raise SystemExit("%d answers of %d are wrong, such as: %s" % (len(self.faults), self.answers, self.faults[0]))

    def run(self, number):
        connection = self.server.connect()
        i = number
        while not self.stop.is_set():
            i += 1
            which = i % len(BODIES)
            try:
                connection.request("POST", "/v1/forward", BODIES[which], JSON)
                answer = connection.getresponse()
                text = answer.read()
            except OSError as error:
                self.faults.append(repr(error))
                return
            self.answers += 1
            if answer.status != 200:
                self.faults.append("%d %r" % (answer.status, text[:300]))
                continue
            digest = re.search(rb'"digest":"([0-9a-f]+)"', text).group(1)
            self.seen.add(digest)
            if essence(text) != self.references[digest][which]:
                self.faults.append("other numbers with %s" % digest)
            if i % 5 == 0: # the set that comes and goes
                connection.request("POST", "/v1/forward", BODIES[0].replace("main", "extra"), JSON)
                answer = connection.getresponse()
                text = answer.read()
                if answer.status not in (200, 404):
                    self.faults.append("extra: %d %r" % (answer.status, text[:300]))
        connection.close()


def references(binary, folder, versions):
    """What a server that never reloads answers, by digest."""
    known = {}
    for content in versions:
        put(os.path.join(folder, "main.safetensors"), content)
        with Attnd(binary, ["--config", os.path.join(folder, "config.json")]) as server:
            answers = [essence(server.request("POST", "/v1/forward", text, JSON).body) for text in BODIES]
        known[re.search(rb'"digest":"([0-9a-f]+)"', answers[0]).group(1)] = answers
    return known


def under_load(binary, folder, seconds):
    path, main = os.path.join(folder, "config.json"), os.path.join(folder, "main.safetensors")
    plain = {"default_weights": "main", "weights": [entry("main")], "admin": {"token_file": "token"}}
    more = {**plain, "weights": [{"name": "extra", "source": "numpy", "d_model": 64, "num_heads": 8}, entry("main")], "compression": {"level": 3}}
    versions = [weights_bytes(seed, 64) for seed in (1, 2)]
    put(os.path.join(folder, "token"), b"secret\n")
    put(path, plain)
    known = references(binary, folder, versions)
    expect("digests", len(known), 2)
    put(main, versions[0])
    choose = random.Random(3)
    with Attnd(binary, ["--config", path]) as server, Load(server, known) as load:
        until, turn, failures = time.monotonic() + seconds, 0, 0
        at_last = until + START_SECONDS
        while time.monotonic() < until or turn < 8 or (load.seen != set(known) and not load.faults and time.monotonic() < at_last):
            turn += 1
            good = versions[turn % 2]
            put(main, good)
            put(path, more if turn % 3 == 0 else plain)
            server.process.send_signal(1)
            if turn % 2:
                reply = server.request("POST", "/v1/weights/main/reload", headers=TOKEN)
                expect("a reload of one (%s)" % reply.body, reply.status, 200)
            # Written to in place, and cut short, while it is read.
            reader = threading.Thread(target=lambda: server.request("POST", "/v1/weights/main/reload", headers=TOKEN))
            reader.start()
            with open(main, "r+b") as file:
                file.truncate(choose.randrange(len(good)))
                server.process.send_signal(1)
                file.seek(choose.randrange(len(good)))
                file.write(b"\xff" * 100)
            reader.join()
            for wrong in (good[:-1], good[:7], b"", b"\xff" * 200, good[:8] + b"x" * 100):
                put(main, wrong)
                reply = server.request("POST", "/v1/weights/main/reload", headers=TOKEN)
                expect("a file that is broken (%s)" % reply.body, (reply.status, b"main.safetensors" in reply.body, folder.encode() in reply.body), (422, True, False))
                failures += 1
            put(path, b'{"weights": [{"name": 3}]}')
            server.process.send_signal(1)
            os.remove(main)
            server.process.send_signal(1)
            put(main, good)
            put(path, plain)
            time.sleep(0.01)
        put(main, versions[0])
        server.reload()
        expect("the last version", server.request("GET", "/v1/weights/main").status, 200)
    expect("versions that were served", load.seen, set(known))
    print("reload: %d turns, %d broken files, %d answers, all right" % (turn, failures, load.answers))


def rss(server):
    return int(re.search(r"VmRSS:\s+(\d+) kB", open("/proc/%d/status" % server.process.pid).read()).group(1)) << 10


def settled(server, limit):
    """The memory once it is below `limit`: an old copy may be held a moment longer than the reload takes."""
    until = time.monotonic() + START_SECONDS
    while rss(server) >= limit and time.monotonic() < until:
        time.sleep(0.01)
    return rss(server)


def nothing_is_left(binary, folder):
    """Old copies go: the process does not grow with reloads, nor hold more than two copies while one is in use."""
    d_model = 1024
    copy = 4 * 4 * d_model * d_model
    path, file = os.path.join(folder, "config.json"), os.path.join(folder, "large.safetensors")
    put(path, {"default_weights": "large", "weights": [entry("large", d_model)]})
    versions = [weights_bytes(seed, d_model) for seed in (5, 6)]
    put(file, versions[0])
    with Attnd(binary, ["--config", path]) as server:
        sizes = []
        for turn in range(12):
            put(file, versions[turn % 2])
            lines = server.reload()
            expect("loaded", lines[-1].get("loaded"), ["large"] if turn else [])
            sizes.append(settled(server, sizes[1] + copy) if turn > 2 else rss(server))
        expect("memory after each (%s, a copy is %d)" % (sizes, copy), max(sizes[3:]) - sizes[1] < copy, True)


def budget(binary, folder):
    """A second copy that does not fit is refused, with what it needs."""
    path = os.path.join(folder, "config.json")
    config = {"weights": [entry("large", 512)], "limits": {"memory_budget_bytes": 7 << 20}, "server": {"workers": 1}, "admin": {"token_file": "token"}}
    put(os.path.join(folder, "token"), b"secret\n")
    put(path, config)
    put(os.path.join(folder, "large.safetensors"), weights_bytes(7, 512))
    with Attnd(binary, ["--config", path]) as server:
        digest = json.loads(server.request("GET", "/v1/weights/large").body)["digest"]
        put(os.path.join(folder, "large.safetensors"), weights_bytes(8, 512))
        reply = server.request("POST", "/v1/weights/large/reload", headers=TOKEN)
        expect("no room (%s)" % reply.body, (reply.status, b"limits.memory_budget_bytes" in reply.body), (422, True))
        lines = server.reload()
        expect("nor by SIGHUP", any("limits.memory_budget_bytes" in line.get("message", "") for line in lines), True)
        expect("the old one stays", json.loads(server.request("GET", "/v1/weights/large").body)["digest"], digest)


def what_changes(binary, folder):
    """Each setting that can change does, with the next request; the others are named."""
    path = os.path.join(folder, "config.json")
    put(path, {})
    with Attnd(binary, ["--config", path]) as server:
        small = json.dumps({"input": [[0.5] * 64] * 8})
        expect("a forward", server.post("/v1/forward", json.loads(small)).status, 200)
        put(path, {"limits": {"max_body_bytes": 100}})
        server.reload()
        expect("over the new limit", server.request("POST", "/v1/forward", small, JSON).status, 413)
        put(path, {"live": {"sample_rate": 0}, "log": {"level": "error"}, "server": {"workers": 77, "io_threads": 9}, "limits": {"queue_depth": 3}})
        server.process.send_signal(1)
        until = time.monotonic() + START_SECONDS
        while json.loads(server.request("GET", "/v1/heads/stats").body)["n_rows"] or server.request("POST", "/v1/forward", small, JSON).status != 200:
            expect("the end of the limit", time.monotonic() < until, True)
        expect("without statistics", json.loads(server.request("GET", "/v1/heads/stats").body)["n_rows"], 0)
        expect("a forward", server.request("POST", "/v1/forward", small, {**JSON, "x-request-id": "not-logged"}).status, 200)
        put(path, {"server": {"workers": 77, "io_threads": 9}, "limits": {"queue_depth": 3}})
        server.reload()
        expect("nothing below the level was logged", [line for line in server.log if "not-logged" in line], [])
        named = [line["unchanged"] for line in map(json.loads, server.log) if "unchanged" in line]
        expect("what cannot change", named[-1], ["server.io_threads", "server.workers", "limits.queue_depth"])
        put(path, {"weights": [{"name": "other", "source": "numpy", "d_model": 32, "num_heads": 4}], "default_weights": "other"})
        server.reload()
        expect("other sets", [s["name"] for s in json.loads(server.request("GET", "/v1/weights").body)["weights"]], ["other"])
        expect("the default", server.post("/v1/forward", {"input": [[0.5] * 32]}).status, 200)
        expect("a set that is gone", server.post("/v1/forward", {"weights": "demo", "input": [[0.5] * 64]}).status, 404)
        expect("statistics of /v2", len(json.loads(server.request("GET", "/v2/models/stats").body)["model_stats"]), 1)
        put(path, b"{")
        lines = server.reload()
        expect("the fault and its place", any("config.json:1:" in line.get("message", "") for line in lines), True)
        expect("the default stays", server.post("/v1/forward", {"input": [[0.5] * 32]}).status, 200)


def one_that_need_not_load(binary, folder):
    """A set that failed at the start comes when its file does, and until then a reload of it says why it does not."""
    path, file = os.path.join(folder, "config.json"), os.path.join(folder, "late.safetensors")
    put(os.path.join(folder, "token"), b"secret\n")
    put(path, {"weights": [entry("late", required=False)], "default_weights": "late", "admin": {"token_file": "token"}})

    def state():
        return json.loads(server.request("GET", "/v1/weights/late").body)["state"]

    with Attnd(binary, ["--config", path]) as server:
        expect("at the start", state(), "failed")
        reply = server.request("POST", "/v1/weights/late/reload", headers=TOKEN)
        expect("without a file (%s)" % reply.body, (reply.status, b"late.safetensors" in reply.body), (422, True))
        lines = server.reload()
        expect("SIGHUP says it, and goes on", [(line["event"], line.get("loaded")) for line in lines[-2:]], [("configuration", None), ("reload", [])])
        put(file, weights_bytes(1, 64))
        expect("with one", (server.request("POST", "/v1/weights/late/reload", headers=TOKEN).status, state()), (200, "ready"))
        expect("as the default", server.post("/v1/forward", {"input": [[0.5] * 64]}).status, 200)
        os.remove(file)
        lines = server.reload()
        expect("it is not given up", (state(), lines[-1]["message"][:19]), ("ready", "nothing was changed"))


def pipes(binary, folder):
    """What stands in a file's place may be a pipe that nobody writes into: nothing waits for it, neither the reload nor the end."""
    authority = Authority(folder, "authority")
    certificate, key = authority.sign("shown", "serverAuth")
    path, token, main = (os.path.join(folder, name) for name in ("config.json", "token", "main.safetensors"))
    put(token, b"secret\n")
    put(main, weights_bytes(1, 64))
    put(path, {"default_weights": "main", "weights": [entry("main")], "admin": {"token_file": "token"},
               "tls": {"cert_file": certificate, "key_file": key, "client_ca_file": authority.certificate}})
    with Attnd(binary, ["--config", path], tls=client(authority, (certificate, key))) as server:
        for file in (certificate, key, authority.certificate, token, main, path):
            kept = file + ".kept"
            os.rename(file, kept)
            os.mkfifo(file)
            lines = server.reload()
            expect("with a pipe as %s (%s)" % (file, lines), any(os.path.basename(file) in line.get("message", "") for line in lines), True)
            expect("the old state", server.request("GET", "/v1/weights/main").status, 200)
            os.rename(kept, file)
            expect("and then (%s)" % file, server.reload()[-1].get("weight_sets"), 1)
        os.rename(token, token + ".kept")
        os.mkfifo(token)
        server.process.send_signal(1)


def live_statistics_go_on(binary, folder):
    """With the same weights they stay, with others they begin with nothing."""
    path, main = os.path.join(folder, "config.json"), os.path.join(folder, "main.safetensors")
    put(path, {"default_weights": "main", "weights": [entry("main")]})
    put(main, weights_bytes(1, 64))

    def rows(server):
        return json.loads(server.request("GET", "/v1/heads/stats").body)["n_rows"]

    with Attnd(binary, ["--config", path]) as server:
        for _ in range(3):
            server.post("/v1/forward", {"input": [[0.5] * 64] * 4})
        expect("rows", rows(server), 12)
        server.reload()
        expect("the same weights", rows(server), 12)
        put(main, weights_bytes(2, 64))
        server.reload()
        expect("others", rows(server), 0)


def main():
    binary, seconds, sanitized = sys.argv[1], float(sys.argv[2]), sys.argv[3] != "none"
    checks = [what_changes, one_that_need_not_load, live_statistics_go_on, pipes, budget, lambda b, f: under_load(b, f, seconds)]
    if not sanitized: # those keep for a while what was freed
        checks.append(nothing_is_left)
    for check in checks:
        with tempfile.TemporaryDirectory() as folder:
            check(binary, folder)
    print("reload: right")


if __name__ == "__main__":
    main()
