#!/usr/bin/env python3
"""Holds GET /metrics to what was really asked of the server. usage: check_metrics.py BINARY

It reads both formats by itself; tests/clients/test_metrics.py does it with Prometheus's own parser. `promtool check metrics` must have
nothing to say where there is a promtool (Debian's package prometheus), and CI has one."""
import base64
import gzip
import http.client
import json
import math
import os
import random
import re
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from attnd_process import Attnd  # noqa: E402

TEXT, OPEN = "text/plain; version=0.0.4; charset=utf-8", "application/openmetrics-text; version=1.0.0; charset=utf-8"
SAMPLE = re.compile(r'([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{((?:[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\]|\\.)*",?)*)\})? (\S+)( # \{.*\} \S+ \S+)?')
LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\]|\\.)*)"')
FORWARD = "/v1/forward"
TOKEN = "token-of-the-test"
ADMIN = {"Authorization": "Bearer " + TOKEN}
faults, checks = [], 0


def check(right, text):
    global checks
    checks += 1
    if not right:
        faults.append(text)
    return right


class Scrape:
    """samples: {(name, ((label, value), ...)): value}; types: {family: type}; exemplars: [(key, text)]"""

    def __init__(self, text, place=""):
        self.samples, self.types, self.exemplars = {}, {}, []
        seen = set()
        family = None
        for line in text.split("\n"):
            if line.startswith("# TYPE "):
                family, kind = line.split(" ")[2:]
                check(family not in seen, "%s: the family %s comes twice" % (place, family))
                seen.add(family)
                self.types[family] = kind
            if not line or line.startswith("#"):
                continue
            found = SAMPLE.fullmatch(line)
            if not check(found, "%s: no sample: %r" % (place, line)):
                continue
            name, labels, value, exemplar = found.groups()
            key = (name, tuple(LABEL.findall(labels or "")))
            check(family and name.startswith(family), "%s: %s stands in the family %s" % (place, name, family))
            check(key not in self.samples, "%s: %s comes twice" % (place, key))
            self.samples[key] = float(value)
            if exemplar:
                self.exemplars.append((key, exemplar))

    def value(self, name, **labels):
        wanted = set(labels.items())
        return sum(value for (n, own), value in self.samples.items() if n == name and wanted <= set(own))

    def has(self, name, **labels):
        wanted = set(labels.items())
        return any(n == name and wanted <= set(own) for n, own in self.samples)

    def grow_only(self):
        """What must never fall."""
        return {key: value for key, value in self.samples.items() if re.search(r"_(total|bucket|count|sum)$", key[0])}


def scrape(server, accept=None, connection=None):
    if connection:
        connection.request("GET", "/metrics")
        answer = connection.getresponse()
        return Scrape(answer.read().decode(), "scrape")
    reply = server.request("GET", "/metrics", headers={"Accept": accept} if accept else {})
    check(reply.status == 200, "GET /metrics: %d" % reply.status)
    return Scrape(reply.body.decode(), accept or "scrape")


def tensor(batch=1, rows=4, d_model=64, seed=0):
    draw = random.Random(seed)
    return [[[draw.gauss(0, 1) for _ in range(d_model)] for _ in range(rows)] for _ in range(batch)]


def forward(server, x, **members):
    reply = server.post(FORWARD, {"input": x, **members})
    check(reply.status == 200, "forward: %d %r" % (reply.status, reply.body[:200]))


def eventually(condition, text):
    """A request is counted when its connection is done with it, which may be just behind the client's reading."""
    until = time.monotonic() + 60
    while not condition():
        if time.monotonic() > until:
            check(False, text)
            return
        time.sleep(0.01)
    check(True, text)


def at_rest(server, connection=None):
    """A scrape by which all requests before it are counted."""
    found = [scrape(server, connection=connection)]

    def rests():
        found.append(scrape(server, connection=connection))
        return found[-1].value("attnd_in_flight") == 0
    eventually(rests, "requests are in flight for ever")
    return found[-1]


