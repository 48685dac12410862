"""What the examples for Ray and Spark share: sequences through replicas of attnd, and one answer about the heads from all of them.

Each replica counts the traffic it serves; its sums are at /v1/heads/state, and /v1/heads/merge adds any number of such documents. So the
replicas of a batch should serve nothing else (or be reset before: POST /v1/heads/reset). Needs NumPy."""
import base64
import http.client
import json
import time
import urllib.parse

import numpy

# Refused before anything was computed: too busy, or going to stop.
TO_REPEAT = (429, 503)


class Replica:
    """A connection that is kept."""

    def __init__(self, url):
        parts = urllib.parse.urlsplit(url)
        self.connection = http.client.HTTPConnection(parts.hostname, parts.port or 80, timeout=120)

    def ask(self, method, path, document=None, attempts=20):
        for _ in range(attempts):
            self.connection.request(method, path, None if document is None else json.dumps(document),
                                    {"Content-Type": "application/json"})
            answer = self.connection.getresponse()
            body = answer.read()
            if answer.status not in TO_REPEAT:
                break
            time.sleep(float(answer.headers.get("Retry-After", 1)))
        if answer.status != 200:
            raise RuntimeError("%s %s: %d %s" % (method, path, answer.status, body[:500].decode(errors="replace")))
        return json.loads(body)

    def output(self, sequence, weights=None):
        """The layer's output for one sequence [T, D]."""
        x = numpy.ascontiguousarray(sequence, "<f4")
        sent = {"shape": list(x.shape), "dtype": "f32", "base64": base64.b64encode(x).decode()}
        answer = self.ask("POST", "/v1/forward", {"input": sent, "return": ["output"], "encoding": "base64",
                                                  **({"weights": weights} if weights else {})})["output"]
        return numpy.frombuffer(base64.b64decode(answer["base64"]), "<f4").reshape(answer["shape"])


def merged(urls, weights=None):
    """Statistics and similarity of the heads over everything that all replicas have served."""
    query = "?" + urllib.parse.urlencode({"weights": weights}) if weights else ""
    states = [Replica(url).ask("GET", "/v1/heads/state" + query) for url in urls]
    return Replica(urls[0]).ask("POST", "/v1/heads/merge", {"states": states})


def report(answer):
    """A line for each head."""
    lines = ["%d sequences, %d rows" % (answer["state"]["n_sequences"], answer["stats"]["n_rows"]), "head  entropy  distance  redundancy"]
    for head, redundancy in zip(answer["stats"]["heads"], answer["similarity"]["redundancy"]):
        lines.append("%4d  %7.4f  %8.3f  %10.3f" % (head["head"], head["entropy"], head["distance"], redundancy))
    return "\n".join(lines)
