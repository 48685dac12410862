#!/usr/bin/env python3
"""Traces from outside, with a collector of its own. usage: check_tracing.py BINARY

What is continued and what is begun; the spans of a request as OTLP's JSON has them; sampling; OpenTelemetry's variables; a collector that
is slow, refuses, takes a part, comes late, never answers, or is not there."""
import base64
import http.server
import json
import os
import re
import socket
import struct
import sys
import threading
import time

sys.dont_write_bytecode = True
from attnd_process import TRIES, Attnd  # noqa: E402

TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
SAMPLED, UNSAMPLED = "00-%s-%s-01" % (TRACE, PARENT), "00-%s-%s-00" % (TRACE, PARENT)
FORWARD = {"input": [[[i * 0.001 for i in range(64)] for _ in range(4)]]}
WAIT_SECONDS = 60
faults = []


def check(right, place, text):
    if not right:
        faults.append("%s: %s" % (place, text))
    return right


class Collector:
    """Keeps what is posted. `answers` (status, headers, body) come in turn, the last of them again and again."""

    def __init__(self, answers=((200, {}, b"{}"),)):
        outer = self
        self.answers, self.requests = list(answers), []
        self.changed = threading.Condition()

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                with outer.changed:
                    status, headers, answer = outer.answers[min(len(outer.requests), len(outer.answers) - 1)]
                    outer.requests.append((self.path, dict(self.headers), json.loads(body), time.monotonic(), status))
                    outer.changed.notify_all()
                self.send_response(status)
                for name, value in {"Content-Type": "application/json", **headers}.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                try:
                    self.wfile.write(answer)
                except ConnectionError: # it was enough
                    self.close_connection = True

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.base = "http://127.0.0.1:%d" % self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()

    def wait(self, condition):
        with self.changed:
            return self.changed.wait_for(lambda: condition(self), WAIT_SECONDS)

    def spans(self, only_taken=True):
        """All of them, each with its `attributes` as a dictionary."""
        found = []
        for _, _, document, _, status in list(self.requests):
            for resource in document["resourceSpans"] if status == 200 or not only_taken else []:
                for scope in resource["scopeSpans"]:
                    found += [dict(span, attributes=attributes(span)) for span in scope["spans"]]
        return found


def attributes(holder):
    values = {}
    for item in holder["attributes"]:
        (kind, value), = item["value"].items()
        assert kind in ("stringValue", "intValue"), item
        assert kind == "stringValue" or isinstance(value, str), "64-bit integers are strings: %r" % item
        assert item["key"] not in values, item
        values[item["key"]] = int(value) if kind == "intValue" else value
    return values


def raw(server, lines, body=b""):
    """One request, as it is, on a connection of its own; the whole answer."""
    host, port = server.address.rsplit(":", 1)
    with socket.create_connection((host, int(port)), timeout=60) as connection:
        connection.sendall("\r\n".join([*lines, "Host: attnd.example:8123", "Connection: close", "", ""]).encode("latin-1") + body)
        answer = b""
        while piece := connection.recv(65536):
            answer += piece
    return answer.decode("latin-1")


def response_context(answer):
    found = re.search(r"^traceresponse: 00-([0-9a-f]{32})-([0-9a-f]{16})-(0[0-3])\r$", answer, re.MULTILINE | re.IGNORECASE)
    return found.groups() if found else None


def log_of(server, event):
    return [line for line in map(json.loads, server.log) if line["event"] == event]


def stage_names(spans):
    return [span["name"] for span in sorted(spans, key=lambda span: int(span["startTimeUnixNano"]))]


# ---- the tests