# ---- the form

ACCEPTS = [
    (None, TEXT), ("*/*", TEXT), ("text/plain", TEXT), ("text/*", TEXT), ("application/*", TEXT), ("application/json", TEXT), ("", TEXT),
    ("application/openmetrics-text", OPEN), ("application/openmetrics-text; version=1.0.0", OPEN),
    ("application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.3,*/*;q=0.1", OPEN),
    ("application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,application/openmetrics-text;version=0.0.1;q=0.5,"
     "text/plain;version=1.0.0;escaping=allow-utf-8;q=0.4,text/plain;version=0.0.4;q=0.3,*/*;q=0.2", OPEN),
    ("application/openmetrics-text;q=0.3,text/plain;q=0.5", TEXT), ("text/plain;q=0.3, application/openmetrics-text;q=0.5", OPEN),
    ("application/openmetrics-text;q=0, */*", TEXT), ("application/openmetrics-text; version=0.0.1, text/plain;q=0.5", TEXT),
    ("application/openmetrics-text; version=2.0.0", TEXT), ("application/openmetrics-text; version=\"1.0.0\"", TEXT),
    ("APPLICATION/OPENMETRICS-TEXT", OPEN), ("*/*, application/openmetrics-text", OPEN), ("text/plain, application/openmetrics-text", TEXT),
]


def check_form(server):
    for accept, wanted in ACCEPTS:
        reply = server.request("GET", "/metrics", headers={} if accept is None else {"Accept": accept})
        check(reply.headers.get("content-type") == wanted, "Accept %r: %s" % (accept, reply.headers.get("content-type")))
        text = reply.body.decode()
        check(text.endswith("\n# EOF\n") == (wanted == OPEN), "Accept %r: ends with %r" % (accept, text[-20:]))
        check("\n# UNIT " in text if wanted == OPEN else "\n# UNIT " not in text, "Accept %r: units" % accept)
        Scrape(text, "Accept %r" % accept)
    head = server.request("HEAD", "/metrics")
    check(head.status == 200 and not head.body and head.headers.get("content-type") == TEXT, "HEAD: %d" % head.status)
    packed = server.request("GET", "/metrics", headers={"Accept-Encoding": "gzip"})
    check(packed.headers.get("content-encoding") == "gzip", "it is compressed")
    check(b"attnd_requests_total" in gzip.decompress(packed.body), "and can be read")
    check("accept-encoding" in packed.headers.get("vary", "").lower() and "accept" in packed.headers["vary"].lower(), "Vary")
    for method in ("POST", "PUT", "DELETE"):
        check(server.request(method, "/metrics", "").status == 405, "%s /metrics is 405" % method)
    text, opened = scrape(server), scrape(server, OPEN)
    for family, kind in text.types.items():
        bare = re.sub("_(total|info)$", "", family)
        wanted = "info" if opened.types.get(bare) == "info" else opened.types.get(bare)
        check(wanted == kind or (wanted == "info" and kind == "gauge"), "%s is %s here and %s there" % (family, kind, wanted))
    check({key[0] for key in text.samples} == {key[0] for key in opened.samples}, "both formats have the same series")


def check_promtool(server):
    promtool = shutil.which("promtool")
    if not promtool:
        check(os.environ.get("CI") != "true", "there is no promtool")
        print("note: no promtool here (Debian: prometheus), it was not asked")
        return
    text = server.request("GET", "/metrics").body
    done = subprocess.run([promtool, "check", "metrics"], input=text, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60, check=False)
    check(done.returncode == 0 and not done.stdout, "promtool: %d %s" % (done.returncode, done.stdout.decode()))


# ---- counts

