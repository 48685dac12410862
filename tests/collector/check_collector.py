#!/usr/bin/env python3
"""Sends traces to OpenTelemetry's own collector, and reads what it has understood. usage: check_collector.py BINARY SOURCE_ROOT SANITIZER

The collector is built from this folder's Go module by scripts/test, as build/collector/collector, or is $ATTND_COLLECTOR. Where there is
none, or with a SANITIZER (other than "none"), this is a skip (exit code 77) that says so."""
import os
import re
import socket
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "e2e")]
from attnd_process import Attnd, free_port  # noqa: E402

SKIP = 77
SECONDS = 60
TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
CONFIG = """
receivers: {otlp: {protocols: {http: {endpoint: "127.0.0.1:%d"}}}}
exporters: {debug: {verbosity: detailed}}
service:
  telemetry: {metrics: {level: none}}
  pipelines: {traces: {receivers: [otlp], exporters: [debug]}}
"""
faults = []


def check(right, text):
    if not right:
        faults.append(text)
    return right


def wait(condition):
    until = time.monotonic() + SECONDS
    while not condition():
        if time.monotonic() > until:
            return False
        time.sleep(0.05)
    return True


def listens(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def sections(text):
    """The collector's spans, each as {"Name": ...} with its attributes as "-> key"."""
    spans = []
    for block in re.split(r"^Span #\d+$", text, flags=re.MULTILINE)[1:]:
        span = dict(re.findall(r"^    ([A-Za-z ]+?) *: ?(.*?)$", block, re.MULTILINE))
        span.update(("-> " + key, value) for key, value in re.findall(r"^ +-> (\S+): (.*)$", block, re.MULTILINE))
        spans.append(span)
    return spans


def main():
    binary, root, sanitizer = sys.argv[1:4]
    collector = os.environ.get("ATTND_COLLECTOR") or os.path.join(root, "build", "collector", "collector")
    if sanitizer != "none":
        print("once is enough for another program: not with a sanitizer")
        return SKIP
    if not os.access(collector, os.X_OK):
        print("%s is not there: scripts/test builds it, with Go and a module proxy that it reaches" % collector)
        return SKIP
    port = free_port()
    with tempfile.TemporaryDirectory() as folder:
        config, log_path = os.path.join(folder, "config.yaml"), os.path.join(folder, "log")
        with open(config, "w", encoding="utf-8") as file:
            file.write(CONFIG % port)
        with open(log_path, "wb") as log:
            process = subprocess.Popen([collector, "--config", config], stdin=subprocess.DEVNULL, stdout=log, stderr=log)

        def spans():
            with open(log_path, encoding="utf-8", errors="replace") as log:
                return sections(log.read())

        try:
            if not wait(lambda: listens(port) or process.poll() is not None) or process.poll() is not None:
                with open(log_path, encoding="utf-8", errors="replace") as log:
                    print("the collector did not start:\n" + log.read())
                return 1
            with Attnd(binary, environment={"ATTND_TRACING_ENDPOINT": "http://127.0.0.1:%d" % port, "ATTND_TRACING_SAMPLE_RATE": "1",
                                            "OTEL_RESOURCE_ATTRIBUTES": "team=a%20b"}) as server:
                body = '{"input": [[[%s]]]}' % ", ".join(["0.5"] * 64)
                reply = server.request("POST", "/v1/forward?x=1", body, {
                    "Content-Type": "application/json", "traceparent": "00-%s-%s-01" % (TRACE, PARENT), "tracestate": "rojo=1,congo=2"})
                check(reply.status == 200, "forward: status %d" % reply.status)
                server.request("GET", "/v1/no/such/route")
                span_id = reply.headers["traceresponse"].split("-")[2]
                check(wait(lambda: len(spans()) >= 6), "%d of 6 spans came" % len(spans()))
            with open(log_path, encoding="utf-8", errors="replace") as log:
                text = log.read()
        finally:
            process.terminate()
            process.wait()
    check("-> service.name: Str(attnd)" in text and "-> team: Str(a b)" in text, "the resource is not understood")
    got = {span["Name"]: span for span in sections(text)}
    if check(set(got) == {"POST /v1/forward", "parse", "queue", "compute", "encode", "GET"}, "spans %r" % set(got)):
        root_span = got["POST /v1/forward"]
        for key, value in {"Trace ID": TRACE, "Parent ID": PARENT, "ID": span_id, "Kind": "Server", "TraceState": "rojo=1,congo=2",
                           "Status code": "Unset", "-> http.request.method": "Str(POST)", "-> http.route": "Str(/v1/forward)",
                           "-> http.response.status_code": "Int(200)", "-> url.path": "Str(/v1/forward)", "-> url.query": "Str(x=1)",
                           "-> attnd.tokens": "Int(1)"}.items():
            check(root_span.get(key) == value, "%s is %r, expected %r" % (key, root_span.get(key), value))
        for name in ("parse", "queue", "compute", "encode"):
            check((got[name]["Trace ID"], got[name]["Parent ID"], got[name]["Kind"]) == (TRACE, span_id, "Internal"), "%s: %r" % (name, got[name]))
        check(got["GET"]["Parent ID"] == "" and got["GET"]["-> attnd.refusal"] == "Str(unknown-route)", "GET: %r" % got["GET"])
    print("\n".join(faults))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