def test_context(binary):
    """No collector: ids in the log and in answers."""
    with Attnd(binary) as server:
        cases = [("continued", [SAMPLED], True), ("not sampled", [UNSAMPLED], True), ("malformed", [SAMPLED + "-x"], False),
                 ("version ff", ["ff" + SAMPLED[2:]], False), ("later version", ["cc" + SAMPLED[2:] + "-x"], True),
                 ("two lines", [SAMPLED, SAMPLED], False), ("none", [], False), ("blanks around it", ["  " + SAMPLED + "\t"], True)]
        for name, sent, continued in cases:
            answer = raw(server, ["GET /v1/weights HTTP/1.1", *("TraceParent: " + line for line in sent)])
            got = response_context(answer)
            if check(got, name, "no traceresponse: %s" % answer[:300]):
                check((got[0] == TRACE) == continued, name, "trace %s" % got[0])
                check(got[1] != PARENT, name, "the span is the caller's")
                request_id = re.search(r"x-request-id: (\S+)", answer).group(1)
                until = time.monotonic() + WAIT_SECONDS
                while not (lines := [line for line in log_of(server, "request") if line["request_id"] == request_id]):
                    if time.monotonic() > until:
                        break
                    time.sleep(0.01)
                check([(line.get("trace_id"), line.get("span_id")) for line in lines] == [got[:2]], name, "log: %r" % lines)
        for path in ("/healthz", "/readyz", "/v2/health/live", "/v2/health/ready", "/v2/models/demo/ready"):
            answer = raw(server, ["GET %s HTTP/1.1" % path, "traceparent: " + SAMPLED])
            check(" 200 " in answer and not response_context(answer), path, "a probe has a trace: %s" % answer[:300])


def test_spans(binary):
    started = time.time_ns()
    with Collector() as collector:
        environment = {"ATTND_TRACING_ENDPOINT": collector.base + "/", "ATTND_TRACING_SAMPLE_RATE": "0",
                       "OTEL_RESOURCE_ATTRIBUTES": "deployment.environment.name=te%20st%2C1, service.name=other,team=a",
                       "OTEL_SERVICE_NAME": "heads", "OTEL_EXPORTER_OTLP_HEADERS": "api-key=se%20cret , x-tenant=7",
                       "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9/not-asked"}
        with Attnd(binary, environment=environment) as server:
            body = json.dumps(FORWARD).encode()
            answer = raw(server, ["POST /v1/forward?unknown=1 HTTP/1.1", "Content-Type: application/json",
                                  "Content-Length: %d" % len(body), "traceparent: " + SAMPLED[:-1] + "3", "tracestate: rojo=1 , congo=2",
                                  "tracestate: a@b=c d", "User-Agent: t\u00e9st/1 \"quoted\"", "baggage: secret=1", "x-request-id: my-request"],
                         body)
            check(" 200 " in answer, "forward", answer[:300])
            context = response_context(answer)
            check(context and context[2] == "03", "forward", "traceresponse %r" % (context,))
            server.post("/v1/forward", FORWARD)  # not sampled: rate 0
            raw(server, ["GET /healthz HTTP/1.1", "traceparent: " + SAMPLED])
            collector.wait(lambda c: len(c.spans()) >= 5)
        if not check(len(collector.requests) == 1, "forward", "%d requests to the collector" % len(collector.requests)):
            return
        path, headers, document, _, _ = collector.requests[0]
        headers = {name.lower(): value for name, value in headers.items()}
        check(path == "/v1/traces", "collector", path)
        check(headers.get("content-type") == "application/json", "collector", headers)
        check(headers.get("api-key") == "se cret" and headers.get("x-tenant") == "7", "collector", headers)
        (resource,) = document["resourceSpans"]
        got = attributes(resource["resource"])
        check(got.pop("service.version", None) and re.fullmatch(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}",
                                                                got.pop("service.instance.id", "")), "resource", got)
        check(got == {"service.name": "heads", "deployment.environment.name": "te st,1", "team": "a"}, "resource", got)
        check(resource["scopeSpans"][0]["scope"]["name"] == "attnd", "scope", resource["scopeSpans"][0]["scope"])
        check("secret=1" not in json.dumps(document), "baggage", "it was exported")

        spans = collector.spans()
        roots = [span for span in spans if span["kind"] == 2]
        if not check(len(roots) == 1 and len(spans) == 5, "forward", "spans %r" % [span["name"] for span in spans]):
            return
        root, children = roots[0], [span for span in spans if span["kind"] == 1]
        check((root["traceId"], root["spanId"], root["parentSpanId"]) == (*context[:2], PARENT), "root", root)
        check(root["traceId"] == TRACE and root["traceState"] == "rojo=1,congo=2,a@b=c d", "root", root)
        check(root["flags"] == 0x303, "root", "flags %#x" % root["flags"])
        check(root["name"] == "POST /v1/forward" and "status" not in root, "root", root)
        log = [line for line in log_of(server, "request") if line["request_id"] == "my-request"]
        check(log and log[0]["trace_id"] == TRACE and log[0]["span_id"] == root["spanId"], "log", log)
        host_free = dict(root["attributes"])
        check(host_free.pop("network.peer.port", 0) > 0 and host_free.pop("http.response.body.size", 0) > 100, "root", root["attributes"])
        check(host_free == {"http.request.method": "POST", "http.route": "/v1/forward", "http.response.status_code": 200,
                            "url.scheme": "http", "url.path": "/v1/forward", "url.query": "unknown=1", "server.address": "attnd.example",
                            "server.port": 8123, "network.peer.address": "127.0.0.1", "network.protocol.version": "1.1",
                            "user_agent.original": "t\ufffdst/1 \"quoted\"", "http.request.body.size": len(body),
                            "attnd.request_id": "my-request", "attnd.weights": "demo", "attnd.tokens": 4}, "root", host_free)
        begins, ends = int(root["startTimeUnixNano"]), int(root["endTimeUnixNano"])
        check(started <= begins <= ends <= time.time_ns(), "root", "times %d to %d" % (begins, ends))
        check(stage_names(children) == ["parse", "queue", "compute", "encode"], "children", stage_names(children))
        check(len({span["spanId"] for span in spans}) == 5, "children", "ids are not their own")
        at = begins
        for span in sorted(children, key=lambda span: int(span["startTimeUnixNano"])):
            first, last = int(span["startTimeUnixNano"]), int(span["endTimeUnixNano"])
            # Stages are timed to the microsecond.
            check(at - 1000 <= first <= last <= ends + 1000, span["name"], "%d to %d, the one before ended %d" % (first, last, at))
            check(span["traceId"] == TRACE and span["parentSpanId"] == root["spanId"] and span["flags"] == 0x103, span["name"], span)
            wanted = {"attnd.weights": "demo", "attnd.tokens": 4, "attnd.batch.requests": 1} if span["name"] == "compute" else {}
            check(span["attributes"] == wanted, span["name"], span["attributes"])
            at = last