def check_counts(server):
    x = tensor()
    small = json.dumps({"input": x})
    stats = json.dumps({"attention": [[[[1.0]]]]})
    asked = [  # method, path, body, code, pattern, method's label, reason
        ("POST", FORWARD, small, 200, FORWARD, "POST", None),
        ("POST", FORWARD, small, 200, FORWARD, "POST", None),
        ("POST", FORWARD, "{", 400, FORWARD, "POST", "not-json"),
        ("POST", FORWARD, json.dumps({"input": [[[1]]]}), 422, FORWARD, "POST", "invalid"),
        ("POST", FORWARD, json.dumps({"input": x, "weights": "unheard-of-set"}), 404, FORWARD, "POST", "unknown-weights"),
        ("POST", FORWARD, json.dumps({"input": x, "a": 1, "a-member-of-nothing": 2}), 422, FORWARD, "POST", "unknown-member"),
        ("GET", FORWARD, None, 405, FORWARD, "GET", "method-not-allowed"),
        ("BREW", FORWARD, None, 405, FORWARD, "other", "method-not-allowed"),
        ("PUT", "/no/such/path", "", 404, "other", "PUT", "unknown-route"),
        ("GET", "/no/such/path?x=1", None, 404, "other", "GET", "unknown-route"),
        ("POST", "/v1/heads/stats", stats, 200, "/v1/heads/stats", "POST", None),
        ("GET", "/v1/heads/stats", None, 200, "/v1/heads/stats", "GET", None),
        ("GET", "/v1/weights/demo", None, 200, "/v1/weights/{name}", "GET", None),
        ("GET", "/v1/weights/no-such-set", None, 404, "/v1/weights/{name}", "GET", "unknown-weights"),
        ("HEAD", "/healthz", None, 200, "/healthz", "HEAD", None),
        ("GET", "/readyz", None, 200, "/readyz", "GET", None),
        ("POST", "/v1/heads/reset?weights=demo", "", 401, "/v1/heads/reset", "POST", "unauthorized"),
    ]
    host, port = server.address.rsplit(":", 1)
    connection = http.client.HTTPConnection(host, int(port), timeout=60)
    before = at_rest(server, connection)
    for method, path, body, code, *_ in asked:
        connection.request(method, path, body, {"Content-Type": "application/json"} if body else {})
        answer = connection.getresponse()
        answer.read()
        check(answer.status == code, "%s %s: %d" % (method, path, answer.status))
    after = scrape(server, connection=connection)
    connection.close()

    def more(name, **labels):
        return after.value(name, **labels) - before.value(name, **labels)
    for key in {(pattern, label, code) for _, _, _, code, pattern, label, _ in asked}:
        wanted = sum((r[4], r[5], r[3]) == key for r in asked)
        got = more("attnd_requests_total", route=key[0], method=key[1], code=str(key[2]))
        check(got == wanted, "requests_total of %s: %g, not %d" % (key, got, wanted))
    check(more("attnd_requests_total") == len(asked) + 1, "the scrape before is the only other request")
    for pattern in {r[4] for r in asked}:
        wanted = sum(r[4] == pattern for r in asked)
        check(more("attnd_request_duration_seconds_count", route=pattern) == wanted, "durations of " + pattern)
    reasons = [r[6] for r in asked if r[6]]
    for reason in set(reasons):
        check(more("attnd_rejected_total", reason=reason) == reasons.count(reason), "rejected: " + reason)
    check(more("attnd_rejected_total") == len(reasons), "rejected in all")
    check(more("attnd_tokens_total") == 9, "tokens: %g" % more("attnd_tokens_total"))  # two forwards of 4, a map of 1
    check(more("attnd_sequences_total") == 3, "sequences")
    check(more("attnd_compute_seconds_count") == 3, "computed: %g" % more("attnd_compute_seconds_count"))
    check(more("attnd_batch_requests_count") == 3 and more("attnd_batch_requests_sum") == 3, "batches of one")
    for stage in ("compute", "encode", "queue"):
        check(more("attnd_request_stage_seconds_count", stage=stage) == 3, "stage " + stage)
    check(more("attnd_request_stage_seconds_count", stage="send") == len(asked) + 1, "stage send")
    sent = sum(len(r[2]) for r in asked if r[2])
    check(more("attnd_request_body_bytes_total") == sent, "bytes in: %g, not %d" % (more("attnd_request_body_bytes_total"), sent))
    check(after.value("attnd_in_flight") == 0, "in flight without the scrape")
    eventually(lambda: scrape(server).value("attnd_workers_busy") == 0, "busy without the scrape")
    text = server.request("GET", "/metrics").body.decode()
    for word in ("such", "unheard", "BREW", "member-of-nothing"):
        check(word not in text, "%s of a request stands in a label" % word)
    return after


