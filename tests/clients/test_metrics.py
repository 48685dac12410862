"""Prometheus's own parsers of both formats read /metrics, and find there what was asked of the server."""
import collections
import math
import time
import unittest

import numpy
import requests
from golden import BASE
from prometheus_client.openmetrics.parser import text_string_to_metric_families as read_openmetrics
from prometheus_client.parser import text_string_to_metric_families as read_text

OPENMETRICS = "application/openmetrics-text"
ADMIN = {"Authorization": "Bearer token-of-the-clients"}
# The counter of each statistic, and the rows that it is a mean over.
ROWS = {"entropy_nats": "rows", "effective_keys": "rows", "distance_tokens": "rows", "confidence": "rows", "normalized_entropy": "choosing_rows",
        "hoyer": "choosing_rows", "previous_mass": "previous_rows", "next_mass": "next_rows", "self_mass": "self_rows", "first_mass": "first_rows"}


def get(accept):
    response = requests.get(BASE + "/metrics", headers={"Accept": accept}, timeout=60)
    assert response.status_code == 200 and response.headers["content-type"].startswith(accept), response.headers
    return response.text


def families(accept):
    """{family: metric}; parsing alone demands much: types, units, order, `# EOF`."""
    reader = read_openmetrics if accept == OPENMETRICS else read_text
    found = list(reader(get(accept)))
    assert len({family.name for family in found}) == len(found)
    return {family.name: family for family in found}


def total(found, family, sample, **labels):
    return sum(s.value for s in found[family].samples if s.name == sample and labels.items() <= s.labels.items())


def at_rest(accept):
    """The same, once all requests before it are counted: just behind their answers."""
    until = time.monotonic() + 60
    while True:
        found = families(accept)
        if total(found, "attnd_in_flight", "attnd_in_flight") == 0:
            return found
        assert time.monotonic() < until, "requests are in flight for ever"
        time.sleep(0.01)


class Metrics(unittest.TestCase):
    def test_both_formats_say_the_same(self):
        requests.get(BASE + "/healthz", timeout=60)
        text, opened = families("text/plain"), families(OPENMETRICS)
        samples = [{s.name for family in found.values() for s in family.samples} for found in (text, opened)]
        self.assertEqual(*samples)
        for name, family in opened.items():
            if family.type == "info":
                self.assertEqual(text[name + "_info"].type, "gauge")
                continue
            self.assertEqual(text[name].type, family.type, name)
            self.assertEqual(text[name].documentation, family.documentation, name)
            self.assertTrue(name.endswith(family.unit), name)
            bounds = [[s.labels.get("le") for s in found[name].samples] for found in (text, opened)]
            if name != "attnd_request_duration_seconds":
                self.assertEqual(*bounds)

    def test_requests_are_counted(self):
        body = {"input": numpy.ones((2, 3, 64)).tolist()}
        asked = [("POST", "/v1/forward", body, 200)] * 5 + [("POST", "/v1/forward", {"inputs": 1}, 422)] * 2 + [
            ("GET", "/v1/weights/demo", None, 200), ("GET", "/nowhere", None, 404), ("DELETE", "/v1/forward", None, 405)]
        patterns = {"/v1/weights/demo": "/v1/weights/{name}", "/nowhere": "other"}
        with requests.Session() as session:
            before = at_rest(OPENMETRICS)
            for method, path, document, code in asked:
                response = session.request(method, BASE + path, json=document, timeout=60)
                self.assertEqual(response.status_code, code, response.text[:200])
            session.get(BASE + "/healthz", timeout=60)  # on the same connection: those before it are over
            after = families(OPENMETRICS)
        for (method, path, code), times in collections.Counter((m, p, c) for m, p, _, c in asked).items():
            labels = {"route": patterns.get(path, path), "method": method, "code": str(code)}
            counts = [total(found, "attnd_requests", "attnd_requests_total", **labels) for found in (before, after)]
            self.assertEqual(counts[1] - counts[0], times, labels)
        durations = [total(found, "attnd_request_duration_seconds", "attnd_request_duration_seconds_count", route="/v1/forward")
                     for found in (before, after)]
        self.assertEqual(durations[1] - durations[0], 8)
        tokens = [total(found, "attnd_tokens", "attnd_tokens_total") for found in (before, after)]
        self.assertEqual(tokens[1] - tokens[0], 5 * 6)

    def test_histograms_add_up(self):
        found = families("text/plain")
        self.assertGreater(sum(family.type == "histogram" for family in found.values()), 3)
        for family in found.values():
            if family.type != "histogram":
                continue
            series = collections.defaultdict(dict)
            for s in family.samples:
                key = tuple(sorted((n, v) for n, v in s.labels.items() if n != "le"))
                series[key][s.labels.get("le", s.name)] = s.value
            for values in series.values():
                count, amount = values.pop(family.name + "_count"), values.pop(family.name + "_sum")
                bounds = sorted(values, key=float)
                counts = [values[bound] for bound in bounds]
                self.assertEqual(counts, sorted(counts))
                self.assertEqual((counts[-1], float(bounds[-1])), (count, math.inf))
                self.assertGreaterEqual(amount, 0)

    def test_means_of_heads(self):
        for weights, d_model, heads in (("demo", 64, 8), ("layer0", 384, 12)):
            with self.subTest(weights):
                reset = requests.post(BASE + "/v1/heads/reset?weights=" + weights, headers=ADMIN, timeout=60)
                self.assertEqual(reset.status_code, 200)
                before = families(OPENMETRICS)
                for seed in range(4):
                    x = numpy.random.default_rng(seed).standard_normal((1 + seed % 2, 3 + 4 * seed, d_model), numpy.float32)
                    answer = requests.post(BASE + "/v1/forward", json={"input": x.tolist(), "weights": weights}, timeout=60)
                    self.assertEqual(answer.status_code, 200)
                stats = requests.get(BASE + "/v1/heads/stats?weights=" + weights, timeout=60).json()
                after = families(OPENMETRICS)
                self.assertEqual(len(stats["heads"]), heads)
                for name, rows in ROWS.items():
                    statistic = name.removesuffix("_nats").removesuffix("_tokens")
                    labels = {"weights": weights, "layer": "0"}
                    n = [total(found, "attnd_live_" + rows, "attnd_live_%s_total" % rows, **labels) for found in (before, after)]
                    for head in stats["heads"]:
                        family = "attnd_head_" + name
                        y = [total(found, family, family + "_total", head=str(head["head"]), **labels) for found in (before, after)]
                        self.assertAlmostEqual((y[1] - y[0]) / (n[1] - n[0]), head[statistic], delta=1e-6 * max(1, head[statistic]), msg=statistic)

    def test_exemplars(self):
        trace = "4bf92f3577b34da6a3ce929d0e0e4736"
        with requests.Session() as session:
            session.post(BASE + "/v1/forward", json={"input": numpy.ones((1, 2, 64)).tolist()}, timeout=60,
                         headers={"traceparent": "00-%s-00f067aa0ba902b7-01" % trace})
            session.get(BASE + "/healthz", timeout=60)
        found = [s for s in families(OPENMETRICS)["attnd_request_duration_seconds"].samples
                 if s.exemplar and s.exemplar.labels == {"trace_id": trace}]
        self.assertEqual(len(found), 1)
        self.assertEqual(found[0].labels["route"], "/v1/forward")
        self.assertLessEqual(found[0].exemplar.value, float(found[0].labels["le"]))


if __name__ == "__main__":
    unittest.main()