def test_outcomes(binary):
    """Refusals, failures, and what is not known; a new trace for each."""
    with Collector() as collector:
        environment = {"ATTND_TRACING_ENDPOINT": collector.base, "ATTND_TRACING_SAMPLE_RATE": "1", "ATTND_SERVER_WORKERS": "1",
                       "ATTND_SERVER_REQUEST_TIMEOUT_S": "0.005"}
        with Attnd(binary, environment=environment) as server:
            # Too late only where the machine stands still.
            statuses = [504]
            while statuses[-1] == 504 and len(statuses) <= TRIES:
                statuses.append(server.post("/v1/forward", {"input": "x"}).status)
            check(statuses[-1] == 422, "422", "status %d" % statuses[-1])
            check(server.request("GET", "/v1/no/such/route").status == 404, "404", "status")
            check(server.request("DELETE", "/v1/forward").status == 405, "405", "status")
            check(" 404 " in raw(server, ["BREW /coffee HTTP/1.1", "traceparent: " + SAMPLED + "-x"]), "BREW", "status")
            wide = base64.b64encode(struct.pack("<f", 0.5) * (3000 * 64)).decode()
            reply = server.request("POST", "/v1/forward", json.dumps({"input": {"shape": [1, 3000, 64], "dtype": "f32", "base64": wide},
                                                                      "return": ["output"]}),
                                   {"Content-Type": "application/json"})
            check(reply.status == 504, "504", "status %d" % reply.status)
            collector.wait(lambda c: sum(span["kind"] == 2 for span in c.spans()) >= 5 + len(statuses) - 2)
        roots = {(span["attributes"]["http.request.method"], span["attributes"].get("http.response.status_code")): span
                 for span in collector.spans() if span["kind"] == 2}
        wanted = {("POST", 422): ("POST /v1/forward", None, "invalid"), ("GET", 404): ("GET", None, "unknown-route"),
                  ("DELETE", 405): ("DELETE /v1/forward", None, "method-not-allowed"), ("_OTHER", 404): ("HTTP", None, "unknown-route"),
                  ("POST", 504): ("POST /v1/forward", "deadline", None)}
        check(set(roots) == set(wanted), "outcomes", "got %r" % set(roots))
        for key in set(roots) & set(wanted):
            span, (name, error, refusal) = roots[key], wanted[key]
            got = span["attributes"]
            check(span["name"] == name, key, span["name"])
            check("parentSpanId" not in span and span["flags"] == 0x103, key, "%r" % span)
            check(got.get("error.type") == error and got.get("attnd.refusal") == refusal, key, "%r" % got)
            check(span.get("status") == ({"code": 2} if error else None), key, "%r" % span.get("status"))
            check(("http.request.method_original" in got) == (key[0] == "_OTHER"), key, "%r" % got)
        check(len({span["traceId"] for span in roots.values()}) == len(roots), "outcomes", "traces are shared")
        other = roots.get(("_OTHER", 404))
        check(other and other["attributes"]["http.request.method_original"] == "BREW" and other["traceId"] != TRACE, "BREW", other)