def check_histograms(found):
    """Buckets add up, and the sum is one that they allow."""
    groups = {}
    for (name, labels), value in found.samples.items():
        if name.endswith("_bucket"):
            bound = math.inf if dict(labels)["le"] == "+Inf" else float(dict(labels)["le"])
            rest = tuple(label for label in labels if label[0] != "le")
            groups.setdefault((name[:-7], rest), []).append((bound, value))
    check(len(groups) > 5, "there are histograms")
    for (name, labels), buckets in groups.items():
        buckets.sort()
        counts = [value for _, value in buckets]
        place = "%s%s" % (name, labels)
        check(counts == sorted(counts), place + ": buckets fall")
        check(buckets[-1][0] == math.inf and counts[-1] == found.samples[(name + "_count", labels)], place + ": +Inf is the count")
        total = found.samples[(name + "_sum", labels)]
        each = [value - below for value, below in zip(counts, [0] + counts)]
        least = sum(n * bound for n, bound in zip(each[1:], [bound for bound, _ in buckets]))
        most = sum(n * bound for n, (bound, _) in zip(each, buckets) if n)
        check(least * (1 - 1e-9) <= total <= most * (1 + 1e-9), "%s: sum %g, not within %g and %g" % (place, total, least, most))
        if "seconds" in name:
            check((buckets[0][0], buckets[-2][0]) == (5e-5, 60), place + ": from 50 us to 60 s")


def check_clients_that_leave(server):
    before = at_rest(server)
    host, port = server.address.rsplit(":", 1)
    with socket.create_connection((host, int(port))) as s:
        s.sendall(b"POST /v1/forward HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\n{")
        time.sleep(0.05)

    def counted():
        now = scrape(server)
        return (now.value("attnd_client_gone_total") - before.value("attnd_client_gone_total") == 1 and
                now.value("attnd_requests_total", route=FORWARD, code="499") - before.value("attnd_requests_total", route=FORWARD, code="499") == 1)
    eventually(counted, "a client that leaves is counted, with 499")


def check_work(server):
    """Workers' time: a heavy request keeps one or more of them busy for as long as it computes."""
    before = at_rest(server)
    forward(server, tensor(1, 512), weights="demo", **{"return": ["output"]}, encoding="base64")
    forward(server, tensor(1, 512), weights="demo", **{"return": ["output"]}, encoding="base64")

    def busy():
        now = scrape(server)
        compute = now.value("attnd_compute_seconds_sum") - before.value("attnd_compute_seconds_sum")
        return (now.value("attnd_compute_seconds_count") - before.value("attnd_compute_seconds_count") == 2 and compute > 0 and
                now.value("attnd_worker_busy_seconds_total") - before.value("attnd_worker_busy_seconds_total") >= compute * 0.999)
    eventually(busy, "workers are busy while they compute")
    now = scrape(server)
    check(now.value("attnd_workers") == 2 and now.value("attnd_queue_capacity") == 256 and now.value("attnd_queue_depth") == 0, "the pool")
    check(0 < now.value("attnd_memory_budget_used_bytes") < now.value("attnd_memory_budget_bytes"), "live statistics are in the budget")


