#!/usr/bin/env python3
"""deploy/prometheus with the real Prometheus: rules that hold what they promise, and the mean over a fleet out of counters.
usage: prometheus.py BINARY SOURCE_ROOT

Two replicas get different traffic and are scraped. With the traffic over, the mean of every statistic of every head by PromQL over the
counters is what /v1/heads/merge answers for the states of both."""
import json
import math
import os
import random
import re
import subprocess
import sys
import tempfile
import urllib.parse

import parts
from attnd_process import Attnd

# Statistic of the heads, its counter, and the counter of the rows that it is a mean over.
MEANS = {
    "entropy": ("attnd_head_entropy_nats_total", "attnd_live_rows_total"),
    "normalized_entropy": ("attnd_head_normalized_entropy_total", "attnd_live_choosing_rows_total"),
    "effective_keys": ("attnd_head_effective_keys_total", "attnd_live_rows_total"),
    "distance": ("attnd_head_distance_tokens_total", "attnd_live_rows_total"),
    "confidence": ("attnd_head_confidence_total", "attnd_live_rows_total"),
    "previous_mass": ("attnd_head_previous_mass_total", "attnd_live_previous_rows_total"),
    "self_mass": ("attnd_head_self_mass_total", "attnd_live_self_rows_total"),
    "first_mass": ("attnd_head_first_mass_total", "attnd_live_first_rows_total"),
}
ALERTS = re.compile(r"^ *- alert: (\w+)$", re.MULTILINE)
TESTED = re.compile(r"^ *- alertname: (\w+)$", re.MULTILINE)


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def check_rules(root):
    folder, tests = os.path.join(root, "deploy", "prometheus"), os.path.join(parts.HERE, "rules_test.yaml")
    commands = [["check", "config", os.path.join(folder, "prometheus.yaml")], ["test", "rules", tests]]
    right = all(subprocess.run([parts.program("promtool"), *command], check=False).returncode == 0 for command in commands)
    untested = set(ALERTS.findall(read(os.path.join(folder, "alerts.yaml")))) - set(TESTED.findall(read(tests)))
    if untested:
        print("alerts without a test: %s" % ", ".join(sorted(untested)))
    undocumented = [name for name in ALERTS.findall(read(os.path.join(folder, "alerts.yaml")))
                    if "`%s`" % name not in read(os.path.join(root, "docs", "OPERATIONS.md"))]
    if undocumented:
        print("docs/OPERATIONS.md does not say what to do about %s" % ", ".join(undocumented))
    return right and not untested and not undocumented


def check_names(root, exposed):
    """What rules and dashboards read is exposed."""
    known = set(re.findall(r"^# TYPE (\w+) ", exposed, re.MULTILINE))
    known |= {name + suffix for name in known for suffix in ("_bucket", "_sum", "_count")}
    read_names = set()
    for folder, _, files in os.walk(os.path.join(root, "deploy")):
        for name in files:
            if name.endswith((".yaml", ".json")):
                text = read(os.path.join(folder, name))
                read_names |= set(re.findall(r"(?<![:\w])(?:attnd|process)_\w+(?=[{\[\s)/]|\\n|$)", text))
    recorded = {"attnd_workers_busy_ratio"}
    with_tls = {"attnd_certificate_expiry_timestamp_seconds"}
    absent = {name for name in read_names if name not in known | recorded | with_tls and not name.startswith("attnd_trace_")}
    if absent:
        print("read below deploy/, and not exposed: %s" % ", ".join(sorted(absent)))
    return not absent


def check_exposition(server):
    """promtool has nothing to say."""
    text = server.request("GET", "/metrics").body.decode()
    done = subprocess.run([parts.program("promtool"), "check", "metrics"], input=text, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, check=False)
    if done.returncode != 0 or done.stdout:
        print("promtool check metrics: %s" % done.stdout)
    return done.returncode == 0 and not done.stdout, text


def post_some(server, seed, requests, tokens):
    generator = random.Random(seed)
    for _ in range(requests):
        x = [[[generator.gauss(0, 1) for _ in range(64)] for _ in range(tokens)]]
        reply = server.post("/v1/forward", {"input": x, "return": ["output"]})
        if reply.status != 200:
            raise AssertionError("forward answered %d: %s" % (reply.status, reply.body[:300]))