def test_retry(binary):
    """Refused for now, twice: the same spans come again, no sooner than they may."""
    answers = [(503, {"Retry-After": "2"}, b""), (429, {}, b""), (200, {}, b"{}")]
    with Collector(answers) as collector:
        with Attnd(binary, environment={"ATTND_TRACING_ENDPOINT": collector.base, "ATTND_TRACING_SAMPLE_RATE": "1"}) as server:
            server.request("GET", "/v1/weights")
            check(collector.wait(lambda c: len(c.requests) >= 3), "retry", "%d tries" % len(collector.requests))
            server.wait_for_log("spans are sent again")
        requests = collector.requests
        check(len(requests) == 3 and requests[0][2] == requests[1][2] == requests[2][2], "retry", "other spans")
        check(requests[1][3] - requests[0][3] >= 1.9, "retry", "Retry-After was not respected")
        lines = [line for line in log_of(server, "tracing")]
        check([line["message"] for line in lines] == ["spans cannot be sent", "spans are sent again"], "retry", "log %r" % lines)
        check(lines and lines[0].get("status") == 503, "retry", "log %r" % lines)


def test_long_pause(binary):
    """A collector that asks for centuries has the longest pause there is, not what is left of the number."""
    with Collector([(503, {"Retry-After": "18446744074"}, b""), (200, {}, b"{}")]) as collector:
        with Attnd(binary, environment={"ATTND_TRACING_ENDPOINT": collector.base, "ATTND_TRACING_SAMPLE_RATE": "1"}) as server:
            server.request("GET", "/v1/weights")
            check(collector.wait(lambda c: len(c.requests) >= 1), "long pause", "nothing came")
            time.sleep(2)
            check(len(collector.requests) == 1, "long pause", "it came again at once")


def test_endless_answer(binary):
    """An answer that goes on and on is not read to its end."""
    with Collector([(200, {}, b"x" * (2 << 20)), (200, {}, b"{}")]) as collector:
        with Attnd(binary, environment={"ATTND_TRACING_ENDPOINT": collector.base, "ATTND_TRACING_SAMPLE_RATE": "1"}) as server:
            server.request("GET", "/v1/weights")
            line = json.loads(server.wait_for_log("spans cannot be sent"))
            check(line["reason"] == "its answer does not end", "endless answer", "%r" % line)
            check(collector.wait(lambda c: len(c.requests) >= 2), "endless answer", "the spans were not sent again")


def test_refusal(binary):
    """Refused for good: not sent again, and what comes later is."""
    with Collector([(400, {}, b""), (200, {}, b"{}")]) as collector:
        with Attnd(binary, environment={"ATTND_TRACING_ENDPOINT": collector.base, "ATTND_TRACING_SAMPLE_RATE": "1"}) as server:
            server.request("GET", "/v1/weights?first")
            check(collector.wait(lambda c: len(c.requests) >= 1), "refusal", "nothing came")
            server.request("GET", "/v1/weights?second")
            check(collector.wait(lambda c: len(c.requests) >= 2), "refusal", "nothing came any more")
        check([span["attributes"]["url.query"] for span in collector.spans(only_taken=False)] == ["first", "second"], "refusal",
              "%r" % collector.spans(only_taken=False))


def test_partial(binary):
    answer = json.dumps({"partialSuccess": {"rejectedSpans": "1", "errorMessage": "too old"}}).encode()
    with Collector([(200, {}, answer)]) as collector:
        with Attnd(binary, environment={"ATTND_TRACING_ENDPOINT": collector.base, "ATTND_TRACING_SAMPLE_RATE": "1"}) as server:
            server.request("GET", "/v1/weights")
            check(collector.wait(lambda c: len(c.requests) >= 1), "partial", "nothing came")
            server.wait_for_log("too old")
        lines = log_of(server, "tracing")
        check(len(lines) == 1 and lines[0]["count"] == 1 and lines[0]["reason"] == "too old", "partial", "log %r" % lines)