def check_exemplars(server):
    trace = "%032x" % random.getrandbits(128)
    server.request("POST", FORWARD, json.dumps({"input": tensor()}),
                   {"Content-Type": "application/json", "traceparent": "00-%s-00f067aa0ba902b7-01" % trace})
    unsampled = "%032x" % random.getrandbits(128)
    server.request("POST", FORWARD, json.dumps({"input": tensor()}),
                   {"Content-Type": "application/json", "traceparent": "00-%s-00f067aa0ba902b7-00" % unsampled})
    eventually(lambda: any(trace in text for _, text in scrape(server, OPEN).exemplars), "the trace is an exemplar")
    found = scrape(server, OPEN)
    for (name, labels), text in found.exemplars:
        value, at = map(float, text.rsplit("} ", 1)[1].split(" "))
        check(name == "attnd_request_duration_seconds_bucket", "an exemplar of %s" % name)
        check(0 < value <= float(dict(labels)["le"]) and abs(at - time.time()) < 300, "exemplar %s of %s" % (text, labels))
    check(not any(unsampled in text for _, text in found.exemplars), "a trace that is not sampled is none")
    check(not scrape(server).exemplars, "Prometheus text has no exemplars")


# ---- live statistics

STATISTICS = {  # statistic: its counter, and the rows it is a mean over
    "entropy": ("attnd_head_entropy_nats_total", "attnd_live_rows_total"),
    "normalized_entropy": ("attnd_head_normalized_entropy_total", "attnd_live_choosing_rows_total"),
    "effective_keys": ("attnd_head_effective_keys_total", "attnd_live_rows_total"),
    "distance": ("attnd_head_distance_tokens_total", "attnd_live_rows_total"),
    "confidence": ("attnd_head_confidence_total", "attnd_live_rows_total"),
    "hoyer": ("attnd_head_hoyer_total", "attnd_live_choosing_rows_total"),
    "previous_mass": ("attnd_head_previous_mass_total", "attnd_live_previous_rows_total"),
    "next_mass": ("attnd_head_next_mass_total", "attnd_live_next_rows_total"),
    "self_mass": ("attnd_head_self_mass_total", "attnd_live_self_rows_total"),
    "first_mass": ("attnd_head_first_mass_total", "attnd_live_first_rows_total"),
}
EVEN = {
    "uniform_distance": ("attnd_live_uniform_distance_tokens_total", "attnd_live_rows_total"),
    "uniform_previous_mass": ("attnd_live_uniform_previous_mass_total", "attnd_live_previous_rows_total"),
    "uniform_next_mass": ("attnd_live_uniform_next_mass_total", "attnd_live_next_rows_total"),
    "uniform_self_mass": ("attnd_live_uniform_self_mass_total", "attnd_live_self_rows_total"),
    "uniform_first_mass": ("attnd_live_uniform_first_mass_total", "attnd_live_first_rows_total"),
}


def near(got, wanted):
    return abs(got - wanted) <= 1e-6 * max(1, abs(wanted))


def expect_live(server, since, weights):
    """Means of the increases since a scrape are what GET stats says of the traffic since then, which was reset at it."""
    stats = json.loads(server.request("GET", "/v1/heads/stats?weights=" + weights).body)
    now = scrape(server)

    def more(name, **labels):
        return now.value(name, weights=weights, **labels) - since.value(name, weights=weights, **labels)
    check(more("attnd_live_rows_total") == stats["n_rows"] and stats["n_rows"] > 0, "rows: %g" % more("attnd_live_rows_total"))
    check(more("attnd_live_sequences_total") == stats["n_sequences"], "sequences")
    check(more("attnd_live_excluded_rows_total") == stats["n_excluded"], "excluded rows")
    check(more("attnd_live_skipped_sequences_total") == stats["n_skipped"], "skipped")
    for head in stats["heads"]:
        for statistic, (counter, rows) in STATISTICS.items():
            got = more(counter, layer="0", head=str(head["head"])) / more(rows, layer="0")
            check(near(got, head[statistic]), "%s of head %d: %r, not %r" % (statistic, head["head"], got, head[statistic]))
        for statistic, (counter, rows) in EVEN.items():
            got = more(counter, layer="0") / more(rows, layer="0")
            check(near(got, head[statistic]), "%s: %r, not %r" % (statistic, got, head[statistic]))
    similarity = json.loads(server.request("GET", "/v1/heads/similarity?metric=centered&weights=" + weights).body)
    for head, wanted in enumerate(similarity["redundancy"]):
        got = now.value("attnd_head_redundancy", weights=weights, layer="0", head=str(head))
        check(near(got, wanted), "redundancy of head %d: %r, not %r" % (head, got, wanted))
    return now


