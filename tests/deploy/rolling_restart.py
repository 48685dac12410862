#!/usr/bin/env python3
"""Replaces two replicas behind a real Envoy in turn while clients post through it: no request may fail, no answer may be wrong.
usage: rolling_restart.py BINARY SOURCE_ROOT [SECONDS [ROUNDS]]

Envoy runs deploy/envoy/envoy.yaml as it is, but for the addresses. It repeats a request only where the connection was refused; everything
else is up to the server: it says that it is not ready, goes on until Envoy has seen it, and closes no connection on which a request may
be under way. 16 clients keep their connections and compare each answer with a float64 reference computed by NumPy."""
import base64
import http.client
import json
import os
import random
import signal
import sys
import tempfile
import threading
import time

import parts

CLIENTS = 16
# Tokens of the requests: computed where they are read, queued and batched, and large enough to be sent in pieces.
TOKENS = (1, 4, 4, 4, 4, 16, 16, 16, 16, 64, 64, 300)


class Question:
    def __init__(self, generator, tokens):
        import numpy
        from golden import reference
        self.x = generator.standard_normal((1, tokens, 64), numpy.float32)
        self.output, self.attention = (answer.astype(numpy.float32) for answer in reference(self.x))
        self.in_base64 = tokens > 4
        if self.in_base64:
            sent = {"shape": list(self.x.shape), "dtype": "f32", "base64": base64.b64encode(self.x.tobytes()).decode()}
        else:
            sent = self.x.tolist()
        self.document = {"input": sent, **({"encoding": "base64"} if self.in_base64 else {})}

    def is_answered_by(self, document, wanted_id):
        import numpy

        def tensor(value):
            if not self.in_base64:
                return numpy.array(value, numpy.float32)
            return numpy.frombuffer(base64.b64decode(value["base64"]), numpy.float32).reshape(value["shape"])

        if document.get("id") != wanted_id:
            return False
        pairs = ((tensor(document[name]), getattr(self, name)) for name in ("output", "attention"))
        return all(got.shape == wanted.shape and numpy.allclose(got, wanted, rtol=1e-5, atol=1e-5) for got, wanted in pairs)


class Client(threading.Thread):
    def __init__(self, number, port, questions, stop):
        super().__init__(name="client-%d" % number, daemon=True)
        self.number, self.port, self.questions, self.stop = number, port, questions, stop
        self.answers, self.failures, self.connections = 0, [], 0

    def run(self):
        chooser = random.Random(self.number)
        connection = None
        while not self.stop.is_set():
            question, request_id = chooser.choice(self.questions), "client-%d-%d" % (self.number, self.answers)
            try:
                if connection is None:
                    connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
                    self.connections += 1
                connection.request("POST", "/v1/forward", json.dumps({**question.document, "id": request_id}),
                                   {"Content-Type": "application/json"})
                answer = connection.getresponse()
                body = answer.read()
                if answer.status != 200:
                    self.failures.append("%s: %d %s" % (request_id, answer.status, body[:300]))
                elif not question.is_answered_by(json.loads(body), request_id):
                    self.failures.append("%s: a wrong answer" % request_id)
            except (OSError, http.client.HTTPException, ValueError) as error:
                self.failures.append("%s: %r" % (request_id, error))
                connection = None
            self.answers += 1


class Replica:
    """A place for attnd behind Envoy: an address, and the process that has it now."""

    def __init__(self, binary, folder, port):
        self.binary, self.folder, self.port, self.exit_codes = binary, folder, port, []
        self.run = None

    def start(self):
        # Twice as long as usual: Envoy has to see that it is not ready, on a machine that may stand still for seconds.
        self.run = parts.Program([self.binary, "--listen", "127.0.0.1:%d" % self.port], self.folder,
                                 parts.own_environment(ATTND_SERVER_DRAIN_DELAY_S="10"))
        parts.wait_until("attnd is ready", lambda: parts.get("http://127.0.0.1:%d/readyz" % self.port)[0] == 200)

    def end(self):
        self.run.process.send_signal(signal.SIGTERM)
        self.exit_codes.append(self.run.process.wait(90))


def replace_in_turn(envoy, replicas, rounds, until):
    """The replacements are spread over the time that is left."""
    left = rounds * len(replicas)
    for _ in range(rounds):
        for replica in replicas:
            time.sleep(max(0, (until - time.monotonic()) / left - 13))
            replica.end()
            replica.start()
            parts.wait_until("Envoy has seen the new replica", lambda: envoy.healthy() == len(replicas))
            left -= 1
    time.sleep(max(0, until - time.monotonic()))


def main():
    if len(sys.argv) not in (3, 4, 5):
        print(__doc__, file=sys.stderr)
        return 2
    binary, root = map(os.path.abspath, sys.argv[1:3])
    seconds = float(sys.argv[3]) if len(sys.argv) > 3 else 60
    rounds = int(sys.argv[4]) if len(sys.argv) > 4 else 3
    environment = parts.enter(root)
    os.environ.setdefault("ATTND_GOLDEN", os.path.join(root, "tests", "golden"))
    os.environ.setdefault("ATTND_ADDRESS", "")
    import numpy
    from envoy import Envoy
    generator = numpy.random.default_rng(7)
    questions = [Question(generator, tokens) for tokens in TOKENS for _ in range(4)]
    stop = threading.Event()
    with tempfile.TemporaryDirectory(prefix="attnd-rolling-") as folder:
        replicas = [Replica(binary, folder, parts.free_port()) for _ in range(2)]
        for replica in replicas:
            replica.start()
        try:
            with Envoy(root, environment, folder, [replica.port for replica in replicas]) as envoy:
                clients = [Client(number, envoy.port, questions, stop) for number in range(CLIENTS)]
                for client in clients:
                    client.start()
                replace_in_turn(envoy, replicas, rounds, time.monotonic() + seconds)
                stop.set()
                for client in clients:
                    client.join(90)
                counters = envoy.counters()
        finally:
            stop.set()
            for replica in replicas:
                replica.end()
    failures = [failure for client in clients for failure in client.failures]
    exit_codes = [code for replica in replicas for code in replica.exit_codes]
    answers, connections = sum(client.answers for client in clients), sum(client.connections for client in clients)
    print("%d answers over %d connections, %d replacements, %d failed or wrong; Envoy repeated %d after refused connections (%d)" %
          (answers, connections, rounds * len(replicas), len(failures), counters.get("upstream_rq_retry", 0),
           counters.get("upstream_cx_connect_fail", 0)))
    for failure in failures[:20]:
        print("  " + failure)
    idle = [client.name for client in clients if client.answers < 10]
    if idle or any(exit_codes):
        print("too little was asked by %s; exit codes %s" % (idle or "none", exit_codes))
    return 1 if failures or idle or any(exit_codes) else 0


if __name__ == "__main__":
    sys.exit(main())
