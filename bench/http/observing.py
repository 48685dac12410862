"""The scenario that holds a server that is observed by all means against the same one without: what do they cost a request?"""
import contextlib
import http.server
import threading

import bodies
from load import Invalid
from runs import FORWARD, alternating, measured
from server import Server

CONNECTIONS = 8
WEIGHTS = [{"name": "narrow", "source": "numpy", "seed": 42, "scale": 0.1, "d_model": 64, "num_heads": 8},
           {"name": "middle", "source": "numpy", "seed": 42, "scale": 0.1, "d_model": 384, "num_heads": 12}]
# Weights, tokens, d_model, and how many times as much CPU a request may take when all is on.
SHAPES = {"s1": ("narrow", 4, 64, "<= 1.1"), "s2": ("middle", 32, 384, "<= 1.03")}
FORMS = {"json": "text", "base64": "base64"}


class Collector:
    """`with Collector() as collector:` takes what tracing uploads to `endpoint`, and throws it away."""

    def __init__(self):
        self.uploads = 0

    def __enter__(self):
        collector = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                self.rfile.read(int(self.headers["Content-Length"]))
                collector.uploads += 1
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", "2")
                self.end_headers()
                self.wfile.write(b"{}")

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.endpoint = "http://127.0.0.1:%d" % self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, kind, error, trace):
        self.server.shutdown()
        self.server.server_close()


def observing(settings, report):
    """Live statistics and tracing, as they are by default, against neither. Metrics are counted by both."""
    seconds = settings.seconds or 2
    files = {(shape, form): bodies.write(settings.folder, "%s-%s" % (shape, form), 16, 1, tokens, d_model, encoding, weights=weights)
             for shape, (weights, tokens, d_model, _) in SHAPES.items() for form, encoding in FORMS.items()}
    with contextlib.ExitStack() as stack:
        collector = stack.enter_context(Collector())
        servers = {"off": stack.enter_context(Server(settings.other or settings.binary, weights=WEIGHTS,
                                                     more={"live": {"sample_rate": 0}})),
                   "on": stack.enter_context(Server(settings.binary, weights=WEIGHTS,
                                                    more={"tracing": {"endpoint": collector.endpoint}}))}
        for server in servers.values():
            for paths in files.values():
                for path in paths:
                    server.forward(path)
        runs = {(case, kind): lambda server=server, paths=paths: measured(server, (FORWARD, paths, CONNECTIONS, seconds))
                for case, paths in files.items() for kind, server in servers.items()}
        found = alternating(settings, runs)
        if not collector.uploads:
            raise Invalid("no trace was uploaded: what was measured is not what the scenario is about")
    report.add("observing.others", [one.others for runs in found.values() for one in runs], "cores")
    for shape, form in files:
        name = "observing.%s.%s" % (shape, form)
        taken = {kind: [one.cpu_per_request for one in found[(shape, form), kind]] for kind in servers}
        for kind, cpu in taken.items():
            report.add("%s.%s.cpu" % (name, kind), [1e6 * one for one in cpu], "us/request")
        report.ratio(name + ".on_of_off", taken["on"], taken["off"], target=SHAPES[shape][3])