def expect_no_fall(before, after, place):
    later = after.grow_only()
    for key, value in before.grow_only().items():
        if not check(key in later and later[key] >= value, "%s: %s fell from %r to %r" % (place, key, value, later.get(key))):
            return


def reset(server, weights):
    check(server.request("POST", "/v1/heads/reset?weights=" + weights, "", ADMIN).status == 200, "reset")


def check_live(server):
    reset(server, "demo")
    since = scrape(server)
    for n, rows in enumerate((1, 2, 5, 17)):
        forward(server, tensor(2, rows, seed=n))
    forward(server, tensor(2, 6), attention_mask=[[1, 1, 1, 1, 0, 0], [1, 1, 1, 1, 1, 1]])
    forward(server, tensor(), causal=True)  # another rule than the set's own: skipped
    after = expect_live(server, since, "demo")
    reset(server, "demo")
    emptied = scrape(server)
    expect_no_fall(after, emptied, "reset")
    forward(server, tensor(1, 9, seed=9))
    expect_no_fall(emptied, expect_live(server, emptied, "demo"), "after a reset")


def write_layer(path, seed, d_model=8):
    draw = random.Random(seed)
    names, data = ["W_Q", "W_K", "W_V", "W_O"], b""
    header = {}
    for name in names:
        begin = len(data)
        data += struct.pack("<%df" % (d_model * d_model), *(draw.gauss(0, 1) for _ in range(d_model * d_model)))
        header[name] = {"dtype": "F32", "shape": [d_model, d_model], "data_offsets": [begin, len(data)]}
    text = json.dumps(header).encode()
    with open(path + ".new", "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)
    os.rename(path + ".new", path)


def check_reload(server, path):
    x = tensor(1, 5, 8)
    forward(server, x, weights="layer")
    before = scrape(server)
    check(before.value("attnd_live_rows_total", weights="layer") == 5, "rows of the first weights")
    write_layer(path, 2)
    check(server.request("POST", "/v1/weights/layer/reload", "", ADMIN).status == 200, "reload")
    reloaded = scrape(server)
    expect_no_fall(before, reloaded, "reload")
    check(reloaded.value("attnd_weights_reloads_total", weights="layer") == 1, "the reload is counted")
    digests = [{dict(labels)["digest"] for (name, labels) in s.samples if name == "attnd_weights_info" and dict(labels)["weights"] == "layer"}
               for s in (before, reloaded)]
    check(len(digests[0]) == len(digests[1]) == 1 and digests[0] != digests[1], "the digest is another: %s" % digests)
    forward(server, x, weights="layer")
    expect_no_fall(reloaded, expect_live(server, reloaded, "layer"), "other weights")
    with open(path, "wb") as file:
        file.write(b"broken")
    check(server.request("POST", "/v1/weights/layer/reload", "", ADMIN).status == 422, "a broken file")
    check(scrape(server).value("attnd_weights_reload_failures_total", weights="layer") == 1, "the failure is counted")


def check_configuration(server, path):
    """The configuration is read again: sets go and come back, and metrics.heads is another, while requests are counted on."""
    with open(path, encoding="utf-8") as file:
        text = file.read()
    config, before = json.loads(text), scrape(server)

    def put(document):
        with open(path + ".new", "w", encoding="utf-8") as file:
            json.dump(document, file)
        os.rename(path + ".new", path)
        server.reload()
        return scrape(server)
    found = put({**config, "weights": config["weights"][:1]})
    check(not found.has("attnd_weights_info", weights="layer") and not found.has("attnd_live_rows_total", weights="layer"), "a set that is gone")
    found = put({**config, "metrics": {"heads": "off"}})
    check(found.has("attnd_weights_info", weights="demo") and not found.has("attnd_live_rows_total"), "no heads any more")
    check(put({**config, "metrics": {"heads": "no such word"}}).value("attnd_reload_failures_total") == 1 + found.value("attnd_reload_failures_total"),
          "a fault is counted")
    after = put(config)
    check(after.value("attnd_reloads_total") - before.value("attnd_reloads_total") == 3, "reloads are counted")
    check(after.value("attnd_reload_success_timestamp_seconds") > before.value("attnd_reload_success_timestamp_seconds"), "and when")
    check(near(after.value("process_start_time_seconds"), before.value("process_start_time_seconds")), "it is the same process")
    gone = [key for key in before.samples if key[0].startswith("attnd_weights_reload") and ("weights", "layer") in key[1]]
    for key in gone:  # those of the set itself ended with it, and begin anew
        del before.samples[key]
    expect_no_fall(before, after, "reload of the configuration")
    forward(server, tensor(1, 5, 8), weights="layer")
    rows = scrape(server).value("attnd_live_rows_total", weights="layer") - before.value("attnd_live_rows_total", weights="layer")
    check(rows == 5, "a set that has come back counts on: %g" % rows)


# ---- under load

def check_load(server):
    """Many clients post, reset and scrape at once: no counter falls, and in the end all is counted."""
    before = at_rest(server)
    until, posted, errors = time.monotonic() + 3, [0] * 3, []

    def post(n):
        host, port = server.address.rsplit(":", 1)
        connection, body = http.client.HTTPConnection(host, int(port), timeout=60), json.dumps({"input": tensor(1, 2 + 7 * n, seed=n)})
        while time.monotonic() < until:
            connection.request("POST", FORWARD, body, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            answer.read()
            if answer.status != 200:
                errors.append("forward under load: %d" % answer.status)
                return
            posted[n] += 1
        connection.close()

    def watch(accept):
        last = before
        while time.monotonic() < until and not errors:
            now = scrape(server, accept)
            expect_no_fall(last if accept is None else Scrape(""), now, "under load")
            check_histograms(now)
            last = now

    def empty():
        while time.monotonic() < until:
            reset(server, "demo")
            time.sleep(0.01)
    threads = [threading.Thread(target=post, args=(n,)) for n in range(3)]
    threads += [threading.Thread(target=watch, args=(accept,)) for accept in (None, None, OPEN)] + [threading.Thread(target=empty)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    faults.extend(errors)
    eventually(lambda: scrape(server).value("attnd_requests_total", route=FORWARD, code="200") -
               before.value("attnd_requests_total", route=FORWARD, code="200") == sum(posted), "every forward is counted")
    now, rows = scrape(server), sum(n * r for n, r in zip(posted, (2, 9, 16)))
    check(now.value("attnd_tokens_total") - before.value("attnd_tokens_total") == rows, "every token is counted")
    counted = now.value("attnd_live_rows_total", weights="demo") - before.value("attnd_live_rows_total", weights="demo")
    check(counted == rows, "every row is counted, whatever was reset: %g, not %d" % (counted, rows))


def check_full_queue(binary):
    """Who watches is answered while the queue is full and its workers are busy."""
    with Attnd(binary, environment={"ATTND_SERVER_WORKERS": "1", "ATTND_LIMITS_QUEUE_DEPTH": "1"}) as server:
        zeros = base64.b64encode(bytes(4096 * 64 * 4)).decode()
        body = json.dumps({"input": {"shape": [1, 4096, 64], "dtype": "f32", "base64": zeros}, "return": ["output"], "encoding": "base64"})
        over = threading.Event()

        def post():
            while not over.is_set():
                server.request("POST", FORWARD, body, {"Content-Type": "application/json"})
        threads = [threading.Thread(target=post) for _ in range(4)]
        for thread in threads:
            thread.start()
        eventually(lambda: scrape(server).value("attnd_rejected_total", reason="queue-full") > 0, "the queue was full")
        eventually(lambda: scrape(server).value("attnd_workers_busy") >= 1, "the worker is busy")
        over.set()
        for thread in threads:
            thread.join()


def check_admin(binary, folder):
    """With an admin address metrics are there and nowhere else."""
    path = os.path.join(folder, "admin.json")
    with open(path, "w", encoding="utf-8") as file:
        json.dump({"admin": {"listen": "127.0.0.1:0"}}, file)
    with Attnd(binary, ["--config", path]) as server:
        check(server.request("GET", "/metrics").status == 404, "not in public")
        reply = server.request("GET", "/metrics", address=server.admin_address)
        check(reply.status == 200, "at the admin address: %d" % reply.status)
        eventually(lambda: Scrape(server.request("GET", "/metrics", address=server.admin_address).body.decode()).value(
            "attnd_requests_total", route="/metrics", code="404") == 1, "who asked in public is counted")


def check_heads(binary, folder):
    """metrics.heads: which sets show their heads."""
    few = {"name": "few", "source": "identity", "d_model": 256, "num_heads": 256}
    many = {"name": "many", "source": "identity", "d_model": 257, "num_heads": 257}
    for heads, wanted in (("auto", (True, False)), ("on", (True, True)), ("off", (False, False))):
        path = os.path.join(folder, "heads.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump({"weights": [few, many], "metrics": {"heads": heads}}, file)
        with Attnd(binary, ["--config", path]) as server:
            found = scrape(server)
            got = tuple(found.has("attnd_head_entropy_nats_total", weights=name, head="0") for name in ("few", "many"))
            check(got == wanted, "metrics.heads %s: %s" % (heads, got))
            check(found.has("attnd_weights_info", weights="many"), "the set itself is shown")


def main():
    binary = os.path.abspath(sys.argv[1])
    with tempfile.TemporaryDirectory(prefix="attnd-metrics-") as folder:
        layer, path = os.path.join(folder, "layer.safetensors"), os.path.join(folder, "attnd.json")
        tensors = {name: name for name in ("W_Q", "W_K", "W_V", "W_O")}
        write_layer(layer, 1)
        with open(os.path.join(folder, "token"), "w", encoding="utf-8") as file:
            file.write(TOKEN + "\n")
        with open(path, "w", encoding="utf-8") as file:
            json.dump({"default_weights": "demo", "admin": {"token_file": "token"}, "server": {"workers": 2}, "weights": [
                {"name": "demo", "source": "numpy", "seed": 42, "scale": 0.1, "d_model": 64, "num_heads": 8},
                {"name": "layer", "source": "safetensors", "path": "layer.safetensors", "num_heads": 2, "tensors": tensors},
                {"name": "gone", "source": "safetensors", "path": "no \\\"file\".safetensors", "num_heads": 2, "tensors": tensors, "required": False}]}, file)
        with Attnd(binary, ["--config", path]) as server:
            check_form(server)
            check_histograms(check_counts(server))
            check_clients_that_leave(server)
            check_work(server)
            check_exemplars(server)
            check_live(server)
            check_reload(server, layer)
            write_layer(layer, 3)
            check_configuration(server, path)
            check_load(server)
            check_promtool(server)
        check_full_queue(binary)
        check_heads(binary, folder)
        check_admin(binary, folder)
    for fault in faults[:40]:
        print(fault)
    print("%d checks, %d faults" % (checks, len(faults)))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