def test_stop_flushes(binary):
    """What ended just before the stop is sent, with many requests more than one batch has: in two seconds, which may pass while the machine
    stands still."""
    for _ in range(TRIES):
        collector = stop_flushes(binary)
        if len(collector.spans()) == 300:
            break
    check(len(collector.spans()) == 300, "flush", "%d of 300 spans" % len(collector.spans()))
    check({path for path, *_ in collector.requests} == {"/as/it/is"}, "flush", "path")
    headers = [{name.lower() for name in headers} for _, headers, *_ in collector.requests]
    check(all("a" in names and "c" not in names for names in headers), "flush", "headers %r" % headers)


def stop_flushes(binary):
    with Collector() as collector:
        with Attnd(binary, environment={"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": collector.base + "/as/it/is",
                                        "ATTND_TRACING_SAMPLE_RATE": "1", "OTEL_EXPORTER_OTLP_TRACES_HEADERS": "a=b",
                                        "OTEL_EXPORTER_OTLP_HEADERS": "c=d"}) as server:
            for _ in range(300):
                server.request("GET", "/v1/weights")
        return collector


def test_switched_off(binary):
    with Collector() as collector:
        with Attnd(binary, environment={"ATTND_TRACING_ENDPOINT": collector.base, "ATTND_TRACING_SAMPLE_RATE": "1",
                                        "OTEL_SDK_DISABLED": "TRUE"}) as server:
            got = response_context(raw(server, ["GET /v1/weights HTTP/1.1", "traceparent: " + SAMPLED]))
            check(got and got[0] == TRACE, "switched off", "%r" % (got,))
        check(not collector.requests, "switched off", "spans came")


def test_variables(binary):
    """What cannot be understood is a warning, and left out."""
    with Collector() as collector:
        environment = {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.base, "OTEL_RESOURCE_ATTRIBUTES": "a=b,c", "OTEL_EXPORTER_OTLP_HEADERS": "a=%zz",
                       "OTEL_EXPORTER_OTLP_TIMEOUT": "soon", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc", "ATTND_TRACING_SAMPLE_RATE": "1"}
        with Attnd(binary, environment=environment) as server:
            server.request("GET", "/v1/weights")
            collector.wait(lambda c: len(c.spans()) >= 1)
        warned = {line["message"].split(":")[0] for line in log_of(server, "configuration")}
        check(warned == set(environment) - {"OTEL_EXPORTER_OTLP_ENDPOINT", "ATTND_TRACING_SAMPLE_RATE"}, "variables", "%r" % warned)
        check(len(collector.spans()) == 1, "variables", "spans %r" % collector.spans())
        check(attributes(collector.requests[0][2]["resourceSpans"][0]["resource"])["service.name"] == "attnd", "variables", "service.name")


def test_no_collector(binary):
    """Nobody listens there, or somebody who never answers: requests are served, and the stop ends."""
    with socket.socket() as silent, socket.socket() as dead:
        silent.bind(("127.0.0.1", 0))
        silent.listen(8)
        dead.bind(("127.0.0.1", 0))
        for place, port in (("dead", dead.getsockname()[1]), ("silent", silent.getsockname()[1])):
            with Attnd(binary, environment={"ATTND_TRACING_ENDPOINT": "http://127.0.0.1:%d" % port,
                                            "ATTND_TRACING_SAMPLE_RATE": "1"}) as server:
                for _ in range(1500):
                    if not check(server.request("GET", "/v1/weights").status == 200, place, "a request failed"):
                        break
                if place == "dead":
                    server.wait_for_log("spans cannot be sent")
            check(place == "silent" or len(log_of(server, "tracing")) == 1, place, "log %r" % log_of(server, "tracing"))


def main():
    binary = sys.argv[1]
    for name in [name for name in os.environ if name.startswith("OTEL_")]:
        del os.environ[name]
    for name, test in list(globals().items()):
        if name.startswith("test_"):
            before = len(faults)
            test(binary)
            print("%-20s %s" % (name[5:], "ok" if len(faults) == before else "FAILED"), flush=True)
    print("\n".join(faults))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