class Prometheus(parts.Program):
    """deploy/prometheus, but scraping these addresses each second."""

    def __init__(self, root, folder, addresses):
        import yaml
        own = os.path.join(root, "deploy", "prometheus")
        document = yaml.safe_load(read(os.path.join(own, "prometheus.yaml")))
        document["global"] = {"scrape_interval": "1s", "evaluation_interval": "1s"}
        document["rule_files"] = [os.path.join(own, name) for name in document["rule_files"]]
        del document["scrape_configs"][0]["dns_sd_configs"]
        document["scrape_configs"][0]["static_configs"] = [{"targets": addresses}]
        path = os.path.join(folder, "prometheus.yaml")
        with open(path, "w", encoding="utf-8") as file:
            yaml.safe_dump(document, file)
        self.base = "http://127.0.0.1:%d" % parts.free_port()
        super().__init__([parts.program("prometheus"), "--config.file", path, "--storage.tsdb.path", os.path.join(folder, "data"),
                          "--web.listen-address", self.base.removeprefix("http://"), "--enable-feature=exemplar-storage"], folder)

    def query(self, expression):
        """Labels and value of each series."""
        answer = parts.get_json("%s/api/v1/query?%s" % (self.base, urllib.parse.urlencode({"query": expression})))
        return [(item["metric"], float(item["value"][1])) for item in answer["data"]["result"]]

    def value(self, expression):
        """Of its only series; None where there is none yet."""
        found = self.query(expression)
        return found[0][1] if found else None

    def faults(self):
        groups = parts.get_json(self.base + "/api/v1/rules")["data"]["groups"]
        return ["%s: %s" % (rule["name"], rule["lastError"]) for group in groups for rule in group["rules"] if rule["health"] == "err"]


def dashboards(root):
    folder = os.path.join(root, "deploy", "grafana", "dashboards")
    return {name: json.loads(read(os.path.join(folder, name))) for name in sorted(os.listdir(folder))}


def check_dashboards(root, prometheus, server):
    """Prometheus evaluates every expression, and the rows have every column that is read; a set of one layer has no `layer`."""
    faults, asked = [], 0
    for name, board in dashboards(root).items():
        variables = {"job": "attnd", "weights": "demo", "layer": ".*", "__rate_interval": "1m"}
        faults += ["%s: two panels have one id" % name] * (len({panel["id"] for panel in board["panels"]}) != len(board["panels"]))
        for panel, target in ((panel, target) for panel in board["panels"] for target in panel.get("targets", [])):
            asked += 1
            place = "%s, %s" % (name, panel["title"])
            if "expr" in target:
                expression = re.sub(r"\$(\w+)", lambda found: variables[found.group(1)], target["expr"])
                try:
                    prometheus.query(expression)
                except AssertionError as error:
                    faults.append("%s: %s" % (place, error))
            else:
                reply = server.request("GET", target["url"].replace("${weights}", "demo"))
                columns = {column["selector"] for column in target["columns"]} - {"layer"}
                rows = json.loads(reply.body) if reply.status == 200 else []
                if not isinstance(rows, list) or not rows or not columns <= set(rows[0]):
                    faults.append("%s: %s answers %d without %s" % (place, target["url"], reply.status, sorted(columns)))
    print("\n".join(faults) or "%d queries of dashboards, no fault" % asked)
    return not faults and asked


def compare(prometheus, merged):
    """The worst relative difference over statistics and heads, and how many were compared."""
    worst, compared = 0.0, 0
    for statistic, (total, rows) in MEANS.items():
        expression = "sum by (weights, layer, head) (%s) / on (weights, layer) group_left () sum by (weights, layer) (%s)" % (total, rows)
        by_head = {int(labels["head"]): value for labels, value in prometheus.query(expression)}
        for head in merged["stats"]["heads"]:
            wanted, got = head[statistic], by_head.get(head["head"], math.nan)
            difference = abs(got - wanted) / max(abs(wanted), 1e-9)
            if not difference <= 1e-6:
                raise AssertionError("%s of head %d: %.9g by PromQL, %.9g merged" % (statistic, head["head"], got, wanted))
            worst, compared = max(worst, difference), compared + 1
    return worst, compared


def main():
    if len(sys.argv) != 3:
        print(__doc__, file=sys.stderr)
        return 2
    binary, root = map(os.path.abspath, sys.argv[1:3])
    parts.enter(root)
    right = check_rules(root)
    with tempfile.TemporaryDirectory(prefix="attnd-prometheus-") as folder, Attnd(binary) as first, Attnd(binary) as second:
        with Prometheus(root, folder, [first.address, second.address]) as prometheus:
            parts.wait_until("both replicas are scraped", lambda: prometheus.value("sum(up)") == 2)
            post_some(first, 1, 30, 12)
            post_some(second, 2, 7, 40)
            states = [json.loads(server.request("GET", "/v1/heads/state").body) for server in (first, second)]
            merged = json.loads(first.post("/v1/heads/merge", {"states": states}).body)
            rows = merged["stats"]["n_rows"]
            parts.wait_until("the last rows are scraped", lambda: prometheus.value("sum(attnd_live_rows_total)") == rows)
            worst, compared = compare(prometheus, merged)
            print("%d means of the fleet by PromQL equal the merged states; the worst differs by %.1e" % (compared, worst))
            # Over a reset, too: counters go on.
            recorded = "job_head:attnd_head_entropy_nats:mean5m"
            parts.wait_until("rules are evaluated", lambda: len(prometheus.query(recorded)) == 8)
            faults = prometheus.faults()
            print("\n".join(faults) or "no rule fails")
            right &= bool(check_dashboards(root, prometheus, first))
            for server in (first, second):
                silent, text = check_exposition(server)
                right &= silent
            right &= not faults and check_names(root, text)
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
